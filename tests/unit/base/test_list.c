// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/list.h"

struct item {
    int n;
    struct dlc_list link;
};

static int item_n(struct dlc_list *l)
{
    return dlc_container(l, struct item, link)->n;
}

static void assert_list(struct dlc_list *l, const char *digits)
{
    char got[16];
    size_t n = 0;

    dlc_list_each (i, l)
        got[n++] = (char)('0' + item_n(i));
    got[n] = '\0';
    assert_string_equal(got, digits);
    n = 0;
    for (struct dlc_list *i = l->prev; i != l; i = i->prev)
        got[n++] = (char)('0' + item_n(i));
    assert_int_equal(n, strlen(digits)); /* the links back agree */
    for (size_t k = 0; k < n; k++)
        assert_int_equal(got[k], digits[n - 1 - k]);
}

static void test_both_ends(void **state)
{
    struct item a = {.n = 1}, b = {.n = 2}, c = {.n = 3};
    struct dlc_list l;

    (void)state;
    dlc_list_init(&l);
    assert_true(dlc_list_empty(&l));
    assert_null(dlc_list_pop_head(&l));
    dlc_list_push_tail(&l, &b.link);
    dlc_list_push_tail(&l, &c.link);
    dlc_list_push_head(&l, &a.link);
    assert_false(dlc_list_empty(&l));
    assert_list(&l, "123");
    assert_ptr_equal(dlc_list_pop_head(&l), &a.link);
    assert_list(&l, "23");
}

static void test_remove_anywhere_and_twice(void **state)
{
    struct item it[5];
    struct dlc_list l;

    (void)state;
    dlc_list_init(&l);
    for (int i = 0; i < 5; i++) {
        it[i].n = i;
        dlc_list_push_tail(&l, &it[i].link);
    }
    dlc_list_remove(&it[2].link);
    dlc_list_remove(&it[2].link);
    assert_list(&l, "0134");
    dlc_list_remove(&it[0].link);
    dlc_list_remove(&it[4].link);
    assert_list(&l, "13");
    dlc_list_push_head(&l, &it[2].link);
    assert_list(&l, "213");
}

static void test_remove_while_walking(void **state)
{
    struct item it[6];
    struct dlc_list l;

    (void)state;
    dlc_list_init(&l);
    for (int i = 0; i < 6; i++) {
        it[i].n = i;
        dlc_list_push_tail(&l, &it[i].link);
    }
    dlc_list_each_safe (i, &l) {
        if (item_n(i) % 2 == 0)
            dlc_list_remove(i);
    }
    assert_list(&l, "135");
    dlc_list_each_safe (i, &l)
        dlc_list_remove(i);
    assert_true(dlc_list_empty(&l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ends),
        cmocka_unit_test(test_remove_anywhere_and_twice),
        cmocka_unit_test(test_remove_while_walking),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
