// SPDX-License-Identifier: Apache-2.0
// timeout: 60
/* The asynchronous server: requests whole, cut, malformed and pipelined, and what is answered. */
#include "net/async_server.h"

#include <sys/socket.h>

#include "async_test_server.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "raw.h"

static void test_requests(void **state)
{
    struct buf b = BUF_INIT;
    int fd;

    (void)state;
    start(NULL);
    fd = raw_connect(s.address);
    say(fd, GET("/data/5000"));
    assert_int_equal(raw_answer(fd, &b), 200);
    assert_true(has_body(&b, 0, 5000));
    assert_non_null(strstr(b.data, "\r\nDlcache-From: memory\r\n"));
    say(fd, GET("/data/0")); /* on the same connection, and what follows */
    assert_int_equal(raw_answer(fd, &b), 200);
    assert_true(has_body(&b, 0, 0));
    say(fd, "GET /data/100 HTTP/1.1\r\nHost: x\r\nRange: bytes=10-19\r\n\r\n");
    assert_int_equal(raw_answer(fd, &b), 206);
    assert_true(has_body(&b, 10, 10));
    assert_non_null(strstr(b.data, "\r\nContent-Range: bytes 10-19/100\r\n"));
    say(fd, "GET /data/100 HTTP/1.1\r\nHost: x\r\nRange: bytes=100-\r\n\r\n");
    assert_int_equal(raw_answer(fd, &b), 416);
    say(fd, "GET /echo/%41?q=b%20c HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer tok\r\n\r\n");
    assert_int_equal(raw_answer(fd, &b), 200);
    assert_non_null(strstr(b.data, "\"a\":\"A\""));
    assert_non_null(strstr(b.data, "\"q\":\"b c\""));
    assert_non_null(strstr(b.data, "\"token\":\"tok\""));
    say(fd, GET("/nowhere"));
    assert_int_equal(raw_answer(fd, &b), 404);
    say(fd, "GET /data/7 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_int_equal(raw_answer(fd, &b), 200);
    buf_clear(&b);
    raw_rest(fd, &b);
    assert_int_equal(b.len, 0);
    os_close(&fd);
    assert_int_equal(figures().accepted, 1);
    assert_int_equal(raw_ask(s.address, "HEAD /data/9 HTTP/1.0\r\n\r\n", &b), 200);
    assert_non_null(strstr(b.data, "\r\nContent-Length: 9\r\n"));
    assert_true(has_body(&b, 0, 0));
    buf_release(&b);
    stop();
}

static void test_refusals(void **state)
{
    static const struct {
        const char *text;
        int status; /* 0: no answer */
    } table[] = {
        {"", 0},
        {"\r\n\r\n", 0},
        {"\r\n" GET("/data/1"), 200},
        {"GET /data/1 HTTP/1.1\r\nHost: x\r\n", 0},
        {"\x16\x03\x01\x02\x05", 400},
        {"GET /data/1 HTTP/1.1\r\nHo st: x\r\n\r\n", 400},
        {"GET /data/1 HTTP/2.0\r\nHost: x\r\n\r\n", 505},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
        {"POST /data/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 405},
        {"GET /data/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 400},
        {"GET /data/1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {GET("/data/.."), 400},
        {GET("/data/%00"), 400},
        {GET("data/1"), 400},
    };
    struct buf b = BUF_INIT;

    (void)state;
    start(NULL);
    for (size_t i = 0; i < unit_count(table); i++) {
        int fd = raw_connect(s.address), status;

        say(fd, table[i].text);
        shutdown(fd, SHUT_WR);
        status = raw_answer(fd, NULL);
        if (status != table[i].status)
            fail_msg("%d instead of %d for %s", status, table[i].status, table[i].text);
        os_close(&fd);
        expect_alive();
    }
    buf_adds(&b, "GET /data/1 HTTP/1.1\r\nHost: x\r\nX: ");
    while (b.len < 100000) /* it is refused when too much has come, and read by nobody after that */
        buf_addc(&b, 'x');
    assert_int_equal(raw_ask_n(s.address, b.data, b.len, NULL), 431);
    buf_release(&b);
    WAIT_FOR(figures().connections == 0);
    stop();
}

/* Byte by byte, and all at once. */
static void test_pipelines(void **state)
{
    static const char one[] = GET("/data/10"), bad[] = GET("/nowhere"), last[] = GET("/data/20");
    struct buf all = BUF_INIT, b = BUF_INIT;
    const char *at;
    int fd, n = 0;

    (void)state;
    start(NULL);
    fd = raw_connect(s.address);
    for (size_t i = 0; i < sizeof(one) - 1; i++)
        raw_send(fd, &one[i], 1);
    assert_int_equal(raw_answer(fd, &b), 200);
    for (int i = 0; i < 1000; i++)
        buf_adds(&all, i % 2 == 0 ? one : bad);
    buf_addf(&all, "%.*sConnection: close\r\n\r\n", (int)sizeof(last) - 3, last);
    raw_send(fd, all.data, all.len);
    buf_clear(&b);
    raw_rest(fd, &b);
    for (at = b.data; (at = memmem(at, b.len - (size_t)(at - b.data), "HTTP/1.1 ", 9)) != NULL; n++)
        assert_int_equal(strtol(at += 9, NULL, 10), n == 1000 || n % 2 == 0 ? 200 : 404);
    assert_int_equal(n, 1001);
    assert_memory_equal(b.data + b.len - 20, s.bytes, 20);
    os_close(&fd);
    buf_release(&all);
    buf_release(&b);
    stop();
}

/* A client may go at any byte of a request and of an answer, in good order or by a reset. */
static void test_disconnects(void **state)
{
    static const char text[] = GET("/data/" LONG "");
    struct linger reset = {1, 0};
    char data[4096];

    (void)state;
    start(NULL);
    for (size_t i = 0; i <= sizeof(text) - 1; i++) {
        int fd = raw_connect(s.address);

        raw_send(fd, text, i);
        if (i % 2 == 0)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        os_close(&fd);
    }
    for (int i = 0; i < 20; i++) {
        int fd = raw_connect(s.address);

        say(fd, text);
        for (int k = 0; k < i; k++)
            assert_true(recv(fd, data, sizeof(data), 0) > 0);
        if (i % 2 == 0)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        os_close(&fd);
    }
    WAIT_FOR(figures().connections == 0);
    WAIT_FOR(s.begun == s.done && s.begun > 0);
    expect_alive();
    stop();
}

/* Answers come from another thread; clients that have gone meanwhile do not disturb it. */
static void test_answers_later(void **state)
{
    struct buf b = BUF_INIT;
    int fds[30];

    (void)state;
    start(NULL);
    for (int i = 0; i < 30; i++) {
        fds[i] = raw_connect(s.address);
        say(fds[i], GET("/held/1") GET("/data/7"));
    }
    WAIT_FOR(s.n_held == 30);
    expect_alive(); /* nobody waits for them */
    for (int i = 0; i < 30; i += 3)
        os_close(&fds[i]);
    assert_int_equal(release_held(), 30);
    for (int i = 0; i < 30; i++) {
        if (fds[i] < 0)
            continue;
        assert_int_equal(raw_answer(fds[i], &b), 200);
        os_close(&fds[i]);
    }
    buf_release(&b);
    WAIT_FOR(s.begun == s.done && figures().connections == 0);
    stop();
}

static void test_says_that_it_works(void **state)
{
    static const char interim[] = "HTTP/1.1 102 Processing\r\n\r\n";
    char data[sizeof(interim)];
    struct buf b = BUF_INIT;
    int fd, quiet;

    (void)state;
    start(NULL);
    fd = raw_connect(s.address);
    quiet = raw_connect(s.address);
    say(fd, "GET /held/1 HTTP/1.1\r\nHost: x\r\nDlcache-Processing: 1\r\n\r\n");
    say(quiet, GET("/held/1"));
    for (int i = 0; i < 2; i++) { /* after 10 ms, and half a second later */
        assert_int_equal(recv(fd, data, sizeof(interim) - 1, MSG_WAITALL), sizeof(interim) - 1);
        assert_memory_equal(data, interim, sizeof(interim) - 1);
    }
    assert_int_equal(release_held(), 2);
    assert_int_equal(raw_answer(quiet, &b), 200); /* not 102 */
    assert_int_equal(raw_answer(fd, NULL), 200);
    buf_release(&b);
    os_close(&fd);
    os_close(&quiet);
    stop();
}

/* ---- files ---- */

static void test_files(void **state)
{
    const size_t size = ASYNC_FILE;
    struct buf b = BUF_INIT;
    char *text = mem_fmt("GET /file/%zu HTTP/1.1\r\nHost: x\r\n\r\n", size);
    int fd;

    (void)state;
    start(NULL);
    fd = raw_connect(s.address);
    say(fd, text);
    assert_int_equal(raw_answer(fd, &b), 200);
    assert_true(has_body(&b, 0, size));
    assert_int_equal(s.jobs, 16);
    say(fd, "GET /file/1000000 HTTP/1.1\r\nHost: x\r\nRange: bytes=999000-\r\n\r\n");
    assert_int_equal(raw_answer(fd, &b), 206);
    assert_true(has_body(&b, 999000, 1000));
    say(fd, "GET /file/10 HTTP/1.1\r\nHost: x\r\nRange: bytes=10-\r\n\r\n");
    assert_int_equal(raw_answer(fd, &b), 416);
    say(fd, "HEAD /file/1000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    buf_clear(&b);
    raw_rest(fd, &b);
    assert_true(has_body(&b, 0, 0));
    os_close(&fd);
    fd = raw_connect(s.address); /* longer than the file: cut */
    say(fd, GET("/file/999999999"));
    buf_clear(&b);
    raw_rest(fd, &b);
    assert_true(b.len < size + 1000);
    os_close(&fd);
    mem_free(&text);
    buf_release(&b);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),      cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_pipelines),     cmocka_unit_test(test_disconnects),
        cmocka_unit_test(test_answers_later), cmocka_unit_test(test_says_that_it_works),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, prepare, clean);
}
