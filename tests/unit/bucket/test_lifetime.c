// SPDX-License-Identifier: Apache-2.0
/* A bucket from its URL to its end: defaults, prices, names in messages, close. */
#include "unit.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "fake_origin.h"

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

/* ---- open ---- */

static int open_url(const char *text, const struct bucket_config *c, struct bucket **out,
                    struct dlc_err *err)
{
    struct url u = URL_INIT;
    int rc;

    assert_int_equal(url_parse(&u, text, err), 0);
    rc = bucket_open(&u, c, out, err);
    url_release(&u);
    return rc;
}

static void test_defaults(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct bucket *b;

    (void)state;
    config.endpoint = config.region = config.profile = "the caller's";
    b = fake_bucket(fake_new(1, script_ok), &config);
    assert_int_equal(b->config.max_requests, 1024);
    assert_true(b->config.stall_timeout.ns == DLC_SEC(20).ns);
    assert_true(b->config.deadline.ns == DLC_SEC(300).ns);
    assert_null(b->config.endpoint); /* nothing of the caller's is kept */
    assert_null(b->config.region);
    assert_null(b->config.profile);
    bucket_close(&b);
    config.max_requests = 1;
    config.stall_timeout = DLC_MS(7);
    config.deadline = DLC_MS(8);
    b = fake_bucket(fake_new(1, script_ok), &config);
    assert_int_equal(b->config.max_requests, 1);
    assert_true(b->config.stall_timeout.ns == DLC_MS(7).ns);
    assert_true(b->config.deadline.ns == DLC_MS(8).ns);
    bucket_close(&b);
}

static unsigned lanes_for(unsigned asked)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct bucket *b = NULL;
    unsigned n;

    config.lanes = asked;
    assert_int_equal(open_url("file:///tmp", &config, &b, NULL), 0);
    n = b->n_lanes;
    bucket_close(&b);
    return n;
}

static void test_lanes(void **state)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    (void)state;
    assert_int_equal(lanes_for(0), cores < 4 ? 1 : cores >= 16 ? 8 : cores / 2);
    assert_int_equal(lanes_for(1), 1);
    assert_int_equal(lanes_for(3), 3);
    assert_int_equal(lanes_for(8), 8);
    assert_int_equal(lanes_for(100), 8);
}

/* Only a URL that says so is slow, and messages name the bucket as its URL does. */
static void test_shape_and_place(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket *b = NULL;
    char dir[256], data[5];
    char *key = mem_fmt("%s/k", unit_path("place", dir)), *url;

    (void)state;
    assert_int_equal(os_mkdirs(dir, 0755), 0);
    assert_int_equal(os_write_file(key, "hello", 5, 0644, NULL), 0);
    mem_free(&key);
    url = mem_fmt("file://%s", dir);
    assert_int_equal(open_url(url, &config, &b, &err), 0);
    assert_int_equal(bucket_read_wait(b, "k", NULL, 0, 5, true, data, &err), 0);
    assert_memory_equal(data, "hello", 5);
    bucket_close(&b);
    mem_free(&url);

    config.deadline = DLC_MS(20);
    url = mem_fmt("file://%s?latency=100s", dir);
    assert_int_equal(open_url(url, &config, &b, &err), 0);
    mem_free(&url);
    url = mem_fmt("reading file://%s/k", dir);
    assert_int_equal(bucket_read_wait(b, "k", NULL, 0, 5, true, data, &err), DLC_ETIMEDOUT);
    if (strstr(err.text, url) == NULL)
        fail_msg("%s", err.text);
    bucket_close(&b);
    mem_free(&url);

    url = mem_str("http://127.0.0.1:9/data/?dlcache-latency=100s&token=secret");
    assert_int_equal(open_url(url, &config, &b, &err), 0);
    assert_int_equal(bucket_read_wait(b, "k?token=secret", NULL, 0, 5, true, data, &err),
                     DLC_ETIMEDOUT);
    assert_non_null(strstr(err.text, "reading http://127.0.0.1:9/data/"));
    assert_null(strstr(err.text, "secret"));
    bucket_close(&b);
    mem_free(&url);
}

static void test_open_fails(void **state)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket *b = (struct bucket *)(void *)&config; /* whatever was there before */

    (void)state;
    assert_int_equal(open_url("dlcache://name", &config, &b, &err), DLC_EINVAL);
    assert_null(b);
    assert_non_null(strstr(err.text, "dlcache://name"));
    bucket_close(&b); /* legal */
}

/* ---- prices ---- */

static bool on_page(struct bucket_list *l, const struct bucket_object *o, size_t n)
{
    (void)l, (void)o, (void)n;
    return true;
}

/* Nano of money for a listing, and what bucket_prices() says; those of the cloud are 4, 50, 9. */
static uint64_t price_list(double get, double list, double gb, double *get_out, double *byte_out)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct bucket_tally tally = {0};
    struct fake *f = fake_new(1, script_ok);
    struct bucket *b;

    f->o.price_get = 4;
    f->o.price_list = 50;
    f->o.price_gb = 9;
    config.price_get = get;
    config.price_list = list;
    config.price_gb = gb;
    config.tally = &tally;
    b = fake_bucket(f, &config);
    assert_int_equal(bucket_list_wait(b, "", on_page, NULL, NULL), 0);
    bucket_prices(b, get_out, byte_out);
    bucket_close(&b);
    return tally.money_nano;
}

static bool about(double x, double expect)
{
    return x > expect * 0.999 - 1e-15 && x < expect * 1.001 + 1e-15;
}

/* None told: the cloud's. 0 is a price: a store of one's own costs nothing. */
static void test_prices(void **state)
{
    double get = -1, byte = -1;

    (void)state;
    assert_int_equal(price_list(-1, -1, -1, &get, &byte), 50 * 1000000);
    assert_true(about(get, 4e-3) && about(byte, 9e-9));
    assert_int_equal(price_list(0, 0, 0, &get, &byte), 0);
    assert_true(get == 0 && byte == 0);
    assert_int_equal(price_list(0.5, 2, 0.25, &get, &byte), 2 * 1000000);
    assert_true(about(get, 0.5e-3) && about(byte, 0.25e-9));
}

/* ---- the hint ---- */

/* Small objects are told: while nothing answers, many may be asked for at once. */
static void test_hint(void **state)
{
    struct fake *f = fake_new(1, script_hang);
    struct bucket *b = fake_bucket(f, NULL);
    struct bucket_figures g;
    struct fake_read x = {.done = 0};

    (void)state;
    bucket_figures(b, &g);
    assert_int_equal(g.limit, 64);
    bucket_hint_size(b, 1000);
    fake_read(b, &x, "k", 8u << 20);
    wait_until(f->started == 1);
    for (unsigned i = 0; i < 40; i++)
        fake_pause(DLC_MS(10));
    wait_until((bucket_figures(b, &g), g.limit != 64));
    assert_int_equal(g.limit, 512);
    bucket_close(&b);
    fake_read_release(&x);
}

/* ---- figures ---- */

/* Those of all lanes together. */
static void test_figures_of_lanes(void **state)
{
    enum { LANES = 3, N = 9 };
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct bucket_figures g;
    struct fake_read x[N] = {0};
    struct bucket *b;

    (void)state;
    config.max_requests = LANES; /* one for each */
    config.no_hedge = true;
    b = fake_bucket(fake_new(LANES, script_hang), &config);
    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], "k", 10);
    /* more for a moment: a lane may borrow what another one has begun to use */
    wait_until((bucket_figures(b, &g), g.in_flight >= LANES && g.in_flight < N));
    assert_int_equal(g.limit, LANES);
    assert_int_equal(g.queued, N - g.in_flight);
    bucket_close(&b);
    for (unsigned i = 0; i < N; i++)
        fake_read_release(&x[i]);
}

/* ---- close ---- */

/* A read whose done() asks again for a while, whatever the answer. */
struct asker {
    struct bucket_read r;
    struct bucket *b;
    struct dlc_mono until;
    _Atomic unsigned asked;
    _Atomic bool ended;
    char data[10];
};

static void on_asker(struct bucket_read *r)
{
    struct asker *a = dlc_container(r, struct asker, r);

    if (a->asked < 3 || dlc_mono_now().ns < a->until.ns) {
        a->asked++;
        bucket_read(a->b, r);
    } else {
        a->ended = true;
    }
}

/* Requests that are made while the bucket is being closed are ended as well, on whichever lane
 * they are, and the last one wakes the caller: bucket_close() has been waiting for long by then. */
static void test_close_waits_for_later_requests(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= 3; lanes++) {
        struct fake *f = fake_new(lanes, script_hang);
        struct bucket *b = fake_bucket(f, NULL);
        struct asker a = {.r = {.key = "k", .length = 10, .done = on_asker}, .b = b};

        a.r.dst = a.data;
        bucket_read(b, &a.r);
        wait_until(f->started == 1);
        a.until = dlc_mono_add(dlc_mono_now(), DLC_MS(100));
        bucket_close(&b);
        assert_true(a.ended);
        assert_int_equal(a.r.rc, DLC_ECANCELED);
    }
}

/* ---- memory ---- */

static void script_some_hang(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->fate = c->a->key != NULL && strcmp(c->a->key, "hangs") == 0 ? FAKE_HANG : FAKE_OK;
}

static void open_and_close(void)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x = {.done = 0}, hangs = {.done = 0};
    struct bucket *b = NULL;
    struct bucket_stat st;

    config.lanes = 1;
    assert_int_equal(open_url("file:///tmp", &config, &b, NULL), 0);
    bucket_close(&b);
    b = fake_bucket(fake_new(1, script_some_hang), NULL);
    fake_read(b, &x, "k", 10);
    fake_read(b, &hangs, "hangs", 10);
    wait_until(x.done);
    bucket_read_cancel(b, &hangs.r);
    wait_until(hangs.done);
    fake_read_release(&hangs);
    assert_int_equal(bucket_stat_wait(b, "k", &st, NULL), 0);
    assert_int_equal(bucket_list_wait(b, "", on_page, NULL, NULL), 0);
    bucket_close(&b);
    fake_read_release(&x);
}

/* A daemon opens a bucket for each dataset, and closes it. */
static void test_no_leak(void **state)
{
    enum { ROUNDS = 300 };
    size_t before;

    (void)state;
    for (unsigned i = 0; i < 20; i++)
        open_and_close();
    before = unit_heap();
    for (unsigned i = 0; i < ROUNDS; i++)
        open_and_close();
    assert_true(unit_heap() < before + ROUNDS * 16); /* the smallest block is of 32 bytes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_shape_and_place),
        cmocka_unit_test(test_open_fails),
        cmocka_unit_test(test_prices),
        cmocka_unit_test(test_hint),
        cmocka_unit_test(test_figures_of_lanes),
        cmocka_unit_test(test_close_waits_for_later_requests),
        cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
