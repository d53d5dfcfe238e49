// SPDX-License-Identifier: Apache-2.0
/* When forms are kept, and what becomes of one. */
#include "daemon.h"

#include "loader/decoded_policy_i.h"

static const struct forms_batch dry = {.waited_s = 1, .step_s = 0.1, .busy = true, .more = true};
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

static bool make(struct forms *f, uint64_t sample, size_t len)
{
    struct form form;

    if (!forms_room(f, sample, 2 * len, &form))
        return false;
    fill_bytes(form.upload.data, sample, len);
    form.data = form.upload.data;
    form.len = len;
    forms_put(f, &form);
    assert_null(form.data);
    return true;
}

static bool has(struct forms *f, uint64_t sample, size_t len)
{
    struct form form;
    bool there = forms_get(f, sample, &form);

    if (there) {
        assert_int_equal(form.len, len);
        assert_true(is_sample(&(struct dlc_view){.data = form.data, .len = form.len}, sample));
        forms_put(f, &form);
    }
    return there;
}

static void test_kept_and_given(void **state)
{
    struct dlc_loader_stats s = {0};
    struct forms f, g;
    struct form form;

    (void)state;
    forms_begin(&f, DLC_ON, ds, 1);
    forms_begin(&g, DLC_ON, ds, 1);
    assert_true(forms_wanted(&f));
    assert_false(has(&g, 3, 100));
    assert_true(make(&f, 3, 100));
    until(has(&g, 3, 100));
    assert_true(forms_room(&f, 4, 100, &form)); /* it could not be made */
    forms_put(&f, &form);
    forms_count(&g, true);
    forms_count(&g, false);
    forms_count(&g, false);
    forms_stats(&g, &s);
    assert_int_equal(s.formed, 1);
    assert_int_equal(s.decoded, 2);
    until((forms_stats(&g, &s), s.forms == 1));
    assert_false(has(&g, 4, 100));
    forms_release(&f);
    forms_release(&g);
}

static void test_auto(void **state)
{
    struct forms_batch b = dry;
    struct forms f;

    (void)state;
    forms_begin(&f, DLC_AUTO, ds, 2);
    assert_false(forms_wanted(&f));
    assert_false(make(&f, 1, 100));
    assert_false(has(&f, 1, 100));
    forms_step(&f, &b);
    b.waited_s = 0.001; /* no: it does not wait for long */
    forms_step(&f, &b);
    b = dry;
    b.more = false; /* no: nobody would use them */
    for (int i = 0; i < 5; i++)
        forms_step(&f, &b);
    b = dry;
    b.busy = false; /* no: more threads would help */
    for (int i = 0; i < 5; i++)
        forms_step(&f, &b);
    assert_false(forms_wanted(&f));
    for (int i = 0; i < 2; i++)
        forms_step(&f, &dry);
    assert_true(forms_wanted(&f));
    forms_release(&f);

    forms_begin(&f, DLC_OFF, ds, 2);
    for (int i = 0; i < 9; i++)
        forms_step(&f, &dry);
    assert_false(forms_wanted(&f));
    forms_release(&f);
}

static void turned_on(struct forms *f, enum dlc_switch wish, uint64_t policy)
{
    forms_begin(f, wish, ds, policy);
    for (int i = 0; i < 2; i++)
        forms_step(f, &dry);
    assert_true(forms_wanted(f));
}

/* Nobody waits for a minute: no more are made, and those that are there are used. */
static void test_rests_when_nobody_waits(void **state)
{
    const struct forms_batch easy = {.waited_s = 0.01, .step_s = 1, .busy = true, .more = true};
    struct forms f;

    (void)state;
    turned_on(&f, DLC_AUTO, 4);
    assert_true(make(&f, 1, 100));
    until(has(&f, 1, 100));
    for (int i = 0; i < 50; i++)
        forms_step(&f, &easy);
    forms_step(&f, &dry);
    for (int i = 0; i < 59; i++)
        forms_step(&f, &easy);
    assert_true(forms_wanted(&f)); /* a minute without a pause */
    forms_step(&f, &easy);
    assert_false(forms_wanted(&f));
    assert_false(make(&f, 2, 100));
    assert_true(has(&f, 1, 100));
    for (int i = 0; i < 9; i++)
        forms_step(&f, &dry); /* not at once */
    assert_false(forms_wanted(&f));
    dlc_clock_advance(DLC_SEC(61));
    for (int i = 0; i < 2; i++)
        forms_step(&f, &dry); /* as in the beginning */
    assert_true(make(&f, 2, 100));
    forms_release(&f);

    turned_on(&f, DLC_ON, 4);
    for (int i = 0; i < 70; i++)
        forms_step(&f, &easy);
    assert_true(forms_wanted(&f));
    forms_release(&f);
}

/* Memory is full of forms; as if many others had been made that left. */
static void test_rests_when_they_do_not_stay(void **state)
{
    struct dlc_loader_stats s = {0};
    struct forms f, on;

    (void)state;
    turned_on(&f, DLC_AUTO, 5);
    forms_begin(&on, DLC_ON, ds, 5);
    atomic_fetch_add(&f.made, 1000);
    forms_step(&f, &dry);
    assert_true(forms_wanted(&f)); /* there is room: they will stay */
    for (unsigned i = 0; i < 20 && make(&f, i, 500000); i++)
        until(has(&f, i, 500000));
    forms_stats(&f, &s);
    assert_in_range(s.forms, 4, 19);
    forms_step(&f, &dry);
    forms_step(&on, &dry);
    assert_false(forms_wanted(&f));
    assert_true(forms_wanted(&on));
    assert_true(has(&f, 0, 500000));
    forms_release(&f);

    turned_on(&f, DLC_AUTO, 5);
    atomic_fetch_add(&f.made, 64 + 2 * s.forms); /* half of them are there */
    forms_step(&f, &dry);
    assert_true(forms_wanted(&f));
    forms_release(&f);
    forms_release(&on);
}

static void test_rests_in_the_last_epoch(void **state)
{
    struct forms_batch b = dry;
    struct forms f;

    (void)state;
    turned_on(&f, DLC_AUTO, 6);
    b.more = false;
    forms_step(&f, &b);
    assert_false(forms_wanted(&f));
    forms_release(&f);
}

/* Without a daemon there are none; it is looked for again after a while. */
static void test_no_daemon(void **state)
{
    struct forms f;

    (void)state;
    daemon_kill(&d);
    forms_begin(&f, DLC_ON, ds, 3);
    assert_false(forms_wanted(&f));
    daemon_start(&d);
    forms_step(&f, &dry);
    assert_false(forms_wanted(&f));
    dlc_clock_advance(DLC_SEC(61));
    forms_step(&f, &dry);
    assert_true(forms_wanted(&f));
    forms_release(&f);
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
