// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/http_call_i.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "bucket/tiny_http.h"

static _Atomic unsigned asked;
static int stop_fd = -1;

static void answer(void *priv, const struct tiny_request *r, struct buf *out)
{
    unsigned n = ++asked;

    (void)priv;
    if (strcmp(r->target, "/echo") == 0) {
        char *h = tiny_header(r, "x-hello"), *text = mem_fmt("%s %s %s", r->method, h, r->body);

        tiny_reply(out, 200, text);
        mem_free(&text);
        mem_free(&h);
    } else if (strcmp(r->target, "/third") == 0) {
        tiny_reply(out, n == 3 ? 200 : 503, n == 3 ? "at last" : "");
    } else if (strncmp(r->target, "/status/", 8) == 0) {
        tiny_reply(out, atoi(r->target + 8), "");
    } else if (strcmp(r->target, "/moved") == 0) {
        buf_adds(out, "HTTP/1.1 302 X\r\nLocation: /echo\r\nContent-Length: 0\r\n\r\n");
    } else if (strcmp(r->target, "/huge") == 0) {
        char *text = mem_zero(WEB_BODY_MAX + 2);

        memset(text, 'x', WEB_BODY_MAX + 1);
        tiny_reply(out, 200, text);
        mem_free(&text);
    } else if (strcmp(r->target, "/stop") == 0) {
        eventfd_write(stop_fd, 1);
    } else if (strcmp(r->target, "/silent?hush") != 0) {
        tiny_reply(out, 404, "");
    }
}

static struct tiny_http server = {.answer = answer};

static int set_up(void **state)
{
    (void)state;
    asked = 0;
    stop_fd = eventfd(0, EFD_CLOEXEC);
    tiny_http_start(&server);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tiny_http_stop(&server);
    close(stop_fd);
    return 0;
}

static int call(const char *method, const char *path, unsigned tries, struct dlc_dur timeout,
                struct web_answer *a, struct dlc_err *err)
{
    char *url = mem_fmt("%s%s", server.url, path);
    struct web_call c = {
        .method = method,
        .url = url,
        .headers = "x-hello: world\nx-other: 1\n",
        .body = strcmp(method, "POST") == 0 ? "the body" : NULL,
        .timeout = timeout,
        .tries = tries,
        .direct = true,
        .stop_fd = stop_fd,
    };
    int rc = web_call(&c, a, err);

    mem_free(&url);
    return rc;
}

static void expect(const char *method, const char *path, unsigned tries, long status,
                   const char *body)
{
    struct web_answer a = WEB_ANSWER_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    call(method, path, tries, DLC_SEC(20), &a, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(a.status, status);
    assert_string_equal(buf_str(&a.body), body);
    web_answer_release(&a);
}

static void test_request(void **state)
{
    (void)state;
    expect("GET", "/echo", 1, 200, "GET world ");
    expect("PUT", "/echo", 1, 200, "PUT world ");
    expect("POST", "/echo", 1, 200, "POST world the body");
}

static void test_tries(void **state)
{
    (void)state;
    expect("GET", "/third", 3, 200, "at last");
    asked = 0;
    expect("GET", "/third", 2, 503, "");
    asked = 0;
    expect("GET", "/nothing", 3, 404, "");
    assert_int_equal(asked, 1);
}

/* A server that failed or wants less of us may do better the next time; one that refused will not. */
static void test_what_is_tried_again(void **state)
{
    static const struct {
        const char *path;
        long status;
        unsigned asked;
    } rows[] = {{"/status/500", 500, 2}, {"/status/429", 429, 2}, {"/status/599", 599, 2},
                {"/status/499", 499, 1}, {"/status/428", 428, 1}, {"/status/430", 430, 1}};

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(rows); i++) {
        asked = 0;
        expect("GET", rows[i].path, 2, rows[i].status, "");
        assert_int_equal(asked, rows[i].asked);
    }
}

static void test_redirect_is_not_followed(void **state)
{
    (void)state;
    expect("GET", "/moved", 1, 302, "");
    assert_int_equal(asked, 1);
}

static void test_no_answer(void **state)
{
    struct web_answer a = WEB_ANSWER_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    assert_int_equal(call("GET", "/silent?hush", 2, DLC_MS(20), &a, &err), DLC_ETIMEDOUT);
    assert_non_null(strstr(err.text, "/silent: no answer in 0.02 s"));
    assert_null(strstr(err.text, "hush"));
    web_answer_release(&a);
}

static void test_too_long(void **state)
{
    struct web_answer a = WEB_ANSWER_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    assert_int_equal(call("GET", "/huge", 1, DLC_SEC(20), &a, &err), DLC_EBUCKET);
    assert_non_null(strstr(err.text, "too long"));
    web_answer_release(&a);
}

static void test_stopped(void **state)
{
    struct web_answer a = WEB_ANSWER_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    assert_int_equal(call("GET", "/stop", 3, DLC_SEC(600), &a, &err), DLC_ECANCELED);
    assert_int_equal(asked, 1);
    web_answer_release(&a);
}

static void test_refused(void **state)
{
    struct web_call c = {.method = "GET", .timeout = DLC_SEC(20), .stop_fd = -1, .direct = true};
    struct web_answer a = WEB_ANSWER_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    c.url = "http://127.0.0.1:1/x";
    assert_int_equal(web_call(&c, &a, &err), DLC_EBUCKET);
    c.url = "file:///etc/passwd";
    assert_int_equal(web_call(&c, &a, &err), DLC_EINVAL);
    web_answer_release(&a);
}

static void test_url(void **state)
{
    static const struct {
        const char *text, *scheme, *host, *authority, *path;
    } cases[] = {
        {"http://a.example", "http", "a.example", "a.example", "/"},
        {"https://a.example:443/x/y?q=1", "https", "a.example", "a.example", "/x/y"},
        {"http://[::1]:8080/", "http", "::1", "[::1]:8080", "/"},
        {"HTTP://127.0.0.1:80", "http", "127.0.0.1", "127.0.0.1", "/"},
        {"http://127.0.0.1@evil.example/", "http", "evil.example", "evil.example", "/"},
    };
    static const char *const bad[] = {"ftp://a/", "a.example", "", "http://", "file:///x", "://"};

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(cases); i++) {
        struct web_url u;

        assert_int_equal(web_url_parse(&u, cases[i].text, NULL), 0);
        assert_string_equal(u.scheme, cases[i].scheme);
        assert_string_equal(u.host, cases[i].host);
        assert_string_equal(u.authority, cases[i].authority);
        assert_string_equal(u.path, cases[i].path);
        web_url_release(&u);
    }
    for (size_t i = 0; i < DLC_COUNT(bad); i++) {
        struct web_url u;

        assert_int_equal(web_url_parse(&u, bad[i], NULL), DLC_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_tried_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_redirect_is_not_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_long, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stopped, set_up, tear_down),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_url),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
