// SPDX-License-Identifier: Apache-2.0
/*
 * Attacks on the pin protocol. A daemon fills, evicts and moves the ceiling as fast as it can, in a
 * tier so small that memory is used again at once, while readers pin, check every byte, hold, check
 * again and unpin. Bytes say which sample and which fill they belong to, so a reader that sees
 * memory being reused under its pin notices.
 *
 * As processes: readers die by SIGKILL at random moments, and one client writes garbage into its
 * session all the time. As threads, on the daemon's own mapping: for the thread sanitizer.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "client.h"
#include "cache/memory/memory_i.h"

#define KB      ((uint64_t)1 << 10)
#define SAMPLES 96
#define READERS 3
#define HELD    24 /* pins of a reader at a time */

#ifdef DLC_DEBUG
#define SLOWER 10 /* the sanitizers see more in each step, and take their time for it */
#else
#define SLOWER 1
#endif
#define ENOUGH_FILLS (20000 / SLOWER)
#define ENOUGH_READS (20000 / SLOWER)
#define ENOUGH_KILLS (25 / SLOWER)
#define DUEL_FILLS   (500000 / SLOWER)
#define TOO_LONG     DLC_SEC(60)

/* In memory that all processes of the test share. */
struct tally {
    _Atomic uint64_t reads, wrong;
    _Atomic uint32_t stop;
    _Atomic int fds[CLIENT_EXTENTS]; /* of the daemon's extents */
};

/* ---- bytes ---- */

static uint64_t word(uint64_t sample, uint64_t fill, uint64_t i)
{
    return (sample << 48 | fill) * 0x9e3779b97f4a7c15u + i;
}

static void write_bytes(void *data, uint64_t sample, uint64_t fill, uint64_t len)
{
    uint64_t *w = data;

    w[0] = fill;
    for (uint64_t i = 1; i < len / 8; i++)
        w[i] = word(sample, fill, i);
}

static bool right_bytes(const void *data, uint64_t sample, uint64_t len)
{
    const uint64_t *w = data;
    bool right = true;

    for (uint64_t i = 1; i < len / 8; i++)
        right &= w[i] == word(sample, w[0], i);
    return right;
}

static uint64_t duel_len(uint64_t fill)
{
    return 64 + fill % 8 * 8;
}

/* ---- readers ---- */

struct held {
    const void *data;
    uint64_t sample, fill;
    uint32_t len;
};

static void release_held(struct held *h, struct shm_pin_block *b, unsigned entry, struct tally *t)
{
    if (h->data == NULL)
        return;
    bool right = right_bytes(h->data, h->sample, h->len) && *(const uint64_t *)h->data == h->fill;

    atomic_fetch_add(right ? &t->reads : &t->wrong, 1);
    h->data = NULL;
    shm_unpin(b, entry);
}

static void read_until_stop(struct client *c, struct tally *t, uint64_t seed)
{
    struct shm_pin_block *b = client_block(c, 0);
    struct held held[SHM_PINS] = {0};
    struct rng r = {seed};

    while (!atomic_load(&t->stop)) {
        int entry = shm_free_entry(b, (unsigned)rng_below(&r, SHM_PINS));
        unsigned drop = (unsigned)rng_below(&r, SHM_PINS);

        if (entry >= 0 && (unsigned)entry < HELD) {
            struct held *h = &held[entry];

            h->sample = rng_below(&r, SAMPLES);
            h->data = client_read(c, b, (unsigned)entry, h->sample, &h->len);
            if (h->data != NULL) {
                h->fill = *(const uint64_t *)h->data;
                shm_log(b, h->sample, h->len);
                if (!right_bytes(h->data, h->sample, h->len))
                    atomic_fetch_add(&t->wrong, 1);
            }
        }
        release_held(&held[drop % HELD], b, drop % HELD, t);
        if (!c->all_mapped && rng_below(&r, 64) == 0)
            client_unmap_dropped(c);
    }
    for (unsigned i = 0; i < HELD; i++)
        release_held(&held[i], b, i, t);
}

/* ---- the daemon ---- */

struct daemon {
    struct memory *m;
    struct mem_index *x;
    struct mem_session *sessions[READERS + 1];
    struct tally *tally;
    struct rng r;
    uint64_t fills;
    struct dlc_mono begun;
};

static void daemon_init(struct daemon *d)
{
    *d = (struct daemon){.r = {rng_seed()}, .begun = dlc_mono_now()};
    print_message("seed %llu\n", (unsigned long long)d->r.state);
    d->tally =
        mmap(NULL, sizeof(*d->tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(d->tally, MAP_FAILED);
    assert_int_equal(memory_new(512 * KB, 256 * KB, &d->m, NULL), 0);
    assert_int_equal(mem_index_new(d->m, SAMPLES, 1, &d->x, NULL), 0);
    for (int i = 0; i <= READERS; i++)
        assert_int_equal(mem_session_new(d->x, &d->sessions[i], NULL), 0);
}

/* All clients are gone: nothing may be left in use. */
static void daemon_release(struct daemon *d)
{
    struct memory_figures f;

    for (int i = 0; i <= READERS; i++)
        mem_session_free(&d->sessions[i]);
    memory_tick(d->m);
    while (memory_room_is_coming(d->m))
        memory_free_some(d->m);
    memory_figures(d->m, &f);
    assert_int_equal(f.retired, 0);
    arena_check(&d->m->arena);
    mem_index_free(&d->x);
    memory_free(&d->m);
    print_message("%llu fills, %llu reads\n", (unsigned long long)d->fills,
                  (unsigned long long)d->tally->reads);
    munmap(d->tally, sizeof(*d->tally));
}

/* A look at the pins ends in the turn of the loop that began it, or takes several. */
static void next_turn(struct daemon *d)
{
    d->m->scan.window = dlc_mono_now();
    d->m->scan.left = rng_below(&d->r, 4) == 0 ? (struct dlc_dur){20000} : DLC_MS(5);
}

static void fill_one(struct daemon *d, uint64_t sample)
{
    uint64_t len = 16 + 8 * rng_below(&d->r, 1500);
    struct mem_fill *f;
    int rc;

    while ((rc = memory_reserve(d->m, d->x, sample, len, &f)) == DLC_EBUSY) {
        next_turn(d); /* the attacker claims all blocks: a look at them takes several */
        memory_free_some(d->m);
    }
    if (rc < 0) {
        assert_true(rc == DLC_EBYPASS || rc == DLC_ELARGE);
        return;
    }
    for (uint32_t k = 0; k < d->m->extents.n; k++)
        atomic_store(&d->tally->fds[k], d->m->extents.all[k].fd);
    write_bytes(mem_fill_data(f), sample, ++d->fills, len);
    if (rng_below(&d->r, 16) == 0)
        memory_abandon(d->m, &f);
    else
        memory_publish(d->m, &f);
}

static void daemon_step(struct daemon *d)
{
    uint64_t sample = rng_below(&d->r, SAMPLES), dice = rng_below(&d->r, 1000);

    next_turn(d);
    if (!mem_index_ready(d->x, sample))
        fill_one(d, sample);
    else if (dice < 300)
        memory_evict(d->m, d->x, sample);
    if (dice == 999)
        memory_set_ceiling(d->m, 32 * KB + rng_below(&d->r, 480 * KB));
    else if (dice == 998)
        memory_evict_all(d->m, d->x);
    else if (dice > 980)
        memory_tick(d->m);
}

static bool enough(const struct daemon *d)
{
    assert_int_equal(atomic_load(&d->tally->wrong), 0);
    assert_true(dlc_mono_since(d->begun).ns < TOO_LONG.ns);
    return d->fills >= ENOUGH_FILLS && atomic_load(&d->tally->reads) >= ENOUGH_READS;
}

/* ---- processes ---- */

static void write_garbage(struct client *c, uint64_t seed)
{
    uint64_t *words = (uint64_t *)(void *)c->session;
    struct rng r = {seed};

    for (uint64_t k = 0;; k++) {
        uint64_t v = rng_next(&r), i = rng_below(&r, SHM_SESSION_SIZE / 8);

        /* Wild, plausible, and mostly nothing: all of it pinned would stop the daemon's work. */
        v = k % 16 == 0 ? v : k % 16 == 1 ? v % (2 * SAMPLES) : 0;
        atomic_store_explicit((_Atomic uint64_t *)&words[i], v, memory_order_relaxed);
        if (k % 4096 == 0)
            atomic_store_explicit(
                (_Atomic uint64_t *)&words[offsetof(struct shm_session_hdr, blocks_high) / 8],
                v | 2000, memory_order_relaxed);
    }
}

static pid_t spawn(struct daemon *d, int i)
{
    uint64_t seed = rng_next(&d->r);
    pid_t parent = getpid(), pid = fork();
    struct client c;

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    client_open(&c, d->m, d->x, d->sessions[i]);
    c.from = NULL;
    c.fds = d->tally->fds;
    c.pid = parent;
    if (i == READERS)
        write_garbage(&c, seed);
    read_until_stop(&c, d->tally, seed);
    _exit(0);
}

static void bury(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* not of its own */
}

/* The reader is killed, the daemon hears of it later, and another takes its place. */
static void replace(struct daemon *d, pid_t *pid, int i)
{
    bury(*pid);
    for (int k = 0; k < 100; k++)
        daemon_step(d);
    mem_session_free(&d->sessions[i]);
    assert_int_equal(mem_session_new(d->x, &d->sessions[i], NULL), 0);
    *pid = spawn(d, i);
}

static void test_processes(void **state)
{
    struct daemon d;
    pid_t pids[READERS + 1];
    int kills = 0;

    (void)state;
    daemon_init(&d);
    for (int i = 0; i <= READERS; i++)
        pids[i] = spawn(&d, i);
    while (!enough(&d) || kills < ENOUGH_KILLS) {
        daemon_step(&d);
        if (rng_below(&d.r, 1500) == 0) {
            int i = (int)rng_below(&d.r, READERS);

            replace(&d, &pids[i], i);
            kills++;
        }
    }
    for (int i = 0; i <= READERS; i++)
        bury(pids[i]);
    assert_int_equal(atomic_load(&d.tally->wrong), 0);
    daemon_release(&d);
}

/* ---- threads ---- */

struct reader {
    pthread_t thread;
    struct client c;
    struct tally *t;
    uint64_t seed;
};

static void *reader_main(void *arg)
{
    struct reader *r = arg;

    read_until_stop(&r->c, r->t, r->seed);
    return NULL;
}

/* The daemon's own mapping, so that the sanitizer sees both sides at one address. */
static void reader_start(struct reader *r, struct daemon *d, int i, void *(*body)(void *))
{
    r->c = (struct client){.segment = d->m->extents.map,
                           .segment_size = d->m->extents.size,
                           .header = extents_header(&d->m->extents),
                           .all_mapped = true,
                           .slots = d->x->slots,
                           .n_slots = d->x->n,
                           .session = mem_session_map(d->sessions[i])};
    r->t = d->tally;
    r->seed = rng_next(&d->r);
    assert_int_equal(pthread_create(&r->thread, NULL, body, r), 0);
}

static void test_threads(void **state)
{
    struct daemon d;
    struct reader readers[READERS];

    (void)state;
    daemon_init(&d);
    for (int i = 0; i < READERS; i++)
        reader_start(&readers[i], &d, i, reader_main);
    while (!enough(&d))
        daemon_step(&d);
    atomic_store(&d.tally->stop, 1);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
    assert_int_equal(atomic_load(&d.tally->wrong), 0);
    daemon_release(&d);
}

/* ---- duel ---- */

/* Pin, look at every byte twice, unpin, at once again: meets the daemon in the middle of its steps
 * far more often than a reader that does something with the bytes. */
static void *duellist_main(void *arg)
{
    struct reader *r = arg;
    struct shm_pin_block *b = client_block(&r->c, 0);
    uint32_t len;

    while (!atomic_load_explicit(&r->t->stop, memory_order_relaxed)) {
        const uint64_t *w = client_read(&r->c, b, 0, 0, &len);

        if (w == NULL)
            continue;
        uint64_t fill = w[0];
        bool right = len == duel_len(fill) && right_bytes(w, 0, len) && w[0] == fill;

        atomic_fetch_add_explicit(right ? &r->t->reads : &r->t->wrong, 1, memory_order_relaxed);
        shm_unpin(b, 0);
    }
    return NULL;
}

/* One sample, evicted and filled again in the same few lines of memory without pause. */
static void test_duel(void **state)
{
    struct daemon d;
    struct reader r;

    (void)state;
    daemon_init(&d);
    reader_start(&r, &d, 0, duellist_main);
    while (d.fills < DUEL_FILLS || atomic_load(&d.tally->reads) < ENOUGH_READS) {
        uint64_t fill = ++d.fills, len = duel_len(fill);
        struct mem_fill *f;

        /* A pin names the sample, not the copy: when the reader is off its core while it holds
         * one, all copies since wait with it, and may fill the tier. */
        next_turn(&d);
        while (memory_reserve(d.m, d.x, 0, len, &f) < 0) {
            next_turn(&d);
            memory_free_some(d.m);
            enough(&d);
        }
        assert_non_null(f);
        write_bytes(mem_fill_data(f), 0, fill, len);
        memory_publish(d.m, &f);
        for (uint64_t spin = rng_below(&d.r, 300); spin > 0; spin--)
            atomic_signal_fence(memory_order_seq_cst);
        assert_true(memory_evict(d.m, d.x, 0));
        enough(&d);
    }
    atomic_store(&d.tally->stop, 1);
    assert_int_equal(pthread_join(r.thread, NULL), 0);
    assert_int_equal(atomic_load(&d.tally->wrong), 0);
    daemon_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_processes),
                                       cmocka_unit_test(test_duel), cmocka_unit_test(test_threads)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
