// SPDX-License-Identifier: Apache-2.0
/* When decoded samples are kept, and what becomes of one. */
#include "daemon.h"

#include "loader/decoded_policy_i.h"

static const struct decoded_policy_batch dry = {
    .waited_s = 1, .step_s = 0.1, .busy = true, .more = true};
static struct daemon d;
static struct dlc_dataset *ds;

static int setup(void **state)
{
    char url[512];

    (void)state;
    daemon_init(&d, "d", "8MB", false);
    daemon_start(&d);
    ds = open_at(&d, dataset("f", 20, 1000, "", url), 5000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dlc_close(&ds);
    daemon_end(&d);
    return 0;
}

static bool make(struct decoded_policy *f, uint64_t sample, size_t len)
{
    struct decoded_sample got;

    if (!decoded_policy_reserve(f, sample, 2 * len, &got))
        return false;
    fill_bytes(got.upload.data, sample, len);
    got.data = got.upload.data;
    got.len = len;
    decoded_policy_put(f, &got);
    assert_null(got.data);
    return true;
}

static bool has(struct decoded_policy *f, uint64_t sample, size_t len)
{
    struct decoded_sample got;
    bool there = decoded_policy_get(f, sample, &got);

    if (there) {
        assert_int_equal(got.len, len);
        assert_true(is_sample(&(struct dlc_view){.data = got.data, .len = got.len}, sample));
        decoded_policy_put(f, &got);
    }
    return there;
}

static void test_kept_and_given(void **state)
{
    struct dlc_loader_stats s = {0};
    struct decoded_policy f, g;
    struct decoded_sample got;

    (void)state;
    decoded_policy_begin(&f, DLC_ON, ds, 1);
    decoded_policy_begin(&g, DLC_ON, ds, 1);
    assert_true(decoded_policy_wanted(&f));
    assert_false(has(&g, 3, 100));
    assert_true(make(&f, 3, 100));
    until(has(&g, 3, 100));
    assert_true(decoded_policy_reserve(&f, 4, 100, &got)); /* it could not be made */
    decoded_policy_put(&f, &got);
    decoded_policy_count(&g, true);
    decoded_policy_count(&g, false);
    decoded_policy_count(&g, false);
    decoded_policy_stats(&g, &s);
    assert_int_equal(s.from_decoded_cache, 1);
    assert_int_equal(s.decoded, 2);
    until((decoded_policy_stats(&g, &s), s.decoded_cache_samples == 1));
    assert_false(has(&g, 4, 100));
    decoded_policy_release(&f);
    decoded_policy_release(&g);
}

static void test_auto(void **state)
{
    struct decoded_policy_batch b = dry;
    struct decoded_policy f;

    (void)state;
    decoded_policy_begin(&f, DLC_AUTO, ds, 2);
    assert_false(decoded_policy_wanted(&f));
    assert_false(make(&f, 1, 100));
    assert_false(has(&f, 1, 100));
    decoded_policy_step(&f, &b);
    b.waited_s = 0.001; /* no: it does not wait for long */
    decoded_policy_step(&f, &b);
    b = dry;
    b.more = false; /* no: nobody would use them */
    for (int i = 0; i < 5; i++)
        decoded_policy_step(&f, &b);
    b = dry;
    b.busy = false; /* no: more threads would help */
    for (int i = 0; i < 5; i++)
        decoded_policy_step(&f, &b);
    assert_false(decoded_policy_wanted(&f));
    for (int i = 0; i < 2; i++)
        decoded_policy_step(&f, &dry);
    assert_true(decoded_policy_wanted(&f));
    decoded_policy_release(&f);

    decoded_policy_begin(&f, DLC_OFF, ds, 2);
    for (int i = 0; i < 9; i++)
        decoded_policy_step(&f, &dry);
    assert_false(decoded_policy_wanted(&f));
    decoded_policy_release(&f);
}

static void turned_on(struct decoded_policy *f, enum dlc_switch wish, uint64_t policy)
{
    decoded_policy_begin(f, wish, ds, policy);
    for (int i = 0; i < 2; i++)
        decoded_policy_step(f, &dry);
    assert_true(decoded_policy_wanted(f));
}

/* Nobody waits for a minute: no more are made, and those that are there are used. */
static void test_rests_when_nobody_waits(void **state)
{
    const struct decoded_policy_batch easy = {
        .waited_s = 0.01, .step_s = 1, .busy = true, .more = true};
    struct decoded_policy f;

    (void)state;
    turned_on(&f, DLC_AUTO, 4);
    assert_true(make(&f, 1, 100));
    until(has(&f, 1, 100));
    for (int i = 0; i < 50; i++)
        decoded_policy_step(&f, &easy);
    decoded_policy_step(&f, &dry);
    for (int i = 0; i < 59; i++)
        decoded_policy_step(&f, &easy);
    assert_true(decoded_policy_wanted(&f)); /* a minute without a pause */
    decoded_policy_step(&f, &easy);
    assert_false(decoded_policy_wanted(&f));
    assert_false(make(&f, 2, 100));
    assert_true(has(&f, 1, 100));
    for (int i = 0; i < 9; i++)
        decoded_policy_step(&f, &dry); /* not at once */
    assert_false(decoded_policy_wanted(&f));
    dlc_clock_advance(DLC_SEC(61));
    for (int i = 0; i < 2; i++)
        decoded_policy_step(&f, &dry); /* as in the beginning */
    assert_true(make(&f, 2, 100));
    decoded_policy_release(&f);

    turned_on(&f, DLC_ON, 4);
    for (int i = 0; i < 70; i++)
        decoded_policy_step(&f, &easy);
    assert_true(decoded_policy_wanted(&f));
    decoded_policy_release(&f);
}

/* Memory is full of decoded samples; as if many others had been made that left. */
static void test_rests_when_they_do_not_stay(void **state)
{
    struct dlc_loader_stats s = {0};
    struct decoded_policy f, on;

    (void)state;
    turned_on(&f, DLC_AUTO, 5);
    decoded_policy_begin(&on, DLC_ON, ds, 5);
    atomic_fetch_add(&f.made, 1000);
    decoded_policy_step(&f, &dry);
    assert_true(decoded_policy_wanted(&f)); /* there is room: they will stay */
    for (unsigned i = 0; i < 20 && make(&f, i, 500000); i++)
        until(has(&f, i, 500000));
    decoded_policy_stats(&f, &s);
    assert_in_range(s.decoded_cache_samples, 4, 19);
    decoded_policy_step(&f, &dry);
    decoded_policy_step(&on, &dry);
    assert_false(decoded_policy_wanted(&f));
    assert_true(decoded_policy_wanted(&on));
    assert_true(has(&f, 0, 500000));
    decoded_policy_release(&f);

    turned_on(&f, DLC_AUTO, 5);
    atomic_fetch_add(&f.made, 64 + 2 * s.decoded_cache_samples); /* half of them are there */
    decoded_policy_step(&f, &dry);
    assert_true(decoded_policy_wanted(&f));
    decoded_policy_release(&f);
    decoded_policy_release(&on);
}

static void test_rests_in_the_last_epoch(void **state)
{
    struct decoded_policy_batch b = dry;
    struct decoded_policy f;

    (void)state;
    turned_on(&f, DLC_AUTO, 6);
    b.more = false;
    decoded_policy_step(&f, &b);
    assert_false(decoded_policy_wanted(&f));
    decoded_policy_release(&f);
}

/* Without a daemon there are none; it is looked for again after a while. */
static void test_no_daemon(void **state)
{
    struct decoded_policy f;

    (void)state;
    daemon_kill(&d);
    decoded_policy_begin(&f, DLC_ON, ds, 3);
    assert_false(decoded_policy_wanted(&f));
    daemon_start(&d);
    decoded_policy_step(&f, &dry);
    assert_false(decoded_policy_wanted(&f));
    dlc_clock_advance(DLC_SEC(61));
    decoded_policy_step(&f, &dry);
    assert_true(decoded_policy_wanted(&f));
    decoded_policy_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_and_given),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_rests_when_nobody_waits),
        cmocka_unit_test(test_rests_when_they_do_not_stay),
        cmocka_unit_test(test_rests_in_the_last_epoch),
        cmocka_unit_test(test_no_daemon),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
