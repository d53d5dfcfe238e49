// SPDX-License-Identifier: Apache-2.0
/* What holds for both ways of drawing: specs, ranks, repetition, memory. */
#include "unit.h"

#include <float.h>

#include "base/fault.h"
#include "order/drawing.h"

static struct drawing d;

static const enum draw_mode modes[] = {DRAW_COVERAGE, DRAW_SHADE};

static void refuses(struct draw_spec spec, const char *text)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t list[200];

    assert_int_equal(draw_check(&spec, &err), DLC_EINVAL);
    if (strstr(err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, text);
    assert_int_equal(draw_epoch(&spec, list, NULL, NULL), DLC_EINVAL);
}

static void accepts(struct draw_spec spec)
{
    assert_int_equal(draw_check(&spec, NULL), 0);
}

static void test_specs_that_are_refused(void **state)
{
    static const double bad[] = {0, 0.25, -1, 0.75, 1.2, 100.5, 1e30, NAN, INFINITY};
    static const double bad_prefer[] = {0, 0.99, -1, 1001, NAN, INFINITY};
    struct draw_spec s;

    (void)state;
#define WITH(mode, ...) (drawing_init(&d, mode, 100), s = d.spec, __VA_ARGS__, s)
    refuses(WITH(DRAW_SHADE, s.n = 0), "draw of 0 samples");
    refuses(WITH(DRAW_SHADE, s.n = (uint64_t)1 << 32), "2^32 - 1");
    refuses(WITH(DRAW_SHADE, s.first = UINT64_MAX - 5), "2^40");
    refuses(WITH(DRAW_SHADE, s.world = 4, s.rank = 4), "rank 4 of world size 4");
    refuses(WITH(DRAW_SHADE, s.world = 0, s.rank = 1), "rank 1 of world size 1");
    refuses(WITH(DRAW_SHADE, s.length = 0), "length 0");
    refuses(WITH(DRAW_SHADE, s.length = UINT64_MAX), "2^32 - 1 positions");
    refuses(WITH(DRAW_SHADE, s.weight = NULL), "without weights");
    refuses(WITH((enum draw_mode)7, s.n = 100), "mode 7");
    refuses(WITH(DRAW_COVERAGE, s.every = 0), "every = 0");
    refuses(WITH(DRAW_COVERAGE, s.length = 24), "25 to 100");
    refuses(WITH(DRAW_COVERAGE, s.length = 101), "25 to 100");
    refuses(WITH(DRAW_COVERAGE, s.every = 3, s.length = 33), "34 to 100");
    for (unsigned k = 0; k < unit_count(bad); k++)
        refuses(WITH(DRAW_SHADE, s.replication = bad[k]), "0.5 to 100 in steps of 0.5");
    for (unsigned k = 0; k < unit_count(bad_prefer); k++)
        refuses(WITH(DRAW_COVERAGE, s.prefer = bad_prefer[k]), "1 to 1000");
    accepts(WITH(DRAW_COVERAGE, s.length = 25));
    /* Members of the other mode do not count. */
    accepts(WITH(DRAW_COVERAGE, s.replication = 0));
    accepts(WITH(DRAW_SHADE, s.every = 0, s.prefer = 0));
#undef WITH
}

static void test_the_same_again_and_otherwise_another(void **state)
{
    static uint64_t before[1000];

    (void)state;
    for (unsigned m = 0; m < unit_count(modes); m++) {
        drawing_init(&d, modes[m], 1000);
        drawing_weigh(&d, 1);
        drawing_reside(&d, 2, 5);
        d.spec.length = 600;
        d.spec.replication = 1.5;
        d.spec.prefer = 3;
        for (unsigned change = 0; change < 7; change++) {
            uint64_t length = draw_length(&d.spec);
            struct draw_spec spec = d.spec;

            drawing_run(&d);
            memcpy(before, d.list, length * sizeof(*before));
            drawing_run(&d);
            assert_memory_equal(before, d.list, length * sizeof(*before));
            d.spec.seed += change == 0;
            d.spec.epoch += change == 1;
            d.spec.epoch += change == 2 ? 4 : 0; /* the same class */
            for (unsigned k = 0; k < 100; k++) {
                d.resident[k] ^= change == 3;
                d.weights[k] *= change == 4 ? 500 : 1;
            }
            d.spec.world += change == 5;
            d.spec.rank += change == 6;
            drawing_run(&d);
            assert_memory_not_equal(before, d.list, draw_length(&d.spec) * sizeof(*before));
            d.spec = spec;
            d.spec.world += change >= 5;
        }
    }
}

static void test_numbers_begin_at_first(void **state)
{
    static uint64_t before[300];

    (void)state;
    for (unsigned m = 0; m < unit_count(modes); m++) {
        drawing_init(&d, modes[m], 300);
        drawing_weigh(&d, 1);
        drawing_run(&d);
        memcpy(before, d.list, sizeof(before));
        d.spec.first = 1000000007;
        drawing_run(&d);
        for (unsigned k = 0; k < 300; k++)
            assert_int_equal(d.list[k], before[k] + d.spec.first);
    }
}

/* (DRAW-2), with weights and residents that differ from rank to rank. */
static void check_ranks(struct rng *r, enum draw_mode mode, uint64_t n, uint32_t world)
{
    static uint16_t ranks[500]; /* how many ranks have a sample */
    uint64_t class, parts, least;

    drawing_init(&d, mode, n);
    d.spec.world = world;
    d.spec.epoch = rng_below(r, 50);
    d.spec.every = 1 + (uint32_t)rng_below(r, 9);
    least = (n + d.spec.every - 1) / d.spec.every;
    d.spec.length =
        mode == DRAW_SHADE ? 1 + rng_below(r, 2 * n) : least + rng_below(r, n - least + 1);
    d.spec.replication = 0.5 * (double)(1 + rng_below(r, 8));
    memset(ranks, 0, sizeof(ranks));
    for (uint32_t rank = 0; rank < world; rank++) {
        d.spec.rank = rank;
        drawing_weigh(&d, rng_next(r));
        drawing_reside(&d, rng_next(r), 3);
        drawing_run(&d);
        assert_int_equal(d.length, (d.spec.length + world - 1) / world);
        for (uint64_t s = 0; s < n; s++) {
            ranks[s] = (uint16_t)(ranks[s] + (d.count[s] > 0));
            assert_true(mode == DRAW_SHADE || d.count[s] <= 1);
        }
    }
    /* What is in more than one part is padding, of the whole or of class and rest. */
    class = mode == DRAW_SHADE ? 0 : d.spec.epoch % d.spec.every < n % d.spec.every;
    class += mode == DRAW_SHADE ? 0 : n / d.spec.every;
    parts = ((class + world - 1) / world + (n - class + world - 1) / world) * world;
    assert_int_equal(d.figures.part, parts / world);
    for (uint64_t s = 0; s < n; s++)
        parts -= ranks[s] > 1 ? ranks[s] - 1U : 0;
    assert_true(parts >= n);
}

static void test_parts_of_ranks_are_apart(void **state)
{
    struct rng r = {4};

    (void)state;
    for (unsigned round = 0; round < 600; round++) {
        uint64_t n = round < 40 ? round / 2 + 1 : 1 + rng_below(&r, 500);

        check_ranks(&r, modes[round % 2], n, 1 + (uint32_t)rng_below(&r, round % 7 == 0 ? 20 : 5));
    }
}

static void test_few_samples(void **state)
{
    (void)state;
    for (unsigned m = 0; m < unit_count(modes); m++) {
        for (uint64_t n = 1; n < 5; n++) {
            drawing_init(&d, modes[m], n);
            d.spec.every = 9; /* most classes are empty */
            d.spec.replication = 100;
            d.spec.length = 1;
            d.spec.prefer = 1000;
            for (d.spec.epoch = 0; d.spec.epoch < 20; d.spec.epoch++) {
                drawing_reside(&d, d.spec.epoch, 2);
                drawing_run(&d);
                assert_int_equal(d.length, 1);
            }
        }
    }
}

/* A weight beside which the others are nothing, the least there are, and what is no weight. */
static void test_weights_of_all_sizes(void **state)
{
    (void)state;
    for (unsigned m = 0; m < unit_count(modes); m++) {
        drawing_init(&d, modes[m], 1000);
        d.spec.length = 500;
        d.spec.every = 1000000;
        d.spec.epoch = 5000; /* coverage: an empty class */
        for (unsigned s = 0; s < 1000; s++)
            d.weights[s] = FLT_TRUE_MIN;
        d.weights[321] = 1e38f;
        d.weights[322] = FLT_MAX;
        d.weights[400] = NAN;
        d.weights[401] = -3;
        d.weights[402] = INFINITY;
        d.spec.prefer = 1000;
        drawing_reside(&d, 1, 2);
        drawing_run(&d);
        assert_true(d.count[321] > 0 && d.count[322] > 0);
        if (modes[m] == DRAW_SHADE) {
            assert_int_equal(d.count[321] + d.count[322], 500);
            assert_true(d.figures.effective > 1 && d.figures.effective < 2);
        } else { /* the mean, as large, goes to what has none */
            assert_true(d.count[400] > 0 && d.count[401] > 0 && d.count[402] > 0);
        }
    }
}

static void test_effective_samples(void **state)
{
    (void)state;
    for (unsigned m = 0; m < unit_count(modes); m++) {
        drawing_init(&d, modes[m], 1200);
        drawing_run(&d);
        assert_float_equal(d.figures.effective, 1200, 1e-6);
        assert_int_equal(d.figures.part, 1200);
        d.spec.world = 3;
        drawing_run(&d);
        assert_float_equal(d.figures.effective, 400, 1e-6);
        assert_int_equal(d.figures.part, 400);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    for (unsigned m = 0; m < 4; m++) {
        bool fired = true;

        for (unsigned nth = 1; fired; nth++) {
            struct dlc_err err = DLC_ERR_INIT;
            int rc;

            drawing_init(&d, modes[m / 2], 100);
            d.spec.world = 1 + m % 2;
            fault_arm(FAULT_ALLOC, nth);
            rc = draw_epoch(&d.spec, d.list, NULL, &err);
            fired = fault_disarm();
            assert_int_equal(rc, fired ? DLC_ENOMEM : 0);
            assert_true(!fired || strstr(err.text, "from 100 samples") != NULL);
            assert_true(fired || nth > 3);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_specs_that_are_refused),
        cmocka_unit_test(test_the_same_again_and_otherwise_another),
        cmocka_unit_test(test_numbers_begin_at_first),
        cmocka_unit_test(test_parts_of_ranks_are_apart),
        cmocka_unit_test(test_few_samples),
        cmocka_unit_test(test_weights_of_all_sizes),
        cmocka_unit_test(test_effective_samples),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
