// SPDX-License-Identifier: Apache-2.0
/* The rate of readers that move all the time, in batches, after pauses, and between waits. */
#include "unit.h"

#include <math.h>

#include "daemon/prefetch/reader_rate.h"

static struct dlc_mono now;

static int setup(void **state)
{
    (void)state;
    now = (struct dlc_mono){DLC_SEC(1000).ns};
    return 0;
}

/* The rate is this, within 3 %. */
static void assert_rate(const struct rate *r, double want)
{
    if (fabs(r->per_s - want) > 0.03 * want)
        fail_msg("rate %g, not %g", r->per_s, want);
}

/* Looks every `look` ms, for `ms`, with nothing read. */
static void pause_for(struct rate *r, int ms, int look)
{
    for (int t = 0; t < ms; t += look) {
        now = dlc_mono_add(now, DLC_MS(look));
        rate_update(r, 0, false, now);
    }
}

/* `batch` samples every `ms`, n times, looked at every `look` ms. */
static void batches(struct rate *r, unsigned n, uint64_t batch, int ms, int look)
{
    for (unsigned i = 0; i < n; i++) {
        pause_for(r, ms - look, look);
        now = dlc_mono_add(now, DLC_MS(look));
        rate_update(r, batch, false, now);
    }
}

static void test_moves_all_the_time(void **state)
{
    struct rate r = {0};

    (void)state;
    rate_update(&r, 0, false, now);
    assert_true(r.per_s == 0);
    batches(&r, 100, 2, 2, 2); /* every look sees two */
    assert_rate(&r, 1000);
    batches(&r, 150, 6, 2, 2); /* a third of a second later it is known */
    assert_rate(&r, 3000);
    assert_true(r.burst < 7);
    batches(&r, 250, 1, 2, 2);
    assert_rate(&r, 500);
}

/* A step lasts 20 ms at least. */
static void test_shortest_step(void **state)
{
    struct rate r = {0};

    (void)state;
    rate_update(&r, 1, false, now);
    now = dlc_mono_add(now, (struct dlc_dur){RATE_SPAN.ns - 1});
    rate_update(&r, 1, false, now);
    assert_true(r.per_s == 0);
    now.ns++;
    rate_update(&r, 1, false, now);
    assert_rate(&r, 2 / 0.02);
}

/* Whatever the batch and the step: right after two of them, and it stays so between moves. */
static void test_moves_in_batches(void **state)
{
    const struct {
        uint64_t batch;
        int ms, look;
    } loops[] = {{64, 50, 2}, {64, 60, 20}, {512, 3000, 20}, {256, 490, 7}, {1, 100, 10}};

    (void)state;
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        struct rate r = {0};
        double want = (double)loops[i].batch * 1000 / loops[i].ms;
        int ms = loops[i].ms, look = loops[i].look;

        batches(&r, 2, loops[i].batch, ms, look);
        for (unsigned k = 0; k < 50; k++) {
            for (int t = look; t < ms; t += look) {
                now = dlc_mono_add(now, DLC_MS(look));
                rate_update(&r, 0, false, now);
                assert_rate(&r, want);
            }
            now = dlc_mono_add(now, DLC_MS(look));
            rate_update(&r, loops[i].batch, false, now);
            assert_rate(&r, want);
        }
        assert_true(r.burst == (double)loops[i].batch);
    }
}

/* Two looks see a batch in halves: it counts once. */
static void test_halves(void **state)
{
    struct rate r = {0};
    double low = INFINITY, high = 0;

    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        pause_for(&r, 190, 5);
        now = dlc_mono_add(now, DLC_MS(5));
        rate_update(&r, 40, false, now);
        now = dlc_mono_add(now, DLC_MS(5));
        rate_update(&r, 24, false, now);
        if (i > 10) {
            low = fmin(low, r.per_s);
            high = fmax(high, r.per_s);
        }
    }
    assert_true(low > 0.95 * 320 && high < 1.05 * 320);
}

/* Steps of 100 ms of which 80 are waits: the reader itself would need 20. */
static void test_waits_do_not_count(void **state)
{
    struct rate r = {0};

    (void)state;
    batches(&r, 2, 10, 100, 10);
    for (unsigned i = 0; i < 20; i++) {
        rate_waited(&r, DLC_MS(80));
        batches(&r, 1, 10, 100, 10);
    }
    assert_rate(&r, 500);
    rate_waited(&r, DLC_SEC(100)); /* nonsense: more than there was */
    batches(&r, 1, 10, 100, 10);
    assert_true(isfinite(r.per_s) && r.per_s > 0 && r.per_s < 10 / 0.1 * 20);
}

static void test_falls_in_a_long_pause_and_comes_back(void **state)
{
    struct rate r = {0};
    double before;

    (void)state;
    batches(&r, 10, 100, 100, 10);
    assert_rate(&r, 1000);
    pause_for(&r, 190, 10);
    assert_rate(&r, 1000); /* nothing unusual yet */
    before = r.per_s;
    pause_for(&r, 30000, 10);
    assert_true(r.per_s < before / 50);
    batches(&r, 4, 100, 100, 10);
    assert_true(r.per_s > 600); /* half a minute of validation was no slow step */
    batches(&r, 12, 100, 100, 10);
    assert_rate(&r, 1000);
}

/* It cannot move: that is no pause. */
static void test_does_not_fall_while_it_waits(void **state)
{
    struct rate r = {0};

    (void)state;
    batches(&r, 10, 100, 100, 10);
    for (unsigned i = 0; i < 1000; i++) {
        now = dlc_mono_add(now, DLC_MS(10));
        rate_update(&r, 0, true, now);
    }
    assert_rate(&r, 1000);
}

static void test_begins_with_the_first_move(void **state)
{
    struct rate r = {0};

    (void)state;
    pause_for(&r, 60000, 20); /* imports, model, first batch */
    rate_update(&r, 64, false, now);
    assert_true(r.per_s == 0);
    batches(&r, 1, 64, 200, 20);
    assert_rate(&r, 320);
    pause_for(&r, 100, 20);
    rate_restart(&r); /* it jumped */
    pause_for(&r, 60000, 20);
    batches(&r, 1, 64, 200, 20);
    assert_rate(&r, 320);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_moves_all_the_time, setup),
        cmocka_unit_test_setup(test_shortest_step, setup),
        cmocka_unit_test_setup(test_moves_in_batches, setup),
        cmocka_unit_test_setup(test_halves, setup),
        cmocka_unit_test_setup(test_waits_do_not_count, setup),
        cmocka_unit_test_setup(test_falls_in_a_long_pause_and_comes_back, setup),
        cmocka_unit_test_setup(test_does_not_fall_while_it_waits, setup),
        cmocka_unit_test_setup(test_begins_with_the_first_move, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
