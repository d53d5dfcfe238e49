// SPDX-License-Identifier: Apache-2.0
/* Requests that wait for their answer, and stats: interrupts, failures, what an answer leaves. */
#include "unit.h"

#include "base/cancel.h"
#include "base/check.h"
#include "fake_origin.h"

static void script(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->etag = "e1";
    if (strcmp(c->a->key, "hangs") == 0)
        c->fate = FAKE_HANG;
    if (strcmp(c->a->key, "denied") == 0 || (strcmp(c->a->key, "flaky") == 0 && c->nth == 1)) {
        c->fate = FAKE_FAIL;
        c->retryable = c->a->key[0] == 'f';
        c->rc = c->retryable ? DLC_EBUCKET : DLC_EDENIED;
    }
}

/* ---- interrupts ---- */

struct asked {
    struct interrupt i;
    unsigned n, yes_at; /* 0: never */
};

static bool ask(struct interrupt *i)
{
    struct asked *a = dlc_container(i, struct asked, i);

    return ++a->n == a->yes_at;
}

/* Ctrl-C: the read ends, is not asked for any more, and says so. */
static void test_interrupted(void **state)
{
    struct asked a = {{.ask = ask}, .yes_at = 2};
    struct fake *f = fake_new(1, script);
    struct bucket *b = fake_bucket(f, NULL);
    struct dlc_err err = DLC_ERR_INIT;
    char data[10];

    (void)state;
    interrupt_asked = &a.i;
    assert_int_equal(bucket_read_wait(b, "hangs", NULL, 0, 10, false, data, &err), DLC_ECANCELED);
    interrupt_asked = NULL;
    assert_int_equal(err.code, DLC_ECANCELED);
    assert_int_equal(a.n, 2);
    assert_int_equal(f->flying, 0);
    assert_int_equal(f->cancelled, 1);
    bucket_close(&b);
}

static void script_slow(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->delay = DLC_MS(250);
}

/* Asked and not interrupted: the answer comes. */
static void test_not_interrupted(void **state)
{
    struct asked a = {{.ask = ask}};
    struct fake *f = fake_new(1, script_slow);
    struct bucket *b = fake_bucket(f, NULL);
    struct dlc_mono began = dlc_mono_now();
    char data[10];

    (void)state;
    interrupt_asked = &a.i;
    assert_int_equal(bucket_read_wait(b, "k", NULL, 0, 10, false, data, NULL), 0);
    interrupt_asked = NULL;
    assert_in_range(a.n, 1, dlc_mono_since(began).ns / INTERRUPT_EVERY.ns); /* it slept meanwhile */
    assert_true(fake_bytes_right("k", 0, data, 10));
    assert_int_equal(f->cancelled, 0);
    bucket_close(&b);
}

/* ---- on a lane ---- */

static struct bucket *own;
static enum { WAIT_READ, WAIT_READS, WAIT_STAT, WAIT_LIST, WAIT_KINDS } wait_kind;

static bool on_page(struct bucket_list *l, const struct bucket_object *o, size_t n)
{
    (void)l, (void)o, (void)n;
    return true;
}

static void wait_on_lane(struct bucket_read *r)
{
    struct bucket_read one = {.key = "k"};
    struct bucket_stat st;

    (void)r;
    switch (wait_kind) {
    case WAIT_READ: bucket_read_wait(own, "k", NULL, 0, 0, true, NULL, NULL); break;
    case WAIT_READS: bucket_read_all_wait(own, &one, 1, NULL); break;
    case WAIT_STAT: bucket_stat_wait(own, "k", &st, NULL); break;
    case WAIT_LIST: bucket_list_wait(own, "", on_page, NULL, NULL); break;
    case WAIT_KINDS: break;
    }
}

static void wait_on_first_lane(void)
{
    struct bucket_read r = {.key = "k", .done = wait_on_lane};

    alarm(10); /* SIGALRM is not SIGABRT */
    own = fake_bucket(fake_new(1, script), NULL);
    bucket_read(own, &r);
    pause();
}

static void wait_on_second_lane(void)
{
    struct bucket_read hangs = {.key = "hangs", .done = wait_on_lane}, r = hangs;

    alarm(10);
    r.key = "k";
    own = fake_bucket(fake_new(2, script), NULL);
    bucket_read(own, &hangs);
    bucket_read(own, &r); /* on the lane that has nothing to do */
    pause();
}

/* A lane that waited for itself would never wake: that is found out at once. */
static void test_waits_on_a_lane(void **state)
{
    (void)state;
    for (wait_kind = WAIT_READ; wait_kind < WAIT_KINDS; wait_kind++)
        assert_true(unit_aborts(wait_on_first_lane));
    wait_kind = WAIT_STAT;
    assert_true(unit_aborts(wait_on_second_lane));
}

/* ---- many reads ---- */

/* All have ended when the call returns, and the first failure is told. */
static void test_reads_together(void **state)
{
    enum { N = 20 };
    struct bucket *b = fake_bucket(fake_new(2, script), NULL);
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket_read r[N] = {0};
    char data[N][10];

    (void)state;
    assert_int_equal(bucket_read_all_wait(b, r, 0, &err), 0);
    for (unsigned i = 0; i < N; i++)
        r[i] = (struct bucket_read){.key = "k", .offset = i, .length = 10, .dst = data[i]};
    assert_int_equal(bucket_read_all_wait(b, r, N, &err), 0);
    for (unsigned i = 0; i < N; i++)
        assert_true(fake_bytes_right("k", i, data[i], 10));
    memset(data, 0, sizeof(data));
    r[N - 2].key = "denied";
    assert_int_equal(bucket_read_all_wait(b, r, N, &err), DLC_EDENIED);
    assert_int_equal(err.code, DLC_EDENIED);
    assert_non_null(strstr(err.text, "the fake fails"));
    assert_true(fake_bytes_right("k", N - 1, data[N - 1], 10)); /* the others came */
    r[0].etag = "e0";
    assert_int_equal(bucket_read_all_wait(b, r, N, &err), DLC_ECHANGED);
    bucket_close(&b);
}

/* Each done() wakes the caller, who goes on only after the last. */
static void script_one_by_one(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->delay = DLC_MS(c->nth * 2);
}

static void test_waits_for_the_last_read(void **state)
{
    enum { N = 10 };
    struct fake *f = fake_new(1, script_one_by_one);
    struct bucket *b = fake_bucket(f, NULL);
    struct bucket_read r[N] = {0};
    char data[N];

    (void)state;
    for (unsigned i = 0; i < N; i++)
        r[i] = (struct bucket_read){.key = "k", .length = 1, .dst = &data[i]};
    assert_int_equal(bucket_read_all_wait(b, r, N, NULL), 0);
    assert_int_equal(f->answered, N);
    bucket_close(&b);
}

/* ---- stats ---- */

static _Atomic unsigned dones;

static void on_stat(struct bucket_stat *s)
{
    (void)s;
    dones++;
}

static void run_stat(struct bucket *b, struct bucket_stat *st, const char *key)
{
    memset(st, 0x55, sizeof(*st)); /* what an earlier use left */
    st->key = key;
    st->done = on_stat;
    dones = 0;
    bucket_stat(b, st);
}

static void test_stat(void **state)
{
    struct bucket *b = fake_bucket(fake_new(1, script), NULL);
    struct bucket_stat st;

    (void)state;
    run_stat(b, &st, "flaky");
    wait_moving(dones, DLC_MS(20));
    assert_int_equal(st.rc, 0);
    assert_int_equal(st.size, 42);
    assert_string_equal(st.etag, "e1");
    assert_int_equal(st.err.code, 0); /* nothing is left of the first attempt */
    assert_string_equal(st.err.text, "");
    run_stat(b, &st, "denied");
    wait_until(dones);
    assert_int_equal(st.rc, DLC_EDENIED);
    assert_int_equal(st.err.code, DLC_EDENIED);
    assert_non_null(strstr(st.err.text, "the fake fails"));
    assert_int_equal(st.size, 0);
    assert_string_equal(st.etag, "");
    run_stat(b, &st, "hangs");
    bucket_close(&b);
    assert_int_equal(dones, 1);
    assert_int_equal(st.rc, DLC_ECANCELED);
    assert_string_equal(st.err.text, "looking at hangs: the bucket is being closed");
}

/* A stat is sent at once, not with the lane's next tick, which is 5 ms away: the fastest of many
 * shows it, however busy the machine is. */
static void test_stat_is_sent_at_once(void **state)
{
    int64_t least = INT64_MAX;

    (void)state;
    for (unsigned i = 0; i < 100 && least >= DLC_MS(4).ns; i++) {
        struct bucket *b = fake_bucket(fake_new(1, script), NULL);
        struct dlc_mono began = dlc_mono_now();
        struct bucket_stat st;

        assert_int_equal(bucket_stat_wait(b, "k", &st, NULL), 0);
        least = DLC_MIN(least, dlc_mono_since(began).ns);
        bucket_close(&b);
    }
    assert_true(least < DLC_MS(4).ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_not_interrupted),
        cmocka_unit_test(test_waits_on_a_lane),
        cmocka_unit_test(test_stat),
        cmocka_unit_test(test_stat_is_sent_at_once),
        cmocka_unit_test(test_reads_together),
        cmocka_unit_test(test_waits_for_the_last_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
