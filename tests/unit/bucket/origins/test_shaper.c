// SPDX-License-Identifier: Apache-2.0
/*
 * The decorator. Real time passes here, so limits are one-sided where the machine may be slow: a
 * delay is at least what was asked for, and ratios are wide.
 */
#include "bucket/bucket.h"

#include "unit.h"

#include "base/check.h"
#include "base/counters.h"
#include "base/mem.h"
#include "bucket/fake_origin.h"

static void script_ok(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->etag = "e1";
}

static struct bucket *shaped_bucket(const struct shape *s, struct fake *f, unsigned retries)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct origin *o = NULL;
    struct bucket *b = NULL;

    config.retries = retries;
    config.no_hedge = true;
    assert_int_equal(origin_shaped_new(s, &f->o, &o, &err), 0);
    assert_int_equal(bucket_open_origin(o, "", &config, o->lanes, &b, &err), 0);
    return b;
}

static void test_latency(void **state)
{
    struct shape s = {.latency = DLC_MS(40), .active = true};
    struct bucket *b = shaped_bucket(&s, fake_new(1, script_ok), 1);
    struct bucket_stat st;
    struct dlc_mono start;
    char data[100];

    (void)state;
    start = dlc_mono_now();
    assert_int_equal(bucket_read_wait(b, "k", "e1", 0, 100, true, data, NULL), 0);
    assert_true(dlc_mono_since(start).ns >= DLC_MS(40).ns);
    assert_true(fake_bytes_right("k", 0, data, 100));
    start = dlc_mono_now();
    assert_int_equal(bucket_stat_wait(b, "k", &st, NULL), 0);
    assert_true(dlc_mono_since(start).ns >= DLC_MS(40).ns);
    assert_int_equal(st.size, 42);
    assert_string_equal(st.etag, "e1");
    bucket_close(&b);
}

/* What the bucket asks an origin about itself is said by the one inside. */
static void test_says_what_the_inner_one_says(void **state)
{
    struct shape s = {.latency = DLC_MS(1), .active = true};
    struct fake *f = fake_new(3, script_ok);
    struct origin *o = NULL;

    (void)state;
    f->ops.part_max = 1234;
    f->ops.sums = true;
    f->o.price_get = 5;
    assert_int_equal(origin_shaped_new(&s, &f->o, &o, NULL), 0);
    assert_int_equal(o->ops->part_max, 1234);
    assert_true(o->ops->sums && o->ops->folders && !o->ops->folders_free);
    assert_true(o->price_get == 5 && o->lanes == 3);
    o->ops->free(o);
}

static void test_frees_the_inner_one(void **state)
{
    enum { ROUNDS = 100 };
    struct shape s = {.latency = DLC_MS(1), .active = true};
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 20 + ROUNDS; i++) {
        struct origin *o = NULL;

        if (i == 20)
            before = unit_heap();
        assert_int_equal(origin_shaped_new(&s, &fake_new(1, script_ok)->o, &o, NULL), 0);
        o->ops->free(o);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

/* Two pages; the second one is asked for with all that was said, and the first one's token. */
static void script_pages(struct fake *f, struct fake_call *c)
{
    struct attempt *a = c->a;

    (void)f;
    assert_int_equal(a->op, ATTEMPT_LIST);
    assert_string_equal(a->prefix, "p/");
    assert_true(a->by_folder);
    attempt_add_object(a, c->nth == 1 ? "p/1" : "p/2", 3, 1, "e");
    if (c->nth == 1)
        a->next = mem_str("page 2");
    else
        assert_string_equal(a->continuation, "page 2");
}

static bool on_page(struct bucket_list *l, const struct bucket_object *o, size_t n)
{
    *(size_t *)l->priv += n;
    assert_int_equal(o[0].size, 1);
    return true;
}

static void test_pages(void **state)
{
    struct shape s = {.latency = DLC_MS(1), .active = true};
    struct fake *f = fake_new(1, script_pages);
    struct bucket *b = shaped_bucket(&s, f, 1);
    size_t n = 0;

    (void)state;
    assert_int_equal(bucket_list_wait(b, "p/", on_page, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(f->started, 2);
    bucket_close(&b);
}

/* It delays by up to itself. */
static void test_jitter(void **state)
{
    struct shape s = {.jitter = DLC_SEC(1000), .active = true};
    struct fake *f = fake_new(1, script_ok);
    struct bucket *b = shaped_bucket(&s, f, 1);
    struct fake_read x = {.done = 0};

    (void)state;
    fake_read(b, &x, "k", 10);
    wait_until(f->answered == 1);
    for (unsigned i = 0; i < 10; i++)
        fake_pause(DLC_MS(0));
    assert_int_equal(x.done, 0); /* but for one in many thousand seeds; this is one */
    dlc_clock_advance(DLC_SEC(1000));
    wait_until(x.done);
    assert_int_equal(x.r.attempts, 1);
    bucket_close(&b);
    fake_read_release(&x);
}

/* Many at once take one latency together, and one link's time for all bytes, over all lanes. */
static void test_one_link(void **state)
{
    enum { N = 40, LEN = 100000 };
    struct shape s = {.latency = DLC_MS(200), .bandwidth = 20000000, .active = true};
    struct bucket *b = shaped_bucket(&s, fake_new(4, script_ok), 1);
    struct fake_read x[N] = {0};
    struct dlc_mono start = dlc_mono_now();
    double seconds;

    (void)state;
    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], "k", LEN);
    for (unsigned i = 0; i < N; i++)
        wait_until(x[i].done);
    seconds = dlc_dur_seconds(dlc_mono_since(start));
    assert_true(seconds >= 0.4); /* 200 ms and 4 MB at 20 MB/s */
    assert_true(seconds < 4);    /* one by one: 8 s; between, room for a busy machine */
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(x[i].r.rc, 0);
        assert_true(fake_bytes_right("k", 0, x[i].r.dst, LEN));
        fake_read_release(&x[i]);
    }
    bucket_close(&b);
}

/* The part of the link that a cancelled read had reserved is free again (SHAPER-2). */
static void test_cancel_frees_the_link(void **state)
{
    struct shape s = {.bandwidth = 1000000, .active = true};
    struct fake *f = fake_new(1, script_ok);
    struct bucket *b = shaped_bucket(&s, f, 1);
    struct fake_read big = {.done = 0};
    struct dlc_mono start;
    char data[1000];

    (void)state;
    fake_read(b, &big, "big", 10000000); /* ten seconds */
    wait_until(f->answered == 1);
    assert_int_equal(bucket_read_wait(b, "k", NULL, 0, 0, true, data, NULL),
                     0); /* it is on the link */
    start = dlc_mono_now();
    bucket_read_cancel(b, &big.r);
    assert_int_equal(bucket_read_wait(b, "k", NULL, 0, 1000, true, data, NULL), 0);
    assert_true(dlc_dur_seconds(dlc_mono_since(start)) < 5);
    wait_until(big.done);
    assert_int_equal(big.r.rc, DLC_ECANCELED);
    bucket_close(&b);
    fake_read_release(&big);
}

/* Only its own part: what was on the link before it is still in the way of others. */
static void test_cancel_leaves_the_link_to_others(void **state)
{
    struct shape s = {.bandwidth = 1000000, .active = true};
    struct fake *f = fake_new(1, script_ok);
    struct bucket *b = shaped_bucket(&s, f, 1);
    struct fake_read first = {.done = 0}, cancelled = {.done = 0};
    struct dlc_mono start = dlc_mono_now();
    char data[1000];

    (void)state;
    fake_read(b, &first, "first", 300000); /* 300 ms */
    wait_until(f->answered == 1);
    assert_int_equal(bucket_read_wait(b, "k", NULL, 0, 0, true, data, NULL), 0);
    fake_read(b, &cancelled, "cancelled", 10000000);
    wait_until(f->answered == 3);
    assert_int_equal(bucket_read_wait(b, "k", NULL, 0, 0, true, data, NULL), 0);
    bucket_read_cancel(b, &cancelled.r);
    wait_until(cancelled.done);
    assert_int_equal(bucket_read_wait(b, "k", NULL, 0, 1000, true, data, NULL), 0);
    assert_true(dlc_mono_since(start).ns >= DLC_MS(300).ns);
    bucket_close(&b);
    fake_read_release(&first);
    fake_read_release(&cancelled);
}

static unsigned failures_of(uint64_t seed, double errors)
{
    enum { N = 2000 };
    struct shape s = {.errors = errors, .seed = seed, .active = true};
    struct bucket *b = shaped_bucket(&s, fake_new(1, script_ok), 20);
    struct fake_read *x = mem_zero(N * sizeof(*x));
    uint64_t retries = count_read(bucket_retries), throttled = count_read(bucket_throttled);

    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], "k", 10);
    for (unsigned i = 0; i < N; i++) {
        wait_moving(x[i].done, DLC_MS(1));
        assert_int_equal(x[i].r.rc, 0);
        fake_read_release(&x[i]);
    }
    retries = count_read(bucket_retries) - retries;
    throttled = count_read(bucket_throttled) - throttled;
    if (errors > 0)
        assert_true(throttled > 0 && throttled < retries); /* both kinds */
    mem_free(&x);
    bucket_close(&b);
    return (unsigned)retries;
}

static void test_errors(void **state)
{
    unsigned n = failures_of(7, 0.05);

    (void)state;
    assert_in_range(n, 50, 200);               /* 105 expected */
    assert_int_equal(failures_of(7, 0.05), n); /* the same seed, the same failures */
    assert_int_equal(failures_of(7, 0), 0);
}

static void test_inner_failure_comes_through(void **state)
{
    struct shape s = {.latency = DLC_MS(1), .active = true};
    struct bucket *b = shaped_bucket(&s, fake_new(1, script_ok), 1);
    struct dlc_err err = DLC_ERR_INIT;
    char data[10];

    (void)state;
    assert_int_equal(bucket_read_wait(b, "k", "e0", 0, 10, true, data, &err), DLC_ECHANGED);
    bucket_close(&b);
}

/* Closing while answers wait for timers, for the link and for the inner origin. */
static void script_sometimes_hangs(struct fake *f, struct fake_call *c)
{
    (void)f;
    if (c->nth % 3 == 0)
        c->fate = FAKE_HANG;
}

static bool any_done(const struct fake_read *x, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (x[i].done)
            return true;
    return false;
}

static void test_close_while_busy(void **state)
{
    enum { N = 100 };
    struct shape s = {
        .latency = DLC_MS(5), .jitter = DLC_MS(5), .bandwidth = 100000, .active = true};
    struct fake *f = fake_new(2, script_sometimes_hangs);
    struct bucket *b = shaped_bucket(&s, f, 1);
    struct fake_read x[N] = {0};

    (void)state;
    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], "k", 1000);
    wait_until(any_done(x, N)); /* which of them hang depends on the lanes */
    bucket_close(&b);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(x[i].done, 1);
        fake_read_release(&x[i]);
    }
}

/* On a slow link bytes trickle; that is no stall. */
static void test_slow_link_is_no_stall(void **state)
{
    struct shape s = {.bandwidth = 1000, .active = true};
    struct bucket *b = shaped_bucket(&s, fake_new(1, script_ok), 1);
    struct fake_read x = {.done = 0};

    (void)state;
    fake_read(b, &x, "k", 100000); /* 100 s; a stall is 20 s */
    wait_moving(x.done, DLC_MS(500));
    assert_int_equal(x.r.rc, 0);
    assert_int_equal(x.r.attempts, 1);
    assert_true(x.r.took.ns >= DLC_SEC(100).ns);
    bucket_close(&b);
    fake_read_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latency),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_jitter),
        cmocka_unit_test(test_says_what_the_inner_one_says),
        cmocka_unit_test(test_one_link),
        cmocka_unit_test(test_cancel_frees_the_link),
        cmocka_unit_test(test_cancel_leaves_the_link_to_others),
        cmocka_unit_test(test_frees_the_inner_one),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_inner_failure_comes_through),
        cmocka_unit_test(test_close_while_busy),
        cmocka_unit_test(test_slow_link_is_no_stall),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
