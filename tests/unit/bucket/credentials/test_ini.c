// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/ini_i.h"

#include "unit.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/str.h"

static struct ini parse(const char *text)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct ini i;

    ini_parse(&i, "f", text, strlen(text), &err);
    assert_string_equal(err.text, "");
    return i;
}

static void assert_value(const struct ini *i, const char *section, const char *name,
                         const char *want)
{
    const char *v = ini_get(i, section, name, NULL);

    if (want == NULL)
        assert_null(v);
    else if (v == NULL)
        fail_msg("[%s] %s is not there", section, name);
    else
        assert_string_equal(v, want);
}

static void test_sections_and_values(void **state)
{
    struct ini i = parse("\xef\xbb\xbf# comment\n"
                         "; another\n"
                         "[default]\r\n"
                         "region=eu-west-1\r\n"
                         "\n"
                         "[ profile   \"two words\" ]  # and a comment\n"
                         "Region =  us-east-2 \t\n"
                         "empty =\n"
                         "[default]\n"
                         "output = json\n"
                         "last = no line end");

    (void)state;
    assert_true(ini_has_section(&i, "default"));
    assert_true(ini_has_section(&i, "profile two words"));
    assert_false(ini_has_section(&i, "Default"));
    assert_value(&i, "default", "region", "eu-west-1");
    assert_value(&i, "default", "output", "json");
    assert_value(&i, "default", "last", "no line end");
    assert_value(&i, "profile two words", "region", "us-east-2");
    assert_value(&i, "profile two words", "REGION", "us-east-2");
    assert_value(&i, "profile two words", "empty", NULL);
    assert_value(&i, "default", "absent", NULL);
    assert_value(&i, "absent", "region", NULL);
    ini_release(&i);
    assert_int_equal(i.n, 0);
}

static void test_later_lines_win(void **state)
{
    struct ini i = parse("[a]\nx = 1\nx = 2\n[b]\nx = 3\n[a]\ny = 4\ny =\n");

    (void)state;
    assert_value(&i, "a", "x", "2");
    assert_value(&i, "b", "x", "3");
    assert_value(&i, "a", "y", NULL);
    ini_release(&i);
}

static void test_comments_in_values(void **state)
{
    struct ini i = parse("[a]\n"
                         "x = v # cut\n"
                         "y = v\t; cut\n"
                         "z = v#kept;too\n"
                         "w = #kept, as no blank is before it in the value\n"
                         "credential_process = /bin/tool a ; /bin/other # b\n");

    (void)state;
    assert_value(&i, "a", "x", "v");
    assert_value(&i, "a", "y", "v");
    assert_value(&i, "a", "z", "v#kept;too");
    assert_value(&i, "a", "w", "#kept, as no blank is before it in the value");
    assert_string_equal(ini_get_raw(&i, "a", "credential_process"), "/bin/tool a ; /bin/other # b");
    assert_null(ini_get_raw(&i, "a", "absent"));
    ini_release(&i);
}

static void test_nesting_and_continuation(void **state)
{
    struct ini i = parse("[services local]\n"
                         "s3 =\n"
                         "  endpoint_url = http://127.0.0.1:9000  # here\n"
                         "\n"
                         "  # a comment does not end it\n"
                         "  addressing_style = path\n"
                         "sts =\n"
                         "\tendpoint_url = http://127.0.0.1:9001\n"
                         "text = one\n"
                         "   two\n"
                         "   three = 3\n"
                         "  [indented]\n"
                         "  a = 1\n"
                         "  b = 2\n");

    (void)state;
    assert_string_equal(ini_get(&i, "services local", "s3", "endpoint_url"),
                        "http://127.0.0.1:9000");
    assert_string_equal(ini_get(&i, "services local", "s3", "addressing_style"), "path");
    assert_string_equal(ini_get(&i, "services local", "sts", "endpoint_url"),
                        "http://127.0.0.1:9001");
    assert_value(&i, "services local", "endpoint_url", NULL);
    assert_value(&i, "services local", "s3", NULL);
    assert_value(&i, "services local", "text", "one\ntwo\nthree = 3\n[indented]\na = 1\nb = 2");
    ini_release(&i);

    i = parse("  [indented]\n  a = 1\n  b = 2\n");
    assert_value(&i, "indented", "a", "1");
    assert_value(&i, "indented", "b", "2");
    ini_release(&i);
}

static void test_malformed(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"[a\n", "f, line 1: a section needs a closing ]"},
        {"[a]\nhush hush\n", "f, line 2: expected [section]"},
        {"[a]\n= hush\n", "f, line 2: expected [section]"},
        {"\n\nx = hush\n", "f, line 3: name = value before the first [section]"},
        {"[a]\ns3 =\n  hush\n", "f, line 3: expected nested name = value"},
    };

    (void)state;
    for (size_t n = 0; n < DLC_COUNT(cases); n++) {
        struct dlc_err err = DLC_ERR_INIT;
        struct ini i;

        assert_int_equal(ini_parse(&i, "f", cases[n].text, strlen(cases[n].text), &err),
                         DLC_EINVAL);
        assert_true(str_starts(err.text, cases[n].words));
        assert_null(strstr(err.text, "hush"));
        assert_int_equal(i.n, 0);
        assert_null(i.entries);
    }
}

static void test_binary_and_endless(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct buf text = BUF_INIT;
    struct ini i;

    (void)state;
    assert_int_equal(ini_parse(&i, "f", "[a]\nx\0y = 1\n", 12, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "NUL"));

    buf_adds(&text, "[a]\nx = 1\n");
    for (int n = 0; n < 20000; n++)
        buf_adds(&text, "  more and more\n");
    assert_int_equal(ini_parse(&i, "f", text.data, text.len, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "too long"));
    buf_release(&text);

    assert_int_equal(ini_parse(&i, "f", "", 0, &err), 0);
    assert_int_equal(i.n, 0);
}

static void test_no_leak(void **state)
{
    static const char text[] = "[a]\nlong_name_of_a_key = x\n more\nnest =\n  b = c\n[profile b]\n";
    enum { ROUNDS = 100 };
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 20 + ROUNDS; i++) {
        struct ini ini;

        if (i == 20)
            before = unit_heap();
        assert_int_equal(ini_parse(&ini, "f", text, strlen(text), NULL), 0);
        ini_release(&ini);
        assert_int_equal(ini_parse(&ini, "f", "[a]\nb = c\nno value", 19, NULL), DLC_EINVAL);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sections_and_values),
        cmocka_unit_test(test_later_lines_win),
        cmocka_unit_test(test_comments_in_values),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_nesting_and_continuation),
        cmocka_unit_test(test_binary_and_endless),
        cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
