// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/heap.h"
#include "base/rng.h"

#define N 500

static void test_leaves_in_order(void **state)
{
    struct heap h = HEAP_INIT;
    struct heap_node nodes[N] = {0};
    struct rng r = {7};
    double last = -1;

    (void)state;
    assert_null(heap_top(&h));
    assert_null(heap_pop(&h));
    for (int i = 0; i < N; i++)
        heap_push(&h, &nodes[i], (double)rng_below(&r, 1000));
    for (int i = 0; i < N; i++) {
        struct heap_node *top = heap_top(&h), *n = heap_pop(&h);

        assert_ptr_equal(top, n);
        assert_false(heap_has(n));
        assert_true(n->key >= last);
        last = n->key;
    }
    assert_null(heap_pop(&h));
    heap_release(&h);
}

static void test_equal_keys_leave_as_they_came(void **state)
{
    struct heap h = HEAP_INIT;
    struct heap_node nodes[N] = {0};

    (void)state;
    for (int i = 0; i < N; i++)
        heap_push(&h, &nodes[i], i % 3);
    for (int key = 0; key < 3; key++) {
        for (int i = key; i < N; i += 3)
            assert_ptr_equal(heap_pop(&h), &nodes[i]);
    }
    heap_release(&h);
}

static void test_remove_anywhere(void **state)
{
    struct heap h = HEAP_INIT;
    struct heap_node nodes[N] = {0};
    struct rng r = {3};
    double last = -1;
    int left = 0;

    (void)state;
    for (int i = 0; i < N; i++)
        heap_push(&h, &nodes[i], rng_unit(&r));
    for (int i = 0; i < N; i += 2) {
        heap_remove(&h, &nodes[i]);
        heap_remove(&h, &nodes[i]); /* again: harmless */
        assert_false(heap_has(&nodes[i]));
    }
    for (struct heap_node *n; (n = heap_pop(&h)) != NULL; left++) {
        assert_int_equal((n - nodes) % 2, 1);
        assert_true(n->key >= last);
        last = n->key;
    }
    assert_int_equal(left, N / 2);
    heap_release(&h);
}

static void test_update_moves_both_ways(void **state)
{
    struct heap h = HEAP_INIT;
    struct heap_node a = {0}, b = {0}, c = {0};

    (void)state;
    heap_push(&h, &a, 1);
    heap_push(&h, &b, 2);
    heap_push(&h, &c, 3);
    heap_update(&h, &c, 0);
    assert_ptr_equal(heap_top(&h), &c);
    heap_update(&h, &c, 9);
    assert_ptr_equal(heap_top(&h), &a);
    heap_update(&h, &a, 2); /* equal to b, but keyed later */
    assert_ptr_equal(heap_pop(&h), &b);
    assert_ptr_equal(heap_pop(&h), &a);
    assert_ptr_equal(heap_pop(&h), &c);
    heap_release(&h);
}

static void test_ties_decide_between_equal_keys(void **state)
{
    struct heap h = HEAP_INIT;
    struct heap_node a = {0}, b = {0}, c = {0};

    (void)state;
    heap_push_tied(&h, &a, 1, 30);
    heap_push_tied(&h, &b, 1, 20);
    heap_push_tied(&h, &c, 1, 10);
    heap_update_tied(&h, &c, 1, 25);
    assert_ptr_equal(heap_pop(&h), &b);
    assert_ptr_equal(heap_pop(&h), &c);
    heap_push_tied(&h, &b, 0, 99);
    assert_ptr_equal(heap_pop(&h), &b);
    assert_ptr_equal(heap_pop(&h), &a);
    heap_release(&h);
}

/* Against the plainest model: an array that is searched for its least element. */
static void test_random_operations_against_a_model(void **state)
{
    struct heap h = HEAP_INIT;
    struct heap_node nodes[64] = {0};
    int came[64] = {0}; /* when it got its key */
    struct rng r = {11};

    (void)state;
    for (int step = 0; step < 20000; step++) {
        struct heap_node *n = &nodes[rng_below(&r, 64)], *least = NULL;
        double key = (double)rng_below(&r, 50);

        came[n - nodes] = step;
        if (!heap_has(n))
            heap_push(&h, n, key);
        else if (rng_below(&r, 2) == 0)
            heap_update(&h, n, key);
        else
            heap_remove(&h, n);
        for (int i = 0; i < 64; i++) {
            struct heap_node *m = &nodes[i];

            if (heap_has(m) && (least == NULL || m->key < least->key ||
                                (m->key <= least->key && came[i] < came[least - nodes])))
                least = m;
        }
        assert_ptr_equal(heap_top(&h), least);
    }
    heap_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaves_in_order),
        cmocka_unit_test(test_equal_keys_leave_as_they_came),
        cmocka_unit_test(test_remove_anywhere),
        cmocka_unit_test(test_update_moves_both_ways),
        cmocka_unit_test(test_ties_decide_between_equal_keys),
        cmocka_unit_test(test_random_operations_against_a_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
