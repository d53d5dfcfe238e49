// SPDX-License-Identifier: Apache-2.0
/* Draws without replacement, above a floor. Seeds are fixed, so a result never changes; the limits
 * are standard deviations. */
#include "unit.h"

#include "order/drawing.h"

#define GOOD 4.5

static struct drawing d;

/* ---- the floor ---- */

/* (DRAW-3) Any `every` epochs, each on another number of ranks, with other weights and
 * residents. */
static void check_floor(struct rng *r, uint64_t n, uint32_t every)
{
    static unsigned last[400], met[400]; /* 1 + the epoch of the last draw, or 0 */
    uint64_t least = (n + every - 1) / every, begin = rng_below(r, 1000);

    drawing_init(&d, DRAW_COVERAGE, n);
    d.spec.every = every;
    d.spec.seed = rng_next(r);
    memset(last, 0, sizeof(last));
    for (unsigned k = 0; k < 3 * every; k++) {
        d.spec.epoch = begin + k;
        d.spec.world = 1 + (uint32_t)rng_below(r, 4);
        d.spec.length = least + rng_below(r, (n - least) / 2 + 1);
        d.spec.prefer = 1 + 100 * rng_unit(r);
        memset(met, 0, sizeof(met));
        for (d.spec.rank = 0; d.spec.rank < d.spec.world; d.spec.rank++) {
            drawing_weigh(&d, rng_next(r));
            drawing_reside(&d, rng_next(r), 2);
            d.weights[rng_below(r, n)] = 1e38f;
            drawing_run(&d);
            assert_true(d.figures.forced <= d.length);
            for (uint64_t s = 0; s < n; s++) {
                assert_true(d.count[s] <= 1);
                met[s] += d.count[s];
            }
        }
        for (uint64_t s = 0; s < n; s++) {
            assert_true(met[s] <= 1 ||
                        d.spec.world > 1); /* twice: padding, as test_draw.c counts */
            last[s] = met[s] > 0 ? k + 1 : last[s];
            assert_true(k + 1 < every || last[s] + every > k + 1);
        }
    }
}

static void test_each_sample_once_in_so_many_epochs(void **state)
{
    struct rng r = {6};

    (void)state;
    for (uint32_t every = 1; every < 12; every++)
        for (unsigned round = 0; round < 12; round++)
            check_floor(&r, round < 4 ? round + 1 : 1 + rng_below(&r, 400), every);
}

static void test_every_epoch_takes_all(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 300; n += 7) {
        drawing_init(&d, DRAW_COVERAGE, n);
        drawing_weigh(&d, n);
        drawing_run(&d); /* as long as there are samples */
        assert_int_equal(d.figures.distinct, n);
        d.spec.every = 1;
        drawing_run(&d);
        assert_int_equal(d.figures.distinct, n);
        assert_int_equal(d.figures.forced, n);
    }
}

/* Where those of the class stand in the list, and that seeds make other classes. */
static void test_the_class_is_spread_over_the_list(void **state)
{
    static unsigned class[10000], other[10000];
    double sum = 0, both = 0;

    (void)state;
    drawing_init(&d, DRAW_COVERAGE, 10000);
    d.spec.length = 2500;
    d.spec.seed++;
    drawing_run(&d);
    memcpy(other, d.count, sizeof(other));
    d.spec.seed--;
    drawing_run(&d); /* the class alone */
    assert_int_equal(d.figures.forced, 2500);
    memcpy(class, d.count, sizeof(class));
    d.spec.length = 5000;
    drawing_run(&d);
    assert_int_equal(d.figures.forced, 2500);
    for (unsigned k = 0; k < 5000; k++)
        sum += class[d.list[k]] * k;
    for (unsigned s = 0; s < 10000; s++) {
        assert_true(d.count[s] >= class[s]);
        both += class[s] * other[s];
    }
    assert_true(fabs(sum / 2500 - 2499.5) < GOOD * 5000 / sqrt(12.0 * 2500));
    assert_true(drawing_off(both, 2500, 0.25) < GOOD);
}

/* ---- the rest ---- */

#define EPOCHS 40000

/* How often which two of four are drawn, against the exact chances of drawing one by one. */
static double chi2_of_pairs(const double w[4])
{
    unsigned counts[16] = {0};
    double sum = w[0] + w[1] + w[2] + w[3], chi2 = 0;

    d.spec.length = 2;
    d.spec.every = UINT32_MAX; /* hardly an epoch has a class */
    for (d.spec.epoch = 10; d.spec.epoch < 10 + EPOCHS; d.spec.epoch++) {
        drawing_run(&d);
        counts[1U << d.list[0] | 1U << d.list[1]]++;
    }
    for (unsigned i = 0; i < 4; i++)
        for (unsigned j = i + 1; j < 4; j++) {
            double p = w[i] / sum * w[j] / (sum - w[i]) + w[j] / sum * w[i] / (sum - w[j]);
            double off = counts[1U << i | 1U << j] - EPOCHS * p;

            chi2 += off * off / (EPOCHS * p);
        }
    return chi2;
}

static void weigh_four(float a, float b, float c, float e)
{
    drawing_init(&d, DRAW_COVERAGE, 4);
    d.weights[0] = a;
    d.weights[1] = b;
    d.weights[2] = c;
    d.weights[3] = e;
}

static void test_chances_are_exact(void **state)
{
    (void)state;
    weigh_four(1, 2, 3, 10);
    assert_true(drawing_off_chi2(chi2_of_pairs((double[]){1, 2, 3, 10}), 5) < GOOD);
    assert_true(drawing_off_chi2(chi2_of_pairs((double[]){1, 2, 3.3, 10}), 5) > 2 * GOOD);
    weigh_four(0, 1, 0, 3); /* never learnt: the mean */
    assert_true(drawing_off_chi2(chi2_of_pairs((double[]){2, 1, 2, 3}), 5) < GOOD);
    weigh_four(0, 0, 0, 0);
    assert_true(drawing_off_chi2(chi2_of_pairs((double[]){1, 1, 1, 1}), 5) < GOOD);
    weigh_four(1, 1, 2, 2);
    d.resident[1] = d.resident[2] = true;
    d.spec.prefer = 2.5;
    assert_true(drawing_off_chi2(chi2_of_pairs((double[]){1, 2.5, 5, 2}), 5) < GOOD);
    weigh_four(1e-38f, 2e-38f, 3e-38f, 1e-37f);
    assert_true(drawing_off_chi2(chi2_of_pairs((double[]){1, 2, 3, 10}), 5) < GOOD);
}

/* Many samples of two weights: among the drawn, the light ones are 1 - (1 - p)^(1/4) where the
 * heavy ones are p, since all run against the same time. */
static void test_chances_of_many(void **state)
{
    double light = 0, heavy = 0, time = 0.3, p;
    uint64_t n = 100000;

    (void)state;
    drawing_init(&d, DRAW_COVERAGE, n);
    for (uint64_t s = 0; s < n; s++)
        d.weights[s] = s % 2 == 0 ? 1 : 4;
    d.spec.every = UINT32_MAX;
    d.spec.epoch = n;
    p = 1 - exp(-time);
    d.spec.length = (uint64_t)((double)n / 2 * (p + 1 - exp(-4 * time)));
    drawing_run(&d);
    for (uint64_t s = 0; s < n; s++)
        *(s % 2 == 0 ? &light : &heavy) += d.count[s];
    assert_int_equal((uint64_t)(light + heavy), d.spec.length);
    assert_true(drawing_off(light, (double)n / 2, p) < GOOD);
    assert_true(drawing_off(heavy, (double)n / 2, 1 - exp(-4 * time)) < GOOD);
}

static void test_prefer_raises_the_share_of_residents(void **state)
{
    static const double prefer[] = {1, 2, 5, 30, 1000};
    double before = 0;

    (void)state;
    drawing_init(&d, DRAW_COVERAGE, 50000);
    drawing_weigh(&d, 3);
    drawing_reside(&d, 4, 5);
    d.spec.length = 20000;
    for (unsigned k = 0; k < unit_count(prefer); k++) {
        double share;

        d.spec.prefer = prefer[k];
        drawing_run(&d);
        share = (double)d.figures.resident / (double)d.length;
        assert_true(share > before * 1.05);
        assert_true(k > 0 || drawing_off((double)d.figures.resident, 20000, 0.2) < GOOD);
        before = share;
    }
    /* All residents of the rest, 7,500, and a fifth of the class. */
    assert_true(fabs(before - 0.5) < 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_sample_once_in_so_many_epochs),
        cmocka_unit_test(test_every_epoch_takes_all),
        cmocka_unit_test(test_the_class_is_spread_over_the_list),
        cmocka_unit_test(test_chances_are_exact),
        cmocka_unit_test(test_chances_of_many),
        cmocka_unit_test(test_prefer_raises_the_share_of_residents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
