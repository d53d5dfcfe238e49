// SPDX-License-Identifier: Apache-2.0
/* The engine over a scripted origin: retries, time, cancel, close, counters. */
#include "bucket/bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/counters.h"
#include "base/mem.h"
#include "fake_origin.h"

#define KEY "a/key"

static void script_ok(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->etag = "e1";
}

static void script_hang(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->fate = FAKE_HANG;
}

/* ---- plain answers ---- */

static void test_read(void **state)
{
    struct bucket *b = fake_bucket(fake_new(1, script_ok), NULL);
    struct dlc_mono began = dlc_mono_now();
    struct fake_read x = {.done = 0};

    (void)state;
    fake_read(b, &x, KEY, 100000);
    wait_until(x.done);
    assert_int_equal(x.r.rc, 0);
    assert_int_equal(x.r.err.code, 0);
    assert_int_equal(x.r.attempts, 1);
    assert_true(x.r.took.ns >= x.r.waited.ns && x.r.waited.ns >= 0);
    assert_true(x.r.took.ns <= dlc_mono_since(began).ns);
    assert_true(fake_bytes_right(KEY, 0, x.r.dst, 100000));
    bucket_close(&b);
    assert_null(b);
    assert_int_equal(x.done, 1);
    fake_read_release(&x);
}

static void test_waiting_calls(void **state)
{
    struct bucket *b = fake_bucket(fake_new(1, script_ok), NULL);
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket_stat st;
    char data[1000];

    (void)state;
    assert_int_equal(bucket_read_wait(b, KEY, "e1", 500, 1000, false, data, &err), 0);
    assert_true(fake_bytes_right(KEY, 500, data, 1000));
    assert_int_equal(bucket_read_wait(b, KEY, NULL, 0, 0, true, NULL, &err), 0);
    assert_int_equal(bucket_stat_wait(b, KEY, &st, &err), 0);
    assert_int_equal(st.size, 42);
    assert_string_equal(st.etag, "e1");
    bucket_close(&b);
}

static void test_many_reads_on_many_lanes(void **state)
{
    enum { N = 2000 };
    struct fake *f = fake_new(4, script_ok);
    struct bucket *b = fake_bucket(f, NULL);
    struct fake_read *x = mem_zero(N * sizeof(*x));
    struct bucket_figures figures;

    (void)state;
    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], KEY, 100);
    for (unsigned i = 0; i < N; i++)
        wait_until(x[i].done);
    assert_int_equal(f->started, N);
    for (unsigned lane = 0; lane < 4; lane++)
        assert_true(f->lane_started[lane] > 0);
    bucket_figures(b, &figures);
    assert_true(figures.limit > 0);
    bucket_close(&b);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(x[i].done, 1);
        assert_true(fake_bytes_right(KEY, 0, x[i].r.dst, 100));
        fake_read_release(&x[i]);
    }
    mem_free(&x);
}

/* Lane 0 is done soon; then lane 1 may use both limits. */
static _Atomic unsigned late_flying;

static void script_slow_lane(struct fake *f, struct fake_call *c)
{
    c->delay = c->a->lane == 0 ? DLC_MS(20) : DLC_MS(50);
    if (c->a->lane == 1 && f->lane_started[1] > 20 && f->flying > late_flying)
        late_flying = f->flying;
}

static void test_idle_lane_lends(void **state)
{
    enum { N = 80 };
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake *f = fake_new(2, script_slow_lane);
    struct fake_read x[N] = {0};
    struct bucket *b;

    (void)state;
    late_flying = 0;
    config.max_requests = 8;
    config.no_hedge = true;
    b = fake_bucket(f, &config);
    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], KEY, 10);
    for (unsigned i = 0; i < N; i++) {
        wait_until(x[i].done);
        fake_read_release(&x[i]);
    }
    assert_true(f->lane_started[1] > 20);
    assert_in_range(late_flying, 5, 8);
    bucket_close(&b);
}

/* A stat does not wait behind a long queue of reads. */
static _Atomic unsigned reads_before_stat;

static void script_order(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->delay = DLC_MS(1);
    if (c->a->op == ATTEMPT_STAT)
        reads_before_stat = c->nth - 1;
}

static void test_stat_goes_first(void **state)
{
    enum { N = 200 };
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x[N] = {0};
    struct bucket_stat st;
    struct bucket *b;

    (void)state;
    config.max_requests = 2;
    b = fake_bucket(fake_new(1, script_order), &config);
    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], KEY, 10);
    assert_int_equal(bucket_stat_wait(b, KEY, &st, NULL), 0);
    assert_in_range(reads_before_stat, 0, N / 2);
    for (unsigned i = 0; i < N; i++) {
        wait_until(x[i].done);
        fake_read_release(&x[i]);
    }
    bucket_close(&b);
}

/* ---- retries ---- */

static void script_fails_thrice(struct fake *f, struct fake_call *c)
{
    (void)f;
    if (c->nth <= 3)
        c->fate = FAKE_FAIL;
    c->rc = DLC_EBUCKET;
    c->retryable = true;
}

static void test_retry(void **state)
{
    struct bucket *b = fake_bucket(fake_new(1, script_fails_thrice), NULL);
    uint64_t retries = count_read(bucket_retries), errors = count_read(bucket_errors);
    struct fake_read x = {.done = 0};

    (void)state;
    fake_read(b, &x, KEY, 1000);
    wait_moving(x.done, DLC_MS(20));
    assert_int_equal(x.r.rc, 0);
    assert_int_equal(x.r.err.code, 0);
    assert_string_equal(x.r.err.text, "");
    assert_int_equal(x.r.attempts, 4);
    assert_int_equal(count_read(bucket_retries) - retries, 3);
    assert_int_equal(count_read(bucket_errors), errors);
    assert_true(fake_bytes_right(KEY, 0, x.r.dst, 1000));
    bucket_close(&b);
    fake_read_release(&x);
}

static void script_denied(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->fate = FAKE_FAIL;
    c->rc = DLC_EDENIED;
}

static void test_no_retry_of_what_is_final(void **state)
{
    struct fake *f = fake_new(1, script_denied);
    struct bucket *b = fake_bucket(f, NULL);
    uint64_t errors = count_read(bucket_errors);
    struct dlc_err err = DLC_ERR_INIT;
    char data[10];

    (void)state;
    assert_int_equal(bucket_read_wait(b, KEY, NULL, 0, 10, false, data, &err), DLC_EDENIED);
    assert_int_equal(err.code, DLC_EDENIED);
    assert_string_equal(err.text, "the fake fails attempt 1");
    assert_int_equal(f->started, 1);
    assert_int_equal(count_read(bucket_errors) - errors, 1);
    bucket_close(&b);
}

static void script_fails(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->fate = FAKE_FAIL;
    c->rc = DLC_EBUCKET;
    c->retryable = true;
}

static void test_gives_up(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x = {.done = 0};
    struct bucket *b;

    (void)state;
    config.retries = 5;
    b = fake_bucket(fake_new(1, script_fails), &config);
    fake_read(b, &x, KEY, 10);
    wait_moving(x.done, DLC_MS(100));
    assert_int_equal(x.r.rc, DLC_EBUCKET);
    assert_int_equal(x.r.attempts, 6);
    assert_non_null(strstr(x.r.err.text, "the fake fails attempt 6; given up after 6 attempts in"));
    bucket_close(&b);
    fake_read_release(&x);
}

static void script_retry_after(struct fake *f, struct fake_call *c)
{
    (void)f;
    if (c->nth > 1)
        return;
    c->fate = FAKE_FAIL;
    c->rc = DLC_EBUCKET;
    c->retryable = true;
    c->retry_after = DLC_SEC(60);
}

static void test_retry_after(void **state)
{
    struct fake *f = fake_new(1, script_retry_after);
    struct bucket *b = fake_bucket(f, NULL);
    struct fake_read x = {.done = 0};

    (void)state;
    fake_read(b, &x, KEY, 10);
    wait_until(f->answered == 1);
    wait_moving(x.done, DLC_SEC(1));
    assert_true(x.r.took.ns >= DLC_SEC(60).ns);
    assert_int_equal(x.r.attempts, 2);
    bucket_close(&b);
    fake_read_release(&x);
}

/* Every answer is 503 until ten seconds have passed. */
static struct dlc_mono storm_end;

static void script_storm(struct fake *f, struct fake_call *c)
{
    (void)f;
    if (dlc_mono_now().ns >= storm_end.ns)
        return;
    c->fate = FAKE_FAIL;
    c->rc = DLC_EBUCKET;
    c->retryable = c->throttled = true;
}

static void test_survives_a_storm(void **state)
{
    enum { N = 300 };
    struct bucket *b = fake_bucket(fake_new(1, script_storm), NULL);
    uint64_t throttled = count_read(bucket_throttled);
    struct fake_read x[N] = {0};

    (void)state;
    storm_end = dlc_mono_add(dlc_mono_now(), DLC_SEC(10));
    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], KEY, 100);
    for (unsigned i = 0; i < N; i++)
        wait_moving(x[i].done, DLC_MS(20));
    assert_true(count_read(bucket_throttled) - throttled >= N);
    for (unsigned i = 0; i < N; i++) {
        if (x[i].r.rc != 0)
            fail_msg("%s", x[i].r.err.text);
        fake_read_release(&x[i]);
    }
    bucket_close(&b);
}

/* ---- answers that are not what they seem ---- */

static void script_short_once(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->fate = c->nth == 1 ? FAKE_SHORT : FAKE_OK;
}

static void test_short_body(void **state)
{
    struct bucket *b = fake_bucket(fake_new(1, script_short_once), NULL);
    uint64_t corrupt = count_read(bucket_corrupt);
    struct fake_read x = {.done = 0};

    (void)state;
    fake_read(b, &x, KEY, 1000);
    wait_moving(x.done, DLC_MS(20));
    assert_int_equal(x.r.rc, 0);
    assert_int_equal(x.r.attempts, 2);
    assert_int_equal(count_read(bucket_corrupt) - corrupt, 1);
    bucket_close(&b);
    fake_read_release(&x);
}

static void test_server_that_ignores_if_match(void **state)
{
    struct fake *f = fake_new(1, script_ok);
    struct bucket *b = fake_bucket(f, NULL);
    struct dlc_err err = DLC_ERR_INIT;
    char data[10];

    (void)state;
    assert_int_equal(bucket_read_wait(b, KEY, "e0", 0, 10, false, data, &err), DLC_ECHANGED);
    assert_int_equal(f->started, 1); /* asked again it would be the same */
    assert_non_null(strstr(err.text, KEY));
    assert_non_null(strstr(err.text, "e0"));
    assert_non_null(strstr(err.text, "e1"));
    bucket_close(&b);
}

/* ---- time ---- */

static void test_deadline(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake *f = fake_new(1, script_hang);
    struct fake_read x = {.done = 0};
    struct bucket *b;

    (void)state;
    config.deadline = DLC_SEC(60);
    config.stall_timeout = DLC_SEC(1000);
    b = fake_bucket(f, &config);
    fake_read(b, &x, KEY, 10);
    wait_until(f->started == 1);
    wait_moving(x.done, DLC_SEC(1));
    assert_int_equal(x.r.rc, DLC_ETIMEDOUT);
    assert_non_null(strstr(x.r.err.text, KEY));
    assert_true(x.r.took.ns >= DLC_SEC(60).ns);
    assert_int_equal(f->cancelled, 1);
    bucket_close(&b);
    fake_read_release(&x);
}

static void test_deadline_during_retries(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x = {.done = 0};
    struct bucket *b;

    (void)state;
    config.deadline = DLC_SEC(5);
    config.retries = 1000;
    b = fake_bucket(fake_new(1, script_fails), &config);
    fake_read(b, &x, KEY, 10);
    wait_moving(x.done, DLC_MS(50));
    assert_int_equal(x.r.rc, DLC_ETIMEDOUT);
    assert_non_null(strstr(x.r.err.text, "the last failure was: the fake fails"));
    bucket_close(&b);
    fake_read_release(&x);
}

/* Waiting in our own queue does not count: with one request at a time, all hang for a while. */
static void test_queue_time_is_not_the_buckets(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake *f = fake_new(1, script_hang);
    struct fake_read x[3] = {0};
    struct bucket *b;

    (void)state;
    config.deadline = DLC_SEC(10);
    config.stall_timeout = DLC_SEC(1000);
    config.max_requests = 1;
    b = fake_bucket(f, &config);
    for (unsigned i = 0; i < 3; i++)
        fake_read(b, &x[i], KEY, 10);
    wait_moving(x[2].done, DLC_SEC(1));
    assert_int_equal(f->flying_max, 1);
    assert_true(x[2].r.waited.ns >= DLC_SEC(20).ns);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(x[i].r.rc, DLC_ETIMEDOUT);
        fake_read_release(&x[i]);
    }
    bucket_close(&b);
}

static void script_hangs_once(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->fate = c->nth == 1 ? FAKE_HANG : FAKE_OK;
    if (c->nth == 1)
        c->first_byte = DLC_MS(1); /* headers, then silence */
}

static void test_stall(void **state)
{
    struct fake *f = fake_new(1, script_hangs_once);
    struct bucket *b = fake_bucket(f, NULL);
    struct fake_read x = {.done = 0};

    (void)state;
    fake_read(b, &x, KEY, 1000);
    wait_until(f->started == 1);
    wait_moving(x.done, DLC_MS(500));
    assert_int_equal(x.r.rc, 0);
    assert_int_equal(x.r.attempts, 2);
    assert_int_equal(f->cancelled, 1);
    assert_true(x.r.took.ns >= DLC_SEC(20).ns);
    assert_true(fake_bytes_right(KEY, 0, x.r.dst, 1000));
    bucket_close(&b);
    fake_read_release(&x);
}

static void test_stall_for_good(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x = {.done = 0};
    struct bucket *b;

    (void)state;
    config.retries = 1;
    b = fake_bucket(fake_new(1, script_hang), &config);
    fake_read(b, &x, KEY, 10);
    wait_moving(x.done, DLC_MS(500));
    assert_int_equal(x.r.rc, DLC_ETIMEDOUT);
    assert_non_null(strstr(x.r.err.text, "no byte came for 20"));
    assert_non_null(strstr(x.r.err.text, "2 attempts"));
    bucket_close(&b);
    fake_read_release(&x);
}

/* ---- cancel and close ---- */

static void test_cancel_flying_and_queued(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake *f = fake_new(1, script_hang);
    struct fake_read x[2] = {0};
    struct bucket *b;

    (void)state;
    config.max_requests = 1;
    b = fake_bucket(f, &config);
    for (unsigned i = 0; i < 2; i++)
        fake_read(b, &x[i], KEY, 10);
    wait_until(f->started == 1);
    bucket_read_cancel(b, &x[1].r);
    wait_until(x[1].done);
    bucket_read_cancel(b, &x[0].r);
    wait_until(x[0].done);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(x[i].r.rc, DLC_ECANCELED);
        assert_int_equal(x[i].r.attempts, 1 - i);
    }
    assert_int_equal(f->started, 1);
    bucket_close(&b);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(x[i].done, 1);
        fake_read_release(&x[i]);
    }
}

static void test_cancel_in_backoff(void **state)
{
    struct fake *f = fake_new(1, script_retry_after);
    struct bucket *b = fake_bucket(f, NULL);
    struct fake_read x = {.done = 0};
    struct bucket_stat st;

    (void)state;
    fake_read(b, &x, KEY, 10);
    wait_until(f->answered == 1);
    bucket_read_cancel(b, &x.r);
    wait_until(x.done);
    assert_int_equal(x.r.rc, DLC_ECANCELED);
    dlc_clock_advance(DLC_SEC(100)); /* its turn would be now */
    assert_int_equal(bucket_stat_wait(b, KEY, &st, NULL), 0);
    assert_int_equal(f->started, 2);
    bucket_close(&b);
    assert_int_equal(x.done, 1);
    fake_read_release(&x);
}

/* Cancels that race with answers: done() comes once, whoever is first. The lock is how a caller
 * knows that done() has not returned yet. */
struct race {
    struct bucket_read r;
    int dones; /* G: race_mtx */
    char data[10];
};

static struct dlc_mtx race_mtx;

static void on_race(struct bucket_read *r)
{
    dlc_mtx_lock(&race_mtx);
    dlc_container(r, struct race, r)->dones++;
    dlc_mtx_unlock(&race_mtx);
}

static void test_cancel_races(void **state)
{
    enum { N = 3000 };
    struct bucket *b = fake_bucket(fake_new(2, script_ok), NULL);
    struct race *x = mem_zero(N * sizeof(*x));
    unsigned cancelled = 0;

    (void)state;
    dlc_mtx_init(&race_mtx, LCK_sync);
    for (unsigned i = 0; i < N; i++) {
        x[i].r = (struct bucket_read){.key = KEY, .length = 10, .dst = x[i].data, .done = on_race};
        bucket_read(b, &x[i].r);
        if (i < 20)
            continue;
        dlc_mtx_lock(&race_mtx);
        if (x[i - 20].dones == 0) {
            bucket_read_cancel(b, &x[i - 20].r);
            cancelled++;
        }
        dlc_mtx_unlock(&race_mtx);
    }
    bucket_close(&b);
    assert_true(cancelled > 0);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(x[i].dones, 1);
        assert_true(x[i].r.rc == 0 || x[i].r.rc == DLC_ECANCELED);
    }
    dlc_mtx_release(&race_mtx);
    mem_free(&x);
}

static _Atomic int other_dones;

static void on_stat(struct bucket_stat *s)
{
    assert_int_equal(s->rc, DLC_ECANCELED);
    other_dones++;
}

static void on_list(struct bucket_list *l)
{
    assert_int_equal(l->rc, DLC_ECANCELED);
    other_dones++;
}

static bool on_page(struct bucket_list *l, const struct bucket_object *o, size_t n)
{
    (void)l, (void)o, (void)n;
    return true;
}

static void test_close_while_busy(void **state)
{
    enum { N = 500 };
    struct fake *f = fake_new(3, script_hang);
    struct bucket *b = fake_bucket(f, NULL);
    struct bucket_stat st = {.key = KEY, .done = on_stat};
    struct bucket_list li = {.page = on_page, .done = on_list};
    struct fake_read *x = mem_zero(N * sizeof(*x));

    (void)state;
    other_dones = 0;
    bucket_stat(b, &st);
    bucket_list(b, &li);
    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], KEY, i == 7 ? 40u << 20 : 100);
    wait_until(f->started >= 64);
    bucket_close(&b); /* the fake checks that nothing flies any more */
    assert_int_equal(other_dones, 2);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(x[i].done, 1);
        assert_int_equal(x[i].r.rc, DLC_ECANCELED);
        fake_read_release(&x[i]);
    }
    mem_free(&x);
}

/* done() that asks again, once, also while the bucket is being closed. */
struct again {
    struct fake_read x;
    struct bucket *b;
    _Atomic int dones;
    char data[10];
};

static void on_again(struct bucket_read *r)
{
    struct again *g = dlc_container(r, struct again, x.r);

    if (++g->dones < 3)
        bucket_read(g->b, r);
}

static void test_close_while_done_asks_again(void **state)
{
    enum { N = 50 };
    struct fake *f = fake_new(2, script_hang);
    struct bucket *b = fake_bucket(f, NULL);
    struct again g[N] = {0};

    (void)state;
    for (unsigned i = 0; i < N; i++) {
        g[i].b = b;
        g[i].x.r =
            (struct bucket_read){.key = KEY, .length = 10, .dst = g[i].data, .done = on_again};
        bucket_read(b, &g[i].x.r);
    }
    wait_until(f->started == N);
    bucket_close(&b);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(g[i].dones, 3);
}

/* ---- money ---- */

static void test_money(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    uint64_t money = count_read(money_nano), bytes = count_read(bucket_bytes);
    uint64_t gets = count_read(bucket_gets), requests = count_read(bucket_requests);
    struct bucket_stat st;
    struct bucket *b;
    char *data = mem_alloc(1000000);

    (void)state;
    config.price_get = 0.0004; /* per 1000: 400 nano each */
    config.price_gb = 0.09;    /* 90,000 nano for a million bytes */
    b = fake_bucket(fake_new(1, script_ok), &config);
    for (int i = 0; i < 10; i++)
        assert_int_equal(bucket_read_wait(b, KEY, NULL, 0, 1000000, false, data, NULL), 0);
    assert_int_equal(bucket_stat_wait(b, KEY, &st, NULL), 0);
    assert_in_range(count_read(money_nano) - money, 10 * 90400 + 400 - 1, 10 * 90400 + 400 + 1);
    assert_int_equal(count_read(bucket_bytes) - bytes, 10000000);
    assert_int_equal(count_read(bucket_gets) - gets, 10);
    assert_int_equal(count_read(bucket_requests) - requests, 11);
    bucket_close(&b);
    mem_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_waiting_calls),
        cmocka_unit_test(test_many_reads_on_many_lanes),
        cmocka_unit_test(test_idle_lane_lends),
        cmocka_unit_test(test_stat_goes_first),
        cmocka_unit_test(test_retry),
        cmocka_unit_test(test_no_retry_of_what_is_final),
        cmocka_unit_test(test_gives_up),
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_survives_a_storm),
        cmocka_unit_test(test_short_body),
        cmocka_unit_test(test_server_that_ignores_if_match),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_deadline_during_retries),
        cmocka_unit_test(test_queue_time_is_not_the_buckets),
        cmocka_unit_test(test_stall),
        cmocka_unit_test(test_stall_for_good),
        cmocka_unit_test(test_cancel_flying_and_queued),
        cmocka_unit_test(test_cancel_in_backoff),
        cmocka_unit_test(test_cancel_races),
        cmocka_unit_test(test_close_while_busy),
        cmocka_unit_test(test_close_while_done_asks_again),
        cmocka_unit_test(test_money),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
