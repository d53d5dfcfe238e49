// SPDX-License-Identifier: Apache-2.0
/* Listing files and URLs of the web origin. */
#include "bucket/origins/http_i.h"

#include "base/mem.h"
#include "unit.h"

static void test_parse(void **state)
{
    char text[] = "# a comment\n"
                  "a.jpg\n"
                  "\n"
                  "b c.jpg\t1234\r\n"
                  "https://other/d.jpg?x=1\t0\tabc\n"
                  "e.jpg\t\tonly-etag\n"
                  "f.jpg\t5\tetag\tsomebody else's column\n"
                  "last";
    struct web_line *l = NULL;
    size_t n = 0;

    (void)state;
    assert_int_equal(web_list_parse(text, &l, &n, NULL), 0);
    assert_int_equal(n, 6);
    assert_string_equal(l[0].key, "a.jpg");
    assert_true(l[0].size == UINT64_MAX);
    assert_string_equal(l[0].etag, "");
    assert_string_equal(l[1].key, "b c.jpg");
    assert_int_equal(l[1].size, 1234);
    assert_string_equal(l[2].key, "https://other/d.jpg?x=1");
    assert_int_equal(l[2].size, 0);
    assert_string_equal(l[2].etag, "abc");
    assert_true(l[3].size == UINT64_MAX);
    assert_string_equal(l[3].etag, "only-etag");
    assert_string_equal(l[4].etag, "etag");
    assert_string_equal(l[5].key, "last");
    mem_free(&l);
}

static void test_parse_empty(void **state)
{
    char none[] = "", blank[] = "\n\r\n#x\n";
    struct web_line *l = NULL;
    size_t n = 7;

    (void)state;
    assert_int_equal(web_list_parse(none, &l, &n, NULL), 0);
    assert_int_equal(n, 0);
    assert_int_equal(web_list_parse(blank, &l, &n, NULL), 0);
    assert_int_equal(n, 0);
    assert_null(l);
}

static void test_parse_errors(void **state)
{
    static const char *const bad[] = {"ok\nx\t12a", "ok\nx\t-1", "ok\n\t5", "ok\nx\t1e3"};

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        char *text = mem_str(bad[i]);
        struct dlc_err err = DLC_ERR_INIT;
        struct web_line *l = NULL;
        size_t n;

        assert_int_equal(web_list_parse(text, &l, &n, &err), DLC_EINVAL);
        assert_non_null(strstr(err.text, "line 2"));
        assert_null(l);
        mem_free(&text);
    }
}

static void test_resolve(void **state)
{
    static const struct {
        const char *base, *key, *want;
    } cases[] = {
        {"http://h/a/b.list", "c.jpg", "http://h/a/c.jpg"},
        {"http://h/a/b.list?x=/y", "d/c.jpg", "http://h/a/d/c.jpg"},
        {"http://h/a/b.list", "/c.jpg", "http://h/c.jpg"},
        {"http://h/a/b.list", "https://o:1/c?d=e", "https://o:1/c?d=e"},
        {"https://h/a/b.list", "//o/c", "https://o/c"},
        {"http://h/a/b?x=1", "", "http://h/a/b?x=1"},
        {"http://h", "c", "http://h/c"},
        {"http://h/", "c", "http://h/c"},
        {"http://h/x", "c d\xc3\xa9\"%20", "http://h/c%20d%C3%A9%22%20"},
        {"http://h/x", "/p?q=a&b={c}", "http://h/p?q=a&b=%7Bc%7D"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct buf out = BUF_INIT;

        web_resolve(cases[i].base, cases[i].key, &out);
        assert_string_equal(buf_str(&out), cases[i].want);
        buf_release(&out);
    }
}

static void test_show_hides_secrets(void **state)
{
    static const struct {
        const char *url, *want;
    } cases[] = {
        {"http://h/a", "http://h/a"},
        {"http://user:secret@h/a", "http://h/a"},
        {"http://u@x:s@h:8/a@b", "http://h:8/a@b"},
        {"https://h/a?X-Amz-Signature=secret", "https://h/a..."},
        {"https://u:p@h?secret", "https://h..."},
        {"http://h/a\nb", "http://h/a?b"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct buf out = BUF_INIT;

        web_show(cases[i].url, &out);
        assert_string_equal(buf_str(&out), cases[i].want);
        buf_release(&out);
    }
}

static void test_is_list(void **state)
{
    (void)state;
    assert_true(web_is_list("http://h/a.list"));
    assert_true(web_is_list("/a/b.list?token=x"));
    assert_false(web_is_list("http://h/a.listing"));
    assert_false(web_is_list("http://h/a?x=b.list"));
    assert_false(web_is_list("list"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_empty),
        cmocka_unit_test(test_parse_errors),
        cmocka_unit_test(test_resolve),
        cmocka_unit_test(test_show_hides_secrets),
        cmocka_unit_test(test_is_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
