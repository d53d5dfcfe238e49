// SPDX-License-Identifier: Apache-2.0
/*
 * The engine over a scripted origin, in numbers: figures, the budget of hedges, what a cancelled
 * read leaves in flight, and threads that cannot be started.
 */
#include "unit.h"

#include "base/counters.h"
#include "base/fault.h"
#include "bucket/bucket.h"
#include "fake_origin.h"

#define MB 1000000u

/* "slow" hangs; others take 20 ms. */
static void script(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->etag = "e";
    if (strcmp(c->a->key, "slow") == 0)
        c->fate = FAKE_HANG;
    else if (c->a->key[0] == 'x')
        c->delay = DLC_MS(20);
}

static void read_some(struct bucket *b, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct fake_read x = {.done = 0};

        fake_read(b, &x, "fast", 10);
        wait_until(x.done);
        assert_int_equal(x.r.rc, 0);
        fake_read_release(&x);
    }
}

static void test_figures(void **state)
{
    enum { N = 8 };
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake *f = fake_new(1, script);
    struct bucket_figures g;
    struct fake_read x[N] = {0};
    struct bucket *b;

    (void)state;
    config.max_requests = 2;
    config.no_hedge = true;
    b = fake_bucket(f, &config);
    bucket_figures(b, &g);
    assert_in_range(g.limit, 1, 2);
    assert_int_equal(g.in_flight + g.queued, 0);
    assert_true(g.bytes_per_s == 0);
    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], i < N / 2 ? "x" : "slow", MB);
    for (unsigned i = 0; i < N / 2; i++)
        wait_moving(x[i].done, DLC_MS(5));
    wait_moving((bucket_figures(b, &g), g.in_flight > 0 && g.bytes_per_s > 0), DLC_MS(50));
    assert_in_range(g.in_flight, 1, 2);
    assert_int_equal(g.queued, N / 2 - g.in_flight);
    assert_true(g.p50.ns >= DLC_MS(15).ns && g.p99.ns >= g.p50.ns);
    assert_true(g.bytes_per_s < 4.0 * MB / 0.02);
    for (unsigned i = N / 2; i < N; i++)
        bucket_read_cancel(b, &x[i].r);
    for (unsigned i = N / 2; i < N; i++)
        wait_until(x[i].done);
    wait_until((bucket_figures(b, &g), g.in_flight + g.queued == 0));
    dlc_clock_advance(DLC_SEC(10)); /* it is old */
    wait_until((bucket_figures(b, &g), g.bytes_per_s == 0));
    bucket_close(&b);
    for (unsigned i = 0; i < N; i++)
        fake_read_release(&x[i]);
}

/* Reads hang after so many were answered. How many are asked a second time? */
static unsigned hedges_after(unsigned answered, unsigned hang)
{
    struct fake *f = fake_new(1, script);
    struct bucket *b = fake_bucket(f, NULL);
    uint64_t before = count_read(bucket_hedges);
    struct fake_read x[16] = {0};
    unsigned hedges;

    read_some(b, answered);
    for (unsigned i = 0; i < hang; i++)
        fake_read(b, &x[i], "slow", 10);
    wait_until(f->started >= answered + hang);
    for (unsigned i = 0; i < 50; i++)
        fake_pause(DLC_MS(10)); /* each is late by now */
    hedges = (unsigned)(count_read(bucket_hedges) - before);
    assert_int_equal(f->started, answered + hang + hedges);
    for (unsigned i = 0; i < hang; i++)
        bucket_read_cancel(b, &x[i].r);
    for (unsigned i = 0; i < hang; i++)
        wait_until(x[i].done);
    assert_int_equal(f->cancelled, hang + hedges); /* nothing flies on */
    bucket_close(&b);
    for (unsigned i = 0; i < hang; i++)
        fake_read_release(&x[i]);
    return hedges;
}

/* One in twenty reads pays for a hedge, once a hundred were seen. */
static void test_hedges_are_paid_for(void **state)
{
    (void)state;
    assert_int_equal(hedges_after(99, 1), 0);
    assert_int_equal(hedges_after(100, 1), 1);
    assert_int_equal(hedges_after(100, 8), 5); /* 108 / 20 */
}

static void script_late(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->fate = strcmp(c->a->key, "slow") == 0 ? FAKE_HANG : FAKE_OK;
    c->delay = DLC_SEC(10);
}

/* Late is an eighth more than what 99 of 100 take. Answers take 10 s, so that the time that
 * this test itself takes does not matter. */
static void test_when_a_read_is_late(void **state)
{
    enum { N = 60 };
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake *f = fake_new(1, script_late);
    struct fake_read x[N] = {0}, slow = {.done = 0};
    struct dlc_mono sent;
    struct bucket *b;

    (void)state;
    config.stall_timeout = DLC_SEC(1000);
    b = fake_bucket(f, &config);
    for (unsigned round = 1; round <= 2; round++) {
        for (unsigned i = 0; i < N; i++)
            fake_read(b, &x[i], "fast", 10);
        wait_until(f->started == round * N);
        dlc_clock_advance(DLC_SEC(10));
        for (unsigned i = 0; i < N; i++) {
            wait_until(x[i].done);
            fake_read_release(&x[i]);
            x[i] = (struct fake_read){.done = 0};
        }
    }
    sent = dlc_mono_now();
    fake_read(b, &slow, "slow", 10);
    wait_until(f->started == 2 * N + 1);
    dlc_clock_advance(DLC_MS(10500));
    for (unsigned i = 0; i < 30; i++)
        fake_pause(DLC_MS(0));
    assert_true(f->started == 2 * N + 1 || dlc_mono_since(sent).ns > DLC_MS(11200).ns);
    dlc_clock_advance(DLC_SEC(3));
    wait_until(f->started == 2 * N + 2);
    bucket_close(&b);
    fake_read_release(&slow);
}

/* ---- lanes ---- */

/* One read in small parts, all of them on one lane, whose share is four in flight. */
static void read_parts(struct bucket *b, struct fake_read *x, unsigned parts)
{
    x->r.etag = "e";
    fake_read(b, x, "slow", parts);
}

static struct bucket *lending_bucket(struct fake *f, unsigned lanes)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;

    f->ops.part_max = 1;
    config.max_requests = 4 * lanes;
    config.no_hedge = true;
    return fake_bucket(f, &config);
}

/* What the other lanes do not use is used, all of it and no more. */
static void test_idle_lanes_lend_all(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= 3; lanes++) {
        struct fake *f = fake_new(lanes, script);
        struct bucket *b = lending_bucket(f, lanes);
        struct fake_read x = {.done = 0};

        read_parts(b, &x, 30);
        wait_until(f->flying == 4 * lanes);
        for (unsigned i = 0; i < 30; i++)
            fake_pause(DLC_MS(0));
        assert_int_equal(f->flying_max, 4 * lanes);
        bucket_close(&b);
        fake_read_release(&x);
    }
}

/* A lane whose queue is empty borrows nothing, not even for what comes next. */
static void test_no_loan_in_advance(void **state)
{
    enum { N = 8 };
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake *f = fake_new(1, script);
    struct fake_read x[N] = {0};
    struct bucket_figures g;
    struct bucket *b;

    (void)state;
    config.max_requests = 4;
    config.no_hedge = true;
    b = fake_bucket(f, &config);
    for (unsigned i = 0; i < 3; i++)
        fake_read(b, &x[i], "slow", 10);
    wait_until((bucket_figures(b, &g), g.in_flight == 3)); /* a tick has come */
    for (unsigned i = 3; i < N; i++)
        fake_read(b, &x[i], "slow", 10);
    wait_until((bucket_figures(b, &g), g.in_flight >= 4));
    assert_int_equal(f->flying_max, 4);
    bucket_close(&b);
    for (unsigned i = 0; i < N; i++)
        fake_read_release(&x[i]);
}

/* A lane that uses what others lent has nothing to lend. */
static void test_borrower_does_not_lend(void **state)
{
    struct fake *f = fake_new(2, script);
    struct bucket *b = lending_bucket(f, 2);
    const struct lane_figures *g = &b->lanes[0].figures;
    struct fake_read x = {.done = 0};

    (void)state;
    assert_int_equal(g->unused, 4);
    read_parts(b, &x, 7);
    wait_until(f->flying == 7);
    wait_until(g->in_flight == 7);
    assert_int_equal(g->unused, 0);
    bucket_close(&b);
    fake_read_release(&x);
}

/* ---- the rate ---- */

/* It is taken over half a second, not from tick to tick. */
static void test_rate_is_of_half_a_second(void **state)
{
    struct bucket *b = fake_bucket(fake_new(1, script), NULL);
    struct fake_read slow = {.done = 0};
    struct dlc_mono from = dlc_mono_now();
    struct bucket_figures g;

    (void)state;
    fake_read(b, &slow, "slow", 10); /* so that the lane is not idle */
    wait_until((bucket_figures(b, &g), g.in_flight == 1));
    read_some(b, 10);
    for (unsigned i = 0; i < 20; i++)
        fake_pause(DLC_MS(0));
    bucket_figures(b, &g);
    assert_true(g.bytes_per_s == 0 || dlc_mono_since(from).ns >= DLC_MS(500).ns);
    for (unsigned i = 0; i < 100 && g.bytes_per_s == 0; i++) { /* a busy machine may miss one */
        read_some(b, 10);
        dlc_clock_advance(DLC_MS(600));
        for (unsigned k = 0; k < 20; k++)
            fake_pause(DLC_MS(0));
        bucket_figures(b, &g);
    }
    assert_true(g.bytes_per_s > 0);
    assert_true(g.bytes_per_s <= 2 * 10 * 10 / 0.5);
    for (unsigned i = 0; i < 3; i++) { /* periods without a byte */
        dlc_clock_advance(DLC_MS(600));
        for (unsigned k = 0; k < 20; k++)
            fake_pause(DLC_MS(0));
        bucket_figures(b, &g);
    }
    assert_true(g.bytes_per_s == 0);
    bucket_close(&b);
    fake_read_release(&slow);
}

static void script_once(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->fate = c->nth == 1 ? FAKE_FAIL : FAKE_HANG;
    c->rc = DLC_EBUCKET;
    c->retryable = true;
}

/* What expired says what failed before, if anything did. */
static void test_deadline_tells_the_last_failure(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x[2] = {0};
    struct bucket *b;

    (void)state;
    config.deadline = DLC_SEC(5);
    b = fake_bucket(fake_new(1, script_once), &config);
    for (unsigned i = 0; i < 2; i++) {
        const char *last;

        fake_read(b, &x[i], "k", 10);
        wait_moving(x[i].done, DLC_MS(50));
        assert_int_equal(x[i].r.rc, DLC_ETIMEDOUT);
        last = strstr(x[i].r.err.text, "the last failure was: the fake fails attempt 1");
        assert_int_equal(last != NULL, i == 0);
    }
    bucket_close(&b);
    fake_read_release(&x[0]);
    fake_read_release(&x[1]);
}

static _Atomic unsigned closed;

static void on_lane_close(struct origin *o, unsigned lane)
{
    (void)o;
    closed |= 1u << lane;
}

/* The lanes that were opened are closed, each once. */
static void test_no_thread(void **state)
{
    const struct bucket_config config = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket *b = NULL;
    struct fake *f;

    (void)state;
    for (int nth = 1; nth <= 3; nth++) {
        f = fake_new(3, script);
        f->ops.lane_close = on_lane_close;
        closed = 0;
        fault_plan(&(struct fault_plan){.calls = FAULT_CALL(thread), .nth = nth});
        assert_true(bucket_open_origin(&f->o, "", &config, 3, &b, &err) < 0);
        assert_true(fault_disarm());
        assert_null(b);
        assert_int_equal(closed, (1u << nth) - 1);
        assert_non_null(strstr(err.text, "cannot start thread"));
    }
    f = fake_new(3, script);
    f->ops.lane_close = on_lane_close;
    closed = 0;
    b = fake_bucket(f, NULL);
    read_some(b, 3);
    bucket_close(&b);
    assert_int_equal(closed, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_hedges_are_paid_for),
        cmocka_unit_test(test_when_a_read_is_late),
        cmocka_unit_test(test_idle_lanes_lend_all),
        cmocka_unit_test(test_no_loan_in_advance),
        cmocka_unit_test(test_borrower_does_not_lend),
        cmocka_unit_test(test_rate_is_of_half_a_second),
        cmocka_unit_test(test_deadline_tells_the_last_failure),
        cmocka_unit_test(test_no_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
