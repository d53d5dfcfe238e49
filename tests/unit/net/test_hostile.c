// SPDX-License-Identifier: Apache-2.0
// timeout: 120
/* What no well-behaved client sends. After each, the server must answer others as before. */
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/syscalls.h"
#include "base/rng.h"
#include "net/server.h"
#include "echo_server.h"
#include "raw.h"
#include "unit.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static void expect_alive(struct echo_server *p)
{
    assert_int_equal(raw_ask(p->address, GET("/echo/a"), NULL), 200);
}

struct request {
    const char *text;
    int status; /* 0: the connection ends without an answer; -1: whatever, but not 2xx */
};

static void try_all(const struct request *table, size_t n)
{
    struct echo_server p;

    echo_server_open(&p, NULL);
    for (size_t i = 0; i < n; i++) {
        int fd = raw_connect(p.address), status;

        raw_send(fd, table[i].text, strlen(table[i].text));
        shutdown(fd, SHUT_WR); /* nothing more will come */
        status = raw_answer(fd, NULL);
        if (table[i].status < 0 ? status >= 200 && status < 300 : status != table[i].status)
            fail_msg("%d instead of %d for %s", status, table[i].status, table[i].text);
        os_close(&fd);
        expect_alive(&p);
    }
    echo_server_close(&p);
}

static void test_paths(void **state)
{
    static const struct request table[] = {
        {GET("/echo/.."), 400},
        {GET("/echo/../echo/a"), 400},
        {GET("/echo/%2e%2e"), 400},
        {GET("/echo/%2E./b"), 400},
        {GET("/echo/."), 400},
        {GET("/../../etc/passwd"), 400},
        {GET("/echo/a%2fb"), 400},
        {GET("/echo/a%2Fb"), 400},
        {GET("/echo/%00"), 400},
        {GET("/echo/a%00b"), 400},
        {GET("/echo/%"), 400},
        {GET("/echo/%1"), 400},
        {GET("/echo/%zz"), 400},
        {GET("/echo/%u0041"), 400},
        {GET("/echo/%0a"), 400},
        {GET("/echo/%7f"), 400},
        {GET("/echo/%ff"), 400},       /* not UTF-8 */
        {GET("/echo/%c0%af"), 400},    /* '/', overlong */
        {GET("/echo/%ed%a0%80"), 400}, /* a surrogate */
        {GET("/echo/a?q=%"), 400},
        {GET("/echo/a?q=%00"), 400},
        {GET("/echo/a?q=%ff"), 400},
        {GET("/echo/a?q=1&q=2"), 400},
        {GET("/echo/a?%71=1&q=2"), 400},
        {GET("/echo/a#x"), 400},
        {GET("/1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/h/i/j"), 400},
        {GET("echo/a"), 400},
        {GET("http://x/echo/a"), 400},
        {GET("*"), 400},
        {GET("/echo/a?&&&=&"), 200},
        {GET("/echo/%2541"), 200}, /* decoded once */
        {GET("/echo/a%5cb"), 200},
        {GET("/ECHO/a"), 404},
    };

    (void)state;
    try_all(table, unit_count(table));
}

static void test_lines_and_heads(void **state)
{
    static const struct request table[] = {
        {"", 0},
        {"\r\n\r\n", 0},
        {"G", 0},
        {"GET /echo/a", 0},
        {"GET /echo/a HTTP/1.1", 0},
        {"GET /echo/a HTTP/1.1\r\n", 0},
        {"GET /echo/a HTTP/1.1\r\nHost: x\r\n", 0},
        {"GET /echo/a HTTP/1.1\r\nHost: x\r\nX-Test", 0},
        {"GET /echo/a HTTP/1.1\r\n\r\n", 400}, /* no Host */
        {"GET\r\n\r\n", -1},
        {"GET /echo/a\r\n\r\n", -1},
        {"GET /echo/a HTTP/9.9\r\nHost: x\r\n\r\n", -1},
        {"GET /echo/a NONSENSE/1.1\r\nHost: x\r\n\r\n", -1},
        {"GET /echo/a HTTP/1.1\r\nHost: x\r\nNo colon here\r\n\r\n", -1},
        {"\x16\x03\x01\x02\x05\x01\x01\xfc\x03\x03", 0}, /* TLS to a plain port */
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", -1},
        {"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"TRACE /echo/a HTTP/1.1\r\nHost: x\r\n\r\n", 405},
        {"get /echo/a HTTP/1.1\r\nHost: x\r\n\r\n", 405},
        {"NOSUCHMETHOD /echo/a HTTP/1.1\r\nHost: x\r\n\r\n", 405},
        {"GET /echo/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer\r\n\r\n", 200},
        {"GET /echo/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer  \r\n\r\n", 200},
        {"GET /private HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \r\n\r\n", 401},
    };

    (void)state;
    try_all(table, unit_count(table));
}

static void test_bodies(void **state)
{
#define POST "POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    static const struct request table[] = {
        {POST "Content-Length: 10\r\n\r\n{", 0},
        {POST "Content-Length: -1\r\n\r\n", -1},
        {POST "Content-Length: 1x\r\n\r\n{}", -1},
        {POST "Content-Length: 99999999999999999999999\r\n\r\n", -1},
        {POST "Content-Length: 18446744073709551615\r\n\r\n", -1},
        {POST "Content-Length: 1048577\r\n\r\n", 413},
        {POST "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", -1},
        {POST "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", -1},
        {POST "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", -1},
        {POST "Transfer-Encoding: chunked\r\n\r\n2\r\n{}", 0},
        {POST "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}", -1},
        {POST "Content-Length: 4\r\n\r\n\"a\"\n", 400},
        {POST "Content-Length: 6\r\n\r\n{\"a\":\n", 400},
        {POST "Content-Length: 8\r\n\r\n{\"a\":01}", 400},
        {POST "Content-Length: 10\r\n\r\n{\"a\":1e99}", 200},
        {POST "Content-Length: 11\r\n\r\n{\"a\":1e999}", 400},
        {POST "Content-Length: 14\r\n\r\n{\"a\":\"\\u0000\"}", 400},
        {POST "Content-Length: 8\r\n\r\n{\"\xff\":1}{", 400},
        {POST "Content-Length: 4\r\n\r\n{}{}", 400},
        {POST "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n{}", 100},
    };

    (void)state;
    try_all(table, unit_count(table));
}

/* A NUL cannot be in a C string; what comes after it must not be seen by anybody. */
static void test_bytes_of_zero(void **state)
{
    static const char *const parts[] = {"GET /echo/a", "/b HTTP/1.1\r\nHost: x\r\n\r\n"};
    struct echo_server p;
    struct buf b = BUF_INIT, answer = BUF_INIT;
    int status;

    (void)state;
    echo_server_open(&p, NULL);
    buf_adds(&b, parts[0]);
    buf_addc(&b, '\0');
    buf_adds(&b, parts[1]);
    status = raw_ask_n(p.address, b.data, b.len, &answer);
    assert_true(status != 200 || strstr(answer.data, "\"b\":null") != NULL);
    buf_clear(&b);
    buf_adds(&b, "GET /private HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret");
    buf_addc(&b, '\0');
    buf_adds(&b, "x\r\n\r\n");
    raw_ask_n(p.address, b.data, b.len, NULL);
    expect_alive(&p);
    buf_release(&b);
    buf_release(&answer);
    echo_server_close(&p);
}

static void test_deep_json(void **state)
{
    struct echo_server p;
    struct buf b = BUF_INIT;
    const size_t deep = 400000;

    (void)state;
    echo_server_open(&p, &(struct http_server_config){.max_values = 1u << 20});
    buf_addf(&b,
             "POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n{\"a\":", deep + 5);
    for (size_t i = 0; i < deep; i++)
        buf_addc(&b, '[');
    assert_int_equal(raw_ask_n(p.address, b.data, b.len, NULL), 400);
    expect_alive(&p);
    buf_release(&b);
    echo_server_close(&p);
}

static void test_huge_heads(void **state)
{
    struct echo_server p;
    struct buf b = BUF_INIT;
    int status;

    (void)state;
    echo_server_open(&p, NULL);
    buf_adds(&b, "GET /echo/");
    for (int i = 0; i < 100000; i++)
        buf_addc(&b, 'a');
    buf_adds(&b, " HTTP/1.1\r\nHost: x\r\n\r\n");
    status = raw_ask_n(p.address, b.data, b.len, NULL);
    assert_true(status == 0 || (status >= 400 && status < 500));
    buf_clear(&b);
    buf_adds(&b, "GET /echo/a HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < 20000; i++)
        buf_addf(&b, "X-%d: y\r\n", i);
    buf_adds(&b, "\r\n");
    status = raw_ask_n(p.address, b.data, b.len, NULL);
    assert_true(status == 0 || (status >= 400 && status < 500));
    expect_alive(&p);
    buf_release(&b);
    echo_server_close(&p);
}

/* A body in pieces, without a length, that does not end. */
static void test_endless_body(void **state)
{
    static const char head[] = "POST /echo/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                               "Content-Type: application/json\r\n\r\n";
    static char chunk[6 + 65536 + 2];
    struct echo_server p;
    int fd, n = 0;

    (void)state;
    echo_server_open(&p, &(struct http_server_config){.max_body = 100000});
    memcpy(chunk, "10000\r\n", 7);
    memset(chunk + 7, ' ', sizeof(chunk) - 9);
    memcpy(chunk + sizeof(chunk) - 2, "\r\n", 2);
    fd = raw_connect(p.address);
    raw_send(fd, head, sizeof(head) - 1);
    while (n < 1000 && send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL) == (ssize_t)sizeof(chunk))
        n++;
    assert_true(n < 1000); /* somebody hung up */
    os_close(&fd);
    expect_alive(&p);
    echo_server_close(&p);
}

static void test_a_body_that_is_a_little_too_large(void **state)
{
    struct echo_server p;
    struct buf b = BUF_INIT;

    (void)state;
    echo_server_open(&p, &(struct http_server_config){.max_body = 10});
    assert_int_equal(
        raw_ask(p.address,
                "POST /echo/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                "Content-Type: application/json\r\n\r\nb\r\n{\"abc\":123}\r\n0\r\n\r\n",
                &b),
        413);
    assert_int_equal(raw_ask(p.address,
                             "POST /echo/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                             "Content-Type: application/json\r\n\r\na\r\n{\"ab\":123}\r\n0\r\n\r\n",
                             &b),
                     200);
    buf_release(&b);
    echo_server_close(&p);
}

/* Nobody keeps the body of a stranger: it is refused by the head alone. */
static void test_a_token_comes_before_a_body(void **state)
{
    static const char head[] = "POST /private HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"
                               "Content-Type: application/json\r\n\r\n";
    struct echo_server p;
    int fd;

    (void)state;
    echo_server_open(&p, NULL);
    fd = raw_connect(p.address);
    raw_send(fd, head, sizeof(head) - 1);
    assert_int_equal(raw_answer(fd, NULL), 401);
    os_close(&fd);
    expect_alive(&p);
    echo_server_close(&p);
}

#define POST_OF(length)                                                                            \
    "POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" length "\r\n\r\n"

/* All bodies together have a limit, and what one has taken comes back when it goes. */
static void test_bodies_of_all(void **state)
{
    static const char first[] = POST_OF("Content-Length: 80");
    static const char pieces[] = POST_OF("Transfer-Encoding: chunked");
    struct echo_server p;
    int fd, status, tries = 0;

    (void)state;
    echo_server_open(&p, &(struct http_server_config){.max_body = 100, .max_bodies = 100});
    fd = raw_connect(p.address);
    raw_send(fd, first, sizeof(first) - 1);
    do /* the head may still be on its way */
        status = raw_ask(p.address,
                         POST_OF("Content-Length: 31") "{\"abc\": \"12345678901234567890\"}", NULL);
    while (status != 503 && ++tries < 1000);
    assert_int_equal(status, 503);
    assert_int_equal(raw_ask(p.address, pieces, NULL), 503);
    assert_int_equal(raw_ask(p.address, POST_OF("Content-Length: 2") "{}", NULL), 200);
    os_close(&fd);
    for (tries = 0; status != 200 && tries < 100000; tries++)
        status = raw_ask(p.address,
                         POST_OF("Content-Length: 31") "{\"abc\": \"12345678901234567890\"}", NULL);
    assert_int_equal(status, 200);
    echo_server_close(&p);
}

/* A megabyte of "0,0,0," would take 16 times its size once it is parsed. */
static void test_too_many_values(void **state)
{
    struct echo_server p;
    struct buf b = BUF_INIT;

    (void)state;
    echo_server_open(&p, &(struct http_server_config){.max_values = 20});
    assert_int_equal(
        raw_ask(p.address, POST_OF("Content-Length: 25") "{\"a\":[0,0,0,0,0,0,0,0,0]}", &b), 200);
    assert_int_equal(
        raw_ask(
            p.address,
            POST_OF("Content-Length: 51") "{\"a\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}",
            &b),
        413);
    buf_release(&b);
    echo_server_close(&p);
}

/* Four megabytes in drops: cut off after twice `idle` and four seconds. */
static void test_an_answer_must_be_taken(void **state)
{
    struct dlc_mono end = dlc_mono_add(dlc_mono_now(), DLC_SEC(20));
    struct echo_server p;
    char byte;
    int fd;
    ssize_t n;

    (void)state;
    echo_server_open(&p, &(struct http_server_config){.idle = DLC_SEC(1)});
    fd = raw_connect(p.unix_path); /* the kernel keeps less of it than of TCP */
    raw_send(fd, GET("/data/4000000"), strlen(GET("/data/4000000")));
    do {
        struct pollfd hung = {.fd = fd, .events = POLLRDHUP};

        poll(&hung, 1, 50);
        n = (hung.revents & (POLLRDHUP | POLLERR | POLLHUP)) != 0 ? 0 : recv(fd, &byte, 1, 0);
    } while (n == 1 && dlc_mono_sub(end, dlc_mono_now()).ns > 0);
    assert_true(n <= 0);
    os_close(&fd);
    expect_alive(&p);
    echo_server_close(&p);
}

static void test_pipelined(void **state)
{
    struct echo_server p;
    struct buf b = BUF_INIT, all = BUF_INIT;
    const char *at;
    char want[40];
    int fd;

    (void)state;
    echo_server_open(&p, NULL);
    for (int i = 0; i < 50; i++)
        buf_addf(&b, "GET /echo/n%d HTTP/1.1\r\nHost: x\r\n%s\r\n", i,
                 i == 49 ? "Connection: close\r\n" : "");
    fd = raw_connect(p.address);
    raw_send(fd, b.data, b.len);
    raw_rest(fd, &all);
    at = all.data;
    for (int i = 0; i < 50; i++) { /* all, and in order */
        snprintf(want, sizeof(want), "\"a\":\"n%d\"", i);
        at = strstr(at, want);
        assert_non_null(at);
    }
    os_close(&fd);
    buf_release(&b);
    buf_release(&all);
    echo_server_close(&p);
}

/* Clients that send a byte now and then, or none, hold only themselves. */
static void test_slow_clients_hold_nobody(void **state)
{
    struct echo_server p;
    int fds[100];
    struct dlc_mono from = dlc_mono_now();

    (void)state;
    echo_server_open(&p, &(struct http_server_config){.idle = DLC_SEC(1)});
    for (size_t i = 0; i < unit_count(fds); i++) {
        fds[i] = raw_connect(p.address);
        raw_send(fds[i], "GET /echo/a HT", i % 15);
    }
    for (int i = 0; i < 100; i++)
        expect_alive(&p);
    assert_true(dlc_mono_since(from).ns < DLC_SEC(30).ns);
    for (size_t i = 0; i < unit_count(fds); i++) {
        raw_rest(fds[i], NULL); /* in the end they are sent away */
        os_close(&fds[i]);
    }
    echo_server_close(&p);
}

/* One that drips is alive for the idle clock, but its head must be complete some day. */
static void test_a_head_in_drops_is_not_waited_for_for_ever(void **state)
{
    struct echo_server p;
    struct dlc_mono from = dlc_mono_now();
    int fd;

    (void)state;
    echo_server_open(&p, &(struct http_server_config){.idle = DLC_SEC(1)});
    fd = raw_connect(p.address);
    raw_send(fd, "GET /echo/a HTTP/1.1\r\n", 22);
    while (send(fd, "X", 1, MSG_NOSIGNAL) == 1) {
        assert_true(dlc_mono_since(from).ns < DLC_SEC(30).ns);
        expect_alive(&p);
    }
    os_close(&fd);
    echo_server_close(&p);
}

static void test_those_who_do_not_read(void **state)
{
    struct echo_server p;
    int fds[20];

    (void)state;
    echo_server_open(&p, &(struct http_server_config){.idle = DLC_SEC(1)});
    for (size_t i = 0; i < unit_count(fds); i++) {
        fds[i] = raw_connect(p.address);
        raw_send(fds[i], GET("/data/4000000"), strlen(GET("/data/4000000")));
    }
    expect_alive(&p);
    for (size_t i = 0; i < unit_count(fds); i++) /* each has its answer, or the beginning of it */
        assert_int_equal(recv(fds[i], &(char){0}, 1, MSG_PEEK), 1);
    for (size_t i = 0; i < unit_count(fds); i += 2)
        os_close(&fds[i]);
    expect_alive(&p);
    for (size_t i = 1; i < unit_count(fds); i += 2)
        os_close(&fds[i]);
    echo_server_close(&p);
    assert_int_equal(p.done, unit_count(fds));
}

static void test_random_bytes(void **state)
{
    struct echo_server p;
    struct rng rng = {7};
    char data[600];

    (void)state;
    echo_server_open(&p, NULL);
    for (int i = 0; i < 300; i++) {
        size_t n = 1 + rng_below(&rng, sizeof(data) - 1);
        int fd = raw_connect(p.address), from = 0;

        if (i % 2 == 0) /* a good beginning */
            from = snprintf(data, sizeof(data), "POST /echo/a HTTP/1.1\r\nHost: x\r\n");
        for (size_t j = (size_t)from; j < sizeof(data); j++)
            data[j] = (char)(rng_below(&rng, 4) == 0 ? "\r\n: "[rng_below(&rng, 4)]
                                                     : (char)rng_next(&rng));
        raw_send(fd, data, n);
        shutdown(fd, SHUT_WR);
        raw_answer(fd, NULL);
        os_close(&fd);
    }
    expect_alive(&p);
    echo_server_close(&p);
}

static void test_more_connections_than_allowed(void **state)
{
    struct echo_server p;
    struct dlc_mono from = dlc_mono_now();
    int fds[30];

    (void)state;
    echo_server_open(&p, &(struct http_server_config){.connections = 10, .idle = DLC_SEC(1)});
    for (size_t i = 0; i < unit_count(fds); i++)
        fds[i] = raw_connect(p.address);
    raw_rest(fds[unit_count(fds) - 1], NULL);               /* turned away */
    while (raw_ask(p.address, GET("/echo/a"), NULL) != 200) /* until those before it went */
        assert_true(dlc_mono_since(from).ns < DLC_SEC(30).ns);
    for (size_t i = 0; i < unit_count(fds); i++)
        os_close(&fds[i]);
    echo_server_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_lines_and_heads),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_bytes_of_zero),
        cmocka_unit_test(test_deep_json),
        cmocka_unit_test(test_huge_heads),
        cmocka_unit_test(test_endless_body),
        cmocka_unit_test(test_a_body_that_is_a_little_too_large),
        cmocka_unit_test(test_pipelined),
        cmocka_unit_test(test_slow_clients_hold_nobody),
        cmocka_unit_test(test_a_head_in_drops_is_not_waited_for_for_ever),
        cmocka_unit_test(test_those_who_do_not_read),
        cmocka_unit_test(test_a_token_comes_before_a_body),
        cmocka_unit_test(test_bodies_of_all),
        cmocka_unit_test(test_too_many_values),
        cmocka_unit_test(test_an_answer_must_be_taken),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_more_connections_than_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
