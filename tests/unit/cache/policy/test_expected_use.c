// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <float.h>
#include <math.h>

#include "cache/policy/expected_use.h"

/* cmocka's own comparison takes INFINITY for any number. */
static void assert_use(double use, double expected)
{
    assert_true(fabs(use - expected) < 1e-9);
}

static void test_a_heavy_sample_is_expected_sooner(void **state)
{
    (void)state;
    assert_use(policy_expected_use(100, 1000, 2, 2, 0), 600); /* as the mean */
    assert_use(policy_expected_use(100, 1000, 4, 2, 0), 350);
    assert_use(policy_expected_use(100, 1000, 1, 2, 0), 1100);
    assert_use(policy_expected_use(0, 1000, 1, 2, 0), 1000);
}

static void test_never_learnt(void **state)
{
    (void)state;
    assert_use(policy_expected_use(10, 100, 0, 0, 0), 60);
    assert_use(policy_expected_use(10, 100, 2, 0, 0), 35); /* the mean counts as 1 */
    assert_use(policy_expected_use(10, 100, 0, 7, 0), 60); /* it counts as the mean */
    assert_use(policy_expected_use(10, 100, NAN, 7, 0), 60);
    assert_use(policy_expected_use(10, 100, -1, NAN, 0), 60);
}

static void test_uses_only_break_ties(void **state)
{
    double none = policy_expected_use(5, 1e6, 2, 2, 0), one = policy_expected_use(5, 1e6, 2, 2, 1);
    double many = policy_expected_use(5, 1e6, 2, 2, 1000);

    (void)state;
    assert_true(many < one && one < none);
    assert_true(many > policy_expected_use(5, 1e6, 2.001, 2, 0)); /* a little weight is more */
    assert_true(policy_expected_use(5, 1e6, 2, 2, UINT32_MAX) == many);
    assert_true(policy_expected_use(5, 1e6, 2, 2, 999) > many);    /* up to a thousand all count */
    assert_true(policy_expected_use(5, 1e6, 2.0003, 2, 0) < many); /* as 1/10000 of weight */
    assert_true(policy_expected_use(5, 1e6, 2.0001, 2, 0) > many);
}

static void test_never_before_what_is_known(void **state)
{
    static const float weights[] = {FLT_TRUE_MIN, 1, 1e30f, FLT_MAX};

    (void)state;
    for (unsigned k = 0; k < unit_count(weights); k++)
        for (unsigned i = 0; i < unit_count(weights); i++) {
            double use =
                policy_expected_use(1e7, 2e7, (double)weights[k], (double)weights[i], UINT32_MAX);

            assert_true(use >= 1e7 && isfinite(use));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_heavy_sample_is_expected_sooner),
        cmocka_unit_test(test_never_learnt),
        cmocka_unit_test(test_uses_only_break_ties),
        cmocka_unit_test(test_never_before_what_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
