// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/rng.h"
#include "base/sorted.h"

static int by_value(const void *element, const void *key)
{
    int a = *(const int *)element, b = *(const int *)key;

    return a < b ? -1 : a > b;
}

/* Random inserts and removals keep the array sorted, and find what is there and nothing else. */
static void a_table_stays_sorted(void **state)
{
    bool there[50] = {false}, found;
    size_t n = 0, cap = 0, at;
    struct rng r = {7};
    int *v = NULL;

    (void)state;
    for (int i = 0; i < 5000; i++) {
        int key = (int)rng_below(&r, 50);

        at = sorted_find(v, n, sizeof(*v), by_value, &key, &found);
        assert_int_equal(found, there[key]);
        if (found) {
            sorted_remove(v, n, at);
        } else {
            sorted_insert(v, n, cap, at);
            v[at] = key;
        }
        there[key] = !found;
        for (size_t k = 1; k < n; k++)
            assert_true(v[k - 1] < v[k]);
    }
    mem_free(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_table_stays_sorted)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
