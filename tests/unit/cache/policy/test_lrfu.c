// SPDX-License-Identifier: Apache-2.0
/* LRFU and its cost-aware kind: what decides, and what decides between equals. */
#include "cache/policy/policy.h"
#include "unit.h"

static const struct policy_ops *const kinds[] = {&policy_lrfu, &policy_cost_aware_lrfu};

static struct policy_item a, b;

static const struct policy_options ties = {.cost_factor = POLICY_COST_TIES};

/* a is inserted before b. */
static struct policy *begin_with(const struct policy_ops *ops, const struct policy_options *o,
                                 double cost_a, double cost_b)
{
    struct policy *p = policy_new(ops, o);

    policy_item_init(&a, 1, 100, cost_a);
    policy_item_init(&b, 2, 100, cost_b);
    policy_insert(p, &a);
    policy_insert(p, &b);
    return p;
}

static struct policy *begin(const struct policy_ops *ops, double cost_a, double cost_b)
{
    return begin_with(ops, NULL, cost_a, cost_b);
}

/* A use counts half after an hour: two uses weigh as much as one that is an hour younger. */
static void test_half_life(void **state)
{
    (void)state;
    for (size_t k = 0; k < unit_count(kinds); k++) {
        for (int late = 0; late < 2; late++) {
            struct policy *p = begin(kinds[k], 1, 1);
            double t = late ? 3600.5 : 3599.5;

            policy_access(p, &a, 0);
            policy_access(p, &a, 0);
            policy_access(p, &b, t);
            assert_ptr_equal(policy_victim(p, t, false), late ? &a : &b);
            policy_free(&p);
        }
    }
}

/* One that was never used goes before any other, however long ago that was used. */
static void test_never_used(void **state)
{
    (void)state;
    for (size_t k = 0; k < unit_count(kinds); k++) {
        struct policy *p = begin(kinds[k], 1, 1);

        policy_access(p, &a, -7200); /* two half-lives before time 0 */
        assert_ptr_equal(policy_victim(p, 0, false), &b);
        policy_free(&p);
    }
}

/* Used alike: the first inserted goes first, whichever was used last. */
static void test_equals(void **state)
{
    struct policy *p = begin(&policy_lrfu, 1, 1);

    (void)state;
    policy_access(p, &b, 5);
    policy_access(p, &a, 5);
    assert_ptr_equal(policy_victim(p, 5, false), &a);
    policy_access(p, &b, 6);
    policy_access(p, &a, 6);
    assert_ptr_equal(policy_victim(p, 6, false), &a);
    policy_free(&p);
}

/* Who goes of two that were used alike. */
static struct policy_item *cheapest(const struct policy_ops *ops, double cost_a, double cost_b)
{
    struct policy *p = begin_with(ops, &ties, cost_a, cost_b);
    struct policy_item *victim;

    policy_access(p, &a, 5);
    policy_access(p, &b, 5);
    victim = policy_victim(p, 5, false);
    policy_access(p, victim, 5); /* use decides before cost */
    assert_ptr_not_equal(policy_victim(p, 5, false), victim);
    policy_free(&p);
    return victim;
}

/* As in DLCache's experiment: of those used alike the cheapest goes first; what costs less than
 * nothing costs nothing. */
static void test_cost(void **state)
{
    (void)state;
    assert_ptr_equal(cheapest(&policy_cost_aware_lrfu, 0.7, 0.5), &b);
    assert_ptr_equal(cheapest(&policy_cost_aware_lrfu, 0.5, 0.7), &a);
    assert_ptr_equal(cheapest(&policy_cost_aware_lrfu, 1000, 3), &b);
    assert_ptr_equal(cheapest(&policy_cost_aware_lrfu, 3, 1000), &a);
    assert_ptr_equal(cheapest(&policy_cost_aware_lrfu, 0.001, -1), &b);
    assert_ptr_equal(cheapest(&policy_cost_aware_lrfu, -1, 0.001), &a);
    assert_ptr_equal(cheapest(&policy_lrfu, 0.7, 0.5), &a); /* nothing to plain LRFU */
}

/* Who goes: a was used n times, b once, all at the same time. */
static struct policy_item *weighed(double factor, int n, double cost_a, double cost_b)
{
    const struct policy_options o = {.cost_factor = factor};
    struct policy *p = begin_with(&policy_cost_aware_lrfu, &o, cost_a, cost_b);
    struct policy_item *victim;

    for (int i = 0; i < n; i++)
        policy_access(p, &a, 5);
    policy_access(p, &b, 5);
    victim = policy_victim(p, 5, false);
    policy_free(&p);
    return victim;
}

/* References x cost ^ factor, as DLCache's manager has it: cost decides between unequal ones too. */
static void test_cost_factor(void **state)
{
    (void)state;
    assert_ptr_equal(weighed(0, 4, 1, 3.9), &b); /* the factor of the policy is 1 */
    assert_ptr_equal(weighed(0, 4, 1, 4.1), &a);
    assert_ptr_equal(weighed(0.5, 4, 1, 15), &b);
    assert_ptr_equal(weighed(0.5, 4, 1, 17), &a);
    assert_ptr_equal(weighed(2, 4, 1, 1.9), &b);
    assert_ptr_equal(weighed(2, 4, 1, 2.1), &a);
    assert_ptr_equal(weighed(POLICY_COST_TIES, 2, 1, 1e9), &b);
    assert_ptr_equal(weighed(0, 2, 0, -1), &b); /* what costs nothing goes by its uses */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_life),   cmocka_unit_test(test_never_used),
        cmocka_unit_test(test_equals),      cmocka_unit_test(test_cost),
        cmocka_unit_test(test_cost_factor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
