// SPDX-License-Identifier: Apache-2.0
/* Sessions as the daemon sees them: what it gives to clients, and what it reads of theirs. */
#include "proc_self.h"

#include "base/fault.h"
#include "base/syscalls.h"
#include "cache/memory/memory_i.h"
#include "client.h"
#include "single_step.h"

#define MB     ((uint64_t)1 << 20)
#define EXTENT ((uint64_t)64 << 10) /* of a segment of 8 MB */

struct world {
    struct memory *m;
    struct mem_index *x;
    struct mem_session *s;
    struct client c;
};

static int setup(void **state)
{
    struct world *w = test_calloc(1, sizeof(*w));

    assert_int_equal(memory_new(8 * MB, 8 * MB, &w->m, NULL), 0);
    assert_int_equal(mem_index_new(w->m, 1000, 77, &w->x, NULL), 0);
    assert_int_equal(mem_session_new(w->x, &w->s, NULL), 0);
    client_open(&w->c, w->m, w->x, w->s);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    client_close(&w->c);
    mem_session_free(&w->s);
    mem_index_free(&w->x);
    memory_free(&w->m);
    test_free(w);
    return 0;
}

static void put(struct world *w, uint64_t sample, uint64_t len)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve(w->m, w->x, sample, len, &f), 0);
    memory_publish(w->m, &f);
}

/* ---- life ---- */

static void test_refused(void **state)
{
    struct world *w = *state;
    unsigned descriptors = proc_descriptors(), maps = proc_mapped("dlcache-session");
    unsigned refused = 0;
    bool fired = true;

    for (int nth = 1; fired; nth++) {
        struct mem_session *s = w->s;
        struct dlc_err err = DLC_ERR_INIT;
        int rc;

        /* not the hint that keeps it out of core files */
        fault_plan(
            &(struct fault_plan){.calls = FAULT_ALL_CALLS & ~FAULT_CALL(advise), .nth = nth});
        rc = mem_session_new(w->x, &s, &err);
        fired = fault_disarm();
        assert_int_equal(rc < 0, fired);
        assert_int_equal(s == NULL, fired);
        assert_int_equal(err.code, rc);
        assert_int_equal(strstr(err.text, "shared memory") != NULL, fired);
        refused += fired;
        mem_session_free(&s);
        assert_null(s);
        assert_int_equal(proc_descriptors(), descriptors);
        assert_int_equal(proc_mapped("dlcache-session"), maps);
    }
    assert_int_equal(refused,
                     7); /* memfd, its size, mapping, seals; the channel and its two limits */
}

/* Nobody looks at the ring yet: the first request must ring. And it maps no extent of before. */
static void test_begins(void **state)
{
    struct world *w = *state;
    const struct shm_session_hdr *h;
    struct mem_session *late;

    h = mem_session_map(w->s);
    assert_int_equal(atomic_load(&h->need_wake), 1);
    assert_int_equal(atomic_load(&h->drops_seen), 0);
    put(w, 1, 1000);
    memory_evict(w->m, w->x, 1);
    memory_give_back(w->m);
    memory_tick(w->m);
    assert_int_equal(w->m->extents.drops, 1);
    assert_int_equal(mem_session_new(w->x, &late, NULL), 0);
    h = mem_session_map(late);
    assert_int_equal(atomic_load(&h->drops_seen), 1);
    mem_session_free(&late);
}

/* ---- extents ---- */

static void test_gives_extents(void **state)
{
    struct world *w = *state;
    const struct extents *e = &w->m->extents;
    struct mem_extent all[200];

    put(w, 1, 3 * EXTENT - SHM_HDR_SIZE); /* extents 0, 1 and 2 */
    assert_int_equal(mem_session_extents(w->s, 0, all, unit_count(all)), 3);
    for (uint32_t k = 0; k < 3; k++) {
        assert_int_equal(all[k].number, k);
        assert_int_equal(all[k].generation, e->all[k].generation);
        assert_int_equal(all[k].fd, e->all[k].fd);
    }
    assert_int_equal(mem_session_extents(w->s, 1, all, unit_count(all)), 2);
    assert_int_equal(all[0].number, 1);
    all[2].number = 99;
    assert_int_equal(mem_session_extents(w->s, 0, all, 2), 2); /* there is room for two */
    assert_int_equal(all[1].number, 1);
    assert_int_equal(all[2].number, 99);
    assert_int_equal(mem_session_extents(w->s, e->n, all, unit_count(all)), 0);
    assert_int_equal(mem_session_extents(w->s, UINT64_MAX, all, unit_count(all)), 0);
}

/* Standard input was closed: 0 is a descriptor like any other. */
static void test_gives_descriptor_0(void **state)
{
    struct world *w = *state;
    int input = dup(STDIN_FILENO);
    struct mem_extent one;

    close(STDIN_FILENO);
    put(w, 1, 1000);
    assert_int_equal(mem_session_extents(w->s, 0, &one, 1), 1);
    assert_int_equal(one.fd, STDIN_FILENO);
    memory_evict(w->m, w->x, 1);
    memory_give_back(w->m);
    memory_tick(w->m);
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);
}

/* (EXTENT-3): what it was given counts until it says that it has unmapped it. */
static void test_holds(void **state)
{
    struct world *w = *state;
    struct shm_session_hdr *h;
    struct mem_session *s;
    uint32_t generation;
    struct mem_extent one;

    put(w, 1, 2 * EXTENT - SHM_HDR_SIZE);
    assert_int_equal(mem_session_new(w->x, &s, NULL), 0); /* it asks for those that are there */
    h = mem_session_map(s);
    assert_int_equal(mem_session_extents(s, 1, &one, 1), 1);
    generation = one.generation;
    assert_true(session_holds(s, 1, generation, 1));
    assert_false(session_holds(s, 1, generation + 1, 1)); /* another one at that place */
    assert_false(session_holds(s, 0, w->m->extents.all[0].generation, 1)); /* not given */
    atomic_store(&h->drops_seen, 4);
    assert_true(session_holds(s, 1, generation, 5));
    assert_false(session_holds(s, 1, generation, 4));
    mem_session_free(&s);
    /* Who is there when one is made was given it. */
    assert_true(session_holds(w->s, 0, w->m->extents.all[0].generation, 1));
}

/* ---- what clients write ---- */

static void test_stats(void **state)
{
    struct world *w = *state;
    struct mem_session_stats st;

    for (unsigned i = 0; i < 3; i++) {
        struct shm_pin_block *b = client_block(&w->c, i);

        atomic_store(&b->hits, 1);
        atomic_store(&b->misses, 10);
        atomic_store(&b->bypasses, 100);
        atomic_store(&b->bytes, 1000);
        atomic_store(&b->stall_ns, 10000);
        atomic_store(&b->pins[0], 5);
        atomic_store(&b->pins[SHM_PINS - 1], 5);
    }
    atomic_store(&client_block(&w->c, 1)->in_use, 0); /* its thread has ended */
    mem_session_stats(w->s, &st);
    assert_int_equal(st.hits, 3);
    assert_int_equal(st.misses, 30);
    assert_int_equal(st.bypasses, 300);
    assert_int_equal(st.bytes, 3000);
    assert_int_equal(st.stall_ns, 30000);
    assert_int_equal(st.pins, 4);
}

/* Every pin of a block in use counts, and none of another one. */
static void test_pins(void **state)
{
    struct world *w = *state;
    static const uint64_t samples[] = {0, 1, 10, 11, 20, 21, 999};
    static const bool pinned[] = {true, true, false, false, true, true, true};

    for (unsigned i = 0; i < DLC_COUNT(samples); i++)
        put(w, samples[i], 1000);
    for (unsigned i = 0; i < 3; i++) {
        atomic_store(&client_block(&w->c, i)->pins[0], 10 * i + 1);
        atomic_store(&client_block(&w->c, i)->pins[SHM_PINS - 1], 10 * i + 2);
    }
    atomic_store(&client_block(&w->c, 2)->pins[1], 1000 + 1); /* no such sample */
    atomic_store(&client_block(&w->c, 2)->pins[2], 999 + 1);
    atomic_store(&client_block(&w->c, 1)->in_use, 0);
    assert_true(memory_scan(w->m, true));
    for (unsigned i = 0; i < DLC_COUNT(samples); i++)
        assert_int_equal(mem_fill_pinned(w->x->fills[samples[i]]), pinned[i]);
    atomic_store(&client_block(&w->c, 0)->pins[0], 0);
    assert_true(memory_scan(w->m, true));
    assert_false(mem_fill_pinned(w->x->fills[0]));
    assert_true(mem_fill_pinned(w->x->fills[1]));
}

#ifdef SINGLE_STEP
static void evict_1(void *arg)
{
    struct world *w = arg;

    memory_evict(w->m, w->x, 1);
}

/* (SHM-1): the daemon empties the slot before it looks at the pins, and readers see it so. */
static void test_evictor_stores_with_barrier(void **state)
{
    struct world *w = *state;

    put(w, 1, 1000);
    assert_true(stores_with_barrier(&w->x->slots[1].where, evict_1, w));
    assert_false(mem_index_ready(w->x, 1));
}
#endif

/* A client that claims more blocks than there are. */
static void test_blocks_are_bounded(void **state)
{
    struct world *w = *state;
    struct shm_session_hdr *h = (void *)w->c.session;
    unsigned n;

    atomic_store(&h->blocks_high, UINT32_MAX);
    session_blocks(w->s, &n);
    assert_int_equal(n, SHM_BLOCKS);
    atomic_store(&h->blocks_high, 7);
    session_blocks(w->s, &n);
    assert_int_equal(n, 7);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef SINGLE_STEP
        T(test_evictor_stores_with_barrier),
#endif
        T(test_refused),
        T(test_begins),
        T(test_gives_extents),
        T(test_holds),
        T(test_gives_descriptor_0),
        T(test_stats),
        T(test_pins),
        T(test_blocks_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
