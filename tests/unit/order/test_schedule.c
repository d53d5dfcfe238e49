// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/mem.h"
#include "order/schedule.h"

#define N 10u

static struct schedule_list *list_of(uint64_t first, uint64_t length)
{
    uint64_t *list = mem_alloc(length * sizeof(*list));
    struct schedule_list *l;

    for (uint64_t i = 0; i < length; i++)
        list[i] = (first + i) % N;
    l = schedule_list_new(list, length, N, NULL);
    assert_non_null(l);
    return l;
}

static void give(struct schedule *t, uint64_t first, uint64_t length)
{
    struct schedule_list *l = list_of(first, length);

    assert_int_equal(schedule_give(t, &l, NULL), 0);
    assert_null(l);
}

static void test_computed(void **state)
{
    const struct order_spec spec = {.kind = ORDER_SEQUENTIAL, .n = N, .world = 1};
    const struct order_spec bad = {.kind = ORDER_SEQUENTIAL, .n = N, .rank = 3, .world = 2};
    struct dlc_err err = DLC_ERR_INIT;
    struct schedule *t = schedule_new(&spec, 5, 2, &err);

    (void)state;
    assert_int_equal(t->length, N);
    schedule_move(t, 13);
    assert_int_equal(cursor_at(&t->cursor, 13), 3);
    assert_false(schedule_has_old(t));
    schedule_drop(t); /* nothing */
    schedule_free(&t);
    assert_null(schedule_new(&bad, 0, 0, &err));
    assert_int_equal(err.code, DLC_EINVAL);
}

/* Lists of 3, 5 and 2: two are kept, whatever has been read. */
static void test_lists_come_and_go(void **state)
{
    struct schedule_list *l = list_of(0, 3), *third = list_of(7, 2);
    struct schedule *t =
        schedule_new_list(&l, 4, 3, 100); /* epochs 4, 5, 6; absolute from 100 on */
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    assert_null(l);
    assert_int_equal(t->length, 3);
    assert_int_equal(t->lists[0]->begin, 100);
    give(t, 3, 5);
    assert_int_equal(schedule_give(t, &third, &err), DLC_EBUSY);
    assert_non_null(third); /* still ours */
    assert_int_equal(t->lists[1]->begin, 103);
    assert_int_equal(t->lists[1]->epoch, 5);
    assert_int_equal(cursor_at(&t->cursor, 103), 3);
    assert_int_equal(cursor_next_use(&t->cursor, 7, 100), 107);

    schedule_move(t, 103);
    assert_int_equal(t->length, 5);
    assert_true(schedule_has_old(t));
    assert_int_equal(t->lists[0]->list[0], 0); /* another thread may still read it */
    schedule_drop(t);
    assert_false(schedule_has_old(t));
    assert_int_equal(t->lists[0]->epoch, 5);
    assert_null(t->lists[1]);

    assert_int_equal(schedule_give(t, &third, &err), 0);
    assert_int_equal(t->length, 5);
    schedule_move(t, 110);
    assert_int_equal(t->length, 2); /* those of the last one, also at its end */
    schedule_drop(t);
    assert_int_equal(t->lists[0]->epoch, 6);
    third = list_of(0, 1);
    assert_int_equal(schedule_give(t, &third, &err), DLC_EINVAL); /* three epochs were declared */
    schedule_list_free(&third);
    schedule_free(&t);
}

/* The reader is at the end of the only list: it stays until another one takes its place. */
static void test_last_list_stays(void **state)
{
    struct schedule_list *l = list_of(0, 3);
    struct schedule *t = schedule_new_list(&l, 0, 0, 0);

    (void)state;
    schedule_move(t, 3);
    assert_false(schedule_has_old(t));
    schedule_drop(t);
    assert_int_equal(t->lists[0]->length, 3);
    assert_int_equal(t->length, 3);
    give(t, 1, 4);
    assert_int_equal(t->lists[0]->length, 4);
    assert_null(t->lists[1]);
    assert_int_equal(t->length, 4);
    assert_int_equal(cursor_at(&t->cursor, 3), 1);
    schedule_free(&t);
}

static void test_bad_lists(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t *list = mem_alloc(2 * sizeof(*list));

    (void)state;
    list[0] = 0;
    list[1] = N;
    assert_null(schedule_list_new(list, 2, N, &err)); /* which freed it */
    assert_non_null(strstr(err.text, "position 1: sample 10 does not exist"));
    assert_null(schedule_list_new(mem_alloc(8), 0, N, &err));
    assert_non_null(strstr(err.text, "without samples"));
}

/* Twice the samples, but not below the floor nor beyond the most; and numbers that would overflow. */
static void test_how_long_a_list_may_be(void **state)
{
    static const uint64_t rows[][2] = {
        {0, SCHEDULE_LIST_FLOOR},
        {2, SCHEDULE_LIST_FLOOR},
        {SCHEDULE_LIST_FLOOR / 2 + 1, SCHEDULE_LIST_FLOOR + 2},
        {30000000, 60000000},
        {SCHEDULE_LIST_MAX / 2 + 1, SCHEDULE_LIST_MAX},
        {UINT64_MAX, SCHEDULE_LIST_MAX},
    };

    (void)state;
    for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
        assert_int_equal(schedule_list_max(rows[k][0]), rows[k][1]);
    assert_true(schedule_list_bytes(1000, 50) >= 1000 * 12 + 51 * 4);
    assert_true(schedule_list_bytes(1000, 50) < 1000 * 12 + 51 * 4 + 4096);
    assert_true(schedule_list_bytes(0, 0) > sizeof(struct schedule_list));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_computed),
        cmocka_unit_test(test_lists_come_and_go),
        cmocka_unit_test(test_last_list_stays),
        cmocka_unit_test(test_bad_lists),
        cmocka_unit_test(test_how_long_a_list_may_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
