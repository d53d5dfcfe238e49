// SPDX-License-Identifier: Apache-2.0
/* Prefetch budgets: what a dataset may use alone, what beside others, and what it may borrow. */
#include "daemon/parts.h"

#include "daemon/budget.h"
#include "daemon/work.h"

#define MB      ((uint64_t)1 << 20)
#define CEILING (64 * MB)
#define FETCHES 4096u

static struct node n;
static struct tenant_memory *memory;
static struct dataset *a, *b;

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    n.loop = loop_new(NULL);
    tenant_memories_init(&n.memories, CEILING, CEILING, NULL);
    assert_int_equal(tenant_memory_get(&n.memories, "", &memory, NULL), 0);
    a = parts_dataset(&n, "a", NULL);
    b = parts_dataset(&n, "b", NULL);
    a->tenant_memory = b->tenant_memory = memory;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    parts_free_all(&n);
    tenant_memory_put(&memory);
    tenant_memories_free(&n.memories);
    loop_free(&n.loop);
    return 0;
}

static void alone_it_has_all(void **state)
{
    (void)state;
    budget_take(a, BUDGET_FETCHES, FETCHES - 1);
    assert_int_equal(n.n_sharing, 1);
    assert_true(budget_for_prefetch(a));
    budget_take(a, BUDGET_FETCHES, 1);
    assert_false(budget_for_prefetch(a));
    budget_give(a, BUDGET_FETCHES, 1);
    assert_true(budget_for_prefetch(a));
}

/* A dataset borrows up to three quarters; another that comes has its share all the same. */
static void others_have_their_share(void **state)
{
    (void)state;
    budget_take(a, BUDGET_FETCHES, FETCHES);
    assert_int_equal(n.n_sharing, 1);
    b->backlog.len = 1; /* it wants some */
    budget_note(b);
    assert_int_equal(n.n_sharing, 2);
    assert_false(budget_for_prefetch(a));
    budget_take(a, BUDGET_FETCHES, FETCHES);
    assert_true(budget_for_prefetch(b)); /* its first, whatever a has */
    budget_give(a, BUDGET_FETCHES, FETCHES);
    budget_take(b, BUDGET_FETCHES, FETCHES / 2 - 1);
    assert_true(budget_for_prefetch(b));
    budget_take(b, BUDGET_FETCHES, 1);
    assert_false(budget_for_prefetch(b)); /* it would borrow */
    budget_give(a, BUDGET_FETCHES, FETCHES * 3 / 4);
    assert_false(budget_for_prefetch(b)); /* the last quarter is not lent */
    budget_give(a, BUDGET_FETCHES, 1);
    assert_true(budget_for_prefetch(b));
}

/* However many are open, only those that use or want some share; what is done with counts is not a
 * pass over all of them. */
static void only_those_that_want_share(void **state)
{
    char name[32];

    (void)state;
    for (unsigned i = 0; i < 8000; i++) {
        snprintf(name, sizeof(name), "other%u", i);
        parts_dataset(&n, name, NULL)->tenant_memory = memory;
    }
    budget_take(a, BUDGET_FETCHES, 2);
    budget_take(a, BUDGET_FILLING, 100);
    budget_give(a, BUDGET_FETCHES, 1);
    assert_int_equal(n.n_sharing, 1);
    budget_warm(a, 1);
    budget_warm(b, 1);
    assert_int_equal(n.n_sharing, 2);
    assert_int_equal(memory->n_sharing, 2);
    budget_give(a, BUDGET_FETCHES, 1);
    assert_int_equal(n.n_sharing, 2); /* it is being warmed up */
    budget_warm(a, -1);
    assert_int_equal(n.n_sharing, 1); /* bytes alone do not count */
    budget_give(a, BUDGET_FILLING, 100);
    budget_warm(b, -1);
    assert_int_equal(n.n_sharing + memory->n_sharing, 0);
}

static void memory_that_is_full_is_not_tried_for_a_while(void **state)
{
    (void)state;
    assert_true(budget_for_prefetch(a));
    budget_memory_full(a);
    assert_false(budget_for_prefetch(a));
    assert_false(budget_for_prefetch(b)); /* the same memory */
    memory->full_until = loop_now(n.loop);
    assert_true(budget_for_prefetch(a));
}

/* A quarter of the memory may be reserved by fetches. */
static void filling_has_a_limit(void **state)
{
    (void)state;
    budget_take(a, BUDGET_FILLING, CEILING / 4 - 1);
    budget_take(a, BUDGET_FETCHES, 1);
    assert_true(budget_for_prefetch(a));
    budget_take(a, BUDGET_FILLING, 1);
    assert_false(budget_for_prefetch(a));
    assert_int_equal(memory->filling, CEILING / 4);
}

static void storing_has_a_limit(void **state)
{
    const uint64_t limit = CEILING / 4;

    (void)state;
    assert_true(limit <= work_bytes(WORK_STORE));
    assert_true(budget_for_store(a, 2 * limit));
    assert_false(budget_for_store(a, 2 * limit + 1));
    budget_take(a, BUDGET_STORING, limit);
    assert_false(budget_for_store(a, 1));
    assert_true(budget_for_store(b, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(alone_it_has_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(others_have_their_share, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_those_that_want_share, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_that_is_full_is_not_tried_for_a_while, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(filling_has_a_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(storing_has_a_limit, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
