// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/histogram.h"

static void assert_near(uint64_t got, uint64_t want)
{
    assert_in_range(got * 100, want * 93, want * 107);
}

static void test_empty(void **state)
{
    struct hist h;

    (void)state;
    hist_init(&h, 1000);
    assert_int_equal(hist_percentile(&h, 0.5), 0);
    assert_int_equal(hist_percentile(&h, 1), 0);
}

static void test_one_value_is_every_percentile(void **state)
{
    struct hist h;

    (void)state;
    for (uint64_t v = 0; v < 8; v++) { /* small numbers are exact */
        hist_init(&h, 1000);
        hist_add(&h, v);
        assert_int_equal(hist_percentile(&h, 0.01), v);
        assert_int_equal(hist_percentile(&h, 1), v);
    }
    for (int bit = 3; bit < 64; bit++) { /* large ones within the width of a bucket */
        hist_init(&h, 1000);
        hist_add(&h, 1ull << bit);
        assert_in_range(hist_percentile(&h, 0.5), 1ull << bit, (1ull << bit) + (1ull << bit) / 15);
    }
    hist_init(&h, 1000);
    hist_add(&h, UINT64_MAX);
    assert_true(hist_percentile(&h, 0.5) > UINT64_MAX / 16 * 15);
}

static void test_percentiles_of_a_ramp(void **state)
{
    struct hist h;

    (void)state;
    hist_init(&h, 1000000);
    for (uint64_t v = 1; v <= 10000; v++)
        hist_add(&h, v * 1000);
    assert_near(hist_percentile(&h, 0.5), 5000000);
    assert_near(hist_percentile(&h, 0.9), 9000000);
    assert_near(hist_percentile(&h, 0.99), 9900000);
    assert_near(hist_percentile(&h, 1), 10000000);
}

/* The 99th percentile of ten values is the largest, not the one before it. */
static void test_few_values_round_up(void **state)
{
    struct hist h;

    (void)state;
    hist_init(&h, 1000);
    for (int i = 0; i < 9; i++)
        hist_add(&h, 1000);
    hist_add(&h, 1000000);
    assert_near(hist_percentile(&h, 0.99), 1000000);
    assert_near(hist_percentile(&h, 0.9), 1000);
}

static void test_old_values_fade(void **state)
{
    struct hist h;

    (void)state;
    hist_init(&h, 1000);
    for (int i = 0; i < 900; i++)
        hist_add(&h, 1000);
    for (int i = 0; i < 3000; i++)
        hist_add(&h, 50000);
    assert_true(h.total < 1000);
    assert_near(hist_percentile(&h, 0.1), 50000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_one_value_is_every_percentile),
        cmocka_unit_test(test_percentiles_of_a_ramp),
        cmocka_unit_test(test_few_values_round_up),
        cmocka_unit_test(test_old_values_fade),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
