// SPDX-License-Identifier: Apache-2.0
/* Large reads in parts, and hedged reads. */
#include "bucket/bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/counters.h"
#include "base/fault.h"
#include "base/mem.h"
#include "fake_origin.h"

#define MiB (1ull << 20)

/* ---- parts ---- */

struct parts_log {
    _Atomic unsigned whole, unconditional, wrong_etag, too_long;
    const char *etag; /* what all but the first must ask for */
    bool changes;     /* the object is replaced after its first part */
    unsigned fail_nth;
    int fail_rc;
};

static void script_parts(struct fake *f, struct fake_call *c)
{
    struct parts_log *log = f->priv;
    const struct attempt *a = c->a;
    bool asks = a->etag != NULL && a->etag[0] != '\0';

    c->etag = log->changes && c->nth > 1 ? "new" : "e1";
    c->delay = DLC_MS(1);
    log->whole += a->whole;
    log->unconditional += !asks;
    log->too_long += a->length > 8 * MiB;
    log->wrong_etag += asks && strcmp(a->etag, "e1") != 0;
    if (asks && strcmp(a->etag, c->etag) != 0) {
        c->fate = FAKE_FAIL;
        c->rc = DLC_ECHANGED;
    } else if (c->nth == log->fail_nth) {
        c->fate = FAKE_FAIL;
        c->rc = log->fail_rc;
        c->retryable = log->fail_rc == DLC_EBUCKET;
    }
}

static struct fake *parts_fake(struct parts_log *log)
{
    struct fake *f = fake_new(1, script_parts);

    f->priv = log;
    return f;
}

static void test_parts(void **state)
{
    const uint64_t length = 200 * MiB + 12345;
    struct parts_log log = {.fail_nth = 5, .fail_rc = DLC_EBUCKET};
    struct fake *f = parts_fake(&log);
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x = {.r = {.offset = 777, .etag = "e1", .whole = true}};
    struct bucket *b;

    (void)state;
    config.no_hedge = true; /* on a slow machine parts come late enough for it: more attempts */
    b = fake_bucket(f, &config);
    fake_read(b, &x, "big", length);
    wait_until(x.done);
    assert_int_equal(x.r.rc, 0);
    assert_true(fake_bytes_right("big", 777, x.r.dst, length));
    assert_int_equal(x.r.attempts, 27); /* 26 parts, one of them twice */
    assert_true(x.r.waited.ns > 0 && x.r.waited.ns < x.r.took.ns);
    assert_in_range(f->flying_max, 2, 16);
    assert_int_equal(log.whole + log.unconditional + log.too_long + log.wrong_etag, 0);
    bucket_close(&b);
    fake_read_release(&x);
}

static void test_no_parts_up_to_16_MiB(void **state)
{
    struct parts_log log = {.fail_nth = 0};
    struct fake *f = parts_fake(&log);
    struct bucket *b = fake_bucket(f, NULL);
    struct fake_read x = {.r = {.whole = true}};

    (void)state;
    fake_read(b, &x, "big", 16 * MiB);
    wait_until(x.done);
    assert_int_equal(x.r.rc, 0);
    assert_int_equal(f->started, 1);
    assert_int_equal(log.whole, 1);
    bucket_close(&b);
    fake_read_release(&x);
}

/* Without an ETag, the first part says which version the others must be of (BUCKET-READ-1). */
static void test_parts_of_one_version(void **state)
{
    struct parts_log log = {.fail_nth = 0};
    struct fake *f = parts_fake(&log);
    struct bucket *b = fake_bucket(f, NULL);
    struct fake_read x = {.done = 0};

    (void)state;
    fake_read(b, &x, "big", 100 * MiB);
    wait_until(x.done);
    assert_int_equal(x.r.rc, 0);
    assert_int_equal(log.unconditional, 1);
    assert_int_equal(log.wrong_etag, 0);
    assert_true(fake_bytes_right("big", 0, x.r.dst, 100 * MiB));
    bucket_close(&b);
    fake_read_release(&x);
}

/* A plan counts the requests that a read will make, also where the origin wants smaller parts. */
static uint64_t requests_made(uint64_t part_max, uint64_t length, bool whole, bool sums)
{
    struct parts_log log = {.fail_nth = 0};
    struct fake *f = parts_fake(&log);
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x = {.r = {.etag = "e1", .whole = whole}};
    struct bucket *b;
    uint64_t expected;

    f->ops.part_max = part_max;
    f->ops.sums = sums;
    config.no_hedge = true;
    b = fake_bucket(f, &config);
    expected = bucket_read_requests(b, length, whole);
    fake_read(b, &x, "big", length);
    wait_until(x.done);
    assert_int_equal(x.r.rc, 0);
    assert_int_equal(f->started, expected);
    bucket_close(&b);
    fake_read_release(&x);
    return expected;
}

static void test_requests_of_a_read(void **state)
{
    (void)state;
    assert_int_equal(requests_made(0, 0, true, true), 1);
    assert_int_equal(requests_made(0, 16 * MiB, true, true), 1);
    assert_int_equal(requests_made(0, 16 * MiB + 1, false, true), 3);
    assert_int_equal(requests_made(0, 24 * MiB, true, false), 3);
    assert_int_equal(requests_made(0, 24 * MiB, true, true), 4);
    assert_int_equal(requests_made(MiB, MiB, true, false), 1);
    assert_int_equal(requests_made(MiB, MiB + 1, true, false), 2);
    assert_int_equal(requests_made(MiB, 5 * MiB, true, false), 5);
}

/* ---- the checksum of an object that comes in parts (BUCKET-READ-3) ---- */

struct sums_log {
    struct object_checksum sum;
    bool late;     /* said after all parts have come */
    bool fails;    /* is not said */
    int stat_rc;   /* of that */
    unsigned flip; /* so many parts are wrong, the third one first */
    _Atomic unsigned stats, asked_sum, gets;
    const char *etag;
};

static void script_sums(struct fake *f, struct fake_call *c)
{
    struct sums_log *log = f->priv;

    c->etag = "e1";
    c->delay = DLC_MS(1);
    if (c->a->op == ATTEMPT_GET) {
        log->gets++;
        c->flip = log->flip > 0 && c->a->offset == 16 * MiB;
        log->flip -= c->flip;
        return;
    }
    log->stats++;
    log->asked_sum += c->a->want_sum && strcmp(c->a->etag, "e1") == 0;
    c->sum = log->sum;
    c->etag = log->etag != NULL ? log->etag : "e1";
    c->delay = log->late ? DLC_MS(400) : DLC_MS(0);
    c->fate = log->fails ? FAKE_FAIL : FAKE_OK;
    c->rc = log->stat_rc;
    c->retryable = true;
}

#define SUMS_LEN (40 * MiB + 5)

static int read_summed(struct sums_log *log, const char *etag, bool whole)
{
    struct fake *f = fake_new(1, script_sums);
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x = {.r = {.etag = etag, .whole = whole}};
    struct bucket *b;
    int rc;

    f->priv = log;
    f->ops.sums = true;
    config.no_hedge = true;
    b = fake_bucket(f, &config);
    fake_read(b, &x, "big", SUMS_LEN);
    wait_until(x.done);
    rc = x.r.rc;
    assert_true(rc < 0 || log->sum.kind == CHECKSUM_NONE || log->etag != NULL ||
                fake_bytes_right("big", 0, x.r.dst, SUMS_LEN));
    bucket_close(&b);
    fake_read_release(&x);
    return rc;
}

static void sums_right(struct sums_log *log, enum checksum_kind kind)
{
    struct attempt a = {.op = ATTEMPT_GET, .key = "big", .length = SUMS_LEN};

    a.dst = mem_alloc(SUMS_LEN);
    fake_fill(&a);
    log->sum = (struct object_checksum){kind, checksum_add(kind, 0, a.dst, SUMS_LEN)};
    mem_free(&a.dst);
}

static void test_sum_of_parts(void **state)
{
    static const enum checksum_kind kinds[] = {CHECKSUM_CRC64NVME, CHECKSUM_CRC32C, CHECKSUM_CRC32};
    uint64_t corrupt = count_read(bucket_corrupt);

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct sums_log log = {.late = i % 2 == 1};

        sums_right(&log, kinds[i / 2]);
        assert_int_equal(read_summed(&log, i < 3 ? "e1" : NULL, true), 0);
        assert_int_equal(log.stats, 1);
        assert_int_equal(log.asked_sum, 1);
        assert_int_equal(log.gets, 6);
    }
    assert_int_equal(count_read(bucket_corrupt) - corrupt, 0);
}

static void test_wrong_sum_of_parts(void **state)
{
    uint64_t corrupt = count_read(bucket_corrupt);

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct sums_log log = {.late = i % 2 == 1, .flip = 1 + i / 2};

        sums_right(&log, CHECKSUM_CRC32C);
        assert_int_equal(read_summed(&log, "e1", true), i < 2 ? 0 : DLC_ECORRUPT);
        assert_int_equal(log.gets, 12); /* it was read twice, and no more */
        assert_int_equal(log.stats, 1);
    }
    assert_int_equal(count_read(bucket_corrupt) - corrupt, 2 + 2 * 2);
}

/* Where the bucket says none, or not of this version, the bytes are taken as they come. */
static void test_no_sum_of_parts(void **state)
{
    struct sums_log none = {.flip = 1}, fails = {.flip = 1, .fails = true, .stat_rc = DLC_EBUCKET},
                    other = {.flip = 1, .etag = "e2"}, part = {.flip = 1};

    (void)state;
    sums_right(&other, CHECKSUM_CRC32C);
    assert_int_equal(read_summed(&none, "e1", true), 0);
    assert_int_equal(read_summed(&fails, "e1", true), 0);
    assert_int_equal(fails.stats, 1); /* not asked again */
    assert_int_equal(read_summed(&other, "e1", true), 0);
    assert_int_equal(read_summed(&part, "e1", false), 0);
    assert_int_equal(part.stats, 0);
}

static void script_sum_hangs(struct fake *f, struct fake_call *c)
{
    (void)f;
    c->etag = "e1";
    c->fate = c->a->op == ATTEMPT_STAT ? FAKE_HANG : FAKE_OK;
}

/* A checksum that is never told holds a read up until the deadline, and not any longer. */
static void test_sum_that_is_never_told(void **state)
{
    struct fake *f = fake_new(1, script_sum_hangs);
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x = {.r = {.etag = "e1", .whole = true}};
    struct bucket *b;

    (void)state;
    f->ops.sums = true;
    f->ops.part_max = MiB;
    config.no_hedge = true;
    config.deadline = DLC_SEC(100);
    config.stall_timeout = DLC_SEC(1000);
    b = fake_bucket(f, &config);
    fake_read(b, &x, "big", 3 * MiB);
    wait_until(f->answered == 3);
    assert_int_equal(x.done, 0);
    wait_moving(x.done, DLC_SEC(1));
    assert_int_equal(x.r.rc, 0);
    assert_true(x.r.took.ns >= DLC_SEC(100).ns);
    assert_true(fake_bytes_right("big", 0, x.r.dst, 3 * MiB));
    bucket_close(&b);
    fake_read_release(&x);
}

static struct fake *flying_fake;
static _Atomic unsigned flying_at_done;

static void on_failed_read(struct bucket_read *r)
{
    flying_at_done = flying_fake->flying; /* (BUCKET-READ-2) */
    dlc_container(r, struct fake_read, r)->done++;
}

static void failing_parts(struct parts_log *log, int rc)
{
    struct fake *f = parts_fake(log);
    struct bucket *b = fake_bucket(f, NULL);
    struct fake_read x = {.r = {.key = "big", .length = 200 * MiB, .done = on_failed_read}};

    flying_fake = f;
    flying_at_done = 99;
    x.r.dst = mem_alloc(x.r.length);
    bucket_read(b, &x.r);
    wait_until(x.done);
    assert_int_equal(x.r.rc, rc);
    assert_int_equal(flying_at_done, 0);
    bucket_close(&b);
    assert_int_equal(x.done, 1);
    fake_read_release(&x);
}

static void test_object_changes_between_parts(void **state)
{
    struct parts_log log = {.changes = true};

    (void)state;
    failing_parts(&log, DLC_ECHANGED);
}

static void test_part_fails_for_good(void **state)
{
    struct parts_log log = {.fail_nth = 9, .fail_rc = DLC_EDENIED};

    (void)state;
    failing_parts(&log, DLC_EDENIED);
}

static void test_cancel_parts(void **state)
{
    struct parts_log log = {.fail_nth = 0};
    struct fake *f = parts_fake(&log);
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake_read x = {.r = {.etag = "e1"}};
    struct bucket *b;

    (void)state;
    config.max_requests = 2; /* so that it lasts */
    b = fake_bucket(f, &config);
    fake_read(b, &x, "big", 400 * MiB);
    wait_until(f->answered > 2);
    bucket_read_cancel(b, &x.r);
    wait_until(x.done);
    assert_int_equal(x.r.rc, DLC_ECANCELED);
    bucket_close(&b);
    fake_read_release(&x);
}

/* Nothing is touched, so 6 GB of addresses are enough. */
struct six_log {
    _Atomic uint64_t bytes, offsets;
};

static void script_six(struct fake *f, struct fake_call *c)
{
    struct six_log *log = f->priv;

    c->fate = FAKE_EMPTY;
    c->etag = "e1";
    log->bytes += c->a->length;
    log->offsets += c->a->offset / (8 * MiB);
}

static void test_six_gigabytes(void **state)
{
    const uint64_t length = 6000000000, parts = (length + 8 * MiB - 1) / (8 * MiB);
    struct six_log log = {0};
    struct fake *f = fake_new(1, script_six);
    struct bucket *b = fake_bucket(f, NULL);
    void *dst = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    (void)state;
    f->priv = &log;
    assert_ptr_not_equal(dst, MAP_FAILED);
    assert_int_equal(bucket_read_wait(b, "big", NULL, 0, length, true, dst, NULL), 0);
    assert_int_equal(log.bytes, length);
    assert_int_equal(log.offsets, parts * (parts - 1) / 2);
    assert_int_equal(f->started, parts);
    munmap(dst, length);
    bucket_close(&b);
}

/* ---- hedging ---- */

struct hedge_plan {
    enum fake_fate first_fate, second_fate;
    struct dlc_dur first_delay, second_delay;
    int second_rc;
    _Atomic unsigned slow; /* attempts of the key "slow" */
};

/* All keys answer at once; "slow" as planned. */
static void script_hedge(struct fake *f, struct fake_call *c)
{
    struct hedge_plan *p = f->priv;
    unsigned nth;

    if (strcmp(c->a->key, "slow") != 0)
        return;
    nth = ++p->slow;
    c->fate = nth == 1 ? p->first_fate : p->second_fate;
    c->delay = nth == 1 ? p->first_delay : p->second_delay;
    c->rc = nth == 1 ? DLC_EBUCKET : p->second_rc;
    c->retryable = c->rc == DLC_EBUCKET;
}

static struct fake *hedge_fake(struct hedge_plan *p)
{
    struct fake *f = fake_new(1, script_hedge);

    f->priv = p;
    return f;
}

/* Enough observations for a percentile. */
static void warm_up(struct bucket *b)
{
    enum { N = 200 };
    struct fake_read x[N] = {0};

    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], "fast", 10);
    for (unsigned i = 0; i < N; i++) {
        wait_until(x[i].done);
        fake_read_release(&x[i]);
    }
}

static void hedged_read(struct hedge_plan *p, struct bucket_config *config, unsigned hedges,
                        unsigned won, int rc)
{
    struct fake *f = hedge_fake(p);
    struct bucket *b = fake_bucket(f, config);
    uint64_t hedges0 = count_read(bucket_hedges), won0 = count_read(bucket_hedges_won);
    struct fake_read x = {.done = 0};

    warm_up(b);
    fake_read(b, &x, "slow", 50000);
    wait_until(x.done);
    assert_int_equal(x.r.rc, rc);
    assert_int_equal(count_read(bucket_hedges) - hedges0, hedges);
    assert_int_equal(count_read(bucket_hedges_won) - won0, won);
    if (rc == 0)
        assert_true(fake_bytes_right("slow", 0, x.r.dst, 50000));
    bucket_close(&b);
    fake_read_release(&x);
}

static void test_hedge_wins(void **state)
{
    struct hedge_plan p = {.first_fate = FAKE_HANG};

    (void)state;
    hedged_read(&p, NULL, 1, 1, 0);
    assert_int_equal(p.slow, 2);
}

static void test_hedge_loses(void **state)
{
    struct hedge_plan p = {.first_delay = DLC_MS(100), .second_fate = FAKE_HANG};

    (void)state;
    hedged_read(&p, NULL, 1, 0, 0);
    assert_int_equal(p.slow, 2);
}

/* The hedge fails; the first goes on. */
static void test_hedge_fails(void **state)
{
    struct hedge_plan p = {
        .first_delay = DLC_MS(100), .second_fate = FAKE_FAIL, .second_rc = DLC_EBUCKET};

    (void)state;
    hedged_read(&p, NULL, 1, 0, 0);
}

/* What is final is final, also when the hedge says so. */
static void test_hedge_is_refused(void **state)
{
    struct hedge_plan p = {
        .first_fate = FAKE_HANG, .second_fate = FAKE_FAIL, .second_rc = DLC_EDENIED};

    (void)state;
    hedged_read(&p, NULL, 1, 0, DLC_EDENIED);
}

/* The first fails while the hedge flies: the hedge's answer counts. */
static void test_first_fails(void **state)
{
    struct hedge_plan p = {
        .first_fate = FAKE_FAIL, .first_delay = DLC_MS(60), .second_delay = DLC_MS(100)};

    (void)state;
    hedged_read(&p, NULL, 1, 1, 0);
    assert_int_equal(p.slow, 2);
}

static void test_no_hedge(void **state)
{
    struct hedge_plan p = {.first_delay = DLC_MS(100)};
    struct bucket_config config = BUCKET_CONFIG_INIT;

    (void)state;
    config.no_hedge = true;
    hedged_read(&p, &config, 0, 0, 0);
}

/* No memory for the second answer: no hedge this time, no harm. All on the lane's thread. */
static _Atomic bool fault_fired;

static void script_no_memory(struct fake *f, struct fake_call *c)
{
    if (strcmp(c->a->key, "slow") != 0)
        return;
    c->delay = DLC_MS(200);
    if (c->a->dst == f->priv) /* the first, not the hedge that a later look sends */
        fault_arm(FAULT_ALLOC, 1);
}

static void on_slow_read(struct bucket_read *r)
{
    fault_fired = fault_disarm();
    dlc_container(r, struct fake_read, r)->done++;
}

static void test_hedge_without_memory(void **state)
{
    struct fake *f = fake_new(1, script_no_memory);
    struct bucket *b = fake_bucket(f, NULL);
    struct fake_read x = {.r = {.key = "slow", .length = 50000, .done = on_slow_read}};

    (void)state;
    warm_up(b);
    f->priv = x.r.dst = mem_alloc(x.r.length);
    bucket_read(b, &x.r);
    wait_until(x.done);
    assert_true(fault_fired);
    assert_int_equal(x.r.rc, 0);
    assert_true(fake_bytes_right("slow", 0, x.r.dst, 50000));
    bucket_close(&b);
    fake_read_release(&x);
}

/* A bucket that becomes slow for everybody is not asked twice for everything. */
static void script_slow_all(struct fake *f, struct fake_call *c)
{
    (void)f;
    if (strcmp(c->a->key, "slow") == 0)
        c->delay = DLC_MS(200);
}

static void test_hedge_budget(void **state)
{
    enum { N = 400 };
    struct fake *f = fake_new(1, script_slow_all);
    struct bucket *b = fake_bucket(f, NULL);
    uint64_t hedges = count_read(bucket_hedges);
    struct fake_read x[N] = {0};

    (void)state;
    warm_up(b);
    for (unsigned i = 0; i < N; i++)
        fake_read(b, &x[i], "slow", 10);
    for (unsigned i = 0; i < N; i++) {
        wait_until(x[i].done);
        assert_int_equal(x[i].r.rc, 0);
        fake_read_release(&x[i]);
    }
    assert_in_range(count_read(bucket_hedges) - hedges, 1, (N + 200) / 20);
    bucket_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_no_parts_up_to_16_MiB),
        cmocka_unit_test(test_requests_of_a_read),
        cmocka_unit_test(test_sum_of_parts),
        cmocka_unit_test(test_wrong_sum_of_parts),
        cmocka_unit_test(test_no_sum_of_parts),
        cmocka_unit_test(test_sum_that_is_never_told),
        cmocka_unit_test(test_parts_of_one_version),
        cmocka_unit_test(test_object_changes_between_parts),
        cmocka_unit_test(test_part_fails_for_good),
        cmocka_unit_test(test_cancel_parts),
        cmocka_unit_test(test_six_gigabytes),
        cmocka_unit_test(test_hedge_wins),
        cmocka_unit_test(test_hedge_loses),
        cmocka_unit_test(test_hedge_fails),
        cmocka_unit_test(test_hedge_is_refused),
        cmocka_unit_test(test_first_fails),
        cmocka_unit_test(test_no_hedge),
        cmocka_unit_test(test_hedge_without_memory),
        cmocka_unit_test(test_hedge_budget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
