// SPDX-License-Identifier: Apache-2.0
/* TLS with a certificate made on the spot. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "net/manager_client.h"
#include "echo_server.h"
#include "raw.h"
#include "unit.h"

static char cert[256], key[256];

static int make_certificate(void **state)
{
    char *command;
    int rc;

    (void)state;
    unit_path("cert.pem", cert);
    unit_path("key.pem", key);
    command = mem_fmt("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                      "-days 2 -subj /CN=dlcache-test -addext subjectAltName=IP:127.0.0.1 "
                      "-keyout %s -out %s 2>/dev/null",
                      key, cert);
    rc = system(command);
    mem_free(&command);
    return rc;
}

static int get(const char *base, const char *ca, struct dlc_err *err)
{
    struct http_client_config c = {.base = base, .ca = ca, .timeout = DLC_SEC(10)};
    struct http_client *client;
    json_t *out = NULL;
    int rc = http_client_open(&c, &client, err);

    for (int i = 0; i < 3 && rc == 0; i++) {
        rc = http_json(client, "GET", "/echo/a", NULL, &out, NULL, err);
        json_decref(out);
    }
    http_client_close(&client);
    return rc;
}

static void test_the_certificate_is_checked(void **state)
{
    struct echo_server p;
    struct dlc_err err;
    char base[300];

    (void)state;
    echo_server_open(&p, &(struct http_server_config){.tls_cert = cert, .tls_key = key});
    snprintf(base, sizeof(base), "https://%s", p.address);
    assert_int_equal(get(base, cert, &err), 0);
    assert_int_equal(get(base, NULL, &err), DLC_EDENIED); /* nobody vouches for it */
    assert_int_equal(get(base, key, &err), DLC_EDENIED);  /* no certificate */
    snprintf(base, sizeof(base), "https://localhost%s", strrchr(p.address, ':'));
    assert_int_equal(get(base, cert, &err), DLC_EDENIED); /* another name */
    snprintf(base, sizeof(base), "http://%s", p.address);
    assert_int_equal(get(base, cert, &err), DLC_EBUCKET); /* not TLS */
    snprintf(base, sizeof(base), "unix:%s", p.unix_path);
    assert_int_equal(get(base, NULL, &err), 0); /* the Unix socket needs none */
    echo_server_close(&p);
}

/* What the client is told to trust: the server's own certificate, or that of somebody else. */
static struct buf own = BUF_INIT;
static bool known;
static unsigned searches;

static int no_token(void *arg, char **out, struct dlc_err *err)
{
    (void)arg;
    (void)err;
    *out = mem_str("t");
    return 0;
}

static int find_ca(void *arg, char **out, struct dlc_err *err)
{
    (void)arg;
    (void)err;
    searches++;
    *out = known ? mem_str(own.data) : NULL;
    return 0;
}

/* An authority as text, found before the first request and after a server that was not trusted. */
static void test_the_authority_is_found_again(void **state)
{
    struct echo_server p;
    struct manager_client_config c = {.find_token = no_token, .find_ca = find_ca};
    struct manager_client *m;
    struct dlc_err err;
    char base[300];

    (void)state;
    assert_int_equal(os_read_file(cert, 65536, &own, &err), 0);
    echo_server_open(&p, &(struct http_server_config){.tls_cert = cert, .tls_key = key});
    snprintf(base, sizeof(base), "https://%s", p.address);
    c.http.base = base;
    assert_int_equal(manager_client_open(&c, &m, &err), 0);
    assert_int_equal(manager_client_call(m, "GET", "/echo/a", NULL, NULL, &err), DLC_EDENIED);
    known = true;
    assert_int_equal(manager_client_call(m, "GET", "/echo/a", NULL, NULL, &err), 0);
    assert_int_equal(manager_client_call(m, "GET", "/echo/a", NULL, NULL, &err), 0);
    assert_int_equal(searches, 2);
    manager_client_close(&m);
    buf_release(&own);
    echo_server_close(&p);
}

static bool each(const char *line, void *arg)
{
    (void)line;
    ++*(int *)arg;
    return true;
}

static void test_streams_and_the_end(void **state)
{
    struct echo_server p;
    struct http_client_config c = {.ca = cert};
    struct http_client *client;
    struct dlc_err err;
    char base[300];
    int n = 0;

    (void)state;
    echo_server_open(&p, &(struct http_server_config){.tls_cert = cert, .tls_key = key});
    snprintf(base, sizeof(base), "https://%s", p.address);
    c.base = base;
    assert_int_equal(http_client_open(&c, &client, &err), 0);
    assert_int_equal(http_lines(client, "/stream/1000", each, &n, &err), 0);
    assert_int_equal(n, 1000);
    echo_server_close(&p); /* with the client's connection open */
    http_client_close(&client);
}

static void test_handshakes_that_are_none(void **state)
{
    static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    struct echo_server p;
    struct dlc_err err;
    char base[300];
    int fds[50];

    (void)state;
    echo_server_open(
        &p, &(struct http_server_config){.tls_cert = cert, .tls_key = key, .idle = DLC_SEC(4)});
    snprintf(base, sizeof(base), "https://%s", p.address);
    for (size_t i = 0; i < unit_count(fds); i++) {
        fds[i] = raw_connect(p.address);
        raw_send(fds[i], i % 2 == 0 ? hello : "GET / HTTP/1.1\r\n\r\n", i % 11);
    }
    assert_int_equal(get(base, cert, &err), 0);
    for (size_t i = 0; i < unit_count(fds); i++) {
        raw_rest(fds[i], NULL); /* sent away in the end */
        os_close(&fds[i]);
    }
    echo_server_close(&p);
}

static void test_bad_files(void **state)
{
    static const struct http_route none[] = {{NULL, NULL, 0, NULL}};
    struct http_server_config c = {.address = "127.0.0.1:0", .routes = none};
    struct http_server *s;
    struct dlc_err err;
    char empty[256];

    (void)state;
    c.tls_cert = cert;
    assert_int_equal(http_server_open(&c, &s, &err), DLC_EINVAL); /* no key */
    c.tls_key = "/nonexistent";
    assert_int_equal(http_server_open(&c, &s, &err), DLC_ENOTFOUND);
    assert_non_null(strstr(err.text, "/nonexistent"));
    c.tls_key = cert;
    assert_int_equal(http_server_open(&c, &s, &err), DLC_EINVAL); /* not a key */
    assert_int_equal(os_write_file(unit_path("empty", empty), "", 0, 0600, NULL), 0);
    c.tls_key = empty;
    assert_int_equal(http_server_open(&c, &s, &err), DLC_EINVAL);
    assert_null(s);
}

static unsigned descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* A thread that finds one of its descriptors closed by somebody else. */
static void *open_and_close(void *arg)
{
    _Atomic bool *end = arg;
    uintptr_t lost = 0;

    while (!atomic_load(end)) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        sched_yield();
        lost += fd >= 0 && close(fd) < 0;
    }
    return (void *)lost;
}

/* What libmicrohttpd closes when it does not start is not closed twice: the number may be another
 * thread's by then. */
static void test_a_server_that_does_not_start_closes_no_other_descriptor(void **state)
{
    struct http_server_config c = {.address = "127.0.0.1:0", .tls_cert = key, .tls_key = cert};
    _Atomic bool end = false;
    struct dlc_err err;
    unsigned before;
    pthread_t threads[2];
    void *lost;

    (void)state;
    before = descriptors();
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, &end), 0);
    for (int i = 0; i < 300; i++) {
        struct http_server *s = NULL;

        assert_int_equal(http_server_open(&c, &s, &err), DLC_EINVAL);
    }
    atomic_store(&end, true);
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(threads[i], &lost);
        assert_null(lost);
    }
    assert_int_equal(descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server_that_does_not_start_closes_no_other_descriptor),
        cmocka_unit_test(test_the_certificate_is_checked),
        cmocka_unit_test(test_the_authority_is_found_again),
        cmocka_unit_test(test_streams_and_the_end),
        cmocka_unit_test(test_handshakes_that_are_none),
        cmocka_unit_test(test_bad_files),
    };

    return cmocka_run_group_tests(tests, make_certificate, NULL);
}
