// SPDX-License-Identifier: Apache-2.0
/* Draws with replacement. Seeds are fixed, so a result never changes; the limits are standard
 * deviations. */
#include "unit.h"

#include "order/drawing.h"

#define GOOD 4.5

static struct drawing d;

/* Counts against the weights, over epochs: chi-square must be neither large nor small. */
static double chi2_of_epochs(unsigned epochs)
{
    double sum = 0, chi2 = 0;

    for (uint64_t s = 0; s < d.spec.n; s++)
        sum += (double)d.weights[s];
    for (unsigned k = 0; k < epochs; k++, d.spec.epoch++) {
        drawing_run(&d);
        for (uint64_t s = 0; s < d.spec.n; s++) {
            double expect = (double)d.length * (double)d.weights[s] / sum;
            double off = d.count[s] - expect;

            chi2 += off * off / expect;
        }
    }
    return chi2;
}

static void test_frequencies_follow_the_weights(void **state)
{
    static const uint64_t sizes[] = {2, 7, 100, 1000};

    (void)state;
    for (unsigned k = 0; k < unit_count(sizes); k++) {
        uint64_t n = sizes[k];

        drawing_init(&d, DRAW_SHADE, n);
        drawing_weigh(&d, 5 + k);
        d.weights[0] *= 20;
        d.spec.length = 50 * n;
        assert_true(drawing_off_chi2(chi2_of_epochs(40), 40 * ((double)n - 1)) < GOOD);
    }
}

/* Draws of neighbours, and of one epoch and the next, have nothing to do with each other. */
static void test_draws_are_independent(void **state)
{
    unsigned neighbours[4][4] = {{0}}, epochs[4][4] = {{0}};
    uint64_t before[1000];
    double chi2 = 0, chi2_epochs = 0, each = 100 * 999.0 / 16, each_epoch = 100 * 1000.0 / 16;

    (void)state;
    drawing_init(&d, DRAW_SHADE, 4000); /* equal weights: all unlearnt */
    d.spec.length = 1000;
    drawing_run(&d);
    for (unsigned epoch = 1; epoch <= 100; epoch++) {
        memcpy(before, d.list, sizeof(before));
        d.spec.epoch = epoch;
        drawing_run(&d);
        for (unsigned k = 0; k < 1000; k++) {
            epochs[before[k] / 1000][d.list[k] / 1000]++;
            if (k > 0)
                neighbours[d.list[k - 1] / 1000][d.list[k] / 1000]++;
        }
    }
    for (unsigned k = 0; k < 16; k++) {
        double off = neighbours[k / 4][k % 4] - each,
               off_epochs = epochs[k / 4][k % 4] - each_epoch;

        chi2 += off * off / each;
        chi2_epochs += off_epochs * off_epochs / each_epoch;
    }
    assert_true(drawing_off_chi2(chi2, 15) < GOOD);
    assert_true(drawing_off_chi2(chi2_epochs, 15) < GOOD);
}

static void test_equal_weights_cover_as_chance_does(void **state)
{
    (void)state;
    drawing_init(&d, DRAW_SHADE, 100000);
    drawing_run(&d);
    /* 1 - 1/e of them, with a deviation of sqrt(n (e - 2)) / e */
    assert_true(fabs((double)d.figures.distinct - 100000 * (1 - exp(-1))) < GOOD * 98.6);
    for (unsigned s = 0; s < 100000; s++)
        d.weights[s] = s % 2 == 0 ? 0 : 1; /* never learnt: 1 */
    memset(d.list, 0, sizeof(d.list));
    drawing_run(&d);
    assert_true(fabs((double)d.figures.distinct - 100000 * (1 - exp(-1))) < GOOD * 98.6);
}

/* In floats the small ones would all be lost behind the large one. */
static void test_small_weights_behind_a_large_one(void **state)
{
    double small = 0, p = 131072.0 / (131072.0 + 0x1p27);

    (void)state;
    drawing_init(&d, DRAW_SHADE, 131073);
    for (unsigned s = 1; s < 131073; s++)
        d.weights[s] = 1;
    d.weights[0] = 0x1p27f;
    drawing_run(&d);
    for (unsigned s = 1; s < 131073; s++)
        small += d.count[s];
    assert_true(drawing_off(small, 131073, p) < GOOD);
}

/* ---- residents first, and repeated ---- */

static unsigned once[DRAWING_MAX]; /* counts with replication 1 */

/* Residents are a piece in front. */
static void check_front(void)
{
    for (uint64_t k = 0; k < d.length; k++)
        assert_int_equal(d.resident[d.list[k] - d.spec.first], k < d.figures.resident);
}

static void draw_once(uint64_t n, uint32_t world)
{
    drawing_init(&d, DRAW_SHADE, n);
    drawing_weigh(&d, 8);
    drawing_reside(&d, 9, 10);
    d.spec.world = world;
    drawing_run(&d);
    check_front();
    memcpy(once, d.count, sizeof(once));
}

static void test_residents_come_first_and_repeated(void **state)
{
    (void)state;
    for (uint32_t world = 1; world < 4; world++) {
        uint64_t hits;

        draw_once(20000, world);
        hits = d.figures.resident;
        assert_true(drawing_off((double)hits, (double)d.length, 0.1) < 10); /* by weight: about */
        for (unsigned times = 2; times < 6; times++) {
            uint64_t others = 0;

            d.spec.replication = times;
            drawing_run(&d);
            check_front();
            assert_int_equal(d.figures.resident, times * hits);
            for (uint64_t s = 0; s < d.spec.n; s++) {
                if (d.resident[s])
                    assert_int_equal(d.count[s], times * once[s]);
                else
                    assert_true(d.count[s] <= once[s]);
                others += d.resident[s] ? 0 : d.count[s];
            }
            assert_int_equal(others, d.length - times * hits);
        }
    }
}

static void test_halves_are_tossed(void **state)
{
    uint64_t heads = 0, drawn = 0;

    (void)state;
    draw_once(100000, 1);
    for (unsigned whole = 1; whole < 3; whole++) {
        d.spec.replication = whole + 0.5;
        drawing_run(&d);
        check_front();
        for (uint64_t s = 0; s < d.spec.n; s++) {
            if (!d.resident[s] || once[s] == 0)
                continue;
            assert_true(d.count[s] == whole * once[s] || d.count[s] == (whole + 1) * once[s]);
            heads += d.count[s] != whole * once[s];
            drawn++;
        }
    }
    assert_true(drawing_off((double)heads, (double)drawn, 0.5) < GOOD);
}

static void test_cut_when_residents_fill_the_epoch(void **state)
{
    unsigned left_out = 0;

    (void)state;
    draw_once(20000, 1);
    d.spec.replication = 100;
    drawing_run(&d);
    assert_int_equal(d.figures.resident, 20000);
    for (uint64_t s = 0; s < d.spec.n; s++) {
        assert_true(d.count[s] <= 100 * once[s]);
        left_out += d.resident[s] && once[s] > 0 && d.count[s] == 0;
    }
    assert_true(left_out < 20); /* the cut is by chance over all copies: hardly one loses all */
}

static void test_half_leaves_room_for_others(void **state)
{
    uint64_t hits, twice = 0;

    (void)state;
    draw_once(20000, 1);
    hits = d.figures.resident;
    d.spec.replication = 0.5;
    drawing_run(&d);
    check_front();
    assert_true(drawing_off((double)d.figures.resident, (double)hits, 0.5) < 2 * GOOD);
    for (uint64_t s = 0; s < d.spec.n; s++) {
        if (d.resident[s])
            assert_true(d.count[s] == 0 || d.count[s] == once[s]);
        else
            assert_true(d.count[s] >= once[s] && d.count[s] <= 2 * once[s]);
        twice += !d.resident[s] && d.count[s] > once[s];
    }
    assert_true(twice > 0);
}

static void test_all_resident(void **state)
{
    static const double times[] = {0.5, 1, 1.5, 100};

    (void)state;
    for (unsigned k = 0; k < unit_count(times); k++) {
        for (uint64_t n = 1; n < 200; n += 11) {
            drawing_init(&d, DRAW_SHADE, n);
            memset(d.resident, true, n);
            d.spec.replication = times[k];
            d.spec.length = 3 * n;
            drawing_run(&d);
            assert_int_equal(d.figures.resident, d.length);
        }
    }
}

static void test_nobody_resident(void **state)
{
    (void)state;
    drawing_init(&d, DRAW_SHADE, 500);
    d.spec.resident = NULL;
    d.spec.replication = 3;
    drawing_run(&d);
    assert_int_equal(d.figures.resident, 0);
}

static void test_length(void **state)
{
    (void)state;
    drawing_init(&d, DRAW_SHADE, 1000);
    for (d.spec.length = 1; d.spec.length < 5000; d.spec.length += 333) {
        d.spec.world = 1;
        drawing_run(&d);
        assert_int_equal(d.length, d.spec.length);
        d.spec.world = 7;
        drawing_run(&d);
        assert_int_equal(d.length, (d.spec.length + 6) / 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frequencies_follow_the_weights),
        cmocka_unit_test(test_draws_are_independent),
        cmocka_unit_test(test_equal_weights_cover_as_chance_does),
        cmocka_unit_test(test_small_weights_behind_a_large_one),
        cmocka_unit_test(test_residents_come_first_and_repeated),
        cmocka_unit_test(test_halves_are_tossed),
        cmocka_unit_test(test_cut_when_residents_fill_the_epoch),
        cmocka_unit_test(test_half_leaves_room_for_others),
        cmocka_unit_test(test_all_resident),
        cmocka_unit_test(test_nobody_resident),
        cmocka_unit_test(test_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
