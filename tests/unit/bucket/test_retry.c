// SPDX-License-Identifier: Apache-2.0
/* What an op leaves behind: what the lane learns from its answers, when it is given up, memory. */
#include "unit.h"

#include "base/check.h"
#include "base/counters.h"
#include "base/mem.h"
#include "fake_origin.h"

#define MiB (1u << 20)

/* "hang" hangs, "slow" takes 40 ms; the rest is answered at once. */
static void script(struct fake *f, struct fake_call *c)
{
    (void)f;
    if (strcmp(c->a->key, "hang") == 0)
        c->fate = FAKE_HANG;
    else if (strcmp(c->a->key, "slow") == 0)
        c->delay = DLC_MS(40);
}

static struct dlc_dur read_key(struct bucket *b, const char *key, uint64_t length)
{
    struct fake_read x = {.done = 0};

    fake_read(b, &x, key, length);
    wait_until(x.done);
    assert_int_equal(x.r.rc, 0);
    fake_read_release(&x);
    return x.r.took;
}

static void cancel(struct bucket *b, struct fake_read *x)
{
    bucket_read_cancel(b, &x->r);
    wait_until(x->done);
    fake_read_release(x);
}

/* ---- what the lane learns ---- */

static void test_answers_tell_the_limiter(void **state)
{
    struct bucket *b = fake_bucket(fake_new(1, script), NULL);
    const struct limiter *l = &b->lanes[0].limiter;
    struct bucket_stat st;

    (void)state;
    assert_int_equal(l->phase, LIMITER_BLIND);
    assert_int_equal(bucket_stat_wait(b, "slow", &st, NULL), 0);
    assert_int_equal(l->phase, LIMITER_START); /* any answer tells the latency ... */
    assert_true(l->ttfb.ns >= DLC_MS(40).ns);
    assert_int_equal(l->answers, 0); /* ... but only reads tell the goodput */
    assert_int_equal(b->lanes[0].ttfb.total, 0);
    assert_true(read_key(b, "slow", 10).ns >= l->low_newer.ns);
    assert_true(l->low_newer.ns >= DLC_MS(40).ns);
    assert_int_equal(l->answers, 1);
    assert_int_equal(b->lanes[0].ttfb.total, 1);
    bucket_close(&b);
}

/* The lowest latency that one lane has seen is where another one begins. */
static void test_lanes_share_the_latency(void **state)
{
    struct bucket *b = fake_bucket(fake_new(2, script), NULL);
    struct fake_read hang = {.done = 0};
    int64_t first, lowest;

    (void)state;
    read_key(b, "slow", 10);
    first = b->ttfb;
    assert_true(first >= DLC_MS(40).ns);
    for (unsigned i = 0; i < 200 && b->ttfb == first; i++)
        read_key(b, "fast", 10);
    lowest = b->ttfb;
    assert_true(lowest > 0 && lowest < first);
    read_key(b, "slow", 10);
    assert_int_equal(b->ttfb, lowest);
    assert_int_equal(b->lanes[1].limiter.phase, LIMITER_BLIND);
    fake_read(b, &hang, "hang", 10); /* lane 0 has something to do ... */
    read_key(b, "slow", 10);         /* ... so that this is lane 1's first */
    assert_int_equal(b->lanes[1].limiter.ttfb.ns, lowest);
    cancel(b, &hang);
    bucket_close(&b);
}

/* Without a hint the mean length of what was asked for stands for the size of objects. */
static void test_mean_length(void **state)
{
    struct bucket *b = fake_bucket(fake_new(1, script), NULL);
    const struct limiter *l = &b->lanes[0].limiter;

    (void)state;
    read_key(b, "k", 0);
    assert_int_equal(l->mean, 1); /* 0 means that nothing is known */
    read_key(b, "k", 3000);
    assert_int_equal(l->mean, 1500);
    read_key(b, "k", 6000);
    assert_int_equal(l->mean, 3000);
    bucket_hint_size(b, 777);
    read_key(b, "k", 10);
    assert_int_equal(l->mean, 777);
    bucket_hint_size(b, 100 * MiB); /* it will come in parts */
    read_key(b, "k", 10);
    assert_int_equal(l->mean, 8 * MiB);
    bucket_close(&b);
}

/* ---- the queue ---- */

/* When a read is answered the next one is sent, not with the lane's next tick, which is up to 5 ms
 * away: the fastest of many shows it, however busy the machine is. */
static void test_next_is_sent_at_once(void **state)
{
    enum { N = 10 };
    struct bucket_config config = BUCKET_CONFIG_INIT;
    int64_t least = INT64_MAX;

    (void)state;
    config.max_requests = 1;
    for (unsigned i = 0; i < 100 && least >= DLC_MS(5 * (N - 2)).ns; i++) {
        struct bucket *b = fake_bucket(fake_new(1, script), &config);
        struct fake_read x[N] = {0};

        for (unsigned k = 0; k < N; k++)
            fake_read(b, &x[k], "k", 10);
        for (unsigned k = 0; k < N; k++)
            wait_until(x[k].done);
        least = DLC_MIN(least, x[N - 1].r.took.ns);
        bucket_close(&b);
        for (unsigned k = 0; k < N; k++)
            fake_read_release(&x[k]);
    }
    assert_true(least < DLC_MS(5 * (N - 2)).ns);
}

/* ---- hedges ---- */

static void script_hedge(struct fake *f, struct fake_call *c)
{
    unsigned *slow = f->priv;

    if (strcmp(c->a->key, "slow") == 0 && ++*slow % 2 == 1)
        c->fate = FAKE_HANG; /* each first attempt */
}

/* A first attempt that was overtaken counts as a late one, and the one that takes its place in
 * memory may be hedged as well. */
static void test_one_hedge_after_another(void **state)
{
    struct fake *f = fake_new(1, script_hedge);
    struct bucket *b = fake_bucket(f, NULL);
    uint64_t won = count_read(bucket_hedges_won);
    unsigned slow = 0;

    (void)state;
    f->priv = &slow;
    for (unsigned i = 0; i < 120; i++)
        read_key(b, "fast", 10);
    for (unsigned i = 1; i <= 4; i++) {
        read_key(b, "slow", 10);
        assert_int_equal(slow, 2 * i);
        assert_int_equal(count_read(bucket_hedges_won) - won, i);
        assert_int_equal(b->lanes[0].ttfb.total, 120 + 2 * i);
    }
    assert_int_equal(f->cancelled, 4);
    bucket_close(&b);
}

/* ---- giving up ---- */

static void script_throttles(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->fate = FAKE_FAIL;
    c->rc = DLC_EBUCKET;
    c->retryable = c->throttled = true;
}

/* Answers to slow down use up no retries for half a minute, but not for ever. */
static void test_throttled_for_long(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x = {.done = 0};
    struct bucket *b;

    (void)state;
    config.retries = 1;
    b = fake_bucket(fake_new(1, script_throttles), &config);
    fake_read(b, &x, "k", 10);
    wait_moving(x.done, DLC_MS(50));
    assert_int_equal(x.r.rc, DLC_EBUCKET);
    assert_true(x.r.took.ns >= DLC_SEC(30).ns);
    assert_true(x.r.attempts > 2);
    bucket_close(&b);
    fake_read_release(&x);
}

static _Atomic bool trickles;

static void on_progress(struct origin *o, struct attempt *a)
{
    (void)o;
    a->received += trickles;
}

/* Bytes that trickle are not silence. */
static void test_trickle_is_no_stall(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake *f = fake_new(1, script);
    struct fake_read x = {.done = 0};
    struct bucket *b;

    (void)state;
    trickles = true;
    f->ops.progress = on_progress;
    config.stall_timeout = DLC_SEC(20);
    config.retries = 0;
    b = fake_bucket(f, &config);
    fake_read(b, &x, "hang", 10000);
    wait_until(f->started == 1);
    for (unsigned i = 0; i < 60; i++)
        fake_pause(DLC_SEC(1));
    assert_int_equal(x.done, 0);
    trickles = false;
    wait_moving(x.done, DLC_SEC(1));
    assert_int_equal(x.r.rc, DLC_ETIMEDOUT);
    assert_non_null(strstr(x.r.err.text, "no byte came for 20"));
    bucket_close(&b);
    fake_read_release(&x);
}

/* ---- memory ---- */

/* Reads that expire or stall, all at the same tick. */
static void fail_some(struct dlc_dur deadline, struct dlc_dur stall)
{
    enum { N = 64 };
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x[N] = {0};
    struct bucket *b;

    config.deadline = deadline;
    config.stall_timeout = stall;
    config.retries = 0;
    config.max_requests = N;
    b = fake_bucket(fake_new(1, script), &config);
    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], "hang", 10);
    for (unsigned i = 0; i < N; i++) {
        wait_until(x[i].done);
        assert_int_equal(x[i].r.rc, DLC_ETIMEDOUT);
        fake_read_release(&x[i]);
    }
    bucket_close(&b);
}

static void test_timeouts_leave_no_memory(void **state)
{
    enum { ROUNDS = 4 };
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 2 + ROUNDS; i++) {
        if (i == 2)
            before = unit_heap();
        fail_some(DLC_MS(1), DLC_SEC(1000));
        fail_some(DLC_SEC(1000), DLC_MS(1));
    }
    assert_true(unit_heap() < before + ROUNDS * 64 * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_tell_the_limiter),
        cmocka_unit_test(test_lanes_share_the_latency),
        cmocka_unit_test(test_mean_length),
        cmocka_unit_test(test_next_is_sent_at_once),
        cmocka_unit_test(test_one_hedge_after_another),
        cmocka_unit_test(test_throttled_for_long),
        cmocka_unit_test(test_trickle_is_no_stall),
        cmocka_unit_test(test_timeouts_leave_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
