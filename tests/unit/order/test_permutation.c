// SPDX-License-Identifier: Apache-2.0
/* Is it a bijection with the right inverse, and the same one for ever? How well it shuffles is
 * test_shuffle.c's question. */
#include "unit.h"

#include "base/rng.h"
#include "order/permutation.h"

static const struct {
    uint64_t n, seed, epoch, k, s;
} vectors[] = {
#include "vectors.def"
};

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(vectors); i++) {
        struct permutation p;

        permutation_init(&p, vectors[i].n, vectors[i].seed, vectors[i].epoch);
        assert_int_equal(permutation_at(&p, vectors[i].k), vectors[i].s);
        assert_int_equal(permutation_inverse(&p, vectors[i].s), vectors[i].k);
    }
}

static void check_bijection(uint64_t n, uint64_t seed)
{
    static uint8_t seen[1000000];
    struct permutation p;

    assert_true(n <= sizeof(seen));
    memset(seen, 0, n);
    permutation_init(&p, n, seed, 3);
    for (uint64_t k = 0; k < n; k++) {
        uint64_t s = permutation_at(&p, k);

        assert_true(s < n);
        assert_int_equal(seen[s], 0);
        assert_int_equal(permutation_inverse(&p, s), k);
        seen[s] = 1;
    }
}

static void test_bijection_of_every_small_n(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 2000; n++)
        check_bijection(n, n * 7);
}

/* Where the halves change their sizes. */
static void test_bijection_around_powers(void **state)
{
    (void)state;
    for (unsigned e = 11; e <= 16; e++)
        for (uint64_t n = ((uint64_t)1 << e) - 1; n <= ((uint64_t)1 << e) + 1; n++)
            check_bijection(n, e);
    check_bijection(1000000, 1);
}

static void test_round_trips_of_large_n(void **state)
{
    static const uint64_t sizes[] = {1000000, 1000000000, PERMUTATION_MAX - 1, PERMUTATION_MAX};
    struct rng r = {5};

    (void)state;
    for (size_t i = 0; i < unit_count(sizes); i++)
        for (unsigned seed = 0; seed < 4; seed++) {
            struct permutation p;

            permutation_init(&p, sizes[i], seed, seed * 11);
            for (unsigned j = 0; j < 5000; j++) {
                uint64_t k = rng_below(&r, sizes[i]);
                uint64_t s = permutation_at(&p, k);

                assert_true(s < sizes[i]);
                assert_int_equal(permutation_inverse(&p, s), k);
                assert_int_equal(permutation_at(&p, permutation_inverse(&p, k)), k);
            }
        }
}

/* Elements that two permutations have at the same place: about one by chance. */
static unsigned agreements(const struct permutation *p, const struct permutation *q, uint64_t n)
{
    unsigned same = 0;

    for (uint64_t k = 0; k < n; k++)
        same += permutation_at(p, k) == permutation_at(q, k);
    return same;
}

static void test_seed_epoch_and_size_all_matter(void **state)
{
    struct permutation p, q;

    (void)state;
    permutation_init(&p, 1000, 1, 1);
    permutation_init(&q, 1000, 2, 1);
    assert_in_range(agreements(&p, &q, 1000), 0, 8);
    permutation_init(&q, 1000, 1, 2);
    assert_in_range(agreements(&p, &q, 1000), 0, 8);
    permutation_init(&q, 1000, 2, 0); /* not only their sum or difference */
    assert_in_range(agreements(&p, &q, 1000), 0, 8);
    permutation_init(&q, 1001, 1, 1);
    assert_in_range(agreements(&p, &q, 1000), 0, 8);
    permutation_init(&q, 1000, 1, 1);
    assert_int_equal(agreements(&p, &q, 1000), 1000);
}

static void at_the_end(void)
{
    struct permutation p;

    permutation_init(&p, 1000, 1, 1);
    permutation_at(&p, 1000);
}

static void inverse_at_the_end(void)
{
    struct permutation p;

    permutation_init(&p, 10, 1, 1);
    permutation_inverse(&p, 10);
}

static void of_nothing(void)
{
    struct permutation p;

    permutation_init(&p, 0, 1, 1);
}

static void of_too_much(void)
{
    struct permutation p;

    permutation_init(&p, PERMUTATION_MAX + 1, 1, 1);
}

static void test_misuse_is_caught(void **state)
{
    (void)state;
    assert_true(unit_aborts(at_the_end));
    assert_true(unit_aborts(inverse_at_the_end));
    assert_true(unit_aborts(of_nothing));
    assert_true(unit_aborts(of_too_much));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_bijection_of_every_small_n),
        cmocka_unit_test(test_bijection_around_powers),
        cmocka_unit_test(test_round_trips_of_large_n),
        cmocka_unit_test(test_seed_epoch_and_size_all_matter),
        cmocka_unit_test(test_misuse_is_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
