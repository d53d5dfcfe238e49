// SPDX-License-Identifier: Apache-2.0
/* How many threads: a model of ring, threads and consumer in which time is a number. */
#include "unit.h"

#include "loader/autotune.h"

#define RING 4u

/* A consumer of step_s and threads that make a batch in make_s / threads each: what pace is told
 * of `batches` batches, and where it ends. */
static unsigned run(struct pace *p, double step_s, double make_s, unsigned batches)
{
    unsigned threads = p->now;
    double ready = RING;

    for (unsigned i = 0; i < batches; i++) {
        double each = make_s / threads;
        double waited = ready >= 1 ? 0 : (1 - ready) * each;
        struct pace_batch b = {.waited_s = waited,
                               .step_s = step_s,
                               .make_s = make_s,
                               .ready = (unsigned)(ready + 1e-9),
                               .ring = RING};

        ready = ready + (step_s + waited) / each - 1;
        if (ready > RING)
            ready = RING;
        if (ready < 0)
            ready = 0;
        threads = pace_step(p, &b);
        assert_in_range(threads, 1, p->most);
    }
    return threads;
}

static void test_follows_the_need(void **state)
{
    struct pace p;

    (void)state;
    pace_init(&p, 16);
    assert_int_equal(p.now, 16); /* the first batch comes soon */
    assert_in_range(run(&p, 0.1, 0.3, 400), 4, 5);
    assert_in_range(run(&p, 0.1, 1.0, 400), 11, 13); /* samples became larger */
    assert_in_range(run(&p, 0.4, 1.0, 400), 3, 4);   /* training became slower */
    assert_int_equal(run(&p, 1.0, 0.01, 400), 1);
}

static void test_not_enough_of_all(void **state)
{
    struct pace p;

    (void)state;
    pace_init(&p, 8);
    assert_int_equal(run(&p, 0.01, 1.0, 100), 8);
    assert_int_equal(run(&p, 0.0, 1.0, 100), 8); /* a consumer that takes no time at all */
}

static void test_climbs_at_once(void **state)
{
    struct pace p;

    (void)state;
    pace_init(&p, 64);
    assert_in_range(run(&p, 1.0, 1.5, 400), 1, 2);
    assert_in_range(run(&p, 0.1, 1.5, 30), 16, 20); /* not one by one */
}

static void test_a_single_core(void **state)
{
    struct pace p;

    (void)state;
    pace_init(&p, 1);
    assert_int_equal(run(&p, 0.1, 5.0, 50), 1);
    assert_int_equal(run(&p, 5.0, 0.1, 50), 1);
}

/* A wait once in a while does not keep a thread too many for good. */
static void test_comes_down_again(void **state)
{
    struct pace p;
    struct pace_batch dry = {.waited_s = 1, .step_s = 0.1, .make_s = 0.1, .ready = 0, .ring = RING};

    (void)state;
    pace_init(&p, 8);
    run(&p, 0.1, 0.1, 400);
    pace_step(&p, &dry);
    assert_true(p.now > 2);
    assert_in_range(run(&p, 0.1, 0.1, 100), 1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_follows_the_need), cmocka_unit_test(test_not_enough_of_all),
        cmocka_unit_test(test_climbs_at_once),   cmocka_unit_test(test_a_single_core),
        cmocka_unit_test(test_comes_down_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
