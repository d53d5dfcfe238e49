// SPDX-License-Identifier: Apache-2.0
/* The server, asked by libcurl: HTTP/2 of another hand. */
#include "unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <curl/curl.h>

#include "base/mem.h"
#include "base/syscalls.h"
#include "operator/csi/grpc_server.h"

struct answer {
    long http;
    struct buf headers, body;
};

static size_t take(char *data, size_t size, size_t n, void *arg)
{
    buf_add(arg, data, size * n);
    return size * n;
}

static CURL *handle_new(const char *path)
{
    CURL *h = curl_easy_init();

    curl_easy_setopt(h, CURLOPT_UNIX_SOCKET_PATH, path);
    curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
    curl_easy_setopt(h, CURLOPT_TIMEOUT, 30L);
    /* libcurl 7.88 cannot use such a connection again; Go, in tests/k8s/csi, does. */
    curl_easy_setopt(h, CURLOPT_FRESH_CONNECT, 1L);
    return h;
}

static void ask(CURL *h, const char *method, const char *type, const void *body, size_t len,
                struct answer *a)
{
    struct curl_slist *list = curl_slist_append(NULL, "TE: trailers");
    char *url = mem_fmt("http://localhost%s", method);
    char *line = mem_fmt("Content-Type: %s", type);

    list = curl_slist_append(list, line);
    curl_easy_setopt(h, CURLOPT_URL, url);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE, (long)len);
    curl_easy_setopt(h, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, &a->body);
    curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, take);
    curl_easy_setopt(h, CURLOPT_HEADERDATA, &a->headers);
    assert_int_equal(curl_easy_perform(h), CURLE_OK);
    curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &a->http);
    curl_slist_free_all(list);
    mem_free(&url);
    mem_free(&line);
}

static void release(struct answer *a)
{
    buf_release(&a->headers);
    buf_release(&a->body);
}

static enum grpc_status echo(void *ctx, const void *request, size_t len, struct buf *out,
                             struct dlc_err *err)
{
    unsigned *calls = ctx;

    (void)err;
    __atomic_add_fetch(calls, 1, __ATOMIC_SEQ_CST);
    buf_add(out, request, len);
    return GRPC_OK;
}

static enum grpc_status refuse(void *ctx, const void *request, size_t len, struct buf *out,
                               struct dlc_err *err)
{
    (void)ctx;
    (void)request;
    (void)len;
    buf_adds(out, "half an answer");
    dlc_err_set(err, DLC_EINVAL, "100 %% of it\nis wrong");
    return GRPC_INVALID_ARGUMENT;
}

static const struct grpc_method methods[] = {{"/t.T/Echo", echo}, {"/t.T/Refuse", refuse}, {0}};
static const struct grpc_method *const tables[] = {methods, NULL};

struct fixture {
    char path[256];
    unsigned calls;
    struct grpc_server *server;
};

static int set_up(void **state)
{
    struct fixture *f = mem_new(struct fixture);
    struct dlc_err err = DLC_ERR_INIT;

    unit_path("grpc.sock", f->path);
    *state = f;
    return grpc_server_start(f->path, tables, &f->calls, &f->server, &err);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    grpc_server_stop(&f->server);
    mem_free(&f);
    return 0;
}

static void answers_one_call_after_another(void **state)
{
    struct fixture *f = *state;
    CURL *h = handle_new(f->path);

    for (unsigned i = 0; i < 3; i++) {
        struct answer a = {0};

        ask(h, "/t.T/Echo", "application/grpc+proto", "\0\0\0\0\3abc", 8, &a);
        assert_int_equal(a.http, 200);
        assert_int_equal(a.body.len, 8);
        assert_memory_equal(a.body.data, "\0\0\0\0\3abc", 8);
        assert_non_null(strstr(a.headers.data, "grpc-status: 0"));
        release(&a);
    }
    assert_int_equal(f->calls, 3);
    curl_easy_cleanup(h);
}

/* Larger than a frame, than a window and than what one read takes. */
static void a_large_message(void **state)
{
    struct fixture *f = *state;
    CURL *h = handle_new(f->path);
    size_t len = GRPC_MESSAGE_MAX + 5;
    char *body = mem_zero(len + 1);
    struct answer a = {0}, b = {0};

    body[2] = 0x10; /* 1 MiB */
    for (size_t i = 5; i < len; i++)
        body[i] = (char)(i * 7);
    ask(h, "/t.T/Echo", "application/grpc", body, len, &a);
    assert_int_equal(a.body.len, len);
    assert_memory_equal(a.body.data, body, len);
    body[4] = 1; /* one byte more than is allowed */
    ask(h, "/t.T/Echo", "application/grpc", body, len + 1, &b);
    assert_int_equal(b.body.len, 0);
    assert_non_null(strstr(b.headers.data, "grpc-status: 8"));
    assert_int_equal(f->calls, 1);
    release(&a);
    release(&b);
    mem_free(&body);
    curl_easy_cleanup(h);
}

static void failures_have_a_status_and_a_text(void **state)
{
    static const struct {
        const char *method, *body;
        size_t len;
        const char *status;
    } cases[] = {
        {"/t.T/Nothing", "\0\0\0\0\0", 5, "grpc-status: 12"},
        {"/t.T/Echo", "\0\0\0\0\4abc", 8, "grpc-status: 13"}, /* cut off */
        {"/t.T/Echo", "\0\0\0", 3, "grpc-status: 13"},
        {"/t.T/Echo", "\0\0\0\0\1ab", 7, "grpc-status: 13"}, /* something behind it */
        {"/t.T/Echo", "\1\0\0\0\1a", 6, "grpc-status: 12"},  /* compressed */
        {"/t.T/Refuse", "\0\0\0\0\0", 5, "grpc-message: 100 %25 of it%0Ais wrong"},
    };
    struct fixture *f = *state;
    CURL *h = handle_new(f->path);

    for (size_t i = 0; i < unit_count(cases); i++) {
        struct answer a = {0};

        ask(h, cases[i].method, "application/grpc", cases[i].body, cases[i].len, &a);
        assert_int_equal(a.http, 200);
        assert_int_equal(a.body.len, 0);
        assert_non_null(strstr(a.headers.data, cases[i].status));
        release(&a);
    }
    assert_int_equal(f->calls, 0);
    curl_easy_cleanup(h);
}

static void what_is_not_grpc_is_refused(void **state)
{
    struct fixture *f = *state;
    CURL *h = handle_new(f->path);
    struct answer a = {0};

    ask(h, "/t.T/Echo", "application/json", "\0\0\0\0\0", 5, &a);
    assert_int_equal(a.http, 415);
    assert_int_equal(f->calls, 0);
    release(&a);
    curl_easy_cleanup(h);
}

static int connect_raw(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = os_socket(AF_UNIX, SOCK_STREAM);

    memcpy(addr.sun_path, path, strlen(path) + 1);
    assert_int_equal(os_connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

static bool is_closed(int fd)
{
    char data[4096];
    ssize_t n;

    while ((n = os_recv(fd, data, sizeof(data), 0)) > 0)
        ;
    return n == 0 || errno == ECONNRESET;
}

/* Neither garbage nor connections that say nothing keep others from being served. */
static void bad_clients_are_bounded(void **state)
{
    struct fixture *f = *state;
    int fds[GRPC_CONNECTIONS], garbage = connect_raw(f->path), late;
    CURL *h = handle_new(f->path);
    struct answer a = {0};

    assert_true(os_send(garbage, "GET / HTTP/1.1\r\n\r\nnothing like HTTP/2", 37, 0) > 0);
    assert_true(is_closed(garbage));
    os_close(&garbage);
    for (unsigned i = 0; i < GRPC_CONNECTIONS; i++)
        fds[i] = connect_raw(f->path);
    late = connect_raw(f->path);
    assert_true(is_closed(late)); /* one too many */
    os_close(&late);
    for (unsigned i = 0; i < GRPC_CONNECTIONS; i++)
        os_close(&fds[i]);
    do { /* their threads end when they see it */
        release(&a);
        curl_easy_setopt(h, CURLOPT_URL, "http://localhost/t.T/Echo");
    } while (curl_easy_perform(h) != CURLE_OK);
    ask(h, "/t.T/Echo", "application/grpc", "\0\0\0\0\0", 5, &a);
    assert_int_equal(a.http, 200);
    release(&a);
    curl_easy_cleanup(h);
}

static void stops_with_connections_open(void **state)
{
    struct fixture *f = *state;
    CURL *h = handle_new(f->path);
    struct answer a = {0};
    int fd = connect_raw(f->path);

    ask(h, "/t.T/Echo", "application/grpc", "\0\0\0\0\0", 5, &a);
    grpc_server_stop(&f->server);
    assert_true(is_closed(fd));
    assert_int_not_equal(access(f->path, F_OK), 0);
    os_close(&fd);
    release(&a);
    curl_easy_cleanup(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_one_call_after_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_large_message, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_have_a_status_and_a_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_grpc_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_clients_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stops_with_connections_open, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("operator/csi/grpc_server", tests, NULL, NULL);
}
