// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/json.h"

static json_t *value;

static int set_up(void **state)
{
    (void)state;
    value = json_loads("{\"name\": \"a\", \"n\": 7, \"minus\": -7, \"half\": 0.5, \"yes\": true,"
                       " \"in\": {\"side\": {\"n\": 9}}, \"x.y\": 1,"
                       " \"all\": [{\"name\": \"b\"}, 3, {\"name\": \"c\", \"n\": 1},"
                       " {\"n\": 2, \"in\": {\"name\": \"deep\"}}],"
                       " \"texts\": [\"p\", 3, \"q\"]}",
                       0, NULL);
    return value == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    json_decref(value);
    return 0;
}

static void members_by_type(void **state)
{
    (void)state;
    assert_string_equal(json_text_at(value, "name"), "a");
    assert_int_equal(json_int_at(value, "minus"), -7);
    assert_int_equal(json_u64_at(value, "n"), 7);
    assert_int_equal(json_u64_at(value, "minus"), 0);
    assert_true(json_number_at(value, "half") == 0.5 && json_number_at(value, "n") == 7);
    assert_true(json_true_at(value, "yes"));
}

static void paths_go_into_objects(void **state)
{
    (void)state;
    assert_int_equal(json_u64_at(value, "in.side.n"), 9);
    assert_null(json_at(value, "in.side.m"));
    assert_null(json_at(value, "in.none.n"));
    assert_null(json_at(value, "x.y")); /* a name with a dot is not a path */
    assert_null(json_at(value, "name.length"));
    assert_null(json_at(value, "a-name-that-is-longer-than-any-in-the-documents-of-the-manager."
                               "and.more"));
}

static void absent_and_other_types_are_alike(void **state)
{
    (void)state;
    assert_string_equal(json_text_at(value, "n"), "");
    assert_string_equal(json_text_at(NULL, "n"), "");
    assert_int_equal(json_int_at(value, "name"), 0);
    assert_int_equal(json_u64_at(NULL, "a.b"), 0);
    assert_true(json_number_at(value, "name") == 0);
    assert_false(json_true_at(value, "n"));
    assert_null(json_find(value, "name", "b"));
    assert_false(json_has_text(NULL, "p"));
}

static void elements(void **state)
{
    const json_t *all = json_at(value, "all"), *texts = json_at(value, "texts");

    (void)state;
    assert_int_equal(json_int_at(json_find(all, "name", "c"), "n"), 1);
    assert_int_equal(json_int_at(json_find(all, "in.name", "deep"), "n"), 2);
    assert_null(json_find(all, "name", "d"));
    assert_null(json_find(all, "name", NULL));
    assert_true(json_has_text(texts, "p") && json_has_text(texts, "q"));
    assert_false(json_has_text(texts, "3") || json_has_text(texts, NULL));
}

static void sums(void **state)
{
    (void)state;
    json_add_int(value, "n", 3);
    json_add_int(value, "new", 2);
    assert_int_equal(json_int_at(value, "n"), 10);
    assert_int_equal(json_int_at(value, "new"), 2);
}

static void values_of_a_text(void **state)
{
    static const struct {
        const char *text;
        size_t n;
    } table[] = {
        {"", 1},
        {"7", 1},
        {"[0,0,0]", 4},
        {"{\"a\":1,\"b\":[2,3]}", 7},
        {"\"a,b:c[d{e\"", 1},
        {"[\"a\\\",b\",1]", 3},
        {"\"\\\\\",1", 2},
        {"\"never ends,,,", 1},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(table); i++)
        assert_int_equal(json_count_values(table[i].text, strlen(table[i].text)), table[i].n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(members_by_type, set_up, tear_down),
        cmocka_unit_test_setup_teardown(paths_go_into_objects, set_up, tear_down),
        cmocka_unit_test_setup_teardown(absent_and_other_types_are_alike, set_up, tear_down),
        cmocka_unit_test_setup_teardown(elements, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sums, set_up, tear_down),
        cmocka_unit_test(values_of_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
