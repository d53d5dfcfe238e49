// SPDX-License-Identifier: Apache-2.0
/* Heads of requests: what is taken from them, what is refused, and where they end. */
#include "net/request_head_i.h"

#include "base/mem.h"
#include "unit.h"

#define LINE "GET /a HTTP/1.1\r\n"
#define HOST "Host: x\r\n"

static struct request_head head;

/* The status; the head's texts are in a copy that the next call frees. */
static int parse(const char *text, size_t len)
{
    static char *copy;
    const char *why = NULL;
    int status;

    mem_free(&copy);
    if (text == NULL)
        return 0;
    copy = mem_strn(text, len);
    status = request_head_parse(&head, copy, len, &why);
    assert_non_null(why);
    return status;
}

static int parse_text(const char *text)
{
    return parse(text, strlen(text));
}

static void test_fields(void **state)
{
    (void)state;
    assert_int_equal(parse_text(LINE HOST "authorization:  bearer  s3cret \t\r\n"
                                          "RANGE: bytes=0-1\r\nIf-Range: x\r\n"
                                          "Dlcache-Processing: 1\r\nContent-Length: 0\r\n\r\n"),
                     0);
    assert_string_equal(head.method, "GET");
    assert_string_equal(head.target, "/a");
    assert_string_equal(head.token, "s3cret");
    assert_string_equal(head.range, "bytes=0-1");
    assert_true(head.if_range && head.processing && head.keep && !head.body);
    assert_int_equal(parse_text(LINE HOST "\r\n"), 0);
    assert_true(head.token == NULL && head.range == NULL && !head.if_range && !head.processing);
    assert_int_equal(parse_text(LINE HOST "Authorization: Basic x\r\n\r\n"), 0);
    assert_null(head.token);
    assert_int_equal(parse_text(LINE HOST "Connection: TE, CLOSE\r\n\r\n"), 0);
    assert_false(head.keep);
    assert_int_equal(parse_text("GET / HTTP/1.0\r\n\r\n"), 0); /* needs no Host */
    assert_false(head.keep);
    assert_int_equal(parse_text(LINE HOST "Content-Length: 1\r\nContent-Length: 0\r\n\r\n"), 0);
    assert_true(head.body);
    assert_int_equal(parse_text(LINE HOST "Transfer-Encoding: chunked\r\n\r\n"), 0);
    assert_true(head.body);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        int status;
    } table[] = {
        {"GET\r\n\r\n", 400},
        {"GET /a\r\n\r\n", 400},
        {"GET  HTTP/1.1\r\n" HOST "\r\n", 400},
        {" GET /a HTTP/1.1\r\n" HOST "\r\n", 400},
        {"G(T /a HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /a HTTP/1.1 \r\n" HOST "\r\n", 505},
        {"GET /a b HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /a HTTP/2.0\r\n" HOST "\r\n", 505},
        {"GET /a FTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /a\x01 HTTP/1.1\r\n" HOST "\r\n", 400},
        {LINE "\r\n", 400}, /* no Host */
        {LINE HOST "no colon\r\n\r\n", 400},
        {LINE HOST ": no name\r\n\r\n", 400},
        {LINE HOST "X : space before the colon\r\n\r\n", 400},
        {LINE HOST "X: a\r\n folded\r\n\r\n", 400},
        {LINE HOST "X: a\nY: b\r\n\r\n", 400}, /* a line that ends with LF alone */
        {LINE HOST "X: a\rY: b\r\n\r\n", 400},
        {LINE HOST "X: \x7f\r\n\r\n", 400},
        {LINE HOST, 400}, /* not whole */
    };

    (void)state;
    for (size_t i = 0; i < unit_count(table); i++)
        if (parse_text(table[i].text) != table[i].status)
            fail_msg("not %d: %s", table[i].status, table[i].text);
    assert_int_equal(parse(LINE HOST "X: a\0b\r\n\r\n", sizeof(LINE HOST "X: a\0b\r\n\r\n") - 1),
                     400);
    assert_int_equal(
        parse("GET /a\0 HTTP/1.1\r\n" HOST "\r\n", sizeof("GET /a\0 HTTP/1.1\r\n" HOST "\r\n") - 1),
        400);
}

/* However it is cut, the end is found where it is, and not before. */
static void test_length(void **state)
{
    static const char text[] = LINE HOST "\r\nGET /next";
    size_t whole = sizeof(LINE HOST "\r\n") - 1, seen = 0;

    (void)state;
    for (size_t n = 0; n < sizeof(text); n++) {
        assert_int_equal(request_head_length(text, n, seen), n < whole ? 0 : whole);
        seen = n < whole ? n : seen;
    }
    for (size_t from = 0; from < whole; from++)
        assert_int_equal(request_head_length(text, sizeof(text) - 1, from), whole);
}

static void test_begins(void **state)
{
    (void)state;
    assert_true(request_head_begins("", 0));
    assert_true(request_head_begins("G", 1));
    assert_true(request_head_begins("GET \x01", 5));
    assert_false(request_head_begins(" ", 1));
    assert_false(request_head_begins("\x16\x03\x01", 3)); /* TLS to a plain port */
    assert_false(request_head_begins("GE\nT", 4));
    assert_false(request_head_begins("\0", 1));
}

static int forget(void **state)
{
    (void)state;
    return parse(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_begins),
    };

    return cmocka_run_group_tests(tests, NULL, forget);
}
