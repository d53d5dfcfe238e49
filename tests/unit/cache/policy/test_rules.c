// SPDX-License-Identifier: Apache-2.0
/* Single rules of policies, each by the smallest case in which it decides. */
#include "unit.h"

#include <math.h>

#include "cache/policy/policy.h"

enum { A, B, C, D, ITEMS };

static struct policy *p;
static struct policy_item it[ITEMS];
static double now;

static void begin(const struct policy_ops *ops, const struct policy_options *o)
{
    now = 1;
    p = policy_new(ops, o);
    for (unsigned i = 0; i < ITEMS; i++)
        policy_item_init(&it[i], i, 10, 1);
}

static void come(unsigned i)
{
    policy_access(p, &it[i], now++);
    policy_insert(p, &it[i]);
}

static void assert_victim(unsigned i)
{
    assert_ptr_equal(policy_victim(p, now, false), &it[i]);
}

/* Those whose next use must be asked for again: the latest used first, after those never needed. */
static void test_forgotten_uses(void **state)
{
    (void)state;
    begin(&policy_clairvoyant, NULL);
    for (unsigned i = A; i <= D; i++) {
        come(i);
        policy_next_use(p, &it[i], 10 + i);
    }
    assert_victim(D);
    policy_forget_use(p, &it[A]);
    assert_victim(A);
    policy_forget_use(p, &it[C]);
    assert_victim(C);
    policy_forget_use(p, &it[B]);
    assert_victim(C);
    policy_forget_use(p, &it[C]); /* again: nothing new */
    assert_victim(C);
    policy_next_use(p, &it[D], INFINITY);
    assert_victim(D);
    policy_next_use(p, &it[C], 5);
    policy_remove(p, &it[D]);
    assert_victim(B);
    policy_free(&p);
}

/* What is needed at the same time does not replace it. */
static void test_clairvoyant_admits(void **state)
{
    (void)state;
    begin(&policy_clairvoyant, NULL);
    come(A);
    policy_next_use(p, &it[A], 5);
    it[B].next_use = 5;
    assert_false(policy_admit(p, &it[B], 10, now));
    it[B].next_use = 4;
    assert_true(policy_admit(p, &it[B], 10, now));
    assert_true(policy_admit(p, &it[B], 0, now));
    policy_free(&p);
}

/* One item in the place of another, of an order of its own, ranks by size, uses and turn of that. */
static void test_stands_for_another(void **state)
{
    struct policy_item top;

    (void)state;
    begin(&policy_lfu, NULL);
    come(A);
    come(B);
    policy_access(p, &it[A], now++);
    assert_victim(B);
    policy_item_init(&top, 9, 10, 1);
    top.uses = 5;
    policy_stand_for(p, &it[B], &top, 1);
    assert_victim(A);
    policy_free(&p);
    begin(&policy_worth, NULL);
    for (unsigned i = A; i <= B; i++) {
        policy_expect(p, &it[i], 1);
        come(i);
    }
    assert_victim(B); /* of equals the most recent */
    policy_item_init(&top, 9, 1000, 1);
    top.turn = it[A].turn;
    policy_stand_for(p, &it[A], &top, 1);
    assert_int_equal(it[A].size, 1000);
    assert_victim(A); /* worth less for each byte */
    policy_stand_for(p, &it[A], &top, 1000);
    assert_victim(B);
    policy_free(&p);
}

/* A walk over victims, as admission makes it, leaves no memory behind. */
static void test_admission_leaks_nothing(void **state)
{
    enum { ROUNDS = 1000 };
    size_t before = 0;

    (void)state;
    begin(&policy_worth, NULL);
    policy_expect(p, &it[A], 1);
    come(A);
    policy_expect(p, &it[B], 9);
    for (unsigned i = 0; i < 10 + ROUNDS; i++) {
        if (i == 10)
            before = unit_heap();
        assert_true(policy_admit(p, &it[B], 10, now));
    }
    assert_true(unit_heap() < before + ROUNDS);
    policy_free(&p);
}

/* Some of few are all of them; some of many are among them. */
static void test_some(void **state)
{
    struct policy_item *some[ITEMS];

    (void)state;
    begin(&policy_lru, NULL);
    assert_int_equal(policy_some(p, some, ITEMS), 0);
    for (unsigned i = A; i <= D; i++)
        come(i);
    for (unsigned round = 0; round < 10; round++) {
        unsigned seen = 0;

        assert_int_equal(policy_some(p, some, ITEMS + round), ITEMS);
        for (unsigned i = 0; i < ITEMS; i++)
            seen |= 1u << (some[i] - it);
        assert_int_equal(seen, (1u << ITEMS) - 1);
    }
    assert_int_equal(policy_some(p, some, 2), 2);
    assert_true(some[0] >= it && some[0] < it + ITEMS && some[1] >= it && some[1] < it + ITEMS);
    policy_free(&p);
}

/* Weight before frequency; as many uses are enough. */
static void test_importance_admits(void **state)
{
    (void)state;
    begin(&policy_importance, NULL);
    come(A);
    policy_access(p, &it[A], now);
    policy_access(p, &it[A], now);
    policy_weight(p, &it[A], 2);
    it[B].weight = 3; /* never used */
    assert_true(policy_admit(p, &it[B], 10, now));
    it[B].weight = 1;
    it[B].uses = 9;
    assert_false(policy_admit(p, &it[B], 10, now));
    it[B].weight = 2;
    it[B].uses = 3;
    assert_true(policy_admit(p, &it[B], 10, now));
    it[B].uses = 2;
    assert_false(policy_admit(p, &it[B], 10, now));
    policy_free(&p);
}

/* As many ghosts as were asked for, the oldest goes first. */
static void test_importance_forgets(void **state)
{
    (void)state;
    begin(&policy_importance, &(struct policy_options){.ghosts = 2});
    for (unsigned i = A; i <= C; i++) {
        come(i);
        policy_weight(p, &it[i], 9);
    }
    for (unsigned i = A; i <= C; i++)
        policy_remove(p, &it[i]);
    for (unsigned i = A; i <= C; i++) { /* new records of them */
        policy_item_init(&it[i], i, 10, 1);
        it[i].weight = 0;
        come(i);
        assert_true(it[i].weight == (i == A ? 0 : 9));
        assert_int_equal(it[i].uses, i == A ? 1 : 2);
    }
    policy_free(&p);
}

/* A weight that is known, however small, is not replaced by that of the ghost. */
static void test_importance_keeps_a_small_weight(void **state)
{
    (void)state;
    begin(&policy_importance, NULL);
    come(A);
    policy_weight(p, &it[A], 9);
    policy_remove(p, &it[A]);
    policy_item_init(&it[A], A, 10, 1);
    it[A].weight = 0.5;
    come(A);
    assert_true(it[A].weight == 0.5);
    policy_free(&p);
}

/* What was never read is worth nothing, whatever it costs; nothing can be gained by an empty one. */
static void test_worth(void **state)
{
    (void)state;
    begin(&policy_worth, NULL);
    policy_item_init(&it[A], A, 1, 1e9);
    policy_insert(p, &it[A]);
    come(B);
    assert_victim(A);
    policy_access(p, &it[A], now);
    assert_victim(B);
    policy_item_init(&it[C], C, 0, 1);
    policy_item_init(&it[D], D, 5, 10);
    policy_insert(p, &it[C]);
    policy_insert(p, &it[D]);
    for (unsigned i = A; i <= D; i++)
        policy_expect(p, &it[i], i == C || i == D ? 1 : 1000);
    assert_victim(C); /* 1 against 2 */
    policy_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forgotten_uses),
        cmocka_unit_test(test_clairvoyant_admits),
        cmocka_unit_test(test_stands_for_another),
        cmocka_unit_test(test_admission_leaks_nothing),
        cmocka_unit_test(test_some),
        cmocka_unit_test(test_importance_admits),
        cmocka_unit_test(test_importance_forgets),
        cmocka_unit_test(test_importance_keeps_a_small_weight),
        cmocka_unit_test(test_worth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
