// SPDX-License-Identifier: Apache-2.0
/*
 * The limiter step by step: what each window, each 503 and each latency does to the limit. The
 * simulated bucket of test_limiter.c shows that it ends well; this shows that each rule is kept,
 * since most of them can be broken without the end being much worse.
 */
#include "bucket/limiter_i.h"
#include "unit.h"

#include "base/check.h"

#define MS   1000000ll
#define SEC  (1000 * MS)
#define GOOD 1e8 /* bytes per second */

static struct limiter l;
static struct dlc_mono t;

#define limit_is(n) assert_int_equal((int)(l.limit * 1000 + 0.5), (int)((n)*1000 + 0.5))

/* One that knows its latency of 10 ms and objects of 100 KB: 100 in flight. */
static void begin(unsigned max)
{
    t.ns = 1000 * SEC;
    limiter_init(&l, max, 1);
    limiter_hint(&l, 100000);
    limiter_began(&l, (struct dlc_dur){10 * MS});
    limiter_answered(&l, t, (struct dlc_dur){100 * MS}, 0); /* the window begins */
    assert_int_equal(l.from.ns, t.ns);
}

/* All answers of a window but the last one, which ends it. */
static void almost(int64_t latency, double goodput, bool last)
{
    int64_t span = DLC_MAX(l.median.ns == 0 ? latency : l.median.ns, 50 * MS), from = l.from.ns;

    for (int i = 1; i <= 15 + last; i++) {
        t.ns = from + span * i / 16;
        limiter_answered(&l, t, (struct dlc_dur){latency},
                         (uint64_t)(goodput * (double)span / 1e9 / 16));
    }
}

static void window(int64_t latency, double goodput)
{
    almost(latency, goodput, true);
}

static unsigned allowed(void)
{
    return limiter_allows(&l, t);
}

static void test_blind(void **state)
{
    const struct dlc_mono t0 = {SEC};

    (void)state;
    limiter_init(&l, 1024, 1);
    assert_int_equal(l.phase, LIMITER_BLIND);
    limiter_sent(&l, t0);
    assert_int_equal(limiter_allows(&l, (struct dlc_mono){2 * SEC}), 64); /* no size is known */
    limiter_hint(&l, 100000);
    assert_int_equal(limiter_allows(&l, t0), 64);
    limiter_sent(&l, (struct dlc_mono){t0.ns + 5 * MS}); /* the first one counts */
    assert_int_equal(limiter_allows(&l, (struct dlc_mono){t0.ns + 10 * MS}), 100);
    assert_int_equal(limiter_allows(&l, (struct dlc_mono){2 * SEC}), 512);
    limiter_hint(&l, 1000); /* requests bound it, not bytes */
    assert_int_equal(limiter_allows(&l, (struct dlc_mono){t0.ns + 10 * MS}), 200);
    limiter_init(&l, 1024, 1);
    limiter_hint(&l, 100000);
    assert_int_equal(limiter_allows(&l, (struct dlc_mono){2 * SEC}), 64); /* nothing was sent */
}

static void test_lanes_and_bounds(void **state)
{
    (void)state;
    limiter_init(&l, 1024, 2);
    limit_is(32);
    limiter_hint(&l, 100000);
    limiter_began(&l, (struct dlc_dur){10 * MS});
    limit_is(50);
    limiter_init(&l, 1024, 100);
    limit_is(1);
    limiter_init(&l, 0, 1);
    limit_is(1);
    limiter_init(&l, 5, 1);
    limit_is(5);
}

static void test_first_guess(void **state)
{
    (void)state;
    limiter_init(&l, 1024, 1);
    limiter_began(&l, (struct dlc_dur){200 * MS});
    assert_int_equal(l.phase, LIMITER_START);
    limit_is(64); /* of an unknown size */
    limiter_hint(&l, 100000);
    limit_is(512);
    limiter_began(&l, (struct dlc_dur){10 * MS});
    limit_is(100);
    limiter_began(&l, (struct dlc_dur){20 * MS}); /* the lowest counts */
    limit_is(100);
    limiter_began(&l, (struct dlc_dur){6 * MS});
    limit_is(60);
    limiter_began(&l, (struct dlc_dur){0});
    assert_int_equal(l.ttfb.ns, 1);
    limit_is(32);
    begin(1024);
    window(100 * MS, GOOD);
    limit_is(200);
    limiter_began(&l, (struct dlc_dur){1 * MS}); /* measured now: no more guessing */
    limiter_hint(&l, 50000);
    limit_is(200);
}

/* A window takes 16 answers and a median latency; the next one counts a median later. */
static void test_window(void **state)
{
    int64_t end;

    (void)state;
    begin(1024);
    limit_is(100);
    almost(100 * MS, GOOD, false);
    t.ns += 100 * MS;
    limit_is(100); /* 15 answers are too few */
    assert_int_equal(l.n, 15);
    limiter_answered(&l, t, (struct dlc_dur){100 * MS}, 0);
    limit_is(200);
    assert_in_range(l.median.ns, 95 * MS, 105 * MS);
    assert_int_equal(l.from.ns, t.ns + l.median.ns);
    assert_int_equal(l.n + l.bytes, 0);
    t.ns = l.from.ns - 1; /* sent before the limit changed */
    limiter_answered(&l, t, (struct dlc_dur){100 * MS}, 777);
    assert_int_equal(l.n + l.bytes, 0);
    t.ns++;
    limiter_answered(&l, t, (struct dlc_dur){100 * MS}, 777);
    assert_int_equal(l.n, 1);
    assert_int_equal(l.bytes, 777);
    end = l.from.ns + l.median.ns;
    for (int i = 0; i < 100; i++)
        limiter_answered(&l, (struct dlc_mono){end - 1}, (struct dlc_dur){100 * MS}, 1 << 20);
    limit_is(200); /* a median latency has not passed */
    assert_int_equal(l.n, 101);
    limiter_answered(&l, (struct dlc_mono){end}, (struct dlc_dur){100 * MS}, 1 << 20);
    limit_is(400);
    begin(1024); /* short latencies: 50 ms at least */
    for (int i = 0; i < 100; i++)
        limiter_answered(&l, (struct dlc_mono){t.ns + 50 * MS - 1}, (struct dlc_dur){MS}, 1000);
    limit_is(100);
    limiter_answered(&l, (struct dlc_mono){t.ns + 50 * MS}, (struct dlc_dur){MS}, 1000);
    limit_is(200);
}

static void test_doubling(void **state)
{
    (void)state;
    begin(1024);
    window(100 * MS, GOOD);
    window(100 * MS, 1.21 * GOOD);
    limit_is(400);
    assert_int_equal(l.phase, LIMITER_START);
    window(100 * MS, 1.21 * 1.19 * GOOD); /* less than a fifth more: the last step was too far */
    limit_is(200);
    assert_int_equal(l.phase, LIMITER_STEADY);
    assert_true(l.best > 1.43 * GOOD && l.best < 1.45 * GOOD);
    assert_int_equal(l.from.ns, t.ns + l.median.ns);

    begin(150); /* up to what is allowed */
    window(100 * MS, GOOD);
    limit_is(150);
    window(100 * MS, 2 * GOOD);
    limit_is(150);
    assert_int_equal(l.phase, LIMITER_STEADY);
    assert_int_equal(l.from.ns, t.ns); /* nothing changed: no waiting */

    begin(1024); /* requests wait in line: enough */
    window(100 * MS, GOOD);
    window(160 * MS, 2 * GOOD);
    limit_is(200);
    assert_int_equal(l.phase, LIMITER_STEADY);
    begin(1024);
    window(100 * MS, GOOD);
    window(140 * MS, 2 * GOOD);
    limit_is(400);
}

/* Steady at 200 after `goodput`, without queueing. */
static void begin_steady(double goodput)
{
    begin(1024);
    window(100 * MS, goodput);
    window(100 * MS, 2 * goodput);
    window(100 * MS, 2 * goodput);
    limit_is(200);
    assert_int_equal(l.phase, LIMITER_STEADY);
}

static void test_step_up(void **state)
{
    (void)state;
    begin_steady(GOOD);
    window(100 * MS, GOOD);
    limit_is(251); /* 1.25 * 200 + 1 */
    window(100 * MS, 1.06 * GOOD);
    limit_is(1.25 * 251 + 1);
    window(100 * MS, 1.06 * 1.04 * GOOD); /* not worth it: back, and rest twice as long */
    limit_is(251);
    assert_int_equal(l.hold, 2);
    assert_int_equal(l.from.ns, t.ns + l.median.ns);
    window(100 * MS, GOOD);
    limit_is(251);
    assert_int_equal(l.from.ns, t.ns);
    window(100 * MS, GOOD);
    limit_is(1.25 * 251 + 1);
    window(100 * MS, 2 * GOOD); /* good: no rest */
    assert_int_equal(l.hold, 1);
    limit_is(1.25 * (1.25 * 251 + 1) + 1);
    window(140 * MS, 2 * 1.07 * GOOD); /* no queue yet */
    limit_is(1.25 * (1.25 * (1.25 * 251 + 1) + 1) + 1);
    window(160 * MS, 2 * 1.07 * 1.07 * GOOD); /* requests queue: a tenth more would have to come */
    limit_is(1.25 * (1.25 * 251 + 1) + 1);
}

/* The rest grows to 16 windows and no further. */
static void test_rest(void **state)
{
    const unsigned rests[] = {1, 2, 4, 8, 16, 16};

    (void)state;
    begin_steady(GOOD);
    for (size_t i = 0; i < unit_count(rests); i++) {
        for (unsigned k = 0; k < rests[i]; k++) {
            limit_is(200);
            window(100 * MS, GOOD);
        }
        limit_is(251);
        window(100 * MS, GOOD);
    }
}

static void test_step_down(void **state)
{
    (void)state;
    begin_steady(GOOD); /* best: 2 * GOOD */
    window(160 * MS, 2 * GOOD);
    limit_is(160);
    window(160 * MS, 1.98 * GOOD); /* no loss, and still a queue: further */
    limit_is(128);
    window(100 * MS, 1.96 * GOOD); /* no loss, and no queue: stay */
    limit_is(128);
    assert_int_equal(l.hold, 1);
    assert_int_equal(l.from.ns, t.ns);
    window(160 * MS, 2 * GOOD);
    limit_is(0.8 * 128);
    window(160 * MS, 1.9 * GOOD); /* that cost something: back, and the next step is up */
    limit_is(128);
    assert_int_equal(l.hold, 2);
    window(160 * MS, 2 * GOOD);
    limit_is(128);
    window(160 * MS, 2 * GOOD);
    limit_is(1.25 * 128 + 1);
    window(160 * MS, 2 * GOOD);
    limit_is(128);
    for (int i = 0; i < 4; i++)
        window(160 * MS, 2 * GOOD);
    limit_is(0.8 * 128);
}

/* A cut ends the step under trial, and what was to come after it. */
static void test_cut_in_a_step(void **state)
{
    (void)state;
    begin_steady(GOOD);
    window(100 * MS, GOOD);
    assert_int_equal(l.step, 1);
    l.up_next = true;
    l.hold = 8;
    l.held = 3;
    for (int i = 0; i < 40; i++)
        limiter_throttled(&l, t);
    limit_is(0.7 * 251);
    assert_int_equal(l.step, 0);
    assert_int_equal(l.hold, 1);
    assert_int_equal(l.held, 0);
    assert_false(l.up_next);
}

/* A step up that cannot be made does not stand in the way of the next one down. */
static void test_up_next_is_once(void **state)
{
    (void)state;
    begin(100);
    window(100 * MS, GOOD);
    l.phase = LIMITER_STEADY;
    l.up_next = true;
    window(160 * MS, GOOD);
    limit_is(100);
    window(160 * MS, GOOD);
    limit_is(80);
}

/* What was best fades by a hundredth in a window. */
static void test_fading(void **state)
{
    (void)state;
    begin_steady(GOOD);
    l.hold = 100;
    window(100 * MS, GOOD);
    assert_true(l.best > 1.979 * GOOD && l.best < 1.981 * GOOD);
    window(100 * MS, 3 * GOOD);
    assert_true(l.best > 2.99 * GOOD && l.best < 3.01 * GOOD);
}

/* A limit that is as low as a throttled one, but is all that is allowed: no new start. */
static void test_low_limit_is_not_throttling(void **state)
{
    (void)state;
    begin(4);
    window(100 * MS, GOOD);
    assert_int_equal(l.phase, LIMITER_STEADY);
    window(100 * MS, GOOD / 2);
    assert_true(l.best > 0.98 * GOOD); /* it is remembered */
    limit_is(4);
}

static void test_ends_of_the_hill(void **state)
{
    (void)state;
    begin(100);
    window(100 * MS, GOOD);
    window(100 * MS, GOOD);
    limit_is(100);
    assert_int_equal(l.step, 0);
    assert_int_equal(l.from.ns, t.ns);
    begin(1024);
    window(100 * MS, GOOD);
    l.limit = 17;
    l.phase = LIMITER_STEADY;
    window(160 * MS, 2 * GOOD);
    limit_is(16);
    window(160 * MS, 2 * GOOD);
    limit_is(16); /* hill climbing goes no lower */
    assert_int_equal(l.step, 0);
}

/* Slack: less was asked than allowed, so the window says nothing. The next one does. */
static void test_slack(void **state)
{
    (void)state;
    begin(1024);
    almost(100 * MS, GOOD, false);
    limiter_slack(&l);
    t.ns += 100 * MS;
    limiter_answered(&l, t, (struct dlc_dur){100 * MS}, 0);
    limit_is(100);
    assert_int_equal(l.phase, LIMITER_START);
    assert_int_equal(l.n, 0);
    assert_true(l.best == 0);
    window(100 * MS, GOOD);
    limit_is(200);
}

static void throttled(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        limiter_throttled(&l, t);
}

static void test_cut(void **state)
{
    (void)state;
    begin(1024);
    window(100 * MS, GOOD);
    throttled(31);
    limit_is(200); /* too few answers to believe it */
    throttled(1);
    limit_is(140);
    assert_int_equal(l.phase, LIMITER_STEADY);
    assert_int_equal(l.from.ns, t.ns + l.median.ns);
    assert_int_equal(l.no_cut_before.ns, t.ns + 2 * l.median.ns);
    throttled(100); /* not again until it can have had an effect */
    limit_is(140);
    t.ns = l.no_cut_before.ns - 1;
    throttled(1);
    limit_is(140);
    t.ns++;
    throttled(1);
    limit_is(98);
    for (int i = 0; i < 20; i++) {
        t.ns += SEC;
        throttled(32);
    }
    limit_is(8);
    assert_int_equal(allowed(), 8);
    t.ns = l.from.ns = 2000 * SEC;
    window(100 * MS, GOOD); /* throttling is over: as in the beginning */
    assert_int_equal(l.phase, LIMITER_START);
    limit_is(16);
    window(100 * MS, 2 * GOOD);
    limit_is(32);
    limiter_init(&l, 1024, 1);
    throttled(32);
    assert_int_equal(l.no_cut_before.ns, t.ns + 50 * MS); /* no latency is known */
    limiter_init(&l, 4, 1);                               /* never above what is allowed */
    throttled(32);
    limit_is(4);
}

/* Only more than one 503 in 16 answers is throttling; good ones count. */
static void test_cut_share(void **state)
{
    (void)state;
    begin(1024);
    for (int i = 0; i < 1000; i++)
        limiter_answered(&l, t, (struct dlc_dur){100 * MS}, 0);
    throttled(66); /* of 1067: 66 * 16 = 1056 */
    limit_is(100);
    throttled(1); /* of 1068: 67 * 16 = 1072 */
    limit_is(70);
    begin(1024); /* a window begins the count anew */
    throttled(30);
    window(100 * MS, GOOD);
    throttled(30);
    limit_is(200);
    begin(1024);
    for (int i = 0; i < 29; i++) /* the 30th is the one that began the window */
        limiter_answered(&l, t, (struct dlc_dur){100 * MS}, 0);
    throttled(2);
    limit_is(100); /* two of 32 are one of 16 */
    throttled(1);
    limit_is(70);
}

/* The lowest latency is that of the last ten to twenty seconds. */
static void test_lowest_latency(void **state)
{
    (void)state;
    begin(1024);
    assert_int_equal(l.low_since.ns, t.ns);
    assert_int_equal(l.low.ns, 0);
    assert_int_equal(l.low_newer.ns, 100 * MS);
    limiter_answered(&l, t, (struct dlc_dur){90 * MS}, 0);
    limiter_answered(&l, t, (struct dlc_dur){95 * MS}, 0);
    assert_int_equal(l.low_newer.ns, 90 * MS);
    t.ns += 10 * SEC;
    limiter_answered(&l, t, (struct dlc_dur){200 * MS}, 0);
    assert_int_equal(l.low.ns, 0);
    t.ns += 1;
    limiter_answered(&l, t, (struct dlc_dur){200 * MS}, 0);
    assert_int_equal(l.low.ns, 90 * MS);
    assert_int_equal(l.low_newer.ns, 200 * MS);
    assert_int_equal(l.low_since.ns, t.ns);
    limiter_answered(&l, t, (struct dlc_dur){0}, 0);
    assert_int_equal(l.low_newer.ns, 1); /* 0 means that there was none */
}

/* Latency that is higher for good is not queueing for ever; a lower one is seen at once. */
static void test_queueing_is_judged_lately(void **state)
{
    (void)state;
    begin_steady(GOOD);
    l.hold = 1000;
    for (int64_t end = t.ns + 9 * SEC; t.ns < end;)
        window(300 * MS, GOOD);
    l.held = 999;
    window(300 * MS, GOOD);
    assert_int_equal(l.step, -1); /* against the 100 ms of before */
    l.step = 0;
    l.hold = 1000;
    for (int64_t end = t.ns + 21 * SEC; t.ns < end;)
        window(300 * MS, GOOD);
    l.held = 999;
    window(300 * MS, GOOD);
    assert_int_equal(l.step, 1);
    l.step = 0;
    l.hold = 1000;
    limiter_answered(&l, t, (struct dlc_dur){100 * MS}, 0);
    l.held = 999;
    window(300 * MS, GOOD);
    assert_int_equal(l.step, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blind),
        cmocka_unit_test(test_lanes_and_bounds),
        cmocka_unit_test(test_first_guess),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_doubling),
        cmocka_unit_test(test_step_up),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_step_down),
        cmocka_unit_test(test_cut_in_a_step),
        cmocka_unit_test(test_up_next_is_once),
        cmocka_unit_test(test_fading),
        cmocka_unit_test(test_low_limit_is_not_throttling),
        cmocka_unit_test(test_ends_of_the_hill),
        cmocka_unit_test(test_slack),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_cut_share),
        cmocka_unit_test(test_lowest_latency),
        cmocka_unit_test(test_queueing_is_judged_lately),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
