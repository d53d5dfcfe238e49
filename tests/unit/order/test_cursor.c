// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/rng.h"
#include "order/cursor.h"

#define FIRST_EPOCH 4

static struct order_spec spec_of(enum order_kind kind, uint64_t n, uint32_t rank, uint32_t world,
                                 bool drop_last)
{
    return (struct order_spec){kind, n, 100, 77, rank, world, drop_last};
}

static struct cursor make(const struct order_spec *spec, uint64_t epochs)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct cursor c;

    assert_int_equal(cursor_init(&c, spec, FIRST_EPOCH, epochs, &err), 0);
    return c;
}

/* All samples that a rank reads, epoch after epoch. */
static uint64_t unroll(const struct order_spec *spec, uint64_t epochs, uint64_t *out)
{
    uint64_t total = 0;

    for (uint64_t i = 0; i < epochs; i++) {
        struct order o;

        assert_int_equal(order_init(&o, spec, FIRST_EPOCH + i, NULL), 0);
        for (uint64_t k = 0; k < o.length; k++)
            out[total++] = order_at(&o, k);
    }
    return total;
}

/* What cursor_next_use() promises, by looking. */
static uint64_t look(const uint64_t *reads, uint64_t total, uint64_t length, uint64_t s,
                     uint64_t from)
{
    uint64_t horizon = (from / length + 2) * length;

    for (uint64_t a = from; a < total && a < horizon; a++)
        if (reads[a] == s)
            return a;
    return horizon < total ? CURSOR_LATER : CURSOR_NEVER;
}

static void check_everything(const struct order_spec *spec, const struct cursor *c,
                             const uint64_t *reads, uint64_t total)
{
    for (uint64_t a = 0; a < total; a++)
        assert_int_equal(cursor_at(c, a), reads[a]);
    assert_true(cursor_at(c, total) == CURSOR_NEVER);
    assert_true(cursor_at(c, CURSOR_LATER) == CURSOR_NEVER);
    for (uint64_t s = 99; s <= 100 + spec->n; s++)
        for (uint64_t from = 0; from <= total; from++) {
            uint64_t expect = total > 0 ? look(reads, total, c->length, s, from) : CURSOR_NEVER;

            if (expect == CURSOR_LATER &&
                (spec->kind == ORDER_SEQUENTIAL || s < 100 || s >= 100 + spec->n))
                expect = CURSOR_NEVER;
            assert_true(cursor_next_use(c, s, from) == expect);
        }
}

/* Wherever the reader is, forward, back or past the end, the answers are the same (CURSOR-1). */
static void test_answers_against_a_scan(void **state)
{
    static const struct {
        uint64_t n;
        uint32_t rank, world;
        bool drop_last;
    } table[] = {
        {1, 0, 1, false}, {3, 0, 1, false}, {17, 0, 1, false}, {17, 1, 3, false},
        {17, 2, 3, true}, {3, 7, 8, false}, {3, 7, 8, true},   {150, 1, 4, false},
    };
    const uint64_t epochs = 5;
    static uint64_t reads[1000];

    (void)state;
    for (size_t i = 0; i < unit_count(table); i++)
        for (int kind = ORDER_SEQUENTIAL; kind <= ORDER_SHUFFLED; kind++) {
            struct order_spec spec = spec_of((enum order_kind)kind, table[i].n, table[i].rank,
                                             table[i].world, table[i].drop_last);
            uint64_t total = unroll(&spec, epochs, reads);
            struct cursor c = make(&spec, epochs);
            uint64_t moves[] = {0, total / 2, total - 1, 1, total / 3, total, UINT64_MAX, 0};

            check_everything(&spec, &c, reads, total);
            for (size_t m = 0; m < unit_count(moves); m++) {
                cursor_move(&c, moves[m]);
                check_everything(&spec, &c, reads, total);
            }
        }
}

/* Where the reader is, its epoch and the next one are the ready ones: that is what makes it fast.
 */
static void test_keeps_two_epochs_ready(void **state)
{
    struct order_spec spec = spec_of(ORDER_SHUFFLED, 100, 0, 1, false);
    struct cursor c = make(&spec, 4);

    (void)state;
    assert_int_equal(cursor_oldest(&c), FIRST_EPOCH);
    assert_int_equal(c.n_ready, 2);
    cursor_move(&c, 99);
    assert_int_equal(cursor_oldest(&c), FIRST_EPOCH);
    cursor_move(&c, 100); /* one on */
    assert_int_equal(cursor_oldest(&c), FIRST_EPOCH + 1);
    assert_int_equal(c.ready[1].order.epoch, FIRST_EPOCH + 2);
    cursor_move(&c, 399); /* the last one has no next */
    assert_int_equal(cursor_oldest(&c), FIRST_EPOCH + 3);
    assert_int_equal(c.n_ready, 1);
    cursor_move(&c, 400); /* the end */
    assert_int_equal(cursor_oldest(&c), FIRST_EPOCH + 3);
    cursor_move(&c, 0); /* back */
    assert_int_equal(cursor_oldest(&c), FIRST_EPOCH);
    assert_int_equal(c.n_ready, 2);
    spec = spec_of(ORDER_SHUFFLED, 1, 0, 1, false); /* an epoch of one position */
    c = make(&spec, 4);
    assert_int_equal(cursor_oldest(&c), FIRST_EPOCH);
    assert_int_equal(c.n_ready, 2);
}

static void test_no_end_is_far_away(void **state)
{
    struct order_spec spec = spec_of(ORDER_SHUFFLED, PERMUTATION_MAX - 100, 1, 2, false);
    struct cursor c = make(&spec, 0);
    uint64_t last = c.epochs * c.length - 1, s;

    (void)state;
    s = cursor_at(&c, last);
    assert_in_range(s, 100, PERMUTATION_MAX - 1);
    assert_int_equal(cursor_next_use(&c, s, last), last);
    assert_true(cursor_at(&c, last + 1) == CURSOR_NEVER);
    assert_true(cursor_next_use(&c, s, UINT64_MAX) == CURSOR_NEVER);
    c = make(&spec, UINT64_MAX); /* more epochs than can be counted */
    assert_int_equal(c.epochs * c.length - 1, last);
    assert_int_equal(cursor_at(&c, last), s);
}

/* A reader that started in mid-epoch of a job goes on exactly like one that was there all along. */
static void test_resume(void **state)
{
    struct order_spec spec = spec_of(ORDER_SHUFFLED, 1000, 3, 4, false);
    struct cursor all = make(&spec, 0), resumed;
    uint64_t epoch = 0, k = 0, start;

    (void)state;
    assert_true(cursor_state(&all, 250 * 3 + 17, &epoch, &k));
    assert_int_equal(epoch, FIRST_EPOCH + 3);
    assert_int_equal(k, 17);
    assert_int_equal(cursor_init(&resumed, &spec, epoch, 0, NULL), 0);
    start = cursor_absolute(&resumed, epoch, k);
    assert_int_equal(start, 17);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(cursor_at(&resumed, start + i), cursor_at(&all, 250 * 3 + 17 + i));
}

static void test_states_and_positions(void **state)
{
    struct order_spec spec = spec_of(ORDER_SHUFFLED, 10, 0, 1, false);
    struct cursor c = make(&spec, 3);
    uint64_t epoch, k;

    (void)state;
    assert_int_equal(cursor_absolute(&c, FIRST_EPOCH + 1, 3), 13);
    assert_int_equal(cursor_absolute(&c, FIRST_EPOCH + 1, 10), 20); /* its end, the next one's 0 */
    assert_true(cursor_absolute(&c, FIRST_EPOCH + 1, 11) == CURSOR_NEVER);
    assert_true(cursor_absolute(&c, FIRST_EPOCH - 1, 0) == CURSOR_NEVER);
    assert_true(cursor_absolute(&c, FIRST_EPOCH + 3, 0) == CURSOR_NEVER);
    for (uint64_t a = 0; a < 30; a++) {
        assert_true(cursor_state(&c, a, &epoch, &k));
        assert_int_equal(cursor_absolute(&c, epoch, k), a);
    }
    assert_false(cursor_state(&c, 30, &epoch, &k));
    assert_false(cursor_state(&c, UINT64_MAX, &epoch, &k));
    spec = spec_of(ORDER_SHUFFLED, 1, 0, 1, false);
    c = make(&spec, 0);
    assert_true(cursor_absolute(&c, FIRST_EPOCH - 4, 0) == CURSOR_NEVER);
}

static void test_explicit_lists_come_one_by_one(void **state)
{
    static const uint64_t lists[3][4] = {{5, 1, 5, 2}, {1, 3}, {2, 2, 9}};
    static const uint64_t lengths[] = {4, 2, 3};
    struct order_spec spec = {.kind = ORDER_EXPLICIT};
    struct order_index ix[3];
    struct dlc_err err = DLC_ERR_INIT;
    struct cursor c = make(&spec, 3);
    uint64_t epoch = 0, k = 0;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(order_index_init(&ix[i], lists[i], lengths[i], 10, NULL), 0);
    assert_true(cursor_at(&c, 0) == CURSOR_LATER);
    assert_true(cursor_next_use(&c, 5, 0) == CURSOR_LATER);
    assert_int_equal(cursor_give(&c, &ix[0], &err), 0);
    assert_true(cursor_next_use(&c, 3, 0) == CURSOR_LATER);
    assert_int_equal(cursor_give(&c, &ix[1], &err), 0);
    assert_int_equal(cursor_give(&c, &ix[2], &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, "epochs 4 and 5"));

    assert_int_equal(cursor_at(&c, 3), 2);
    assert_int_equal(cursor_at(&c, 5), 3);
    assert_true(cursor_at(&c, 6) == CURSOR_LATER);
    assert_int_equal(cursor_next_use(&c, 5, 1), 2);
    assert_int_equal(cursor_next_use(&c, 1, 2), 4);
    assert_int_equal(cursor_next_use(&c, 3, 0), 5);
    assert_true(cursor_next_use(&c, 5, 3) == CURSOR_LATER);
    assert_true(cursor_state(&c, 5, &epoch, &k) && epoch == FIRST_EPOCH + 1 && k == 1);
    assert_int_equal(cursor_absolute(&c, FIRST_EPOCH + 1, 2), 6);
    assert_true(cursor_absolute(&c, FIRST_EPOCH + 1, 3) == CURSOR_NEVER);

    assert_int_equal(cursor_left(&c, 1), 3);
    assert_int_equal(cursor_left(&c, 4), 2);
    assert_int_equal(cursor_left(&c, 6), 0); /* not known yet */
    assert_true(cursor_is_start(&c, 0) && cursor_is_start(&c, 4) && cursor_is_start(&c, 6));
    assert_false(cursor_is_start(&c, 1) || cursor_is_start(&c, 5) || cursor_is_start(&c, 7));
    assert_int_equal(cursor_absolute(&c, FIRST_EPOCH + 2, 0), 6); /* where the next will begin */
    assert_true(cursor_absolute(&c, FIRST_EPOCH + 2, 1) == CURSOR_NEVER);

    cursor_move(&c, 3);
    assert_int_equal(cursor_oldest(&c), FIRST_EPOCH);
    cursor_move(&c, 4); /* the first list is used up */
    assert_int_equal(cursor_oldest(&c), FIRST_EPOCH + 1);
    assert_true(cursor_at(&c, 3) == CURSOR_LATER);            /* gone */
    assert_int_equal(cursor_absolute(&c, FIRST_EPOCH, 4), 4); /* but its end is still a place */
    assert_true(cursor_absolute(&c, FIRST_EPOCH, 3) == CURSOR_NEVER);
    assert_int_equal(cursor_give(&c, &ix[2], &err), 0);
    assert_int_equal(cursor_at(&c, 8), 9);
    assert_true(cursor_at(&c, 3) == CURSOR_LATER); /* gone is not the end */
    assert_int_equal(cursor_next_use(&c, 2, 4), 6);
    assert_true(cursor_next_use(&c, 5, 4) == CURSOR_NEVER); /* no more lists will come */
    assert_true(cursor_at(&c, 9) == CURSOR_NEVER);
    cursor_move(&c, 100); /* a jump past both */
    assert_int_equal(cursor_oldest(&c), FIRST_EPOCH + 3);
    assert_false(cursor_state(&c, 100, &epoch, &k));
    assert_false(cursor_state(&c, 8, &epoch, &k)); /* the last list has gone as well */
    assert_null(cursor_ready(&c, 8));
    assert_true(cursor_absolute(&c, FIRST_EPOCH + 2, 1) == CURSOR_NEVER);
    assert_int_equal(cursor_give(&c, &ix[0], &err), DLC_EINVAL);
    for (unsigned i = 0; i < 3; i++)
        order_index_release(&ix[i]);
}

/* Told again from the second list on: absolute positions stay what they were. */
static void test_explicit_lists_from_a_place_on(void **state)
{
    static const uint64_t list[] = {3, 1};
    struct order_spec spec = {.kind = ORDER_EXPLICIT};
    struct cursor c = make(&spec, 0);
    struct order_index ix;
    uint64_t epoch = 0, k = 0;

    (void)state;
    assert_int_equal(order_index_init(&ix, list, 2, 10, NULL), 0);
    cursor_begin(&c, 1000);
    assert_int_equal(cursor_give(&c, &ix, NULL), 0);
    assert_true(cursor_at(&c, 0) == CURSOR_LATER);
    assert_int_equal(cursor_at(&c, 1001), 1);
    assert_int_equal(cursor_next_use(&c, 3, 0), 1000);
    assert_true(cursor_state(&c, 1001, &epoch, &k) && epoch == FIRST_EPOCH && k == 1);
    cursor_move(&c, 1002);
    assert_int_equal(cursor_absolute(&c, FIRST_EPOCH, 2), 1002);
    assert_int_equal(cursor_absolute(&c, FIRST_EPOCH + 1, 0), 1002);
    assert_true(cursor_absolute(&c, FIRST_EPOCH - 1, 0) == CURSOR_NEVER);
    order_index_release(&ix);
}

static void test_empty_explicit_list(void **state)
{
    static const uint64_t list[] = {3};
    struct order_spec spec = {.kind = ORDER_EXPLICIT};
    struct order_index empty, one;
    struct cursor c = make(&spec, 0);

    (void)state;
    assert_int_equal(order_index_init(&empty, NULL, 0, 10, NULL), 0);
    assert_int_equal(order_index_init(&one, list, 1, 10, NULL), 0);
    assert_int_equal(cursor_give(&c, &empty, NULL), 0);
    assert_int_equal(cursor_give(&c, &one, NULL), 0);
    assert_int_equal(cursor_at(&c, 0), 3);
    cursor_move(&c, 0);
    assert_int_equal(cursor_oldest(&c), FIRST_EPOCH + 1);
    assert_int_equal(cursor_at(&c, 0), 3);
    order_index_release(&empty);
    order_index_release(&one);
}

static void test_bad_input(void **state)
{
    struct order_spec spec = spec_of(ORDER_SHUFFLED, 10, 4, 4, false);
    struct dlc_err err = DLC_ERR_INIT;
    struct cursor c;

    (void)state;
    assert_int_equal(cursor_init(&c, &spec, 0, 0, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "rank 4 of world size 4"));
}

static void list_for_a_shuffle(void)
{
    struct order_spec spec = spec_of(ORDER_SHUFFLED, 10, 0, 1, false);
    struct order_index ix = ORDER_INDEX_INIT;
    struct cursor c = make(&spec, 0);

    cursor_give(&c, &ix, NULL);
}

/* Epochs of a computed order begin at multiples of its length; of an empty one anywhere. */
static void test_starts(void **state)
{
    struct order_spec spec = spec_of(ORDER_SHUFFLED, 10, 0, 1, false);
    struct order_spec none = spec_of(ORDER_SHUFFLED, 1, 0, 2, true);
    struct cursor c = make(&spec, 3), empty = make(&none, 3);

    (void)state;
    for (uint64_t a = 0; a <= 40; a++)
        assert_int_equal(cursor_is_start(&c, a), a % 10 == 0);
    assert_int_equal(empty.length, 0);
    assert_true(cursor_is_start(&empty, 0) && cursor_is_start(&empty, 1));
}

static void test_misuse_is_caught(void **state)
{
    (void)state;
    assert_true(unit_aborts(list_for_a_shuffle));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_against_a_scan),
        cmocka_unit_test(test_keeps_two_epochs_ready),
        cmocka_unit_test(test_no_end_is_far_away),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_states_and_positions),
        cmocka_unit_test(test_explicit_lists_come_one_by_one),
        cmocka_unit_test(test_explicit_lists_from_a_place_on),
        cmocka_unit_test(test_empty_explicit_list),
        cmocka_unit_test(test_starts),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_misuse_is_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
