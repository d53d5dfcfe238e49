// SPDX-License-Identifier: Apache-2.0
/*
 * Connections of the HTTP engine: kept between requests, replaced when the server has closed them,
 * given up when a request is cancelled. The server counts the connections it was asked for.
 */
#include "net/async_client.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>

#include "base/syscalls.h"
#include "unit.h"

/* A server of one connection at a time, which serves `per_connection` requests and closes it. */
static struct {
    int fd, per_connection;
    _Atomic int connections;
    sem_t closed; /* posted after each close */
    pthread_t thread;
    char url[64];
} server;

static const char hello[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
static const char *reply = hello;

/* Read up to the empty line. False: the client went away. */
static bool read_head(int fd)
{
    char last[4] = "";
    char c;

    while (memcmp(last, "\r\n\r\n", 4) != 0) {
        if (recv(fd, &c, 1, 0) != 1)
            return false;
        memmove(last, last + 1, 3);
        last[3] = c;
    }
    return true;
}

static void *serve(void *arg)
{
    int fd;

    (void)arg;
    while ((fd = accept(server.fd, NULL, NULL)) >= 0) {
        server.connections++;
        for (int i = 0; i < server.per_connection && read_head(fd); i++)
            send(fd, reply, strlen(reply), MSG_NOSIGNAL);
        close(fd);
        sem_post(&server.closed);
    }
    return NULL;
}

static void server_start(int per_connection)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);

    setenv("no_proxy", "127.0.0.1", 1);
    server.per_connection = per_connection;
    server.connections = 0;
    sem_init(&server.closed, 0, 0);
    server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server.fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(server.fd, 16), 0);
    assert_int_equal(getsockname(server.fd, (struct sockaddr *)&a, &len), 0);
    snprintf(server.url, sizeof(server.url), "http://127.0.0.1:%u/x", ntohs(a.sin_port));
    assert_int_equal(pthread_create(&server.thread, NULL, serve, NULL), 0);
}

static void server_stop(void)
{
    shutdown(server.fd, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    os_close(&server.fd);
    sem_destroy(&server.closed);
}

/* A run of requests, one after the other, on a loop of its own. */
struct run {
    struct task begin, end;
    struct loop *loop;
    struct engine *http;
    struct engine_request *request, *cancelled;
    int left, good;
    bool wait_for_close; /* before each request but the first */
    bool cancel;         /* a second request along with each */
    char dst[5];
};

static void on_done(struct engine_request *r);

static void on_never(struct engine_request *r)
{
    (void)r;
    fail_msg("a cancelled request was answered");
}

static struct engine_request *make(struct run *x, void (*done)(struct engine_request *))
{
    struct engine_request *r = engine_get(x->http);

    buf_adds(&r->url, server.url);
    engine_header(r, "X-Number: %d", x->left);
    r->body_max = 100;
    r->done = done;
    r->owner = x;
    return r;
}

static void next(struct run *x)
{
    x->request = make(x, on_done);
    x->request->dst = x->dst;
    x->request->dst_len = sizeof(x->dst);
    engine_send(x->request);
    if (x->cancel) {
        x->cancelled = make(x, on_never);
        engine_send(x->cancelled);
        engine_put(&x->cancelled);
    }
}

static void end(struct task *t)
{
    struct run *x = dlc_container(t, struct run, end);

    engine_free(&x->http);
    loop_stop(x->loop);
}

static void on_done(struct engine_request *r)
{
    struct run *x = r->owner;

    if (r->rc < 0 && r->retryable) { /* the server closed while the request was on its way */
        engine_put(&x->request);
        next(x);
        return;
    }
    x->good += r->rc == 0 && r->answer.status == 200 && memcmp(x->dst, "hello", 5) == 0;
    memset(x->dst, 0, sizeof(x->dst));
    engine_put(&x->request);
    if (--x->left == 0) {
        x->end.run = end;
        loop_post(x->loop, &x->end);
        return;
    }
    if (x->wait_for_close)
        sem_wait(&server.closed);
    next(x);
}

static void begin(struct task *t)
{
    next(dlc_container(t, struct run, begin));
}

static void run_requests(struct run *x, int n)
{
    x->begin.run = begin;
    x->left = n;
    x->loop = loop_new(NULL);
    assert_int_equal(engine_new(x->loop, &(struct engine_config){4, DLC_SEC(5)}, &x->http, NULL),
                     0);
    loop_post(x->loop, &x->begin);
    loop_run(x->loop);
    loop_free(&x->loop);
    assert_int_equal(x->good, n);
}

static void test_connection_is_kept(void **state)
{
    struct run x = {.good = 0};

    (void)state;
    server_start(1000);
    run_requests(&x, 50);
    server_stop();
    assert_int_equal(server.connections, 1);
}

/* The server closes each connection after some requests, and we find out in different ways. */
static void test_closed_connection_is_replaced(void **state)
{
    struct run slow = {.wait_for_close = true}, fast = {.good = 0};

    (void)state;
    server_start(1);
    run_requests(&slow, 10);
    server_stop();
    assert_int_equal(server.connections, 10);
    server_start(3);
    run_requests(&fast, 30);
    server_stop();
    assert_true(server.connections >= 10);
}

/* Cancelled before they are connected: the numbers of their sockets are used again at once. */
static void test_cancelled_leave_nothing(void **state)
{
    struct run x = {.cancel = true};

    (void)state;
    server_start(1000);
    run_requests(&x, 50);
    server_stop();
}

/* One request by an engine with rules. */
struct ruled {
    struct task begin;
    struct loop *loop;
    struct engine *http;
    struct engine_request *request;
    const char *url;
    int rc;
    char why[300];
};

static void on_ruled(struct engine_request *r)
{
    struct ruled *x = r->owner;

    x->rc = r->rc;
    if (r->rc < 0)
        assert_false(r->retryable);
    snprintf(x->why, sizeof(x->why), "%s", r->rc < 0 ? r->why : "");
    engine_put(&x->request);
    loop_stop(x->loop);
}

static void begin_ruled(struct task *t)
{
    struct ruled *x = dlc_container(t, struct ruled, begin);

    x->request = engine_get(x->http);
    buf_adds(&x->request->url, x->url);
    x->request->follow = true;
    x->request->body_max = 100;
    x->request->done = on_ruled;
    x->request->owner = x;
    engine_send(x->request);
}

static int run_ruled(const char *url, const char *networks, const char *proxy, char why[static 300])
{
    struct address_rules rules = ADDRESS_RULES_INIT;
    const struct engine_config c = {
        .connections = 4, .connect_timeout = DLC_MS(500), .rules = &rules, .proxy = proxy};
    struct ruled x = {.begin.run = begin_ruled, .url = url};

    assert_int_equal(address_rules_parse(&rules, networks, NULL), 0);
    x.loop = loop_new(NULL);
    assert_int_equal(engine_new(x.loop, &c, &x.http, NULL), 0);
    loop_post(x.loop, &x.begin);
    loop_run(x.loop);
    engine_free(&x.http);
    loop_free(&x.loop);
    address_rules_release(&rules);
    memcpy(why, x.why, sizeof(x.why));
    return x.rc;
}

static void check_refused(const char *url, const char *networks, const char *because)
{
    char why[300];

    assert_int_equal(run_ruled(url, networks, NULL, why), DLC_EDENIED);
    if (strstr(why, because) == NULL || strstr(why, "--tenant-networks") == NULL)
        fail_msg("%s: %s", url, why);
}

/* By its number, however it is written, by a name, and by a redirect: nobody is even asked. */
static void test_rules_refuse_addresses(void **state)
{
    (void)state;
    server_start(1000);
    check_refused(server.url, "", "127.0.0.1, a loopback address");
    check_refused("http://localhost/", "", "a loopback address");
    check_refused("http://10.1.2.3/", "127.0.0.0/8", "10.1.2.3, a private address");
    check_refused("http://169.254.169.254/latest/meta-data/", "", "a metadata service");
    check_refused("http://2852039166/", "", "169.254.169.254");
    check_refused("http://[::ffff:169.254.1.2]/", "", "a link-local address");
    check_refused("http://[fe80::1]/", "", "a link-local address");
    check_refused("http://[fd00:ec2::254]/", "", "a metadata service");
    assert_int_equal(server.connections, 0);
    reply = "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/\r\n"
            "Content-Length: 0\r\n\r\n";
    check_refused(server.url, "127.0.0.0/8", "a metadata service");
    reply = hello;
    assert_int_equal(server.connections, 1);
    server_stop();
}

/* A proxy of the environment would resolve names itself: it is not used. One that was configured
 * for tenants is. */
static void test_rules_and_proxies(void **state)
{
    char why[300];

    (void)state;
    server_start(1000);
    setenv("http_proxy", server.url, 1);
    check_refused("http://10.1.2.3/", "127.0.0.0/8", "a private address");
    assert_int_equal(server.connections, 0);
    unsetenv("http_proxy");
    assert_int_equal(run_ruled("http://10.1.2.3/", "", server.url, why), 0);
    assert_int_equal(server.connections, 1);
    assert_int_equal(run_ruled(server.url, "127.0.0.0/8", NULL, why), 0);
    assert_int_equal(server.connections, 2);
    server_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connection_is_kept),
        cmocka_unit_test(test_closed_connection_is_replaced),
        cmocka_unit_test(test_cancelled_leave_nothing),
        cmocka_unit_test(test_rules_refuse_addresses),
        cmocka_unit_test(test_rules_and_proxies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
