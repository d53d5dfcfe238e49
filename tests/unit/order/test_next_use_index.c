// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/fault.h"
#include "base/rng.h"
#include "order/next_use_index.h"
#include "order/permutation.h"

static void test_next_use(void **state)
{
    static const uint64_t list[] = {3, 1, 3, 0, 3};
    struct order_index ix = ORDER_INDEX_INIT;

    (void)state;
    assert_int_equal(order_index_init(&ix, list, 5, 5, NULL), 0);
    assert_int_equal(order_index_next(&ix, 3, 0), 0);
    assert_int_equal(order_index_next(&ix, 3, 1), 2);
    assert_int_equal(order_index_next(&ix, 3, 3), 4);
    assert_true(order_index_next(&ix, 3, 5) == UINT64_MAX);
    assert_int_equal(order_index_next(&ix, 0, 0), 3);
    assert_true(order_index_next(&ix, 0, 4) == UINT64_MAX);
    assert_true(order_index_next(&ix, 2, 0) == UINT64_MAX); /* never listed */
    assert_true(order_index_next(&ix, 4, 0) == UINT64_MAX); /* the last sample, never listed */
    assert_true(order_index_next(&ix, 5, 0) == UINT64_MAX); /* no sample */
    assert_true(order_index_next(&ix, UINT64_MAX, 0) == UINT64_MAX);
    assert_true(order_index_next(&ix, 3, UINT64_MAX) == UINT64_MAX);
    order_index_release(&ix);
    order_index_release(&ix); /* legal twice */
}

static void test_random_lists_against_a_scan(void **state)
{
    uint64_t list[300];
    struct rng r = {8};

    (void)state;
    for (unsigned round = 0; round < 30; round++) {
        uint64_t n = 1 + rng_below(&r, 200), length = rng_below(&r, 300);
        struct order_index ix = ORDER_INDEX_INIT;

        for (uint64_t k = 0; k < length; k++)
            list[k] = rng_below(&r, n);
        assert_int_equal(order_index_init(&ix, list, length, n, NULL), 0);
        for (uint64_t s = 0; s < n; s++) {
            uint64_t expect = UINT64_MAX;

            for (uint64_t from = length + 1; from-- > 0;) {
                if (from < length && list[from] == s)
                    expect = from;
                assert_true(order_index_next(&ix, s, from) == expect);
            }
        }
        order_index_release(&ix);
    }
}

static void test_bad_lists(void **state)
{
    static const uint64_t list[] = {0, 9, 10, 3};
    struct order_index ix;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    assert_int_equal(order_index_init(&ix, list, 4, 10, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "position 2: sample 10"));
    assert_null(ix.starts);
    assert_int_equal(order_index_init(&ix, list, (uint64_t)UINT32_MAX + 1, 10, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "2^32"));
    assert_int_equal(order_index_init(&ix, list, 4, UINT64_MAX, &err), DLC_EINVAL);
    /* as long and as many as possible: the first wrong sample is what is said */
    assert_int_equal(order_index_init(&ix, list + 2, UINT32_MAX, 10, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "position 0: sample 10"));
    assert_int_equal(order_index_init(&ix, &(uint64_t){PERMUTATION_MAX}, 1, PERMUTATION_MAX, &err),
                     DLC_EINVAL);
    assert_non_null(strstr(err.text, "position 0: sample"));
    assert_int_equal(order_index_init(&ix, list, 1, PERMUTATION_MAX + 1, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "2^40"));
    assert_int_equal(order_index_init(&ix, list, 1, 0, &err), DLC_EINVAL);
    assert_int_equal(order_index_init(&ix, NULL, 0, 0, &err), 0); /* empty is fine */
    assert_true(order_index_next(&ix, 0, 0) == UINT64_MAX);
    order_index_release(&ix);
}

/* The first and the last sample, and one behind it, of lists of every small length. */
static void test_ends(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 40; n++) {
        uint64_t list[40];
        struct order_index ix = ORDER_INDEX_INIT;

        for (uint64_t k = 0; k < n; k++)
            list[k] = n - 1 - k;
        assert_int_equal(order_index_init(&ix, list, n, n, NULL), 0);
        assert_int_equal(ix.starts[0], 0);
        assert_int_equal(ix.starts[n], n);
        assert_int_equal(order_index_next(&ix, 0, 0), n - 1);
        assert_int_equal(order_index_next(&ix, n - 1, 0), 0);
        assert_true(order_index_next(&ix, n, 0) == UINT64_MAX);
        order_index_release(&ix);
        assert_null(ix.starts);
        assert_null(ix.positions);
        assert_int_equal(ix.n + ix.length, 0);
    }
}

static void build_and_release(void)
{
    static const uint64_t list[] = {3, 1, 3, 0, 3};
    struct order_index ix = ORDER_INDEX_INIT;

    assert_int_equal(order_index_init(&ix, list, 5, 5, NULL), 0);
    order_index_release(&ix);
    fault_arm(FAULT_ALLOC, 2);
    assert_int_equal(order_index_init(&ix, list, 5, 5, NULL), DLC_ENOMEM); /* nothing stays */
    assert_true(fault_disarm());
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 1000 };
    size_t before;

    (void)state;
    build_and_release();
    before = unit_heap();
    for (unsigned i = 0; i < ROUNDS; i++)
        build_and_release();
    assert_true(unit_heap() < before + ROUNDS * 16);
}

static void test_no_memory(void **state)
{
    static const uint64_t list[] = {0, 1, 0};
    bool fired = true;

    (void)state;
    for (unsigned nth = 1; fired; nth++) {
        struct order_index ix = ORDER_INDEX_INIT;
        int rc;

        fault_arm(FAULT_ALLOC, nth);
        rc = order_index_init(&ix, list, 3, 2, NULL);
        fired = fault_disarm();
        assert_int_equal(rc, fired ? DLC_ENOMEM : 0);
        assert_int_equal(ix.starts != NULL, !fired);
        order_index_release(&ix);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_use),  cmocka_unit_test(test_random_lists_against_a_scan),
        cmocka_unit_test(test_bad_lists), cmocka_unit_test(test_ends),
        cmocka_unit_test(test_no_leak),   cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
