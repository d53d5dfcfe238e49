// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <time.h>

#include "base/clock.h"

static void test_runs_forward(void **state)
{
    struct dlc_mono a = dlc_mono_now(), b = dlc_mono_now();

    (void)state;
    assert_true(a.ns > 0);
    assert_true(b.ns >= a.ns);
    assert_true(llabs(dlc_wall_seconds() - (int64_t)time(NULL)) <= 1);
}

static void test_can_be_moved(void **state)
{
    struct dlc_mono a = dlc_mono_now();

    (void)state;
    dlc_clock_advance(DLC_SEC(100));
    dlc_clock_advance(DLC_MS(500));
    assert_true(dlc_mono_since(a).ns >= 100500000000);
    assert_true(dlc_mono_since(a).ns < 160000000000);
}

static void test_arithmetic(void **state)
{
    struct dlc_mono a = {1000000000}, never = {0};

    (void)state;
    assert_int_equal(dlc_mono_add(a, DLC_MS(30)).ns, 1030000000);
    assert_int_equal(dlc_mono_sub(dlc_mono_add(a, DLC_SEC(2)), a).ns, 2000000000);
    assert_true(dlc_mono_passed(a, a));
    assert_false(dlc_mono_passed(dlc_mono_add(a, DLC_MS(1)), a));
    assert_false(dlc_mono_passed(never, a));
    assert_int_equal(dlc_dur_of_seconds(1.5).ns, 1500000000);
    assert_true(dlc_dur_seconds(DLC_MS(250)) > 0.2499 && dlc_dur_seconds(DLC_MS(250)) < 0.2501);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_forward),
        cmocka_unit_test(test_can_be_moved),
        cmocka_unit_test(test_arithmetic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
