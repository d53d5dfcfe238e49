// SPDX-License-Identifier: Apache-2.0
/* Fetches that wait for room in memory: which of them tries first, for how long they wait, and how
 * many try in one turn of the loop. */
#include "daemon/fetch/room.h"
#include "unit.h"

#include "daemon/dataset.h"
#include "daemon/fetch/source.h"
#include "daemon/state.h"

#define N 200u

static struct node n;
static struct tenant_memory *other;
static struct dataset ds, ds_of_other;
static struct fetch fetches[N];
static unsigned tried[2 * N], n_tried, n_freeing;
static bool full; /* nobody gets room */

static void on_freeing(struct timer *t)
{
    (void)t;
    n_freeing++;
}

/* One turn of the loop, so much later. */
static void turn(struct dlc_dur d)
{
    dlc_clock_advance(d);
    loop_stop(n.loop);
    loop_run(n.loop);
}

static int setup(void **state)
{
    (void)state;
    n = (struct node){.loop = loop_new(NULL), .freeing.fire = on_freeing};
    assert_non_null(n.loop);
    tenant_memories_init(&n.memories, 1 << 20, 1 << 20, NULL);
    assert_int_equal(tenant_memory_get(&n.memories, "", &n.own_memory, NULL), 0);
    assert_int_equal(tenant_memory_get(&n.memories, "other", &other, NULL), 0);
    ds = (struct dataset){.node = &n, .tenant_memory = n.own_memory};
    ds_of_other = (struct dataset){.node = &n, .tenant_memory = other};
    for (unsigned i = 0; i < N; i++) {
        fetches[i] = (struct fetch){.ds = &ds, .sample = i};
        dlc_list_init(&fetches[i].of_room);
    }
    n_tried = n_freeing = 0;
    full = false;
    turn(DLC_SEC(5)); /* after a pause of the test before */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(n.pending, 0);
    tenant_memory_put(&n.own_memory);
    tenant_memory_put(&other);
    tenant_memories_free(&n.memories);
    loop_timer_del(n.loop, &n.freeing);
    loop_free(&n.loop);
    return 0;
}

static bool try_again(struct fetch *f)
{
    tried[n_tried++] = (unsigned)f->sample;
    return !full || !room_wait(f, try_again);
}

static bool waits(unsigned i, bool on_demand)
{
    fetches[i].on_demand = on_demand;
    return room_wait(&fetches[i], try_again);
}

static void assert_tried(const unsigned *expected, unsigned count)
{
    assert_int_equal(n_tried, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(tried[i], expected[i]);
    n_tried = 0;
}

/* (ROOM-2) */
static void test_readers_come_first(void **state)
{
    (void)state;
    assert_false(room_is_awaited(n.own_memory));
    assert_true(waits(0, false));
    assert_true(room_is_awaited(n.own_memory));
    assert_true(waits(1, false));
    assert_true(waits(2, true));
    assert_true(waits(3, true));
    assert_int_equal(n.pending, 4); /* the daemon does not end meanwhile */
    assert_false(room_try(&n));
    assert_tried((const unsigned[]){2, 3, 0, 1}, 4);
    assert_false(room_is_awaited(n.own_memory));
}

/* Those that wait are tried in the next turn of the loop. */
static void test_wait_starts_the_search_for_room(void **state)
{
    (void)state;
    turn(DLC_MS(0));
    assert_int_equal(n_freeing, 0);
    assert_true(waits(0, true));
    turn(DLC_MS(0));
    assert_int_equal(n_freeing, 1);
    room_try(&n);
}

/* A fetch that still has no room keeps its place, and nobody passes it. */
static void test_first_in_line_stays_first(void **state)
{
    (void)state;
    assert_true(waits(0, false));
    assert_true(waits(1, true));
    assert_true(waits(2, true));
    full = true;
    assert_true(room_try(&n));
    assert_tried((const unsigned[]){1}, 1);
    full = false;
    assert_false(room_try(&n));
    assert_tried((const unsigned[]){1, 2, 0}, 3);
    assert_true(waits(3, false));
    assert_true(waits(4, false));
    full = true;
    assert_true(room_try(&n));
    assert_tried((const unsigned[]){3}, 1);
    full = false;
    assert_false(room_try(&n));
    assert_tried((const unsigned[]){3, 4}, 2);
}

/* (ROOM-1) */
static void test_wait_ends(void **state)
{
    (void)state;
    full = true;
    assert_true(waits(0, true));
    turn(DLC_MS(200));
    assert_true(room_try(&n));
    assert_true(room_is_awaited(n.own_memory));
    turn(DLC_MS(100));
    assert_false(room_try(&n));   /* it has waited for 250 ms */
    assert_false(waits(1, true)); /* nobody waits now, ... */
    turn(DLC_MS(900));
    assert_false(waits(2, true));
    turn(DLC_MS(200));
    assert_true(waits(3, true));  /* ... for a second */
    assert_false(waits(1, true)); /* its own time is over */
    full = false;
    assert_false(room_try(&n));
}

static void test_pause_is_of_one_memory(void **state)
{
    (void)state;
    assert_true(waits(0, true));
    turn(DLC_MS(300));
    full = true;
    assert_false(room_try(&n));
    full = false;
    fetches[1].ds = &ds_of_other;
    assert_false(waits(2, true));
    assert_true(waits(1, true));
    assert_true(room_is_awaited(other));
    assert_false(room_is_awaited(n.own_memory));
    n_tried = 0;
    assert_false(room_try(&n));
    assert_tried((const unsigned[]){1}, 1);
}

/* A reader comes for a prefetch that waits: it goes behind the other readers'. */
static void test_hurry(void **state)
{
    (void)state;
    assert_true(waits(0, false));
    assert_true(waits(1, false));
    assert_true(waits(2, true));
    room_hurry(&fetches[1]);
    room_hurry(&fetches[2]); /* is among them */
    room_hurry(&fetches[3]); /* does not wait */
    assert_false(fetches[3].on_demand);
    assert_int_equal(n.pending, 3);
    full = true;
    assert_true(room_try(&n));
    assert_tried((const unsigned[]){2}, 1);
    full = false;
    assert_false(room_try(&n));
    assert_tried((const unsigned[]){2, 1, 0}, 3);
}

/* 64 of each kind in one turn of the loop. */
static void test_some_at_a_time(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 65; i++) {
        assert_true(waits(i, true));
        assert_true(waits(65 + i, false));
    }
    assert_true(room_try(&n));
    assert_int_equal(n_tried, 128);
    assert_int_equal(tried[63], 63);
    assert_int_equal(tried[64], 65);
    n_tried = 0;
    assert_false(room_try(&n));
    assert_tried((const unsigned[]){64, 129}, 2);
}

static void test_nobody_waits_at_the_end(void **state)
{
    (void)state;
    n.stopping = true;
    assert_false(waits(0, true));
    n.stopping = false;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_readers_come_first),
        T(test_wait_starts_the_search_for_room),
        T(test_first_in_line_stays_first),
        T(test_wait_ends),
        T(test_pause_is_of_one_memory),
        T(test_hurry),
        T(test_some_at_a_time),
        T(test_nobody_waits_at_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
