// SPDX-License-Identifier: Apache-2.0
#include "operator/kube/yaml.h"

#include "base/buf.h"
#include "unit.h"

static json_t *parse(const char *text)
{
    struct dlc_err err = DLC_ERR_INIT;
    json_t *j;

    if (yaml_parse("f.yaml", text, strlen(text), &j, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    return j;
}

static void check(const char *yaml, const char *json)
{
    json_t *got = parse(yaml), *want = json_loads(json, JSON_DECODE_ANY, NULL);

    assert_non_null(want);
    if (!json_equal(got, want)) {
        char *text = json_dumps(got, JSON_ENCODE_ANY | JSON_COMPACT);

        fail_msg("%s: %s, not %s", yaml, text, json);
    }
    json_decref(got);
    json_decref(want);
}

static void refused(const char *yaml, size_t len, const char *why)
{
    struct dlc_err err = DLC_ERR_INIT;
    json_t *j = NULL;

    assert_int_equal(yaml_parse("f.yaml", yaml, len, &j, &err), DLC_EINVAL);
    assert_null(j);
    if (strstr(err.text, why) == NULL || strncmp(err.text, "f.yaml", 6) != 0)
        fail_msg("%s: '%s' does not say '%s'", yaml, err.text, why);
}

static void test_scalars(void **state)
{
    (void)state;
    check("[~, null, Null, '', \"null\", ]", "[null, null, null, \"\", \"null\"]");
    check("[true, True, yes, on, y, 'true']", "[true, true, \"yes\", \"on\", \"y\", \"true\"]");
    check("[0, -7, +7, 0x1F, 0o17, 010, 1_000]", "[0, -7, 7, 31, 15, 10, \"1_000\"]");
    check("[1.5, .5, 1., 1e3, -2.5E-1]", "[1.5, 0.5, 1.0, 1000.0, -0.25]");
    check(
        "[., +, -, 1e, e5, 0x, 1.2.3, .inf, .nan, 1e999]",
        "[\".\", \"+\", \"-\", \"1e\", \"e5\", \"0x\", \"1.2.3\", \".inf\", \".nan\", \"1e999\"]");
    check("[9223372036854775807, 9223372036854775808]",
          "[9223372036854775807, 9223372036854775808.0]");
    check("[!!str 12, \"12\", '12']", "[\"12\", \"12\", \"12\"]");
    check("|\n  a\n  b\n", "\"a\\nb\\n\"");
    check(">-\n  a\n  b\n", "\"a b\"");
}

static void test_branches(void **state)
{
    (void)state;
    check("", "null");
    check("# nothing\n", "null");
    check("---\n", "null");
    check("a: 1\nb:\n- x\n- y: {z: []}\nc:\n",
          "{\"a\": 1, \"b\": [\"x\", {\"y\": {\"z\": []}}], \"c\": null}");
    check("{\"json\": [1, 2.5, \"x\", true, null]}", "{\"json\": [1, 2.5, \"x\", true, null]}");
    check("1: a\ntrue: b\n~: c", "{\"1\": \"a\", \"true\": \"b\", \"~\": \"c\"}");
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *yaml, *why;
    } cases[] = {
        {"a: 1\na: 2", "f.yaml:2:1: a key is there twice"},
        {"a: &x 1", "anchors"},
        {"a: &x [1]\nb: *x", "anchors"},
        {"b: *x", "aliases"},
        {"a: !!int '1'", "tags"},
        {"a: !custom {}", "tags"},
        {"a: 1\n---\nb: 2", "second document"},
        {"? [a]\n: b", "a key must be a text"},
        {"\"a\\0b\": 1", "NUL"},
        {"a: \"\\ud800\"", ""},
        {"a: [1", ""},
        {"a:\n\t- b", ""},
        {"%YAML 9.9\n---\na", ""},
        {"\xff\xfe", ""},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++)
        refused(cases[i].yaml, strlen(cases[i].yaml), cases[i].why);
    refused("a: \0", 4, "");
}

static void test_depth_and_size(void **state)
{
    struct buf b = BUF_INIT;
    json_t *j;

    (void)state;
    for (int i = 0; i < YAML_DEPTH; i++)
        buf_addc(&b, '[');
    for (int i = 0; i < YAML_DEPTH; i++)
        buf_addc(&b, ']');
    j = parse(b.data);
    json_decref(j);
    buf_clear(&b);
    for (int i = 0; i < 100000; i++)
        buf_addc(&b, '[');
    refused(b.data, b.len, "nested too deeply");
    buf_clear(&b);
    for (unsigned i = 0; i <= YAML_MAX; i++)
        buf_addc(&b, ' ');
    refused(b.data, b.len, "more than");
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_depth_and_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
