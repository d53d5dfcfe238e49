// SPDX-License-Identifier: Apache-2.0
/* A look at all pins that takes several turns of the loop frees what nobody pins, and only that. */
#include "world.h"

#include "base/counters.h"

#define MB    ((uint64_t)1 << 20)
#define LEN   1000u
#define OTHER 31 /* sessions that claim all blocks, besides the world's */

struct many {
    struct world *w;
    struct mem_session *s[OTHER];
    struct client c[OTHER];
};

static void put(struct world *w, uint64_t sample)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve(w->m, w->x, sample, LEN, &f), 0);
    memory_publish(w->m, &f);
}

static void pass(struct memory *m)
{
    uint64_t done = m->scan.done;

    while (m->scan.done == done)
        memory_scan_tick(m);
}

static int setup(void **state)
{
    struct many *y = test_calloc(1, sizeof(*y));

    y->w = world_new(8 * MB, 8 * MB);
    for (unsigned i = 0; i < OTHER; i++) {
        assert_int_equal(mem_session_new(y->w->x, &y->s[i], NULL), 0);
        client_open(&y->c[i], y->w->m, y->w->x, y->s[i]);
        for (unsigned k = 0; k < SHM_BLOCKS; k++)
            client_block(&y->c[i], k);
    }
    pass(y->w->m); /* now it knows what one costs */
    *state = y;
    return 0;
}

static int teardown(void **state)
{
    struct many *y = *state;
    void *w = y->w;

    for (unsigned i = 0; i < OTHER; i++) {
        client_close(&y->c[i]);
        mem_session_free(&y->s[i]);
    }
    test_free(y);
    return world_free(&w);
}

/* One slice of a pass, in a window that has next to no time left. False: it has ended. */
static bool slice(struct memory *m)
{
    uint64_t done = m->scan.done;

    m->scan.window = dlc_mono_now();
    m->scan.left = (struct dlc_dur){20000};
    memory_scan_on(m);
    return m->scan.done == done;
}

static struct shm_pin_block *last_block(struct many *y)
{
    return client_block(&y->c[OTHER - 1], SHM_BLOCKS - 1);
}

/* What is pinned in the last entry of the last session stays, and the rest goes with the pass. */
static void test_takes_turns(void **state)
{
    struct many *y = *state;
    struct memory *m = y->w->m;
    unsigned slices = 0;

    put(y->w, 1);
    put(y->w, 2);
    atomic_store(&last_block(y)->pins[SHM_PINS - 1], 2 + 1);
    memory_evict_soon(y->w->x, 1);
    memory_evict_soon(y->w->x, 2);
    assert_true(memory_room_is_coming(m));
    while (slice(m)) {
        assert_int_equal(y->w->x->retired, 2);
        slices++;
    }
    assert_true(slices > 1);
    assert_int_equal(y->w->x->retired, 1);
    assert_false(memory_room_is_coming(m));
    atomic_store(&last_block(y)->pins[SHM_PINS - 1], 0);
    pass(m);
    assert_int_equal(y->w->x->retired, 0);
}

/* (PIN-SCAN-1): a pass says nothing of what is retired after it began. */
static void test_retired_meanwhile(void **state)
{
    struct many *y = *state;
    struct memory *m = y->w->m;

    put(y->w, 1);
    put(y->w, 2);
    memory_evict_soon(y->w->x, 1);
    while (m->scan.phase == 0) /* it has begun, with the world's session */
        assert_true(slice(m));
    assert_true(m->scan.next != m->scan.sessions.next || m->scan.block > 0);
    atomic_store(&y->w->b->pins[0], 2 + 1); /* behind its back */
    memory_evict_soon(y->w->x, 2);
    while (slice(m))
        ;
    assert_int_equal(y->w->x->retired, 1);
    assert_true(memory_room_is_coming(m)); /* another pass is due */
    while (memory_room_is_coming(m))
        slice(m);
    assert_int_equal(y->w->x->retired, 1); /* it is pinned */
    atomic_store(&y->w->b->pins[0], 0);
}

/* A retired sample that a reader holds is counted once, however many passes see it; an eviction in
 * steps frees the others before it returns. */
static void test_waits_are_counted_once(void **state)
{
    struct world *w = world_new(8 * MB, 8 * MB);
    uint64_t waits = atomic_load(&counters.mem_eviction_waits), place = 0, bytes = 0;
    void *of = w;

    (void)state;
    for (unsigned i = 0; i < 20; i++)
        put(w, i);
    atomic_store(&w->b->pins[0], 7 + 1);
    while (mem_index_evict_some(w->x, &place, &bytes))
        ;
    assert_true(bytes == 20 * LEN);
    assert_int_equal(w->x->retired, 1);
    for (unsigned i = 0; i < 5; i++)
        memory_tick(w->m);
    assert_int_equal(w->x->retired, 1);
    assert_int_equal(atomic_load(&counters.mem_eviction_waits), waits + 1);
    atomic_store(&w->b->pins[0], 0);
    memory_tick(w->m);
    assert_int_equal(w->x->retired, 0);
    world_free(&of);
}

/* Sessions leave while a pass stands at them. */
static void test_sessions_leave(void **state)
{
    struct many *y = *state;
    struct memory *m = y->w->m;

    put(y->w, 1);
    put(y->w, 2);
    atomic_store(&last_block(y)->pins[0], 2 + 1);
    memory_evict_soon(y->w->x, 1);
    memory_evict_soon(y->w->x, 2);
    for (unsigned i = 0; i + 1 < OTHER; i++) {
        slice(m);
        mem_session_free(&y->s[i]);
    }
    while (memory_room_is_coming(m))
        slice(m);
    assert_int_equal(y->w->x->retired, 1);
    mem_session_free(&y->s[OTHER - 1]); /* with its pins */
    pass(m);
    assert_int_equal(y->w->x->retired, 0);
}

/* Who needs room while a pass is under way is told to ask again, and gets it when that has ended. */
static void test_room_is_coming(void **state)
{
    struct many *y = *state;
    struct memory *m = y->w->m;
    struct mem_fill *f;
    uint64_t sample = 0, asked = 0;
    int rc;

    do {
        m->scan.window = dlc_mono_now();
        m->scan.left = (struct dlc_dur){0};
        rc = memory_reserve(m, y->w->x, sample++, 100 * LEN, &f);
        if (rc == 0)
            memory_publish(m, &f);
    } while (rc == 0);
    assert_int_equal(rc, DLC_EBUSY);
    assert_true(memory_room_is_coming(m));
    do {
        while (memory_room_is_coming(m))
            slice(m);
        m->scan.left = (struct dlc_dur){0};
        rc = memory_reserve(m, y->w->x, sample, 100 * LEN, &f);
        assert_true(++asked < 10);
    } while (rc == DLC_EBUSY);
    assert_int_equal(rc, 0);
    memory_abandon(m, &f);
}

/* Figures are exact while there are few blocks to sum up, and else those of the last pass. */
static void test_figures(void **state)
{
    struct many *y = *state;
    struct mem_session_stats st;

    put(y->w, 1);
    atomic_store(&client_block(&y->c[0], 3)->hits, 7);
    atomic_store(&client_block(&y->c[0], SHM_BLOCKS - 1)->misses, 5);
    atomic_store(&client_block(&y->c[0], 3)->pins[1], 1 + 1);
    mem_session_stats(y->s[0], &st);
    assert_true(st.hits == 7 && st.misses == 5 && st.pins == 1);
    y->w->m->scan.window = dlc_mono_now();
    y->w->m->scan.sums = SHM_BLOCKS - 1;
    mem_session_stats(y->s[0], &st);
    assert_true(st.hits == 0 && st.misses == 0 && st.pins == 0);
    y->w->m->scan.window = dlc_mono_now();
    y->w->m->scan.sums = SHM_BLOCKS;
    mem_session_stats(y->s[0], &st);
    assert_true(st.hits == 7 && st.misses == 5 && st.pins == 1);
    pass(y->w->m);
    y->w->m->scan.window = dlc_mono_now();
    y->w->m->scan.sums = 0;
    mem_session_stats(y->s[0], &st);
    assert_true(st.hits == 7 && st.misses == 5 && st.pins == 1);
}

/* A pass is short when the last one took at most half of the time that is left; never while one is
 * under way. */
static void test_short_passes(void **state)
{
    struct many *y = *state;
    struct memory *m = y->w->m;
    struct pin_scan *p = &m->scan;

    assert_true(p->cost > OTHER * SHM_BLOCKS); /* not by the number of its steps */
    assert_true(p->took.ns > 0);
    p->window = dlc_mono_add(dlc_mono_now(), DLC_MS(60000));
    p->left = DLC_MS(4);
    p->took = DLC_MS(2);
    assert_true(memory_scan_is_short(m));
    p->took = DLC_MS(3);
    assert_false(memory_scan_is_short(m));
    p->took = DLC_MS(1);
    put(y->w, 1);
    memory_evict_soon(y->w->x, 1);
    while (p->phase == 0)
        assert_true(slice(m));
    p->left = DLC_MS(1000);
    assert_false(memory_scan_is_short(m));
    while (slice(m))
        ;
}

/* The last hits of a session that ends are heard, of a bounded number of blocks. */
static void test_last_hits_are_bounded(void **state)
{
    struct many *y = *state;
    struct mem_session *s = y->s[0];
    uint64_t first, last;

    put(y->w, 1);
    put(y->w, 2);
    for (unsigned k = 0; k < SHM_BLOCKS; k++)
        for (unsigned i = 0; i < SHM_LOG; i++)
            shm_log(client_block(&y->c[0], k), k < 2 ? 1 : k == SHM_BLOCKS - 1 ? 2 : 999, LEN);
    first = y->w->x->fills[1]->item.uses;
    last = y->w->x->fills[2]->item.uses;
    mem_session_free(&s);
    y->s[0] = NULL;
    assert_int_equal(y->w->x->fills[1]->item.uses, first + (uint64_t)2 * SHM_LOG);
    assert_int_equal(y->w->x->fills[2]->item.uses, last);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_takes_turns),    T(test_retired_meanwhile),
        T(test_sessions_leave), T(test_room_is_coming),
        T(test_short_passes),   T(test_last_hits_are_bounded),
        T(test_figures),        cmocka_unit_test(test_waits_are_counted_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
