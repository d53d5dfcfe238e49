// SPDX-License-Identifier: Apache-2.0
/*
 * Does the permutation look random? Tables of what is where, of successors and of pairs, compared
 * with what chance gives (chi-square), over many seeds and along single permutations. Seeds are
 * fixed, so a result never changes. The last tests feed the same statistics with bad generators:
 * they must be found.
 */
#include "unit.h"

#include <math.h>

#include "base/rng.h"
#include "order/permutation.h"
#include "weak.h"

#define DRAWS 100000
#define CELLS 16   /* a side of a table */
#define GOOD  4.5  /* standard deviations from what chance gives, at most */
#define BAD   20.0 /* at least, for a bad generator */

typedef uint64_t element_f(uint64_t n, uint64_t seed, uint64_t k);

static uint64_t ours(uint64_t n, uint64_t seed, uint64_t k)
{
    struct permutation p;

    permutation_init(&p, n, seed, seed % 3);
    return permutation_at(&p, k);
}

/* k times an odd number plus another: what a quick hand would take for a shuffle. */
static uint64_t affine(uint64_t n, uint64_t seed, uint64_t k)
{
    struct rng r = {seed};
    uint64_t step = 2 * rng_below(&r, n / 2) + 1;

    while (n % 5 == 0 && step % 5 == 0)
        step += 2;
    return (uint64_t)(((unsigned __int128)k * step + rng_below(&r, n)) % n);
}

/* x in [0, n) falls into one of at most CELLS parts of about equal size. */
struct parts {
    uint64_t n, count;
};

static struct parts parts_of(uint64_t n)
{
    return (struct parts){n, n < CELLS ? n : CELLS};
}

static unsigned part(struct parts p, uint64_t x)
{
    return (unsigned)(x * p.count / p.n);
}

static double share(struct parts p, unsigned i)
{
    uint64_t begin = (i * p.n + p.count - 1) / p.count;
    uint64_t end = ((i + 1) * p.n + p.count - 1) / p.count;

    return (double)(end - begin) / (double)p.n;
}

/* How many standard deviations chi-square is off, in either direction: its cube root is nearly
 * normal (Wilson and Hilferty), also for few degrees of freedom. */
static double deviation(double chi2, double freedom)
{
    double variance = 2 / (9 * freedom);

    return fabs(cbrt(chi2 / freedom) - (1 - variance)) / sqrt(variance);
}

/* A table of two features that chance would make independent. */
struct table {
    struct parts x, y;
    unsigned counts[CELLS][CELLS], draws;
};

static void table_add(struct table *t, uint64_t x, uint64_t y)
{
    t->counts[part(t->x, x)][part(t->y, y)]++;
    t->draws++;
}

static double table_deviation(const struct table *t)
{
    double chi2 = 0;

    for (unsigned i = 0; i < t->x.count; i++)
        for (unsigned j = 0; j < t->y.count; j++) {
            double expect = t->draws * share(t->x, i) * share(t->y, j);
            double d = t->counts[i][j] - expect;

            chi2 += d * d / expect;
        }
    return deviation(chi2, (double)(t->x.count * t->y.count) - 1);
}

/* Elements at two positions that are `stride` apart, over many seeds or along one permutation. */
static double pairs_deviation(element_f *element, uint64_t n, uint64_t stride, bool many_seeds)
{
    struct table place = {parts_of(n), parts_of(n), {{0}}, 0};
    struct table step = {parts_of(n), parts_of(n - 1), {{0}}, 0};
    uint64_t low = n % 8 == 0 ? 8 : 5;
    struct table ends = {parts_of(low), parts_of(low), {{0}}, 0};
    struct rng r = {stride + many_seeds};
    double worst;

    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t seed = many_seeds ? i : 1, k = rng_below(&r, n);
        uint64_t s = element(n, seed, k), next = element(n, seed, (k + stride) % n);

        table_add(&place, k, s);
        table_add(&step, s, (next + n - s) % n - 1); /* 1 .. n - 1: never the same again */
        table_add(&ends, s % low, next % low);
    }
    worst = fmax(table_deviation(&place), table_deviation(&step));
    return n >= 1000 ? fmax(worst, table_deviation(&ends)) : worst;
}

/* The worst of all that we look at. Strides: neighbours, neighbours in the other half of the
 * network, far away. */
static double worst_deviation(element_f *element, uint64_t n)
{
    uint64_t half = (uint64_t)1 << (64 - __builtin_clzll(n)) / 2;
    uint64_t strides[] = {1, half, 2 * half, n / 2};
    double worst = 0;

    for (size_t i = 0; i < unit_count(strides); i++) {
        if (strides[i] % n == 0)
            continue;
        worst = fmax(worst, pairs_deviation(element, n, strides[i], true));
        if (n >= 10 * DRAWS) /* one permutation of fewer is more even than chance */
            worst = fmax(worst, pairs_deviation(element, n, strides[i], false));
    }
    return worst;
}

static void test_places_successors_and_pairs(void **state)
{
    static const uint64_t sizes[] = {
        2, 3, 4, 10, 64, 65, 100, 1000, 1024, 4097, 1000000, 1000000000, PERMUTATION_MAX};

    (void)state;
    for (size_t i = 0; i < unit_count(sizes); i++) {
        double worst = worst_deviation(ours, sizes[i]);

        if (worst > GOOD)
            fail_msg("n = %llu: %.1f standard deviations from chance", (unsigned long long)sizes[i],
                     worst);
    }
}

/* Which of the n! permutations is it? A number in [0, n!). */
static unsigned rank_of(const struct permutation *p)
{
    unsigned rank = 0;

    for (uint64_t k = 0; k < p->n; k++) {
        unsigned smaller = 0;

        for (uint64_t later = k + 1; later < p->n; later++)
            smaller += permutation_at(p, later) < permutation_at(p, k);
        rank = rank * (unsigned)(p->n - k) + smaller;
    }
    return rank;
}

static double permutations_deviation(uint64_t n, unsigned of_n, bool by_epoch)
{
    unsigned counts[120] = {0};
    double expect = (double)DRAWS / of_n, chi2 = 0;

    for (uint64_t i = 0; i < DRAWS; i++) {
        struct permutation p;

        permutation_init(&p, n, by_epoch ? 42 : i, by_epoch ? i : 0);
        counts[rank_of(&p)]++;
    }
    for (unsigned i = 0; i < of_n; i++)
        chi2 += (counts[i] - expect) * (counts[i] - expect) / expect;
    return deviation(chi2, of_n - 1);
}

static void test_every_permutation_of_few_elements_is_as_likely(void **state)
{
    unsigned factorial = 1;

    (void)state;
    for (uint64_t n = 2; n <= 5; n++) {
        factorial *= (unsigned)n;
        assert_true(permutations_deviation(n, factorial, false) < GOOD);
        assert_true(permutations_deviation(n, factorial, true) < GOOD);
    }
}

/* Whole permutations: elements at home (one on average, variance one), and steps upward (half of
 * them, variance (n + 1) / 12). */
static void test_fixed_points_and_ascents(void **state)
{
    const uint64_t n = 1000, seeds = 1000;
    double home = 0, up = 0;

    (void)state;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        struct permutation p;
        uint64_t before = n;

        permutation_init(&p, n, seed, 0);
        for (uint64_t k = 0; k < n; k++) {
            uint64_t s = permutation_at(&p, k);

            home += s == k;
            up += k > 0 && s > before;
            before = s;
        }
    }
    assert_true(fabs(home - (double)seeds) < GOOD * sqrt((double)seeds));
    assert_true(fabs(up - (double)(seeds * (n - 1)) / 2) <
                GOOD * sqrt((double)(seeds * (n + 1)) / 12));
}

/* An epoch says nothing about the next one, nor a seed about its neighbour. */
static void test_epochs_and_seeds_are_independent(void **state)
{
    static const uint64_t sizes[] = {10, 1000, 1000000000};

    (void)state;
    for (size_t i = 0; i < unit_count(sizes); i++) {
        uint64_t n = sizes[i];
        struct table epochs = {parts_of(n), parts_of(n), {{0}}, 0}, seeds = epochs;

        for (uint64_t seed = 0; seed < DRAWS; seed++) {
            struct permutation p;
            uint64_t s;

            permutation_init(&p, n, seed, 5);
            s = permutation_at(&p, 3);
            permutation_init(&p, n, seed, 6);
            table_add(&epochs, s, permutation_at(&p, 3));
            permutation_init(&p, n, seed + 1, 5);
            table_add(&seeds, s, permutation_at(&p, 3));
        }
        assert_true(table_deviation(&epochs) < GOOD);
        assert_true(table_deviation(&seeds) < GOOD);
    }
}

/* Half the rounds show at small n, where the halves are small; a straight line shows anywhere. */
static void test_bad_generators_are_found(void **state)
{
    (void)state;
    assert_true(worst_deviation(weak_element, 300) > BAD);
    assert_true(worst_deviation(weak_element, 470) > BAD);
    assert_true(worst_deviation(weak_element, 1000) > BAD);
    assert_true(worst_deviation(affine, 10) > BAD);
    assert_true(worst_deviation(affine, 1000000) > BAD);
    assert_true(worst_deviation(affine, 1000000000) > BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_successors_and_pairs),
        cmocka_unit_test(test_every_permutation_of_few_elements_is_as_likely),
        cmocka_unit_test(test_fixed_points_and_ascents),
        cmocka_unit_test(test_epochs_and_seeds_are_independent),
        cmocka_unit_test(test_bad_generators_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
