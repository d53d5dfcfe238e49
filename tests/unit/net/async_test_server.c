// SPDX-License-Identifier: Apache-2.0
#include "async_test_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/syscalls.h"
#include "raw.h"

struct async_test_server s;

/* ---- handlers ---- */

static void on_done(void *arg)
{
    assert_ptr_equal(arg, &s);
    s.done++;
}

static void give(struct async_call *call, size_t n)
{
    struct http_reply reply = {.data = s.bytes, .data_len = n, .done = on_done, .arg = &s};

    s.begun++;
    http_reply_header(&reply, "Dlcache-From", "%s", "memory");
    async_answer(call, &reply);
}

static void on_data(struct async_call *call, const struct http_request *r, void *ctx)
{
    (void)ctx;
    give(call, strtoul(r->params[0], NULL, 10));
}

/* Answered later, by another thread. */
static void on_held(struct async_call *call, const struct http_request *r, void *ctx)
{
    (void)ctx;
    (void)r;
    pthread_mutex_lock(&s.mtx);
    assert_true(s.n_held < HELD_MAX);
    s.held[s.n_held++] = call;
    pthread_mutex_unlock(&s.mtx);
}

static void on_echo(struct async_call *call, const struct http_request *r, void *ctx)
{
    const char *q = http_query(r, "q");
    struct http_reply reply = {0};

    (void)ctx;
    reply.body = json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "method", r->method, "a", r->params[0],
                           "q", q, "token", r->token, "node", r->node);
    async_answer(call, &reply);
}

static void on_file(struct async_call *call, const struct http_request *r, void *ctx)
{
    struct http_reply reply = {.file = true, .done = on_done, .arg = &s};

    (void)ctx;
    s.begun++;
    reply.file_fd = fcntl(s.file, F_DUPFD_CLOEXEC, 0);
    reply.data_len = strtoul(r->params[0], NULL, 10);
    async_answer(call, &reply);
}

static bool run_job(struct work *w, uint64_t bytes, void *ctx)
{
    (void)bytes;
    (void)ctx;
    s.jobs++;
    pool_run(s.pool, w);
    return true;
}

static const struct async_route routes[] = {
    {"/data/{n}", on_data}, {"/held/{n}", on_held}, {"/echo/{a}", on_echo},
    {"/file/{n}", on_file}, {NULL, NULL},
};

/* ---- a server ---- */

int try_start(const struct async_server_config *like, const struct fault_plan *plan,
              struct dlc_err *err)
{
    struct async_server_config c = like != NULL ? *like : (struct async_server_config){0};
    char path[256];
    int rc;

    s.begun = s.done = s.jobs = s.n_held = 0;
    c.address = "127.0.0.1:0";
    c.routes = routes;
    c.run = run_job;
    s.pool = pool_new("file", 2, err);
    s.file = os_open(unit_path("data", path), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(os_pwrite_all(s.file, s.bytes, ASYNC_FILE, 0), 0);
    if (plan != NULL)
        fault_plan(plan);
    rc = async_server_open(&c, &s.server, err);
    s.address = rc == 0 ? async_server_address(s.server) : NULL;
    return rc;
}

void start(const struct async_server_config *like)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (try_start(like, NULL, &err) < 0)
        fail_msg("%s", err.text);
}

int release_held(void)
{
    int n = 0;

    pthread_mutex_lock(&s.mtx);
    for (; n < s.n_held; n++)
        give(s.held[n], 100);
    s.n_held = 0;
    pthread_mutex_unlock(&s.mtx);
    return n;
}

void stop(void)
{
    release_held();
    async_server_close(&s.server);
    pool_free(&s.pool);
    os_close(&s.file);
    assert_int_equal(s.begun, s.done); /* all was given back */
}

struct async_figures figures(void)
{
    struct async_figures f;

    async_figures(s.server, &f);
    return f;
}

/* ---- clients ---- */

int connect_from(int k)
{
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    from.sin_addr.s_addr = htonl(0x7f000100u + (unsigned)k);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)atoi(strrchr(s.address, ':') + 1));
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

void say(int fd, const char *text)
{
    raw_send(fd, text, strlen(text));
}

bool has_body(const struct buf *answer, size_t offset, size_t n)
{
    const char *end = strstr(answer->data, "\r\n\r\n");

    return end != NULL && answer->len - (size_t)(end + 4 - answer->data) == n &&
           memcmp(end + 4, s.bytes + offset, n) == 0;
}

void expect_alive(void)
{
    struct buf b = BUF_INIT;

    assert_int_equal(raw_ask(s.address, GET("/data/1000"), &b), 200);
    assert_true(has_body(&b, 0, 1000));
    buf_release(&b);
}

int prepare(void **state)
{
    struct rlimit r;

    (void)state;
    pthread_mutex_init(&s.mtx, NULL);
    s.bytes = mem_alloc(ASYNC_DATA);
    for (size_t i = 0; i < ASYNC_DATA; i++)
        s.bytes[i] = (unsigned char)(i % 251);
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
    return 0;
}

int clean(void **state)
{
    (void)state;
    mem_free(&s.bytes);
    return 0;
}
