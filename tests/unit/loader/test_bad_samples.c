// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "loader/bad_samples_i.h"

static void test_remembers_each_once(void **state)
{
    struct bad_list b = {0};

    (void)state;
    bad_add(&b, 7, "no image");
    bad_add(&b, 3, "cut short");
    bad_add(&b, 7, "no image"); /* in the next epoch */
    assert_int_equal(b.n, 2);
    assert_int_equal(b.seen, 3);
    assert_int_equal(b.v[0].sample, 7);
    assert_string_equal(b.v[1].why, "cut short");
    bad_release(&b);
    assert_int_equal(b.n, 0);
}

static void test_is_bounded(void **state)
{
    struct bad_list b = {0};

    (void)state;
    for (unsigned i = 0; i < BAD_KEPT + 50; i++)
        bad_add(&b, i, "bad");
    assert_int_equal(b.n, BAD_KEPT);
    assert_int_equal(b.seen, BAD_KEPT + 50);
    bad_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_remembers_each_once),
        cmocka_unit_test(test_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
