// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/fault.h"

static void test_off_by_default(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_false(fault_hit(FAULT_ALLOC));
    assert_false(fault_disarm());
}

static void test_the_nth_fails_once(void **state)
{
    (void)state;
    fault_arm(FAULT_ALLOC, 3);
    assert_false(fault_hit(FAULT_ALLOC));
    assert_false(fault_hit(FAULT_ALLOC));
    assert_true(fault_hit(FAULT_ALLOC));
    assert_false(fault_hit(FAULT_ALLOC));
    assert_true(fault_disarm());
    assert_false(fault_hit(FAULT_ALLOC));
}

static void test_kinds_count_apart(void **state)
{
    (void)state;
    fault_arm(FAULT_SYSCALL, 1);
    assert_false(fault_hit(FAULT_ALLOC));
    assert_true(fault_hit(FAULT_SYSCALL));
    assert_true(fault_disarm());
    fault_arm(FAULT_ALLOC | FAULT_SYSCALL, 2);
    assert_false(fault_hit(FAULT_ALLOC));
    assert_true(fault_hit(FAULT_SYSCALL));
    assert_true(fault_disarm());
}

static void test_arming_anew_forgets(void **state)
{
    (void)state;
    fault_arm(FAULT_ALLOC, 1);
    assert_true(fault_hit(FAULT_ALLOC));
    fault_arm(FAULT_ALLOC, 2);
    assert_false(fault_hit(FAULT_ALLOC));
    assert_false(fault_disarm()); /* armed, but the second never came */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off_by_default),
        cmocka_unit_test(test_the_nth_fails_once),
        cmocka_unit_test(test_kinds_count_apart),
        cmocka_unit_test(test_arming_anew_forgets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
