// SPDX-License-Identifier: Apache-2.0
/* Nodes a, b, c: what they say was spent on datasets. */
#include "unit.h"

#include <math.h>

#include <jansson.h>

#include "manager/tables/dataset_cost.h"

static struct node_info nodes[3];

static void say(int i, const char *figures)
{
    json_decref(nodes[i].figures);
    nodes[i].figures = json_loads(figures, 0, NULL);
    assert_non_null(nodes[i].figures);
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        json_decref(nodes[i].figures);
        nodes[i].figures = NULL;
    }
    return 0;
}

static json_t *spent(const char *tenant, const char *name)
{
    struct store_doc d = STORE_DOC_INIT;

    d.tenant = (char *)(uintptr_t)tenant;
    d.id = (char *)(uintptr_t)name;
    return dataset_cost(nodes, 3, &d);
}

/* money < 0: nobody has said anything. */
static void expect(const char *tenant, const char *name, double money, json_int_t requests,
                   json_int_t bytes)
{
    json_t *s = spent(tenant, name);

    if (money < 0) {
        assert_null(s);
        return;
    }
    assert_non_null(s);
    assert_true(json_is_real(json_object_get(s, "money")));
    assert_true(fabs(json_real_value(json_object_get(s, "money")) - money) < 1e-12 + money * 1e-9);
    assert_int_equal(json_integer_value(json_object_get(s, "requests")), requests);
    assert_int_equal(json_integer_value(json_object_get(s, "bytes")), bytes);
    json_decref(s);
}

static void test_nodes_are_summed(void **state)
{
    (void)state;
    expect("ann", "d", -1, 0, 0);
    say(0,
        "{\"spent\": {\"ann/d\": {\"money_nano\": 1200000000, \"requests\": 7, \"bytes\": 90}}}");
    expect("ann", "d", 1.2, 7, 90);
    say(2, "{\"spent\": {\"ann/d\": {\"money_nano\": 30000000, \"requests\": 1, \"bytes\": 10},"
           "             \"ann/e\": {\"money_nano\": 0, \"requests\": 0, \"bytes\": 0}}}");
    expect("ann", "d", 1.23, 8, 100);
    expect("ann", "e", 0, 0, 0);
    say(0, "{\"spent\": {}}"); /* started again */
    expect("ann", "d", 0.03, 1, 10);
}

static void test_nodes_that_do_not_know_it(void **state)
{
    (void)state;
    say(0, "{\"datasets\": {\"d\": {\"bucket_gets\": 5}}}");
    expect("ann", "d", -1, 0, 0);
    say(1, "{\"spent\": {\"ann/d\": {\"money_nano\": 5}}}");
    expect("ann", "d", 5e-9, 0, 0);
}

static void test_a_name_that_was_anothers(void **state)
{
    (void)state;
    say(0, "{\"spent\": {\"ann/d\": {\"money_nano\": 1000000000, \"requests\": 7, \"bytes\": 9}}}");
    say(1, "{\"spent\": {\"/d\": {\"money_nano\": 2000000000, \"requests\": 1, \"bytes\": 1}}}");
    expect("bob", "d", -1, 0, 0);
    expect("ann", "d", 1, 7, 9);
    expect("", "d", 2, 1, 1);
}

static void test_nonsense(void **state)
{
    const json_int_t most = (json_int_t)1 << 53;

    (void)state;
    say(0, "{\"spent\": [1]}");
    say(1, "{\"spent\": {\"ann/d\": 5}}");
    expect("ann", "d", 0, 0, 0);
    say(0, "{\"spent\": {\"ann/d\": {\"money_nano\": -5, \"requests\": \"x\", \"bytes\": null}}}");
    expect("ann", "d", 0, 0, 0);
    for (int i = 0; i < 3; i++)
        say(i, "{\"spent\": {\"ann/d\": {\"money_nano\": 9223372036854775807,"
               "\"requests\": 9223372036854775807, \"bytes\": 9223372036854775807}}}");
    expect("ann", "d", (double)most / 1e9, most, most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_nodes_are_summed, tear_down),
        cmocka_unit_test_teardown(test_nodes_that_do_not_know_it, tear_down),
        cmocka_unit_test_teardown(test_a_name_that_was_anothers, tear_down),
        cmocka_unit_test_teardown(test_nonsense, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
