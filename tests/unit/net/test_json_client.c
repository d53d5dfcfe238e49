// SPDX-License-Identifier: Apache-2.0
/* The client against our own server, and against servers that are dead, silent or talk nonsense. */
#include "net/json_client.h"

#include "base/mem.h"
#include "odd.h"
#include "echo_server.h"
#include "unit.h"

static struct http_client *client_of(const char *base, const char *token, struct dlc_dur timeout)
{
    struct http_client_config c = {.base = base, .token = token, .timeout = timeout};
    struct http_client *out;
    struct dlc_err err;

    if (http_client_open(&c, &out, &err) < 0)
        fail_msg("%s", err.text);
    return out;
}

static struct http_client *client_at(const char *address)
{
    char base[300];

    snprintf(base, sizeof(base), "%s%s", address[0] == '/' ? "unix:" : "http://", address);
    return client_of(base, "t0k", DLC_SEC(10));
}

static const char *text_at(const json_t *j, const char *name)
{
    const char *v = json_string_value(json_object_get(j, name));

    return v != NULL ? v : "(none)";
}

static void test_json_there_and_back(void **state)
{
    struct echo_server p;
    struct http_client *c;
    json_t *body = json_pack("{s:i}", "k", 42), *out;
    char *name = http_escape("a/b c"), *path = mem_fmt("/echo/x%%25/%s?q=1%%2B2", "yes");
    struct dlc_err err;
    int status;

    (void)state;
    assert_string_equal(name, "a%2Fb%20c");
    echo_server_open(&p, NULL);
    c = client_at(p.address);
    assert_int_equal(http_json(c, "GET", path, NULL, &out, &status, &err), 0);
    assert_int_equal(status, 200);
    assert_string_equal(text_at(out, "a"), "x%");
    assert_string_equal(text_at(out, "q"), "1+2");
    assert_string_equal(text_at(out, "token"), "t0k");
    json_decref(out);
    http_client_header(c, "X-Test", "once");
    assert_int_equal(http_json(c, "POST", "/echo/a", body, &out, NULL, &err), 0);
    assert_string_equal(text_at(out, "x"), "once");
    assert_true(json_equal(json_object_get(out, "body"), body));
    json_decref(out);
    assert_int_equal(http_json(c, "PUT", "/echo/a", NULL, &out, NULL, &err), 0);
    assert_string_equal(text_at(out, "x"), "(none)");
    assert_string_equal(text_at(out, "method"), "PUT");
    json_decref(out);
    http_client_close(&c);
    c = client_at(p.unix_path);
    assert_int_equal(http_json(c, "GET", "/echo/a", NULL, &out, NULL, &err), 0);
    assert_true(json_is_true(json_object_get(out, "local")));
    json_decref(out);
    http_client_close(&c);
    echo_server_close(&p);
    json_decref(body);
    mem_free(&name);
    mem_free(&path);
}

static void test_statuses_are_errors(void **state)
{
    static const struct {
        const char *method, *path;
        int status, rc;
    } table[] = {
        {"GET", "/nowhere", 404, DLC_ENOTFOUND}, {"GET", "/private", 403, DLC_EDENIED},
        {"GET", "/fail", 507, DLC_ENOSPACE},     {"DELETE", "/fail", 405, DLC_EINVAL},
        {"GET", "/echo/%zz", 400, DLC_EINVAL},
    };
    struct echo_server p;
    struct http_client *c;
    struct dlc_err err;
    json_t *out;
    int status;

    (void)state;
    echo_server_open(&p, NULL);
    c = client_at(p.address);
    for (size_t i = 0; i < unit_count(table); i++) {
        assert_int_equal(http_json(c, table[i].method, table[i].path, NULL, &out, &status, &err),
                         table[i].rc);
        assert_int_equal(status, table[i].status);
        assert_null(out);
        assert_true(err.text[0] != '\0');
    }
    assert_int_equal(http_json(c, "GET", "/fail", NULL, &out, NULL, &err), DLC_ENOSPACE);
    assert_string_equal(err.text, "3 bytes are missing; make room");
    http_client_close(&c);
    echo_server_close(&p);
}

struct lines {
    int n, most;
};

static bool each(const char *line, void *arg)
{
    struct lines *l = arg;
    char want[30];

    snprintf(want, sizeof(want), "{\"i\": %d}", l->n);
    assert_string_equal(line, want);
    return ++l->n != l->most;
}

static void test_lines(void **state)
{
    struct echo_server p;
    struct http_client *c;
    struct lines l = {0};
    struct dlc_err err;

    (void)state;
    echo_server_open(&p, NULL);
    c = client_at(p.address);
    assert_int_equal(http_lines(c, "/stream/5000", each, &l, &err), 0);
    assert_int_equal(l.n, 5000);
    l = (struct lines){.most = 7};
    assert_int_equal(http_lines(c, "/stream/5000", each, &l, &err), 0);
    assert_int_equal(l.n, 7);
    assert_int_equal(http_lines(c, "/fail", each, &l, &err), DLC_ENOSPACE);
    assert_string_equal(err.text, "3 bytes are missing; make room");
    http_client_close(&c);
    echo_server_close(&p);
}

static void test_bad_addresses(void **state)
{
    static const char *const bad[] = {"",      ",",       "localhost:80", "ftp://x",
                                      "unix:", "http://", "http://a,b"};
    struct http_client *c;
    struct dlc_err err;

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        struct http_client_config cfg = {.base = bad[i]};

        assert_int_equal(http_client_open(&cfg, &c, &err), DLC_EINVAL);
        assert_null(c);
    }
    assert_int_equal(
        http_client_open(&(struct http_client_config){.base = "http://x", .token = "a\nb"}, &c,
                         &err),
        DLC_EINVAL);
}

/* -------- servers that do not behave -------- */

static void test_answers_that_are_none(void **state)
{
    static const struct {
        const char *answer;
        int rc;
    } table[] = {
        {"", DLC_EBUCKET},
        {"hello\r\n\r\n", DLC_EBUCKET},
        {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"cut\"", DLC_EBUCKET},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", DLC_EPROTO},
        {"HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\nhello", DLC_EBUCKET},
        {"HTTP/1.1 302 No\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
         DLC_EPROTO},
        {"HTTP/1.1 418 No\r\nContent-Length: 0\r\n\r\n", DLC_EINVAL},
        {"HTTP/1.1 412 No\r\nContent-Length: 2\r\n\r\n[]", DLC_EBUSY},
        {"HTTP/1.1 204 No\r\n\r\n", 0},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(table); i++) {
        struct http_client *c;
        struct dlc_err err = DLC_ERR_INIT;
        struct odd o;
        json_t *out;
        int rc;

        odd_open(&o, table[i].answer);
        c = client_of(o.base, "t0k", DLC_SEC(10));
        rc = http_json(c, "GET", "/x", NULL, &out, NULL, &err);
        if (rc != table[i].rc)
            fail_msg("%d (%s) instead of %d for %s", rc, err.text, table[i].rc, table[i].answer);
        assert_null(out);
        assert_null(strstr(err.text, "t0k"));
        http_client_close(&c);
        odd_close(&o);
    }
}

static void test_silence_ends(void **state)
{
    struct http_client *c;
    struct dlc_err err;
    struct odd o;
    json_t *out;
    int status = 1;

    (void)state;
    odd_open(&o, NULL);
    c = client_of(o.base, NULL, DLC_MS(100));
    assert_int_equal(http_json(c, "GET", "/x", NULL, &out, &status, &err), DLC_ETIMEDOUT);
    assert_int_equal(status, 0);
    http_client_close(&c);
    odd_close(&o);
}

static void test_several_addresses(void **state)
{
    struct http_client *c;
    struct dlc_err err;
    struct odd busy, silent;
    struct echo_server p;
    char dead[64], base[400];
    json_t *out;
    int status;

    (void)state;
    echo_server_open(&p, NULL);
    odd_open(&busy, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    odd_dead(dead);
    snprintf(base, sizeof(base), "%s,%s,unix:%s", dead, busy.base, p.unix_path);
    c = client_of(base, NULL, DLC_SEC(10));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(http_json(c, "POST", "/echo/a", NULL, &out, NULL, &err), 0);
        json_decref(out);
    }
    assert_int_equal(busy.asked, 1); /* from then on the right one was asked first */
    assert_int_equal(strncmp(http_client_at(c), "unix:", 5), 0);
    http_client_close(&c);

    /* A POST that may have arrived is not sent elsewhere; the next one goes there first. */
    odd_open(&silent, NULL);
    snprintf(base, sizeof(base), "%s,unix:%s", silent.base, p.unix_path);
    c = client_of(base, NULL, DLC_MS(100));
    assert_int_equal(http_json(c, "POST", "/echo/a", NULL, &out, NULL, &err), DLC_ETIMEDOUT);
    assert_int_equal(http_json(c, "POST", "/echo/a", NULL, &out, NULL, &err), 0);
    json_decref(out);
    http_client_close(&c);
    c = client_of(base, NULL, DLC_MS(100));
    assert_int_equal(http_json(c, "PUT", "/echo/a", NULL, &out, NULL, &err), 0);
    json_decref(out);
    http_client_close(&c);
    assert_int_equal(
        http_client_open(
            &(struct http_client_config){.base = base, .timeout = DLC_MS(100), .repeatable = true},
            &c, &err),
        0);
    assert_int_equal(http_json(c, "POST", "/echo/a", NULL, &out, NULL, &err), 0);
    json_decref(out);
    http_client_close(&c);

    /* Nobody leads: what the last one said. */
    c = client_of(busy.base, NULL, DLC_SEC(10));
    assert_int_equal(http_json(c, "GET", "/x", NULL, &out, &status, &err), DLC_EBUCKET);
    assert_int_equal(status, 503);
    http_client_close(&c);
    odd_close(&silent);
    odd_close(&busy);
    echo_server_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_there_and_back),
        cmocka_unit_test(test_statuses_are_errors),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_answers_that_are_none),
        cmocka_unit_test(test_silence_ends),
        cmocka_unit_test(test_several_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
