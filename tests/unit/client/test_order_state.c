// SPDX-License-Identifier: Apache-2.0
/* Where an order is, what of it is saved, and samples that are taken to be dealt to workers. */
#include "reading_world.h"

static uint64_t epoch, position;
static struct dlc_swap saved[2000];

/* Save the state; how many samples differ from the order. */
static int64_t save(void)
{
    epoch = position = 99;
    memset(saved, 0xff, sizeof(saved));
    return dlc_tell_swaps(w.ds, &epoch, &position, saved, unit_count(saved));
}

static void assert_saved(unsigned k, uint64_t at, uint64_t sample)
{
    assert_int_equal(saved[k].position, at);
    assert_int_equal(saved[k].sample, sample);
}

/* The position pos + k was read before those in front of it. */
static void taken(unsigned k)
{
    w.ds->reading.taken[k / 64] |= (uint64_t)1 << (k % 64);
}

static bool swap(uint64_t p, uint64_t q)
{
    return schedule_swap(w.ds->reading.schedule, p, q);
}

/* ---- states ---- */

static void test_no_order(void **state)
{
    struct dlc_dataset none = {.n = 5};
    uint64_t sample;

    (void)state;
    epoch = position = 99;
    assert_int_equal(dlc_tell_swaps(&none, &epoch, &position, NULL, 0), DLC_EINVAL);
    assert_int_equal(epoch, 0);
    assert_int_equal(position, 0);
    assert_int_equal(dlc_take(&none, 0, 0, &sample, 1), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "dlc_follow"));
}

/* After the last epoch comes the one that would follow; an order of nothing stays where it is. */
static void test_at_the_end(void **state)
{
    (void)state;
    begin_epochs(10, 4, 3, 29, 0);
    assert_int_equal(save(), 0);
    assert_int_equal(epoch, 6);
    assert_int_equal(position, 9);
    end(NULL);
    begin_epochs(10, 4, 3, 30, 0);
    assert_int_equal(save(), 0);
    assert_int_equal(epoch, 7);
    assert_int_equal(position, 0);
    end(NULL);
    begin_epochs(10, 4, 3, 0, 0);
    schedule_free(&w.ds->reading.schedule);
    w.ds->reading.spec = (struct order_spec){.n = 3, .world = 4, .drop_last = true};
    w.ds->reading.schedule = schedule_new(&w.ds->reading.spec, 4, 3, NULL);
    assert_non_null(w.ds->reading.schedule);
    assert_int_equal(save(), 0);
    assert_int_equal(epoch, 4);
    assert_int_equal(position, 0);
}

/* Of the samples that were read before others, the position counts them; the others follow. */
static void test_overtaken(void **state)
{
    struct dlc_swap one[2] = {{7, 7}, {7, 7}};

    (void)state;
    begin(100, 120, 0);
    taken(1);
    taken(3);
    assert_int_equal(save(), 2);
    assert_int_equal(epoch, 1);
    assert_int_equal(position, 22);
    assert_saved(0, 22, 20);
    assert_saved(1, 23, 22);
    assert_saved(2, UINT64_MAX, UINT64_MAX);
    assert_int_equal(dlc_tell_swaps(w.ds, &epoch, &position, one, 1), 2);
    assert_int_equal(one[0].position, 22);
    assert_int_equal(one[1].position, 7); /* there is no room for it */
}

/* Swaps of this epoch are saved; those of the next one are made anew. */
static void test_swapped(void **state)
{
    (void)state;
    begin(100, 3, 0);
    assert_true(swap(3, 8));
    assert_true(swap(20, 99));
    assert_true(swap(103, 108));
    assert_int_equal(save(), 4);
    assert_int_equal(position, 3);
    assert_saved(0, 3, 8);
    assert_saved(1, 8, 3);
    assert_saved(2, 20, 99);
    assert_saved(3, 99, 20);
    taken(0); /* swapped, and read after the one that comes next */
    taken(1);
    assert_int_equal(save(), 3);
    assert_int_equal(position, 5);
    assert_saved(0, 8, 3);
    end(NULL);
    begin(100, 103, 0);
    assert_true(swap(104, 108));
    assert_int_equal(save(), 2);
    assert_int_equal(epoch, 1);
    assert_saved(0, 4, 8);
    assert_saved(1, 8, 4);
}

static void test_nothing_is_left(void **state)
{
    size_t used;

    (void)state;
    begin(100, 3, 0);
    assert_true(swap(3, 8));
    assert_int_equal(save(), 2);
    used = unit_heap();
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(save(), 2);
    if (!UNIT_SANITIZED)
        assert_true(unit_heap() < used + 1000);
}

/* Both: sample 8 is read at position 3, where 4 was read first; what has changed places farther on
 * stays there. */
static void test_swapped_and_overtaken(void **state)
{
    (void)state;
    begin(100, 3, 0);
    assert_true(swap(3, 8));
    assert_true(swap(5, 50));
    taken(1);
    taken(2);
    assert_int_equal(save(), 3);
    assert_int_equal(position, 5);
    assert_saved(0, 5, 8);
    assert_saved(1, 8, 3);
    assert_saved(2, 50, 5);
}

/* A relaxed order is looked at as far as it goes: bits behind are something else. */
static void test_farthest(void **state)
{
    (void)state;
    begin(2000, 0, 0);
    w.ds->reading.ahead = UINT64_MAX;
    assert_int_equal(save(), 0);
    assert_int_equal(position, 0);
    taken(READING_WORDS * 64 - 1);
    assert_int_equal(save(), READING_WORDS * 64 - 1);
    assert_int_equal(position, 1);
    assert_saved(0, 1, 0);
    assert_saved(READING_WORDS * 64 - 2, READING_WORDS * 64 - 1, READING_WORDS * 64 - 2);
}

/* ---- taking ---- */

static uint64_t samples[200];

/* Take n from the position on; how many were given. */
static int64_t take(uint64_t at, size_t n)
{
    memset(samples, 0xff, sizeof(samples));
    return dlc_take(w.ds, 0, at, samples, n);
}

static void test_take(void **state)
{
    const struct reading *r;

    (void)state;
    begin(100, 10, 0);
    r = &w.ds->reading;
    atomic_store(&w.ds->cur, NULL); /* no daemon: exactly what is dealt is settled */
    assert_int_equal(take(10, 20), 20);
    for (uint64_t k = 0; k < 20; k++)
        assert_int_equal(samples[k], 10 + k);
    assert_int_equal(samples[20], UINT64_MAX);
    assert_int_equal(r->dealt, 30);
    assert_int_equal(r->settled, 30);
    assert_int_equal(take(30, 5), 5);
    assert_int_equal(r->dealt, 35);
    assert_int_equal(r->settled, 35);
    assert_int_equal(take(12, 3), 3); /* once more, for a worker that was lost */
    assert_int_equal(samples[0], 12);
    assert_int_equal(take(30, 5), 5);
    assert_int_equal(r->dealt, 35);
    assert_int_equal(r->settled, 35);
    assert_int_equal(take(33, 4), 4); /* partly */
    assert_int_equal(r->dealt, 37);
    assert_int_equal(r->settled, 37);
}

static void test_take_to_the_end(void **state)
{
    (void)state;
    begin_epochs(100, 0, 1, 10, 0);
    assert_int_equal(take(95, 20), 5);
    assert_int_equal(samples[4], 99);
    assert_int_equal(samples[5], UINT64_MAX);
    assert_int_equal(take(100, 20), 0);
    assert_int_equal(take(101, 1), DLC_EINVAL);
    assert_int_equal(dlc_take(w.ds, 1, 1, samples, 1), DLC_EINVAL);
    assert_int_equal(take(10, 1), 1);
    assert_int_equal(take(9, 1), DLC_EINVAL); /* it was read */
    assert_non_null(strstr(dlc_last_error(), "position 9 of epoch 0 was passed already"));
}

/* The end of an epoch is not the beginning of the next, whose samples are taken by its number. */
static void test_take_across_epochs(void **state)
{
    (void)state;
    begin(100, 10, 0);
    assert_int_equal(take(100, 5), 0);
    assert_int_equal(dlc_take(w.ds, 1, 0, samples, 5), 5);
    assert_int_equal(samples[4], 4);
    assert_int_equal(w.ds->reading.dealt, 105);
}

#define T(f) cmocka_unit_test_teardown(f, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_order),
        T(test_at_the_end),
        T(test_overtaken),
        T(test_swapped),
        T(test_nothing_is_left),
        T(test_swapped_and_overtaken),
        T(test_farthest),
        T(test_take),
        T(test_take_to_the_end),
        T(test_take_across_epochs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
