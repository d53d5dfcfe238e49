// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/syscalls.h"
#include "base/rng.h"

#define EXTENT ((uint64_t)64 << 10) /* of a small segment */
#define MB     ((uint64_t)1 << 20)

static int setup(void **state)
{
    *state = world_new(8 * MB, 4 * MB);
    return 0;
}

/* Bring a sample in, every byte its number. */
static int put(struct world *w, uint64_t sample, uint64_t len)
{
    struct mem_fill *f;
    int rc = memory_reserve(w->m, w->x, sample, len, &f);

    if (rc < 0)
        return rc;
    memset(mem_fill_data(f), (int)sample, len);
    memory_publish(w->m, &f);
    assert_null(f);
    return 0;
}

static void assert_bytes(const void *data, uint64_t sample, uint64_t len)
{
    const unsigned char *p = data;

    assert_non_null(data);
    for (uint64_t i = 0; i < len; i++)
        assert_int_equal(p[i], (unsigned char)sample);
}

static struct memory_figures figures(const struct world *w)
{
    struct memory_figures f;

    memory_figures(w->m, &f);
    return f;
}

static uint64_t populated(const struct world *w)
{
    return figures(w).populated;
}

/* ---- what clients get ---- */

static void test_headers(void **state)
{
    struct world *w = *state;
    const struct shm_segment_hdr *seg = w->c.header;
    const struct shm_index_hdr *idx = (const void *)w->c.index;
    const struct shm_session_hdr *ses = (const void *)w->c.session;

    assert_int_equal(seg->magic, SHM_SEGMENT_MAGIC);
    assert_int_equal(seg->size, 8 * MB);
    assert_int_equal(seg->owner_pid, getpid());
    assert_true(seg->owner_start > 0);
    assert_int_equal(atomic_load(&seg->heartbeat), 0);
    memory_beat(w->m);
    assert_true(atomic_load(&seg->heartbeat) > 0 &&
                atomic_load(&seg->heartbeat) <= (uint64_t)dlc_mono_now().ns);
    assert_int_equal(atomic_load(&seg->closing), 0);
    memory_set_closing(w->m);
    assert_int_equal(atomic_load(&seg->closing), 1);
    assert_int_equal(idx->magic, SHM_INDEX_MAGIC);
    assert_int_equal(idx->n_slots, 1000);
    assert_int_equal(idx->snapshot, 77);
    assert_int_equal(ses->magic, SHM_SESSION_MAGIC);
    assert_int_equal(ses->blocks_off, SHM_BLOCKS_OFF);
    assert_int_equal(ses->version, SHM_VERSION);
}

/* The kernel tells clients that the daemon was killed. */
static void test_owner_dies(void **state)
{
    struct memory *m;
    struct dlc_err err;
    const struct shm_segment_hdr *seg;
    int ready[2], status;
    pid_t pid;

    (void)state;
    assert_int_equal(memory_new(MB, MB, &m, &err), 0);
    seg = os_map(memory_fd(m), 0, memory_header_size(m), false);
    assert_non_null(seg);
    assert_int_equal(atomic_load(&seg->owner), 0);
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char c = 'x';

        memory_set_owner(m);
        if (write(ready[1], &c, 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &status, 1), 1);
    assert_int_equal(atomic_load(&seg->owner), pid);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(atomic_load(&seg->owner), SHM_OWNER_DIED);
    close(ready[0]);
    close(ready[1]);

    memory_set_owner(m);
    assert_int_equal(atomic_load(&seg->owner), gettid());
    memory_free(&m);
    assert_int_equal(atomic_load(&seg->owner), SHM_OWNER_DIED);
    os_unmap(seg, SHM_HDR_SIZE);
}

/* Own three, give up those of `without` (bits), and be killed. */
static void owner_of_three_dies(struct memory *m[static 3], unsigned without)
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        for (unsigned i = 0; i < 3; i++)
            memory_set_owner(m[i]);
        for (unsigned i = 0; i < 3; i++)
            if ((without >> i & 1) != 0)
                memory_free(&m[i]);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* One thread owns the memories of several tenants. */
static void test_owner_of_several_dies(void **state)
{
    (void)state;
    for (unsigned without = 0; without < 8; without++) {
        struct shm_segment_hdr *h[3];
        struct memory *m[3];

        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(memory_new(MB, MB, &m[i], NULL), 0);
            h[i] = extents_header(&m[i]->extents);
        }
        owner_of_three_dies(m, without);
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(atomic_load(&h[i]->owner), SHM_OWNER_DIED);
            memory_set_owner(m[i]);
            assert_int_equal(atomic_load(&h[i]->owner), gettid());
        }
        memory_free(&m[without % 3]);
        for (unsigned i = 0; i < 3; i++)
            if (m[i] != NULL) {
                assert_int_equal(atomic_load(&h[i]->owner), gettid());
                memory_free(&m[i]);
            }
    }
}

/* The pointers of the list say where the daemon's memory lies: no client sees them. */
static void test_owner_hides_its_addresses(void **state)
{
    static const char zeros[SHM_HDR_SIZE];
    struct memory *m;
    const char *seg;

    (void)state;
    assert_int_equal(memory_new(MB, MB, &m, NULL), 0);
    memory_set_owner(m);
    seg = os_map(memory_fd(m), 0, memory_header_size(m), false);
    assert_non_null(seg);
    assert_memory_equal(seg + sizeof(struct shm_segment_hdr), zeros,
                        SHM_HDR_SIZE - sizeof(struct shm_segment_hdr));
    os_unmap(seg, memory_header_size(m));
    memory_free(&m);
}

/* A daemon that ends asks nobody any more what is pinned: what clients read must stay as it is. */
static void test_closing_takes_no_more(void **state)
{
    struct world *w = *state;
    const char *bytes;
    uint32_t len = 0;

    assert_int_equal(put(w, 5, MB / 2), 0);
    bytes = client_read(&w->c, w->b, 0, 5, &len);
    assert_non_null(bytes);
    memory_set_closing(w->m);
    mem_session_free(&w->s);
    memory_evict_all(w->m, w->x);
    for (uint64_t i = 100; i < 120; i++)
        assert_int_equal(put(w, i, MB / 2), DLC_EBYPASS);
    assert_bytes(bytes, 5, len);
}

static void test_clients_cannot_write_or_resize(void **state)
{
    struct world *w = *state;
    int ro[] = {memory_fd(w->m), mem_index_fd(w->x)};

    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ro[i], 0),
                         MAP_FAILED);
        assert_int_equal(write(ro[i], "x", 1), -1);
    }
    assert_int_equal(ftruncate(mem_session_fd(w->s), 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(mem_session_fd(w->s), (off_t)(2 * SHM_SESSION_SIZE)), -1);
    assert_int_equal(fcntl(mem_session_fd(w->s), F_ADD_SEALS, F_SEAL_WRITE), -1);
}

static void test_faults(void **state)
{
    bool fired = true;

    (void)state;
    for (int nth = 1; fired; nth++) {
        struct memory *m = NULL;
        struct mem_index *x = NULL;
        struct mem_session *s = NULL;
        struct dlc_err err = DLC_ERR_INIT;

        fault_arm(FAULT_SYSCALL, nth);
        int rc = memory_new(MB, MB, &m, &err);
        rc = rc == 0 ? mem_index_new(m, 10, 1, &x, &err) : rc;
        rc = rc == 0 ? mem_session_new(x, &s, &err) : rc;
        fired = fault_disarm();
        assert_true(rc == 0 || (fired && (strstr(err.text, "shared memory") != NULL ||
                                          strstr(err.text, "address space") != NULL)));
        mem_session_free(&s);
        mem_index_free(&x);
        memory_free(&m);
    }
}

/* ---- the life of a sample ---- */

static void test_publish_and_read(void **state)
{
    struct world *w = *state;
    struct mem_fill *f;
    uint32_t len;

    assert_null(client_read(&w->c, w->b, 0, 5, &len));
    assert_int_equal(memory_reserve(w->m, w->x, 5, 3000, &f), 0);
    assert_null(client_read(&w->c, w->b, 0, 5, &len)); /* not before it is published */
    assert_int_equal(atomic_load(&w->b->pins[0]), 0);
    memset(mem_fill_data(f), 5, 3000);
    memory_publish(w->m, &f);
    assert_true(mem_index_ready(w->x, 5));
    assert_bytes(client_read(&w->c, w->b, 0, 5, &len), 5, 3000);
    assert_int_equal(len, 3000);
    assert_int_equal(mem_index_resident(w->x), 1);
    assert_int_equal(mem_index_bytes(w->x), 3000);
    assert_null(client_read(&w->c, w->b, 1, 1000, &len)); /* no such sample */
}

static void test_abandon(void **state)
{
    struct world *w = *state;
    struct mem_fill *f;
    uint32_t len;

    assert_int_equal(memory_reserve(w->m, w->x, 5, 3000, &f), 0);
    memory_abandon(w->m, &f);
    assert_null(f);
    assert_null(client_read(&w->c, w->b, 0, 5, &len));
    assert_int_equal(figures(w).used, 0);
    assert_int_equal(put(w, 5, 10), 0);
}

static void test_empty_sample(void **state)
{
    struct world *w = *state;
    uint32_t len = 1;

    assert_int_equal(put(w, 9, 0), 0);
    assert_non_null(client_read(&w->c, w->b, 0, 9, &len));
    assert_int_equal(len, 0);
}

static void test_evict_unpinned(void **state)
{
    struct world *w = *state;
    uint32_t len, gen;

    assert_false(memory_evict(w->m, w->x, 3));
    assert_int_equal(put(w, 3, 100), 0);
    gen = shm_where_generation(atomic_load(&w->c.slots[3].where));
    assert_true(memory_evict(w->m, w->x, 3));
    assert_false(mem_index_ready(w->x, 3));
    assert_null(client_read(&w->c, w->b, 0, 3, &len));
    assert_int_equal(shm_where_generation(atomic_load(&w->c.slots[3].where)), gen + 1);
    assert_int_equal(figures(w).used, 0);
    assert_int_equal(figures(w).retired, 0);
}

/* The bytes under a pin survive eviction and a new fill of the same sample. */
static void test_evict_pinned(void **state)
{
    struct world *w = *state;
    const void *old, *fresh;
    uint32_t len;

    put(w, 3, 100 * 1000);
    old = client_read(&w->c, w->b, 0, 3, &len);
    assert_true(memory_evict(w->m, w->x, 3));
    assert_true(figures(w).retired >= 100 * 1000);
    assert_null(client_read(&w->c, w->b, 1, 3, &len));
    put(w, 3, 50);
    fresh = client_read(&w->c, w->b, 1, 3, &len);
    assert_ptr_not_equal(old, fresh);
    assert_int_equal(len, 50);
    for (uint64_t i = 100; i < 200; i++)
        assert_int_equal(put(w, i, 100 * 1000), 0);
    assert_bytes(old, 3, 100 * 1000);
    shm_unpin(w->b, 0);
    shm_unpin(w->b, 1);
    memory_tick(w->m);
    assert_int_equal(figures(w).retired, 0);
}

static void test_pins_end_with_the_session(void **state)
{
    struct world *w = *state;
    struct mem_session *s;
    struct client c;
    uint32_t len;

    assert_int_equal(mem_session_new(w->x, &s, NULL), 0);
    client_open(&c, w->m, w->x, s);
    put(w, 3, 100);
    assert_non_null(client_read(&c, client_block(&c, 7), 55, 3, &len));
    memory_evict(w->m, w->x, 3);
    assert_true(figures(w).retired > 0);
    client_close(&c);
    mem_session_free(&s);
    memory_tick(w->m);
    assert_int_equal(figures(w).retired, 0);
}

static void test_hold(void **state)
{
    struct world *w = *state;
    const void *held;
    uint64_t len;

    assert_null(memory_hold(w->m, w->x, 3, &len));
    put(w, 3, 1000);
    held = memory_hold(w->m, w->x, 3, &len);
    assert_bytes(held, 3, 1000);
    assert_int_equal(len, 1000);
    for (uint64_t i = 10; i < 60; i++)
        assert_int_equal(put(w, i, 100 * 1000), 0);
    assert_true(mem_index_ready(w->x, 3)); /* the coldest, but held */
    memory_evict(w->m, w->x, 3);
    put(w, 3, 2000);
    assert_null(memory_hold(w->m, w->x, 3, &len)); /* the old copy is still held: (MEMORY-3) */
    assert_bytes(held, 3, 1000);
    memory_unhold(w->m, w->x, 3);
    assert_non_null(memory_hold(w->m, w->x, 3, &len));
    assert_int_equal(len, 2000);
    memory_unhold(w->m, w->x, 3);
    memory_tick(w->m);
    assert_int_equal(figures(w).retired, 0);
}

/* Held twice: the old copy stays until both have let go, whatever became of the sample since. */
static void test_hold_twice(void **state)
{
    struct world *w = *state;
    const void *held;
    uint64_t len;

    put(w, 3, 1000);
    held = memory_hold(w->m, w->x, 3, &len);
    assert_ptr_equal(memory_hold(w->m, w->x, 3, &len), held);
    memory_evict(w->m, w->x, 3);
    memory_tick(w->m);
    assert_true(figures(w).retired > 0);
    put(w, 3, 2000);
    memory_unhold(w->m, w->x, 3);
    memory_tick(w->m);
    assert_true(figures(w).retired > 0);
    assert_bytes(held, 3, 1000);
    assert_null(memory_hold(w->m, w->x, 3, &len));
    memory_unhold(w->m, w->x, 3);
    memory_tick(w->m);
    assert_int_equal(figures(w).retired, 0);
    assert_non_null(memory_hold(w->m, w->x, 3, &len));
    assert_int_equal(len, 2000);
    memory_unhold(w->m, w->x, 3);
}

/* Several retired copies: the one that is held is let go of, and no other. */
static void test_hold_among_others(void **state)
{
    struct world *w = *state;
    uint64_t len;
    uint32_t n;

    put(w, 3, 1000);
    put(w, 4, 1000);
    put(w, 5, 100 * 1000);
    memory_hold(w->m, w->x, 3, &len);
    memory_hold(w->m, w->x, 5, &len);
    memory_evict(w->m, w->x, 3);
    memory_evict(w->m, w->x, 5);
    for (unsigned i = 0; i < 3; i++) { /* one that stays resident */
        assert_non_null(memory_hold(w->m, w->x, 4, &len));
        memory_unhold(w->m, w->x, 4);
    }
    memory_unhold(w->m, w->x, 5);
    memory_tick(w->m);
    assert_in_range(figures(w).retired, 1000, 2000); /* 3 */
    memory_unhold(w->m, w->x, 3);
    memory_tick(w->m);
    assert_int_equal(figures(w).retired, 0);

    put(w, 3, 1000); /* a copy that a client reads, then one that we hold */
    assert_non_null(client_read(&w->c, w->b, 0, 3, &n));
    memory_evict(w->m, w->x, 3);
    put(w, 3, 100 * 1000);
    memory_hold(w->m, w->x, 3, &len);
    memory_evict(w->m, w->x, 3);
    memory_unhold(w->m, w->x, 3);
    shm_unpin(w->b, 0);
    memory_tick(w->m);
    assert_int_equal(figures(w).retired, 0);
}

/* The pages of a large hole go back to the kernel, and nothing but holes does. */
static void test_give_back(void **state)
{
    struct mem_index *x[3];
    struct memory_figures f;
    struct mem_fill *fill;
    struct memory *m;

    (void)state;
    assert_int_equal(memory_new(64 * MB, 64 * MB, &m, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(mem_index_new(m, 10, 1, &x[i], NULL), 0);
        for (uint64_t k = 0; k < 2; k++) { /* large ones of all lie side by side */
            assert_int_equal(memory_reserve(m, x[i], k, 2 * MB, &fill), 0);
            memset(mem_fill_data(fill), (int)(10 * i + k + 1), 2 * MB);
            memory_publish(m, &fill);
        }
    }
    for (uint64_t k = 0; k < 2; k++)
        assert_true(memory_evict(m, x[1], k));
    memory_tick(m);
    memory_figures(m, &f);
    assert_true(f.populated >= 12 * MB);
    memory_give_back(m);
    while (memory_free_some(m))
        ;
    memory_figures(m, &f);
    assert_true(f.populated >= 8 * MB && f.populated < 9 * MB);
    for (unsigned i = 0; i < 3; i += 2) {
        for (uint64_t k = 0; k < 2; k++) {
            uint64_t len;

            assert_bytes(memory_hold(m, x[i], k, &len), 10 * i + k + 1, 2 * MB);
            memory_unhold(m, x[i], k);
        }
    }
    for (unsigned i = 0; i < 3; i++)
        mem_index_free(&x[i]);
    memory_free(&m);
}

/* The checksum goes with a copy of the sample, not with its number. */
static void test_checksum(void **state)
{
    struct world *w = *state;
    struct mem_fill *f;
    uint64_t len;

    assert_int_equal(memory_reserve(w->m, w->x, 3, 100, &f), 0);
    mem_fill_set_checksum(f, 0xfedcba9876543210u);
    memory_publish(w->m, &f);
    assert_true(mem_index_checksum(w->x, 3) == 0xfedcba9876543210u);
    assert_non_null(memory_hold(w->m, w->x, 3, &len));
    memory_evict(w->m, w->x, 3);
    assert_int_equal(memory_reserve(w->m, w->x, 3, 100, &f), 0);
    mem_fill_set_checksum(f, 7);
    memory_publish(w->m, &f);
    assert_int_equal(mem_index_checksum(w->x, 3), 7);
    memory_unhold(w->m, w->x, 3);
    put(w, 4, 100);
    memory_evict(w->m, w->x, 3);
    memory_tick(w->m);
    put(w, 3, 100); /* nobody said it, and nothing is left of the one before */
    assert_int_equal(mem_index_checksum(w->x, 3), 0);
}

/* ---- room ---- */

static void test_too_large(void **state)
{
    struct world *w = *state;
    struct mem_fill *f;

    assert_int_equal(memory_reserve(w->m, w->x, 1, MB + 1, &f), DLC_ELARGE);
    assert_null(f);
    assert_int_equal(put(w, 1, MB), 0);
}

static void test_everything_pinned(void **state)
{
    struct world *w = *state;
    uint32_t len;

    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(put(w, i, 100 * 1000), 0);
        assert_non_null(client_read(&w->c, w->b, i, i, &len));
    }
    assert_int_equal(put(w, 500, 500 * 1000), DLC_EBYPASS);
    assert_int_equal(mem_index_resident(w->x), 40); /* and nothing was evicted in vain */
    shm_unpin(w->b, 20);
    shm_unpin(w->b, 21);
    assert_int_equal(put(w, 500, 200 * 1000), 0);
}

/* Bytes enough, but scattered: the neighbours of a victim go too. */
static void test_scattered(void **state)
{
    struct world *w = *state;

    for (unsigned i = 0; i < 400; i++)
        assert_int_equal(put(w, i, 10 * 1000), 0);
    for (unsigned i = 0; i < 400; i += 2)
        memory_evict(w->m, w->x, i);
    assert_true(figures(w).largest_free < 200 * 1000);
    assert_int_equal(put(w, 900, MB), 0);
    arena_check(&w->m->arena);
    assert_true(mem_index_resident(w->x) >= 140); /* of 200: half of a window was free already */
}

/* A job that is shorter than the time between two looks has used what it read. */
static void test_lru_by_the_log_of_a_session_that_ended(void **state)
{
    struct world *w = *state;
    struct mem_session *s;
    struct shm_session_hdr *h;
    struct shm_pin_block *b;

    for (unsigned i = 0; i < 30; i++)
        put(w, i, 100 * 1000);
    assert_int_equal(mem_session_new(w->x, &s, NULL), 0);
    h = mem_session_map(s);
    b = (struct shm_pin_block *)((char *)mem_session_map(s) + SHM_BLOCKS_OFF);
    atomic_store(&h->blocks_high, 1);
    for (unsigned i = 0; i < 10; i++)
        shm_log(b, i, 1000);
    mem_session_free(&s);
    for (unsigned i = 100; i < 120; i++)
        put(w, i, 100 * 1000);
    for (unsigned i = 0; i < 10; i++)
        assert_true(mem_index_ready(w->x, i));
    assert_false(mem_index_ready(w->x, 10));
}

static void test_lru_by_log(void **state)
{
    struct world *w = *state;

    for (unsigned i = 0; i < 30; i++)
        put(w, i, 100 * 1000);
    for (unsigned i = 0; i < 10; i++)
        shm_log(w->b, i, 1000);
    for (unsigned i = 100; i < 120; i++) /* 1 MB is free: ten or so must go */
        put(w, i, 100 * 1000);
    for (unsigned i = 0; i < 10; i++)
        assert_true(mem_index_ready(w->x, i));
    assert_false(mem_index_ready(w->x, 10));
    for (unsigned i = 200; i < 240; i++)
        put(w, i, 100 * 1000);
    assert_false(mem_index_ready(w->x, 0)); /* what was read once is old now */
}

static void test_stats(void **state)
{
    struct world *w = *state;
    struct mem_session_stats st;
    uint32_t len = 0;

    put(w, 1, 100);
    assert_non_null(client_read(&w->c, w->b, 0, 1, &len));
    shm_log(w->b, 1, len);
    shm_log(client_block(&w->c, 3), 1, len);
    mem_session_stats(w->s, &st);
    assert_int_equal(st.hits, 2);
    assert_int_equal(st.bytes, 200);
    assert_int_equal(st.pins, 1);
}

/* ---- ceiling ---- */

static void test_shrink_and_grow(void **state)
{
    struct world *w = *state;
    const void *kept;
    uint32_t len;

    for (unsigned i = 0; i < 39; i++)
        put(w, i, 100 * 1000);
    assert_true(populated(w) >= 39 * 100 * 1000);
    kept = client_read(&w->c, w->b, 0, 38, &len);
    assert_true((const char *)kept - w->c.segment > (ptrdiff_t)MB);
    memory_set_ceiling(w->m, MB);
    client_unmap_dropped(&w->c);
    memory_tick(w->m);
    assert_true(populated(w) <= MB + 100 * 1000 + 2 * EXTENT); /* the pinned one's extents */
    assert_true(mem_index_resident(w->x) >= 9);
    assert_bytes(kept, 38, 100 * 1000);
    shm_unpin(w->b, 0);
    memory_tick(w->m);
    assert_int_equal(figures(w).retired, 0);
    assert_true(populated(w) > MB); /* the client still maps some: (EXTENT-3) */
    memory_set_ceiling(w->m, 100 * MB);
    assert_true(figures(w).ceiling < 8 * MB);
    client_unmap_dropped(&w->c);
    memory_tick(w->m);
    assert_true(populated(w) <= MB);
    assert_int_equal(figures(w).ceiling, 8 * MB); /* never more than was reserved */
    for (unsigned i = 100; i < 170; i++)
        assert_int_equal(put(w, i, 100 * 1000), 0);
    assert_true(mem_index_resident(w->x) >= 79);
}

/* A fill under way when the ceiling falls ends well, and leaves at the next tick. */
static void test_shrink_under_a_fill(void **state)
{
    struct world *w = *state;
    struct mem_fill *f;

    for (unsigned i = 0; i < 38; i++)
        put(w, i, 100 * 1000);
    assert_int_equal(memory_reserve(w->m, w->x, 900, 100 * 1000, &f), 0);
    memory_set_ceiling(w->m, MB);
    memset(mem_fill_data(f), 1, 100 * 1000);
    memory_publish(w->m, &f);
    assert_true(mem_index_ready(w->x, 900));
    memory_tick(w->m);
    assert_false(mem_index_ready(w->x, 900));
    client_unmap_dropped(&w->c);
    memory_tick(w->m);
    assert_true(populated(w) <= MB);
}

static void test_evict_all_gives_memory_back(void **state)
{
    struct world *w = *state;
    uint32_t len;

    for (unsigned i = 0; i < 30; i++)
        put(w, i, 100 * 1000);
    assert_non_null(client_read(&w->c, w->b, 0, 7, &len));
    assert_int_equal(memory_evict_all(w->m, NULL), 30 * 100 * 1000);
    assert_int_equal(mem_index_resident(w->x), 0);
    client_unmap_dropped(&w->c);
    memory_tick(w->m);
    assert_true(populated(w) <= MB);
    shm_unpin(w->b, 0);
}

static void test_dump(void **state)
{
    struct world *w = *state;
    struct buf b = BUF_INIT;
    struct mem_fill *f;
    uint32_t len;

    for (unsigned i = 0; i < 200; i++)
        put(w, i, 1000);
    assert_non_null(client_read(&w->c, w->b, 4, 17, &len));
    atomic_store(&w->b->pins[5], 5000); /* a lie */
    memory_evict(w->m, w->x, 17);
    assert_int_equal(memory_reserve(w->m, w->x, 900, 10, &f), 0);
    memory_dump(w->m, &b);
    memory_abandon(w->m, &f);
    assert_non_null(strstr(b.data, "index snapshot 77, slots 1000, resident 199 "));
    assert_non_null(strstr(b.data, "block 0 entry 4 sample 17\n"));
    assert_non_null(strstr(b.data, "entry 5 sample 4999 (no such sample)"));
    assert_non_null(strstr(b.data, "retired snapshot 77 sample 17 len 1000"));
    assert_non_null(strstr(b.data, "more blocks"));
    buf_release(&b);
    shm_unpin(w->b, 4);
}

/* ---- hostile ---- */

static void test_garbage_session(void **state)
{
    struct world *w = *state;
    struct rng r = {rng_seed()};
    struct mem_session_stats st;
    uint64_t *words = (uint64_t *)(void *)w->c.session;

    print_message("seed %llu\n", (unsigned long long)r.state);
    for (int round = 0; round < 20; round++) {
        for (uint64_t i = 0; i < SHM_SESSION_SIZE / 8; i++) {
            uint64_t v = rng_next(&r);

            words[i] = round % 2 == 0 ? v : v % 2000; /* wild, and plausible */
        }
        for (unsigned i = 0; i < 50; i++) {
            uint64_t sample = rng_below(&r, 1000);

            if (!mem_index_ready(w->x, sample))
                put(w, sample, rng_below(&r, 300 * 1000));
        }
        memory_set_ceiling(w->m, MB + rng_below(&r, 7 * MB));
        memory_tick(w->m);
        mem_session_stats(w->s, &st);
        arena_check(&w->m->arena);
    }
    memset(w->c.session, 0, SHM_SESSION_SIZE);
    for (uint64_t done = w->m->scan.done; w->m->scan.done < done + 2;)
        memory_tick(w->m);
    assert_int_equal(figures(w).retired, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, world_free)

/* ---- limits ---- */

#ifndef __SANITIZE_THREAD__
/* More than a terabyte, of which nearly nothing is there: what lies at its end can be read. */
static void test_two_tebibytes(void **state)
{
    uint64_t max = (uint64_t)2 << 40, low, high;
    struct mem_index *x, *decoded;
    struct memory *m;
    struct mem_fill *f;

    (void)state;
    assert_int_equal(memory_new(max, max, &m, NULL), 0);
    assert_int_equal(memory_size(m), max);
    assert_int_equal(memory_ceiling(m), max);
    assert_int_equal(mem_index_new(m, 2, 1, &x, NULL), 0);
    assert_int_equal(mem_index_new(m, 2, 1, &decoded, NULL), 0);
    mem_index_set_decoded(decoded);
    assert_int_equal(memory_reserve(m, x, 1, 1000, &f), 0);
    memset(mem_fill_data(f), 'x', 1000);
    memory_publish(m, &f);
    assert_int_equal(memory_reserve_decoded(m, decoded, 1, 1000, 0, &f), 0);
    memset(mem_fill_data(f), 'y', 1000);
    memory_publish(m, &f);
    low = shm_where_offset(x->slots[1].where);
    high = shm_where_offset(decoded->slots[1].where);
    assert_true(low < MB);
    assert_true(high > max - MB && high < max);
    assert_int_equal(m->extents.map[low + 999], 'x');
    assert_int_equal(m->extents.map[high + 999], 'y');
    memory_set_ceiling(m, max / 2);
    assert_false(mem_index_ready(decoded, 1));
    assert_true(mem_index_ready(x, 1));
    while (memory_free_some(m))
        ;
    mem_index_free(&decoded);
    mem_index_free(&x);
    memory_free(&m);
}
#endif

/* Generations wrap after 2^24 evictions of one slot, and offsets stay whole. */
static void test_where_has_room(void **state)
{
    uint64_t off = ((uint64_t)16 << 40) - 64;

    (void)state;
    for (uint32_t gen = 0xfffffe; gen != 0x1000002; gen++) {
        uint64_t w = shm_where_make(SHM_READY, off, gen);

        assert_int_equal(shm_where_state(w), SHM_READY);
        assert_int_equal(shm_where_offset(w), off);
        assert_int_equal(shm_where_generation(w), gen & 0xffffff);
    }
}

/* Pages of 64 KiB, as on some ARM machines: ceilings are whole pages, and pages go back whole. */
static void test_large_pages(void **state)
{
    struct mem_index *x;
    struct memory *m;
    struct memory_figures fig;

    (void)state;
    os_fake_page_size(65536);
    assert_int_equal(memory_new(8 * MB + 4096, 4 * MB + 4096, &m, NULL), 0);
    os_fake_page_size(0);
    assert_int_equal(memory_size(m), 8 * MB);
    assert_int_equal(memory_ceiling(m), 4 * MB);
    assert_int_equal(mem_index_new(m, 1000, 1, &x, NULL), 0);
    for (uint64_t i = 0; i < 350; i++) {
        struct mem_fill *f;

        assert_int_equal(memory_reserve(m, x, i, 10000, &f), 0);
        memset(mem_fill_data(f), 1, 10000);
        memory_publish(m, &f);
    }
    memory_set_ceiling(m, MB + 5000);
    while (memory_free_some(m))
        ;
    memory_figures(m, &fig);
    assert_int_equal(fig.ceiling, MB);
    assert_true(fig.populated <= MB);
    memory_set_ceiling(m, 1);
    memory_figures(m, &fig);
    assert_int_equal(fig.ceiling, 2 * 65536);
    mem_index_free(&x);
    memory_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_headers),
        cmocka_unit_test(test_owner_dies),
        cmocka_unit_test(test_owner_of_several_dies),
        cmocka_unit_test(test_owner_hides_its_addresses),
        T(test_closing_takes_no_more),
        T(test_clients_cannot_write_or_resize),
        cmocka_unit_test(test_faults),
        T(test_publish_and_read),
        T(test_abandon),
        T(test_empty_sample),
        T(test_evict_unpinned),
        T(test_evict_pinned),
        T(test_pins_end_with_the_session),
        T(test_hold),
        T(test_hold_twice),
        T(test_hold_among_others),
        T(test_give_back),
        T(test_checksum),
        T(test_too_large),
        T(test_everything_pinned),
        T(test_scattered),
        T(test_lru_by_log),
        T(test_lru_by_the_log_of_a_session_that_ended),
        T(test_stats),
        T(test_shrink_and_grow),
        T(test_shrink_under_a_fill),
        T(test_evict_all_gives_memory_back),
        T(test_dump),
        T(test_garbage_session),
#ifndef __SANITIZE_THREAD__ /* its shadow memory leaves no room for so much */
        cmocka_unit_test(test_two_tebibytes),
#endif
        cmocka_unit_test(test_where_has_room),
        cmocka_unit_test(test_large_pages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
