// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/rng.h"

/* The reference outputs of splitmix64 for seed 1234567. */
static void test_known_sequence(void **state)
{
    struct rng r = {1234567};

    (void)state;
    assert_true(rng_next(&r) == 6457827717110365317u);
    assert_true(rng_next(&r) == 3203168211198807973u);
    assert_true(rng_next(&r) == 9817491932198370423u);
}

static void test_below_is_bounded_and_even(void **state)
{
    struct rng r = {1};
    unsigned seen[10] = {0};

    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint64_t v = rng_below(&r, 10);

        assert_true(v < 10);
        seen[v]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(seen[i], 9500, 10500);
    assert_int_equal(rng_below(&r, 1), 0);
}

static void test_unit_is_bounded_and_even(void **state)
{
    struct rng r = {2};
    double sum = 0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        double v = rng_unit(&r);

        assert_true(v >= 0 && v < 1);
        sum += v;
    }
    assert_true(sum > 49500 && sum < 50500);
}

static void test_seeds_differ(void **state)
{
    (void)state;
    assert_true(rng_seed() != rng_seed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_sequence),
        cmocka_unit_test(test_below_is_bounded_and_even),
        cmocka_unit_test(test_unit_is_bounded_and_even),
        cmocka_unit_test(test_seeds_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
