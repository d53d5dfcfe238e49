// SPDX-License-Identifier: Apache-2.0
/* Which positions change places, one call at a time. */
#include "client/substitution.h"
#include "lock_held.h"
#include "reading_world.h"

#include "client/process.h"

/* Settle n positions and those ahead. Up to where, as the daemon sees it. */
static uint64_t settle(size_t n)
{
    swap_settle(w.ds, n);
    assert_int_equal(atomic_load(&w.a->users), 0);
    assert_int_equal(atomic_load(&w.session->swaps_tail), w.a->swaps_tail);
    assert_int_equal(atomic_load(&w.session->settled), w.ds->reading.settled);
    return w.ds->reading.settled;
}

/* Swap k that the daemon was told. */
static void assert_swap(uint64_t k, uint64_t p, uint64_t q)
{
    const struct cursor *c = &w.ds->reading.schedule->cursor;

    assert_true(k < w.a->swaps_tail);
    assert_int_equal(atomic_load(&w.session->swaps[k % SHM_SWAPS].p), p);
    assert_int_equal(atomic_load(&w.session->swaps[k % SHM_SWAPS].q), q);
    assert_int_equal(cursor_at(c, p), q % w.a->n);
    assert_int_equal(cursor_at(c, q), p % w.a->n);
}

static void test_swaps(void **state)
{
    (void)state;
    begin(100, 0, 10);
    resident(50, 50);
    assert_int_equal(settle(1), 11);
    assert_int_equal(w.a->swaps_tail, 1);
    assert_swap(0, 0, 50);
    assert_int_equal(settle(1), 11); /* nothing changes any more */
    assert_int_equal(w.a->swaps_tail, 1);
}

/* The one that comes next will do. */
static void test_swap_with_next(void **state)
{
    (void)state;
    begin(100, 20, 1);
    resident(21, 21);
    assert_int_equal(settle(0), 21);
    assert_swap(0, 20, 21);
}

/* What was read before is not looked at: the scan finds it, and goes on. */
static void test_begins_at_position(void **state)
{
    (void)state;
    begin(100, 40, 2);
    resident(10, 10);
    resident(90, 90);
    assert_int_equal(settle(0), 42);
    assert_int_equal(w.a->swaps_tail, 1);
    assert_swap(0, 40, 90);
    end(NULL);
    begin(100, 40, 2);
    w.ds->reading.dealt = 45;
    resident(90, 90);
    assert_int_equal(settle(0), 47);
    assert_swap(0, 45, 90);
}

/* A sample that is there stays where it is. */
static void test_resident(void **state)
{
    (void)state;
    begin(100, 0, 1000); /* farther than an epoch */
    resident(0, 99);
    assert_int_equal(settle(3), 103);
    assert_int_equal(w.a->swaps_tail, 0);
    assert_int_equal(w.ds->reading.look, 0);
}

/* The last of an epoch can change places with none: no slot is looked at. */
static void test_last_of_epoch(void **state)
{
    (void)state;
    begin(100, 98, 1);
    resident(0, 0);
    assert_int_equal(settle(0), 99);
    assert_int_equal(w.ds->reading.look, 0); /* of 100: it has gone round */
    w.ds->reading.look = 7;
    w.ds->reading.pos = 99;
    assert_int_equal(settle(0), 100);
    assert_int_equal(w.ds->reading.look, 7);
    assert_int_equal(w.a->swaps_tail, 0);
}

/* In the next epoch: what this one has still to read will be there, what it has read may not. */
static void test_next_epoch(void **state)
{
    (void)state;
    begin(10, 0, 10);
    resident(9, 9);
    w.ds->reading.settled = 10;
    assert_int_equal(settle(1), 11);
    assert_int_equal(w.a->swaps_tail, 0);
    end(NULL);
    begin(10, 5, 10);
    resident(9, 9);
    w.ds->reading.settled = 10;
    assert_int_equal(settle(0), 15);
    assert_int_equal(w.a->swaps_tail, 1);
    assert_swap(0, 10, 19);
}

/* The scan goes on where it was, and round. */
static void test_scan(void **state)
{
    (void)state;
    begin(100, 0, 1);
    resident(99, 99);
    w.ds->reading.look = 99;
    assert_int_equal(settle(0), 1);
    assert_swap(0, 0, 99);
    assert_int_equal(w.ds->reading.look, 0);
    end(NULL);
    begin(100, 0, 1);
    resident(1, 1);
    w.ds->reading.look = 98;
    assert_int_equal(settle(0), 1);
    assert_swap(0, 0, 1);
    assert_int_equal(w.ds->reading.look, 2);
}

/* What one position may cost, and one call. */
static void test_limits(void **state)
{
    (void)state;
    begin(1000, 500, 1);
    resident(0, 300);
    assert_int_equal(settle(0), 501);
    assert_int_equal(w.ds->reading.look, 128); /* all of them were read before */
    end(NULL);
    begin(10000, 0, 1);
    assert_int_equal(settle(0), 1);
    assert_int_equal(w.ds->reading.look, 4096);
    end(NULL);
    begin(10000, 0, 10000);
    resident(0, 9999);
    assert_int_equal(settle(0), 4096);
    assert_int_equal(settle(0), 8192);
}

/* A full ring: the daemon is not told, so nothing is swapped, until it has taken some. */
static void test_ring_is_full(void **state)
{
    (void)state;
    begin(100, 0, 10);
    resident(50, 51);
    w.a->swaps_tail = SHM_SWAPS - 1;
    atomic_store(&w.session->swaps_tail, w.a->swaps_tail);
    assert_int_equal(settle(0), 1);
    assert_swap(SHM_SWAPS - 1, 0, 50);
    assert_int_equal(settle(0), 1);
    atomic_store(&w.session->swaps_head, 1);
    assert_int_equal(settle(0), 2);
    assert_swap(SHM_SWAPS, 1, 51);
    assert_int_equal(settle(5), 5); /* what is read is final in any case */
    assert_int_equal(w.a->swaps_tail, SHM_SWAPS + 1);
}

/* A daemon that follows the order as it is. */
static void test_no_horizon(void **state)
{
    (void)state;
    begin(10000, 10, 0);
    resident(5000, 5000);
    assert_int_equal(settle(1), 10 + 1024);
    w.ds->reading.settled = 3000;
    assert_int_equal(settle(1), 3000);
    assert_int_equal(w.a->swaps_tail, 0);
}

static void test_none(void **state)
{
    (void)state;
    begin(100, 10, 10);
    resident(50, 50);
    w.ds->reading.swaps = false;
    assert_int_equal(settle(5), 0);
    w.ds->reading.swaps = true;
    atomic_store(&w.ds->cur, NULL);
    swap_settle(w.ds, 5); /* without a daemon */
    assert_int_equal(w.ds->reading.settled, 15);
    assert_int_equal(atomic_load(&w.session->settled), 0);
    assert_int_equal(w.a->swaps_tail, 0);
}

/* The dataset of the daemon has fewer samples: it has no slots for the rest. */
static void test_fewer_slots(void **state)
{
    (void)state;
    begin(100, 0, 3);
    w.a->n = 50;
    resident(50, 99);
    assert_int_equal(settle(0), 3);
    assert_int_equal(w.a->swaps_tail, 0);
    resident(49, 49);
    assert_int_equal(settle(1), 4);
    assert_int_equal(w.a->swaps_tail, 1);
}

static void settles(void *arg)
{
    (void)arg;
    settle(1);
}

/* (CLIENT-SUBSTITUTION-2) */
static void test_swaps_are_locked(void **state)
{
    (void)state;
    begin(100, 0, 10);
    resident(50, 50);
    assert_true(waits_for(client_lock, client_unlock, settles, NULL));
    assert_swap(0, 0, 50);
}

static void lose_and_unlock(void)
{
    atomic_store(&w.ds->cur, NULL);
    client_unlock();
}

/* (CLIENT-SUBSTITUTION-2): the daemon is lost just then. Nothing is swapped that the next one is not
 * told of, and all positions are settled as they are. */
static void test_lost_meanwhile(void **state)
{
    (void)state;
    begin(100, 0, 10);
    resident(50, 50);
    assert_true(waits_for(client_lock, lose_and_unlock, settles, NULL));
    assert_int_equal(w.a->swaps_tail, 0);
    assert_int_equal(w.ds->reading.settled, 11);
    assert_int_equal(cursor_at(&w.ds->reading.schedule->cursor, 0), 0);
}

#define T(f) cmocka_unit_test_teardown(f, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_swaps),
        T(test_swap_with_next),
        T(test_begins_at_position),
        T(test_resident),
        T(test_last_of_epoch),
        T(test_next_epoch),
        T(test_scan),
        T(test_limits),
        T(test_ring_is_full),
        T(test_no_horizon),
        T(test_none),
        T(test_fewer_slots),
        T(test_swaps_are_locked),
        T(test_lost_meanwhile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
