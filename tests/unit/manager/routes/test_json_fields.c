// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "base/str.h"
#include "manager/routes/json_fields.h"
#include "manager/store/store.h"

struct got {
    const char *name, *text, *maybe;
    uint64_t n;
    int64_t i;
    bool b;
    const json_t *names, *texts, *object, *array;
};

static int try(const char *body, struct got *g, char field[static 100])
{
    const struct field fields[] = {
        {"name", FIELD_NAME, true, 0, &g->name},
        {"text", FIELD_TEXT, false, 5, &g->text},
        {"maybe", FIELD_TEXT0, false, 5, &g->maybe},
        {"n", FIELD_U64, false, 10, &g->n},
        {"i", FIELD_INT, false, 10, &g->i},
        {"b", FIELD_BOOL, false, 0, &g->b},
        {"names", FIELD_NAMES, false, 3, &g->names},
        {"texts", FIELD_TEXTS, false, 2, &g->texts},
        {"o", FIELD_OBJECT, false, 0, &g->object},
        {"a", FIELD_ARRAY, false, 2, &g->array},
        {NULL},
    };
    json_t *j = json_loads(body, JSON_ALLOW_NUL, NULL);
    struct http_request r = {.body = j};
    struct http_reply reply = {0};
    const char *named;
    bool ok;

    assert_non_null(j);
    ok = read_body(&r, fields, &reply);
    assert_true(ok == (reply.status == 0));
    named = json_string_value(json_object_get(reply.body, "field"));
    snprintf(field, 100, "%s", named != NULL ? named : "");
    json_decref(reply.body);
    json_decref(j);
    return reply.status;
}

static void test_good_ones(void **state)
{
    struct got g = {0};
    char field[100];

    (void)state;
    assert_int_equal(
        try("{\"name\": \"a\", \"text\": \"x y z\", \"maybe\": \"\", \"n\": 10, \"i\": -10, "
            "\"b\": true, \"names\": [\"a\", \"b-1\"], \"texts\": [\"A\"], \"o\": {}, "
            "\"a\": [1, null]}",
            &g, field),
        0);
    assert_int_equal(g.n, 10);
    assert_int_equal(g.i, -10);
    assert_true(g.b);
    assert_int_equal(try("{\"name\": \"a\"}", &g, field), 0);
}

static void test_bad_ones_are_named(void **state)
{
    static const struct {
        const char *body, *field;
    } table[] = {
        {"{}", "name"},
        {"{\"name\": null}", "name"},
        {"{\"name\": 1}", "name"},
        {"{\"name\": \"\"}", "name"},
        {"{\"name\": \"A\"}", "name"},
        {"{\"name\": \"..\"}", "name"},
        {"{\"name\": \"a/b\"}", "name"},
        {"{\"name\": \"a\\u0000b\"}", "name"},
        {"{\"name\": \"-a\"}", "name"},
        {"{\"name\": \"a\", \"extra\": 1}", "extra"},
        {"{\"name\": \"a\", \"text\": \"\"}", "text"},
        {"{\"name\": \"a\", \"text\": \"123456\"}", "text"},
        {"{\"name\": \"a\", \"text\": \"a\\nb\"}", "text"},
        {"{\"name\": \"a\", \"text\": \"a\\u0000b\"}", "text"},
        {"{\"name\": \"a\", \"text\": \"a\\u007f\"}", "text"},
        {"{\"name\": \"a\", \"text\": [\"a\"]}", "text"},
        {"{\"name\": \"a\", \"maybe\": \"123456\"}", "maybe"},
        {"{\"name\": \"a\", \"n\": 11}", "n"},
        {"{\"name\": \"a\", \"n\": -1}", "n"},
        {"{\"name\": \"a\", \"n\": 1.0}", "n"},
        {"{\"name\": \"a\", \"n\": \"1\"}", "n"},
        {"{\"name\": \"a\", \"n\": true}", "n"},
        {"{\"name\": \"a\", \"i\": -11}", "i"},
        {"{\"name\": \"a\", \"b\": 1}", "b"},
        {"{\"name\": \"a\", \"b\": \"true\"}", "b"},
        {"{\"name\": \"a\", \"names\": \"a\"}", "names"},
        {"{\"name\": \"a\", \"names\": [1]}", "names"},
        {"{\"name\": \"a\", \"names\": [\"a\", \"a\"]}", "names"},
        {"{\"name\": \"a\", \"names\": [\"a\", \"b\", \"c\", \"d\"]}", "names"},
        {"{\"name\": \"a\", \"texts\": [\"\"]}", "texts"},
        {"{\"name\": \"a\", \"texts\": [{}]}", "texts"},
        {"{\"name\": \"a\", \"o\": []}", "o"},
        {"{\"name\": \"a\", \"o\": null}", "o"},
        {"{\"name\": \"a\", \"a\": [1, 2, 3]}", "a"},
        {"{\"name\": \"a\", \"a\": {}}", "a"},
    };
    struct got g = {0};
    char field[100];

    (void)state;
    for (size_t i = 0; i < unit_count(table); i++) {
        assert_int_equal(try(table[i].body, &g, field), 400);
        assert_string_equal(field, table[i].field);
    }
}

/* A node of the next release says more than is known here. */
static void test_nodes_say_more(void **state)
{
    const char *name = NULL;
    const struct field fields[] = {{"name", FIELD_NAME, true, 0, &name}, {NULL}};
    json_t *more = json_pack("{s:s, s:{s:i}}", "name", "a", "extra", "of", 1);
    json_t *less = json_pack("{s:i}", "extra", 1);
    struct http_request r = {.body = more};
    struct http_reply reply = {0};

    (void)state;
    assert_true(read_node_body(&r, fields, &reply));
    assert_string_equal(name, "a");
    assert_true(read_node_object(more, "in.", fields, &reply));
    assert_false(read_object(more, "in.", fields, &reply));
    r.body = less;
    assert_false(read_node_body(&r, fields, &reply));
    json_decref(reply.body);
    json_decref(more);
    json_decref(less);
}

static void test_names(void **state)
{
    char name[NAME_MAX_LEN + 2];

    (void)state;
    memset(name, 'a', sizeof(name));
    name[NAME_MAX_LEN] = '\0';
    assert_true(str_is_name(name));
    name[NAME_MAX_LEN] = 'a';
    name[NAME_MAX_LEN + 1] = '\0';
    assert_false(str_is_name(name));
    assert_true(str_is_name("0"));
    assert_true(str_is_name("a.b_c-d"));
    assert_false(str_is_name(""));
    assert_false(str_is_name("."));
    assert_false(str_is_name("_a"));
    assert_false(str_is_name("a b"));
    assert_false(str_is_name("a\xc3\xa9"));
    assert_false(str_is_name("../x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_ones),
        cmocka_unit_test(test_bad_ones_are_named),
        cmocka_unit_test(test_nodes_say_more),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
