// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/u64map.h"
#include "base/rng.h"

static char values[4096];

static void test_empty(void **state)
{
    struct map m = MAP_INIT;
    int seen = 0;

    (void)state;
    assert_null(map_get(&m, 0));
    assert_null(map_remove(&m, 5));
    map_each(e, &m) seen++;
    assert_int_equal(seen, 0);
    map_release(&m);
}

static void test_set_get_replace_remove(void **state)
{
    struct map m = MAP_INIT;

    (void)state;
    map_set(&m, 0, &values[0]); /* 0 is a key like any other */
    map_set(&m, UINT64_MAX, &values[1]);
    assert_ptr_equal(map_get(&m, 0), &values[0]);
    assert_ptr_equal(map_get(&m, UINT64_MAX), &values[1]);
    map_set(&m, 0, &values[2]);
    assert_ptr_equal(map_get(&m, 0), &values[2]);
    assert_int_equal(m.n, 2);
    assert_ptr_equal(map_remove(&m, 0), &values[2]);
    assert_null(map_remove(&m, 0));
    assert_int_equal(m.n, 1);
    map_release(&m);
    assert_null(map_get(&m, UINT64_MAX));
}

static void test_grows_and_is_walked_whole(void **state)
{
    struct map m = MAP_INIT;
    char seen[4096] = {0};

    (void)state;
    for (uint64_t i = 0; i < 4096; i++)
        map_set(&m, i << 20, &values[i]); /* keys alike in their low bits */
    assert_int_equal(m.n, 4096);
    map_each(e, &m)
    {
        assert_ptr_equal(e->value, &values[e->key >> 20]);
        seen[e->key >> 20]++;
    }
    for (int i = 0; i < 4096; i++)
        assert_int_equal(seen[i], 1);
    map_release(&m);
}

/* Deleting by shifting back is where such maps go wrong: compare every step with an array. */
static void test_random_operations_against_a_model(void **state)
{
    struct map m = MAP_INIT;
    void *model[256] = {NULL};
    struct rng r = {5};
    size_t n = 0;

    (void)state;
    for (int step = 0; step < 50000; step++) {
        uint64_t k = rng_below(&r, 256);

        if (rng_below(&r, 5) < 2) {
            n += model[k] == NULL;
            model[k] = &values[rng_below(&r, 4096)];
            map_set(&m, k * 0x100000001u, model[k]);
        } else {
            n -= model[k] != NULL;
            assert_ptr_equal(map_remove(&m, k * 0x100000001u), model[k]);
            model[k] = NULL;
        }
        assert_int_equal(m.n, n);
        k = rng_below(&r, 256);
        assert_ptr_equal(map_get(&m, k * 0x100000001u), model[k]);
    }
    for (uint64_t k = 0; k < 256; k++)
        assert_ptr_equal(map_get(&m, k * 0x100000001u), model[k]);
    map_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_set_get_replace_remove),
        cmocka_unit_test(test_grows_and_is_walked_whole),
        cmocka_unit_test(test_random_operations_against_a_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
