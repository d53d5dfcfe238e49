// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <math.h>

#include "cache/policy/policy.h"

#define DAY 86400.0

static struct policy_item make(uint64_t id, uint64_t size, double cost)
{
    struct policy_item it;

    policy_item_init(&it, id, size, cost);
    return it;
}

static void bring(struct policy *p, struct policy_item *it, double now)
{
    policy_access(p, it, now);
    policy_insert(p, it);
}

static void test_declared_runs_decide(void **state)
{
    struct policy *p = policy_new(&policy_worth, NULL);
    struct policy_item once = make(1, 10, 100), often = make(2, 10, 30), done = make(3, 10, 500);

    (void)state;
    policy_expect(p, &once, 1);
    policy_expect(p, &often, 5);
    policy_expect(p, &done, 0);
    bring(p, &once, 1);
    bring(p, &often, 2);
    bring(p, &done, 3);
    assert_ptr_equal(policy_victim(p, 4, false), &done); /* no run will read it */
    policy_remove(p, &done);
    assert_ptr_equal(policy_victim(p, 4, false), &once); /* 1 x 100 < 5 x 30 */
    policy_expect(p, &often, 3);                         /* two of the runs are over */
    assert_ptr_equal(policy_victim(p, 4, false), &often);
    policy_free(&p);
}

/* Jobs scan: of equals, what was read last comes again last. */
static void test_of_equals_the_most_recent_goes(void **state)
{
    struct policy *p = policy_new(&policy_worth, NULL);
    struct policy_item it[3] = {make(0, 10, 1), make(1, 10, 1), make(2, 10, 1)};

    (void)state;
    for (int i = 0; i < 3; i++) {
        policy_expect(p, &it[i], 2);
        bring(p, &it[i], i);
    }
    policy_access(p, &it[0], 9);
    assert_ptr_equal(policy_victim(p, 9, false), &it[0]);
    policy_remove(p, &it[0]);
    assert_ptr_equal(policy_victim(p, 9, false), &it[2]);
    policy_free(&p);
}

/* An item that stands for many: its worth per byte counts, whatever its size. */
static void test_resize(void **state)
{
    struct policy *p = policy_new(&policy_worth, NULL);
    struct policy_item a = make(1, 10, 20), b = make(2, 10, 10);

    (void)state;
    policy_expect(p, &a, 1);
    policy_expect(p, &b, 1);
    bring(p, &a, 1);
    bring(p, &b, 1);
    assert_ptr_equal(policy_victim(p, 2, false), &b);
    policy_resize(p, &b, 1000, 1000);
    assert_ptr_equal(policy_victim(p, 2, false), &b);
    policy_resize(p, &b, 1000, 2001);
    assert_ptr_equal(policy_victim(p, 2, false), &a);
    policy_resize(p, &a, 5, 20);
    assert_ptr_equal(policy_victim(p, 2, false), &b);
    policy_remove(p, &a);
    policy_resize(p, &a, 0, 0); /* also outside */
    assert_ptr_equal(policy_victim(p, 2, false), &b);
    policy_free(&p);
}

static void test_admits_only_what_is_worth_it(void **state)
{
    struct policy *p = policy_new(&policy_worth, NULL);
    struct policy_item a = make(1, 10, 6), b = make(2, 10, 6), big = make(3, 20, 10);

    (void)state;
    policy_expect(p, &a, 1);
    policy_expect(p, &b, 1);
    bring(p, &a, 1);
    bring(p, &b, 1);
    policy_expect(p, &big, 1);
    assert_true(policy_admit(p, &big, 0, 2));   /* there is room */
    assert_true(policy_admit(p, &big, 10, 2));  /* 10 for 6 */
    assert_false(policy_admit(p, &big, 11, 2)); /* 10 for 12 */
    assert_false(policy_admit(p, &big, 99, 2)); /* more than there is */
    policy_set_cost(p, &big, 6.5);
    assert_true(policy_admit(p, &big, 10, 2)); /* 6.5 for 6: any gain is enough */
    policy_set_cost(p, &big, 6);
    assert_false(policy_admit(p, &big, 10, 2)); /* 6 for 6 */
    policy_set_cost(p, &big, 10);
    policy_hold(p, &a);
    assert_false(policy_admit(p, &big, 11, 2)); /* b alone is not enough */
    policy_hold(p, &big);
    assert_true(policy_admit(p, &big, 11, 2)); /* a running job needs it */
    policy_free(&p);
}

/* Without declarations uses stand for runs, and fade; declared worth does not fade. */
static void test_undeclared_worth_fades(void **state)
{
    struct policy *p = policy_new(&policy_worth, NULL);
    struct policy_item declared = make(1, 10, 10), used = make(2, 10, 10), rare = make(3, 10, 10);

    (void)state;
    policy_expect(p, &declared, 2);
    bring(p, &declared, 0);
    bring(p, &used, 0);
    for (int i = 0; i < 3; i++)
        policy_access(p, &used, i); /* four uses: worth 40 against 20 */
    assert_ptr_equal(policy_victim(p, 3, false), &declared);
    assert_ptr_equal(policy_victim(p, DAY / 2, false), &declared);
    assert_ptr_equal(policy_victim(p, DAY * 1.1, false), &used); /* worth less than 20 by now */
    bring(p, &rare, DAY * 1.2);
    assert_ptr_equal(policy_victim(p, DAY * 1.2, false), &rare); /* 1 use against 4 x 2^-1.2 */
    assert_ptr_equal(policy_victim(p, DAY * 9, false), &rare);   /* both have faded alike */
    policy_access(p, &rare, DAY * 9);
    assert_ptr_equal(policy_victim(p, DAY * 9, false), &used);
    policy_free(&p);
}

static void test_odd_numbers(void **state)
{
    struct policy *p = policy_new(&policy_worth, NULL);
    struct policy_item empty = make(1, 0, 0), free_of_cost = make(2, 5, 0), good = make(3, 5, 1);

    (void)state;
    bring(p, &good, 1e9);
    policy_insert(p, &empty); /* never read */
    bring(p, &free_of_cost, 1e9);
    assert_ptr_not_equal(policy_victim(p, 2e9, false), &good);
    policy_remove(p, policy_victim(p, 2e9, false));
    assert_ptr_not_equal(policy_victim(p, 2e9, false), &good);
    policy_remove(p, policy_victim(p, 2e9, false));
    assert_ptr_equal(policy_victim(p, 2e9, false), &good);
    policy_expect(p, &good, -7); /* as good as unknown */
    assert_int_equal(good.expected, POLICY_UNKNOWN);
    policy_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_declared_runs_decide),
        cmocka_unit_test(test_of_equals_the_most_recent_goes),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_admits_only_what_is_worth_it),
        cmocka_unit_test(test_undeclared_worth_fades),
        cmocka_unit_test(test_odd_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
