// SPDX-License-Identifier: Apache-2.0
/* The probe over a scripted origin that moves the clock: what it reads, and what it makes of it. */
#include "bucket/probe.h"

#include "unit.h"

#include "base/check.h"
#include "fake_origin.h"

#define MiB (1u << 20)

static const struct probe_range ranges[] = {
    {.key = (char *)"a", .etag = (char *)"ea", .offset = 100, .length = 1000},
    {.key = (char *)"b", .etag = (char *)"eb", .offset = 200, .length = 1000},
    {.key = (char *)"c", .etag = (char *)"ec", .offset = 300, .length = 1000},
};

struct plan {
    int64_t ms[100]; /* by which the nth attempt moves the clock, from 1 */
    unsigned fail_nth;
    _Atomic unsigned asked[3], wrong;
    _Atomic unsigned longest;
};

static void script(struct fake *f, struct fake_call *c)
{
    struct plan *p = f->priv;
    unsigned i = (unsigned)(c->a->key[0] - 'a');
    const struct probe_range *r = &ranges[i];

    c->etag = r->etag;
    p->asked[i]++;
    p->wrong += c->a->offset != r->offset || strcmp(c->a->etag, r->etag) != 0 || c->a->whole;
    p->longest = DLC_MAX(p->longest, (unsigned)c->a->length);
    if (c->nth < unit_count(p->ms) && p->ms[c->nth] > 0)
        dlc_clock_advance(DLC_MS(p->ms[c->nth]));
    if (c->nth == p->fail_nth) {
        c->fate = FAKE_FAIL;
        c->rc = DLC_EDENIED;
    }
}

/* Returns how many attempts there were. */
static unsigned probe(struct plan *p, const struct probe_range *r, unsigned n, int rc,
                      struct probe_result *out)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake *f = fake_new(1, script);
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket *b;
    unsigned started;

    f->priv = p;
    config.no_hedge = true;
    config.stall_timeout = config.deadline = DLC_SEC(10000);
    b = fake_bucket(f, &config);
    memset(out, 0x55, sizeof(*out));
    assert_int_equal(bucket_probe(b, r, n, out, &err), rc);
    assert_int_equal(err.code, rc);
    assert_int_equal(p->wrong, 0);
    assert_int_equal(b->hint, DLC_MIN(r[0].length, MiB));
    started = f->started;
    bucket_close(&b);
    return started;
}

/* Nine one by one, then rounds of 32 to 512, over all ranges in turn. */
static void test_reads_every_range(void **state)
{
    struct plan p = {.fail_nth = 0};
    struct dlc_mono began = dlc_mono_now();
    struct probe_result out;

    (void)state;
    if (probe(&p, ranges, 3, 0, &out) < 1001 && dlc_mono_since(began).ns > DLC_SEC(3).ns)
        return; /* a machine so busy that the probe had enough before the last round */
    assert_int_equal(out.reads, 1001);
    assert_int_equal(out.bytes, 1001 * 1000);
    assert_int_equal(p.longest, 1000);
    assert_int_equal(p.asked[0], 334);
    assert_int_equal(p.asked[1], 334);
    assert_int_equal(p.asked[2], 333);
    assert_true(out.bytes_per_s > 0);
}

/* Of large objects a mebibyte each, and no more than 64 of them at once. */
static void test_reads_little_of_large_objects(void **state)
{
    const struct probe_range large = {
        .key = (char *)"a", .etag = (char *)"ea", .offset = 100, .length = 100 * MiB};
    struct plan p = {.fail_nth = 0};
    struct dlc_mono began = dlc_mono_now();
    struct probe_result out;

    (void)state;
    if (probe(&p, &large, 1, 0, &out) < 9 + 32 + 64 && dlc_mono_since(began).ns > DLC_SEC(3).ns)
        return;
    assert_int_equal(out.reads, 9 + 32 + 64);
    assert_int_equal(out.bytes, 9 * (16 << 10) + (32 + 64) * MiB);
    assert_int_equal(p.longest, MiB);
}

static bool about(double x, double expect)
{
    return x > 0.93 * expect && x < 1.07 * expect;
}

/* The first read opens a connection and does not count: the median and the latest of eight do. The
 * rest of a round's time, beyond a latency, is what its bytes took. */
static void test_figures(void **state)
{
    struct plan p = {.ms = {0, 50000, 3000, 1000, 8000, 2000, 7000, 4000, 6000, 5000, 20000}};
    struct probe_result out;

    (void)state;
    assert_int_equal(probe(&p, ranges, 3, 0, &out), 9 + 32); /* that took long enough */
    assert_true(about(out.latency_s, 4.5));
    assert_true(about(out.p99_s, 8));
    assert_true(about(out.bytes_per_s, 32000 / 15.5));
}

/* The fastest round counts. */
static void test_best_round(void **state)
{
    struct plan p = {.ms = {[10] = 1000, [42] = 9000}};
    struct probe_result out;

    (void)state;
    assert_int_equal(probe(&p, ranges, 3, 0, &out), 9 + 32 + 64);
    assert_true(out.bytes_per_s > 64000 / 9.0 * 1.5 && out.bytes_per_s < 1.1 * 32000);
}

/* A round that is over within a latency tells a rate, not one without end. */
static void test_quick_round(void **state)
{
    struct plan p = {.ms = {0, 0, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, [10] = 2000}};
    struct probe_result out;

    (void)state;
    assert_int_equal(probe(&p, ranges, 3, 0, &out), 9 + 32);
    assert_true(about(out.bytes_per_s, 32000 / 0.2));
}

static void test_failures(void **state)
{
    struct plan first = {.fail_nth = 1}, later = {.fail_nth = 20};
    struct probe_result out;

    (void)state;
    assert_int_equal(probe(&first, ranges, 3, DLC_EDENIED, &out), 1);
    assert_int_equal(probe(&later, ranges, 3, DLC_EDENIED, &out), 9 + 32);
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 5 };
    struct probe_result out;
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 2 + ROUNDS; i++) {
        struct plan p = {.ms = {[10] = 4000}};

        if (i == 2)
            before = unit_heap();
        probe(&p, ranges, 3, 0, &out);
    }
    assert_true(unit_heap() < before + ROUNDS * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_every_range),
        cmocka_unit_test(test_reads_little_of_large_objects),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_best_round),
        cmocka_unit_test(test_quick_round),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
