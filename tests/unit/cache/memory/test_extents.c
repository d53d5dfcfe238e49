// SPDX-License-Identifier: Apache-2.0
/* Extents: they come with samples, go when they are empty, and come again as other memory. */
#include "world.h"

#include "seal_attack.h"
#include "base/fault.h"

#define MB     ((uint64_t)1 << 20)
#define EXTENT ((uint64_t)64 << 10) /* of a segment of 8 MB */

static int setup(void **state)
{
    *state = world_new(8 * MB, 8 * MB);
    return 0;
}

static void put(struct memory *m, struct mem_index *x, uint64_t sample, uint64_t len, int byte)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve(m, x, sample, len, &f), 0);
    memset(mem_fill_data(f), byte, len);
    memory_publish(m, &f);
}

static bool is_all(const char *p, int byte, uint64_t len)
{
    return p != NULL && p[0] == byte && memcmp(p, p + 1, len - 1) == 0;
}

static unsigned live(const struct memory *m)
{
    unsigned n = 0;

    for (uint32_t k = 0; k < m->extents.n; k++)
        n += m->extents.all[k].fd >= 0;
    return n;
}

static uint64_t populated(const struct memory *m)
{
    struct memory_figures f;

    memory_figures(m, &f);
    return f.populated;
}

static void empty(struct memory *m)
{
    memory_evict_all(m, NULL);
    while (memory_free_some(m))
        ;
}

static void test_come_with_samples(void **state)
{
    struct world *w = *state;
    uint32_t len;

    assert_int_equal(live(w->m), 0);
    assert_int_equal(w->m->extents.n, 128);
    put(w->m, w->x, 1, 1000, 'a');
    assert_int_equal(live(w->m), 1);
    put(w->m, w->x, 2, 3 * EXTENT, 'b'); /* across extents */
    assert_int_equal(live(w->m), 4);
    assert_true(is_all(client_read(&w->c, w->b, 0, 2, &len), 'b', 3 * EXTENT));
    assert_true(is_all(client_read(&w->c, w->b, 1, 1, &len), 'a', 1000));
}

/* A client that maps an extent must not read it when other memory is there. */
static void test_go_and_come_again(void **state)
{
    struct world *w = *state;
    uint32_t len, generation;

    put(w->m, w->x, 1, 2 * EXTENT, 'a');
    assert_true(is_all(client_read(&w->c, w->b, 0, 1, &len), 'a', 2 * EXTENT));
    generation = w->c.mapped[0];
    empty(w->m);
    assert_true(live(w->m) > 0); /* it is pinned */
    shm_unpin(w->b, 0);
    empty(w->m);
    assert_int_equal(live(w->m), 0);
    assert_null(w->m->extents.freeing); /* small ones go at once, without a thread */
    assert_int_equal(atomic_load(&shm_generations(w->c.header)[0]), 0);
    assert_int_equal(w->c.mapped[0], generation); /* it has not looked yet */
    put(w->m, w->x, 1, 2 * EXTENT, 'c');
    assert_true(is_all(client_read(&w->c, w->b, 0, 1, &len), 'c', 2 * EXTENT));
    assert_true(w->c.mapped[0] != generation);
}

/* 0 in the table of generations means that there is none: the number after the last is 1. */
static void test_generations_begin_again(void **state)
{
    struct world *w = *state;
    uint32_t len;

    w->m->extents.generations = UINT32_MAX - 1;
    put(w->m, w->x, 1, 3 * EXTENT, 'a');
    assert_int_equal(atomic_load(&shm_generations(w->c.header)[0]), UINT32_MAX);
    assert_int_equal(atomic_load(&shm_generations(w->c.header)[1]), 1);
    assert_int_equal(atomic_load(&shm_generations(w->c.header)[2]), 2);
    assert_true(is_all(client_read(&w->c, w->b, 0, 1, &len), 'a', 3 * EXTENT));
    shm_unpin(w->b, 0);
}

/* A small ceiling lies within an extent, and an emptied tier keeps none. */
static void test_less_than_one(void **state)
{
    struct world *w = *state;

    memory_set_ceiling(w->m, 20000);
    assert_int_equal(memory_ceiling(w->m), 16384);
    put(w->m, w->x, 1, 1000, 'a');
    assert_int_equal(live(w->m), 1);
    memory_evict(w->m, w->x, 1);
    memory_tick(w->m);
    assert_int_equal(live(w->m), 0);
    client_unmap_dropped(&w->c); /* it was given it when it was made */
    memory_tick(w->m);
    memory_set_ceiling(w->m, 3 * EXTENT + 5000);
    assert_int_equal(memory_ceiling(w->m), 3 * EXTENT);
}

/* (EXTENT-3) */
static void test_count_until_unmapped(void **state)
{
    struct world *w = *state;
    struct mem_session *idle;
    uint32_t len;

    put(w->m, w->x, 1, 2 * MB, 'a');
    assert_int_equal(mem_session_new(w->x, &idle, NULL), 0); /* it was given nothing */
    assert_true(is_all(client_read(&w->c, w->b, 0, 1, &len), 'a', 2 * MB));
    shm_unpin(w->b, 0);
    empty(w->m);
    assert_int_equal(live(w->m), 0);
    assert_true(populated(w->m) >= 2 * MB);
    memory_set_ceiling(w->m, MB);
    memory_set_ceiling(w->m, 8 * MB);
    assert_true(memory_ceiling(w->m) <= 6 * MB);
    client_unmap_dropped(&w->c);
    memory_tick(w->m);
    assert_int_equal(populated(w->m), 0);
    assert_int_equal(memory_ceiling(w->m), 8 * MB);
    mem_session_free(&idle);
}

/* (EXTENT-3): a client that says that it unmapped a dropped extent, and keeps it, does so at the
 * expense of its tenant, where the kernel tells. */
static void test_a_client_that_lies(void **state)
{
    struct world *w = *state;
    struct mem_extent some[8];
    int kept;

    put(w->m, w->x, 1, 2 * MB, 'a');
    assert_int_equal(mem_session_extents(w->s, 0, some, 8), 8);
    kept = os_dup(some[3].fd);
    empty(w->m);
    client_unmap_dropped(&w->c);
    memory_tick(w->m);
    assert_int_equal(live(w->m), 0);
    if (w->m->extents.freed.group >= 0) {
        assert_int_equal(populated(w->m), EXTENT);
        memory_set_ceiling(w->m, MB);
        memory_set_ceiling(w->m, 8 * MB);
        assert_true(memory_ceiling(w->m) < 8 * MB);
    }
    mem_session_free(&w->s); /* nor does it help to leave */
    memory_tick(w->m);
    assert_int_equal(populated(w->m) > 0, w->m->extents.freed.group >= 0);
    os_close(&kept);
    memory_tick(w->m);
    assert_int_equal(populated(w->m), 0);
    assert_int_equal(memory_ceiling(w->m), 8 * MB);
}

/* The kernel does not tell: their word counts. */
static void test_no_fanotify(void **state)
{
    struct memory *m;
    struct mem_index *x;
    struct mem_session *s;
    struct client c;

    (void)state;
    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(fanotify), .nth = 1, .times = 1000, .pid = getpid()});
    assert_int_equal(memory_new(8 * MB, 8 * MB, &m, NULL), 0);
    assert_int_equal(m->extents.freed.group, -1);
    assert_int_equal(mem_index_new(m, 10, 1, &x, NULL), 0);
    assert_int_equal(mem_session_new(x, &s, NULL), 0);
    client_open(&c, m, x, s);
    put(m, x, 1, 2 * MB, 'a');
    empty(m);
    assert_true(populated(m) >= 2 * MB);
    client_unmap_dropped(&c);
    memory_tick(m);
    assert_int_equal(populated(m), 0);
    assert_true(fault_disarm());
    client_close(&c);
    mem_session_free(&s);
    mem_index_free(&x);
    memory_free(&m);
}

static void test_a_session_that_ends_holds_nothing(void **state)
{
    struct world *w = *state;
    uint32_t len;

    put(w->m, w->x, 1, 2 * MB, 'a');
    assert_true(is_all(client_read(&w->c, w->b, 0, 1, &len), 'a', 2 * MB));
    shm_unpin(w->b, 0);
    empty(w->m);
    assert_true(populated(w->m) >= 2 * MB);
    client_close(&w->c); /* its process has died */
    client_open(&w->c, w->m, w->x, w->s);
    mem_session_free(&w->s);
    memory_tick(w->m);
    assert_int_equal(populated(w->m), 0);
}

/* A child keeps what it inherited, whatever the daemon does with the place. */
static void test_fork(void **state)
{
    struct world *w = *state;
    int go[2], status;
    const char *bytes;
    uint32_t len;
    char c = 0;
    pid_t pid;

    put(w->m, w->x, 1, 2 * MB, 'a');
    bytes = client_read(&w->c, w->b, 0, 1, &len);
    assert_int_equal(pipe(go), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(read(go[0], &c, 1) == 1 && is_all(bytes, 'a', len) ? 0 : 1);
    shm_unpin(w->b, 0);
    empty(w->m);
    put(w->m, w->x, 1, 2 * MB, 'b');
    assert_int_equal(write(go[1], &c, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(go[0]);
    close(go[1]);
}

/* Large ones are unmapped by a thread; their place may be used again meanwhile. */
static void test_large(void **state)
{
    struct memory *m;
    struct mem_index *x;
    uint64_t len;

    (void)state;
    assert_int_equal(memory_new(4096 * MB, 4096 * MB, &m, NULL), 0);
    assert_int_equal(mem_index_new(m, 10, 1, &x, NULL), 0);
    for (int turn = 0; turn < 20; turn++) {
        put(m, x, 1, 20 * MB, 'a' + turn); /* extents of 16 MB */
        empty(m);
        assert_int_equal(live(m), 0);
    }
    put(m, x, 1, 20 * MB, 'z');
    assert_true(is_all(memory_hold(m, x, 1, &len), 'z', 20 * MB));
    memory_unhold(m, x, 1);
    assert_int_equal(m->extents.drops, 40);
    mem_index_free(&x);
    memory_free(&m);
}

/* The kernel refuses memory, descriptors or mappings: the sample is read past the tier. */
static void test_faults(void **state)
{
    struct world *w = *state;
    bool fired = true;
    struct mem_fill *f;

    for (int nth = 1; fired; nth++) {
        fault_arm(FAULT_SYSCALL, nth);
        int rc = memory_reserve(w->m, w->x, 1, 2 * EXTENT, &f);

        fired = fault_disarm();
        assert_true(rc == 0 || (fired && rc == DLC_EBYPASS));
        if (rc == 0)
            memory_abandon(w->m, &f);
        empty(w->m);
        arena_check(&w->m->arena);
    }
}

/* (SEGMENT-2) of every extent and of the header, for root and for the owner: see test_segment.c. */
static void test_nobody_else_writes(void **state)
{
    struct world *w = *state;
    struct mem_extent some[8];
    unsigned n;

    put(w->m, w->x, 1, 2 * MB, 'a');
    n = mem_session_extents(w->s, 0, some, 8);
    assert_int_equal(n, 8);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(seal_attack(some[i].fd), 0);
    assert_int_equal(seal_attack(memory_fd(w->m)), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, world_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_come_with_samples),
        T(test_go_and_come_again),
        T(test_generations_begin_again),
        T(test_less_than_one),
        T(test_count_until_unmapped),
        T(test_a_client_that_lies),
        cmocka_unit_test(test_no_fanotify),
        T(test_a_session_that_ends_holds_nothing),
        T(test_fork),
        cmocka_unit_test(test_large),
        T(test_faults),
        T(test_nobody_else_writes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
