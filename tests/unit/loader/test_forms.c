// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "loader/forms_i.h"

static const struct forms_batch dry = {.waited_s = 1, .step_s = 0.1, .busy = true, .more = true};

static struct form *make(struct forms *f, uint64_t sample, size_t len)
{
    struct form *form = forms_room(f, len);

    if (form != NULL) {
        memset(form->data, (int)sample, len);
        forms_keep(f, sample, form);
    }
    return form;
}

static void test_kept_and_given(void **state)
{
    struct dlc_loader_stats s = {0};
    struct forms f;
    struct form *a, *b;

    (void)state;
    forms_init(&f, DLC_ON);
    assert_true(forms_wanted(&f));
    assert_null(forms_get(&f, 3));
    a = make(&f, 3, 100);
    assert_non_null(a);
    b = forms_get(&f, 3);
    assert_ptr_equal(a, b);
    forms_put(&f, &a);
    assert_null(a);
    assert_int_equal(b->data[99], 3);
    a = make(&f, 3, 100); /* two threads made it: the second one is not kept */
    assert_ptr_not_equal(a, b);
    forms_put(&f, &a);
    forms_stats(&f, &s);
    assert_int_equal(s.forms, 1);
    assert_int_equal(s.form_bytes, 100);
    assert_int_equal(s.formed, 1);
    forms_put(&f, &b);
    forms_release(&f);
}

static void test_limit(void **state)
{
    struct forms f;
    struct form *a, *b;

    (void)state;
    forms_init(&f, DLC_ON);
    f.limit = 150;
    a = make(&f, 1, 100);
    b = make(&f, 2, 100);
    assert_non_null(a);
    assert_null(b);
    b = make(&f, 2, 50);
    assert_non_null(b);
    forms_put(&f, &a);
    forms_put(&f, &b);
    forms_release(&f);
}

/* Memory gets short: all go at once, but what is in use; and it stays off for a while. */
static void test_dropped(void **state)
{
    struct forms f;
    struct form *a;

    (void)state;
    forms_init(&f, DLC_ON);
    a = make(&f, 1, 100);
    f.bytes = (uint64_t)1 << 62; /* as if it were so much */
    dlc_clock_advance(DLC_SEC(2));
    forms_step(&f, &dry);
    assert_false(forms_wanted(&f));
    assert_int_equal(f.map.n, 0);
    assert_int_equal(a->data[0], 1);
    forms_step(&f, &dry);
    assert_false(forms_wanted(&f));
    dlc_clock_advance(DLC_SEC(61));
    forms_step(&f, &dry);
    assert_true(forms_wanted(&f));
    forms_put(&f, &a);
    forms_release(&f);
}

static void test_auto(void **state)
{
    struct forms_batch b = dry;
    struct forms f;

    (void)state;
    forms_init(&f, DLC_AUTO);
    assert_false(forms_wanted(&f));
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

    forms_init(&f, DLC_OFF);
    for (int i = 0; i < 9; i++)
        forms_step(&f, &dry);
    assert_false(forms_wanted(&f));
    forms_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_and_given),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_auto),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
