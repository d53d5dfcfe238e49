// SPDX-License-Identifier: Apache-2.0
/* The server as its handlers and well-behaved clients see it. What bad clients do: test_hostile.c.
 */
#include "net/server.h"

#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/mem.h"
#include "base/syscalls.h"
#include "echo_server.h"
#include "raw.h"
#include "unit.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

/* The JSON of an answer. */
static json_t *json_of(const struct buf *b)
{
    const char *end = strstr(b->data, "\r\n\r\n");
    json_t *j;

    assert_non_null(end);
    j = json_loads(end + 4, 0, NULL);
    assert_non_null(j);
    return j;
}

static void expect_text(const json_t *j, const char *name, const char *value)
{
    const char *v = json_string_value(json_object_get(j, name));

    assert_non_null(v);
    assert_string_equal(v, value);
}

static void expect_problem(const struct buf *b, int status)
{
    json_t *j = json_of(b);

    assert_non_null(strstr(b->data, "application/problem+json"));
    assert_int_equal(json_integer_value(json_object_get(j, "status")), status);
    assert_non_null(json_string_value(json_object_get(j, "title")));
    assert_true(json_string_length(json_object_get(j, "detail")) > 0);
    json_decref(j);
}

static void test_parameters_query_and_headers(void **state)
{
    struct echo_server p;
    struct buf b = BUF_INIT;
    json_t *j;

    (void)state;
    echo_server_open(&p, NULL);
    assert_int_equal(raw_ask(p.address,
                             "GET /echo/a%20b/%C3%A4?q=1+2%263&z HTTP/1.1\r\nHost: x\r\n"
                             "X-Test: here\r\nAuthorization: bearer  t0k\r\n\r\n",
                             &b),
                     200);
    assert_non_null(strstr(b.data, "ETag: \"7\""));
    assert_non_null(strstr(b.data, "Content-Type: application/json"));
    j = json_of(&b);
    expect_text(j, "a", "a b");
    expect_text(j, "b", "\xc3\xa4");
    expect_text(j, "q", "1 2&3");
    expect_text(j, "x", "here");
    expect_text(j, "token", "t0k");
    expect_text(j, "method", "GET");
    assert_true(json_is_false(json_object_get(j, "local")));
    json_decref(j);
    buf_release(&b);
    echo_server_close(&p);
}

static void test_bodies(void **state)
{
    struct echo_server p;
    struct buf b = BUF_INIT;
    json_t *j;

    (void)state;
    echo_server_open(&p, NULL);
    assert_int_equal(raw_ask(p.address,
                             "POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json; "
                             "charset=utf-8\r\nContent-Length: 9\r\n\r\n{\"k\": 42}",
                             &b),
                     200);
    j = json_of(&b);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "body"), "k")), 42);
    json_decref(j);
    assert_int_equal(
        raw_ask(p.address,
                "PUT /echo/a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                "Transfer-Encoding: chunked\r\n\r\n4\r\n{\"k\"\r\n3\r\n:1}\r\n0\r\n\r\n",
                &b),
        200);
    j = json_of(&b);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "body"), "k")), 1);
    json_decref(j);
    assert_int_equal(
        raw_ask(p.address, "POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", &b),
        200);
    j = json_of(&b);
    assert_null(json_object_get(j, "body"));
    json_decref(j);
    buf_release(&b);
    echo_server_close(&p);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *text;
        int status;
    } table[] = {
        {GET("/nowhere"), 404},
        {GET("/"), 404},
        {GET("/echo"), 404},
        {GET("/echo/"), 404},
        {GET("/echo/a/"), 404},
        {GET("/echo//b"), 404},
        {GET("//echo/a"), 404},
        {GET("/echo/a/b/c"), 404},
        {GET("/block"), 405},
        {"DELETE /echo/a HTTP/1.1\r\nHost: x\r\n\r\n", 405},
        {"OPTIONS /echo/a HTTP/1.1\r\nHost: x\r\n\r\n", 405},
        {"POST /echo/a HTTP/1.1\r\nHost: x\r\n\r\n", 411},
        {"POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n", 413},
        {"POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Type: "
         "text/plain\r\n\r\n{}",
         415},
        {"POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]", 400},
        {"POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nnull", 400},
        {"POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{]", 400},
        {"POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n{\"a\":1,\"a\":2}", 400},
        {GET("/fail"), 507},
    };
    struct echo_server p;
    struct buf b = BUF_INIT;

    (void)state;
    echo_server_open(&p, NULL);
    for (size_t i = 0; i < unit_count(table); i++) {
        int status = raw_ask(p.address, table[i].text, &b);

        if (status != table[i].status)
            fail_msg("%d instead of %d for %s", status, table[i].status, table[i].text);
        expect_problem(&b, status);
    }
    assert_int_equal(raw_ask(p.address, "PATCH /echo/a HTTP/1.1\r\nHost: x\r\n\r\n", &b), 405);
    assert_non_null(strstr(b.data, "Allow: GET, POST, PUT\r\n"));
    buf_release(&b);
    echo_server_close(&p);
}

static void test_check(void **state)
{
    struct echo_server p;
    struct buf b = BUF_INIT;

    (void)state;
    echo_server_open(&p, NULL);
    assert_int_equal(raw_ask(p.address, GET("/private"), &b), 401);
    assert_non_null(strstr(b.data, "WWW-Authenticate: Bearer\r\n"));
    assert_int_equal(raw_ask(p.address,
                             "GET /private HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer no\r\n\r\n",
                             NULL),
                     403);
    assert_int_equal(
        raw_ask(p.address,
                "GET /private HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n", NULL),
        200);
    assert_int_equal(
        raw_ask(p.address,
                "GET /private HTTP/1.1\r\nHost: x\r\nAuthorization: Basic secret\r\n\r\n", NULL),
        401);
    buf_release(&b);
    echo_server_close(&p);
}

static void test_data_is_sent_and_given_back(void **state)
{
    struct echo_server p;
    struct buf b = BUF_INIT;
    const char *end;
    size_t n = 3000000;

    (void)state;
    echo_server_open(&p, NULL);
    assert_int_equal(raw_ask(p.address, GET("/data/3000000"), &b), 200);
    assert_non_null(strstr(b.data, "Dlcache-From: memory\r\n"));
    assert_non_null(strstr(b.data, "Content-Type: application/octet-stream\r\n"));
    end = strstr(b.data, "\r\n\r\n") + 4;
    assert_int_equal(b.len - (size_t)(end - b.data), n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal((unsigned char)end[i], i % 251);
    assert_int_equal(raw_ask(p.address, GET("/data/0"), &b), 200);
    assert_int_equal(raw_ask(p.address,
                             "HEAD /data/17 HTTP/1.1\r\nHost: x\r\n"
                             "Connection: close\r\n\r\n",
                             &b),
                     200);
    assert_non_null(strstr(b.data, "Content-Length: 17\r\n\r\n"));
    echo_server_close(&p);
    assert_int_equal(p.done, 3);
    buf_release(&b);
}

static void ask_range(const struct echo_server *p, const char *range, struct buf *b, int status)
{
    char text[200];

    snprintf(text, sizeof(text), "GET /data/1000 HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", range);
    assert_int_equal(raw_ask(p->address, text, b), status);
}

static void test_ranges(void **state)
{
    struct echo_server p;
    struct buf b = BUF_INIT;
    const char *end;

    (void)state;
    echo_server_open(&p, NULL);
    ask_range(&p, "Range: bytes=300-509", &b, 206);
    assert_non_null(strstr(b.data, "Content-Range: bytes 300-509/1000\r\n"));
    assert_non_null(strstr(b.data, "Content-Length: 210\r\n"));
    end = strstr(b.data, "\r\n\r\n") + 4;
    assert_int_equal(b.len - (size_t)(end - b.data), 210);
    for (size_t i = 0; i < 210; i++)
        assert_int_equal((unsigned char)end[i], (300 + i) % 251);
    ask_range(&p, "Range: bytes=-1", &b, 206);
    assert_non_null(strstr(b.data, "Content-Range: bytes 999-999/1000\r\n"));
    ask_range(&p, "Range: bytes=1000-", &b, 416);
    assert_non_null(strstr(b.data, "Content-Range: bytes */1000\r\n"));
    expect_problem(&b, 416);
    ask_range(&p, "Range: bytes=1-2,4-5", &b, 200);
    ask_range(&p, "Range: bytes=1-2\r\nIf-Range: \"x\"", &b, 200);
    ask_range(&p, "X: y", &b, 200);
    assert_non_null(strstr(b.data, "Accept-Ranges: bytes\r\n"));
    echo_server_close(&p);
    assert_int_equal(p.done, 6);
    buf_release(&b);
}

static void test_unix_socket(void **state)
{
    struct echo_server p, q;
    struct buf b = BUF_INIT;
    struct http_server_config c = {0};
    struct http_server *second = NULL;
    struct dlc_err err;
    struct stat st;
    char path[256];
    json_t *j;

    (void)state;
    echo_server_open(&p, NULL);
    memcpy(path, p.unix_path, sizeof(path));
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(raw_ask(path, GET("/echo/a"), &b), 200);
    j = json_of(&b);
    assert_true(json_is_true(json_object_get(j, "local")));
    json_decref(j);
    c.unix_path = path;
    assert_int_equal(http_server_open(&c, &second, &err), DLC_EBUSY);
    assert_null(second);
    assert_int_equal(raw_ask(path, GET("/echo/a"), NULL), 200); /* the first is still there */
    echo_server_close(&p);
    assert_int_equal(lstat(path, &st), -1);
    assert_int_equal(os_write_file(path, "x", 1, 0600, NULL), 0);
    assert_int_equal(http_server_open(&c, &second, &err), DLC_EINVAL); /* not ours to remove */
    assert_int_equal(unlink(path), 0);

    /* A socket that nobody listens on is replaced. */
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    os_close(&fd);
    echo_server_open(&q, NULL);
    assert_int_equal(raw_ask(path, GET("/echo/a"), NULL), 200);
    echo_server_close(&q);
    buf_release(&b);
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {"",           ":80",         "127.0.0.1",
                                      "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536",
                                      "::1:80",     "[]:80",       "no.such.host.invalid:0"};
    static const struct http_route none[] = {{NULL, NULL, 0, NULL}};
    struct http_server_config c = {.routes = none};
    struct http_server *s, *t;
    struct dlc_err err;

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        c.address = bad[i];
        assert_int_equal(http_server_open(&c, &s, &err), DLC_EINVAL);
        assert_null(s);
    }
    c.address = "localhost:0";
    assert_int_equal(http_server_open(&c, &s, &err), 0);
    c.address = http_server_address(s);
    assert_int_equal(http_server_open(&c, &t, &err), DLC_EIO); /* in use */
    http_server_close(&s);
    c.address = "[::1]:0";
    if (http_server_open(&c, &s, &err) == 0) /* not every machine has IPv6 */
        assert_int_equal(strncmp(http_server_address(s), "[::1]:", 6), 0);
    http_server_close(&s);
}

static void test_streams(void **state)
{
    struct echo_server p;
    struct buf b = BUF_INIT;

    (void)state;
    echo_server_open(&p, NULL);
    assert_int_equal(
        raw_ask(p.address, "GET /stream/3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", &b),
        200);
    assert_non_null(strstr(b.data, "application/x-ndjson"));
    assert_non_null(strstr(b.data, "{\"i\": 0}\n"));
    assert_non_null(strstr(b.data, "{\"i\": 2}\n"));
    assert_non_null(strstr(b.data, "0\r\n\r\n"));
    echo_server_close(&p);
    assert_int_equal(p.done, 1);
    buf_release(&b);
}

static void wait_for(_Atomic int *v, int value)
{
    struct dlc_mono from = dlc_mono_now();

    while (*v < value) {
        sched_yield();
        if (dlc_mono_since(from).ns > DLC_SEC(10).ns)
            fail_msg("%d never comes", value);
    }
}

static void test_a_stream_ends_when_its_client_goes(void **state)
{
    struct echo_server p;
    int fd;

    (void)state;
    echo_server_open(&p, NULL);
    fd = raw_connect(p.address);
    raw_send(fd, GET("/stream/0"), strlen(GET("/stream/0")));
    wait_for(&p.streams, 1);
    assert_int_equal(p.done, 0);
    os_close(&fd);
    wait_for(&p.done, 1);
    echo_server_close(&p);
}

/* Silence of the server is no reason to end it: nobody waits for the client. */
static void test_a_stream_that_nobody_reads_ends(void **state)
{
    static const char much[] = GET("/stream/100000000"), none[] = GET("/stream/0");
    const struct http_server_config like = {.idle = DLC_SEC(1)};
    struct echo_server p;
    int quiet, unread;

    (void)state;
    echo_server_open(&p, &like);
    quiet = raw_connect(p.address);
    raw_send(quiet, none, sizeof(none) - 1);
    wait_for(&p.streams, 1);
    unread = raw_connect(p.address);
    raw_send(unread, much, sizeof(much) - 1);
    wait_for(&p.streams, 2);
    wait_for(&p.done, 1);
    os_close(&unread);
    assert_int_equal(p.done, 1); /* the other goes on */
    os_close(&quiet);
    wait_for(&p.done, 2);
    echo_server_close(&p);
}

static void test_closing_ends_streams_well(void **state)
{
    struct echo_server p;
    struct buf b = BUF_INIT;
    int fd;

    (void)state;
    echo_server_open(&p, NULL);
    fd = raw_connect(p.address);
    raw_send(fd, GET("/stream/0"), strlen(GET("/stream/0")));
    wait_for(&p.streams, 1);
    echo_server_close(&p);
    assert_int_equal(p.done, 1);
    assert_int_equal(raw_answer(fd, &b), 200);
    assert_non_null(strstr(b.data, "\r\n\r\n0\r\n\r\n")); /* an end, not a cut */
    os_close(&fd);
    buf_release(&b);
}

static void *closer(void *arg)
{
    echo_server_close(arg);
    return NULL;
}

static void test_closing_waits_for_handlers(void **state)
{
    static const char post[] = "POST /block HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    struct echo_server p;
    pthread_t thread;
    int fd;

    (void)state;
    echo_server_open(&p, NULL);
    fd = raw_connect(p.address);
    raw_send(fd, post, sizeof(post) - 1);
    sem_wait(&p.entered);
    assert_int_equal(pthread_create(&thread, NULL, closer, &p), 0);
    while (access(p.unix_path, F_OK) == 0) /* the end has begun */
        sched_yield();
    assert_int_equal(p.blocked, 0);
    sem_post(&p.release);
    assert_int_equal(raw_answer(fd, NULL), 201); /* and the reply came */
    pthread_join(thread, NULL);
    assert_int_equal(p.blocked, 1);
    os_close(&fd);
}

static void *ask_often(void *arg)
{
    struct echo_server *p = arg;
    int fd = raw_connect(p->address);
    intptr_t good = 0;

    for (int i = 0; i < 20; i++) {
        raw_send(fd, GET("/data/5000"), strlen(GET("/data/5000")));
        good += raw_answer(fd, NULL) == 200;
    }
    os_close(&fd);
    return (void *)good;
}

static void test_two_hundred_connections(void **state)
{
    pthread_t threads[200];
    struct echo_server p;

    (void)state;
    echo_server_open(&p, NULL);
    for (size_t i = 0; i < unit_count(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &p), 0);
    for (size_t i = 0; i < unit_count(threads); i++) {
        void *good = NULL;

        pthread_join(threads[i], &good);
        assert_int_equal((intptr_t)good, 20);
    }
    echo_server_close(&p);
    assert_int_equal(p.done, 200 * 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters_query_and_headers),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_data_is_sent_and_given_back),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_a_stream_ends_when_its_client_goes),
        cmocka_unit_test(test_a_stream_that_nobody_reads_ends),
        cmocka_unit_test(test_closing_ends_streams_well),
        cmocka_unit_test(test_closing_waits_for_handlers),
        cmocka_unit_test(test_two_hundred_connections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
