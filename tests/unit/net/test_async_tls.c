// SPDX-License-Identifier: Apache-2.0
// timeout: 60
/* The asynchronous server over TLS: who is let in, whole and cut requests, new certificates. */
#include <signal.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "async_test_server.h"
#include "base/clock.h"
#include "base/event_loop.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "cluster_certs.h"
#include "net/json_client.h"
#include "raw.h"

#define DAY DLC_SEC(86400)

static const struct async_server_config secure = {.tls = true, .loops = 1};

/* ---- a client of sockets and OpenSSL ---- */

struct client {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
};

static X509 *cert_of(const char *pem)
{
    BIO *b = BIO_new_mem_buf(pem, -1);
    X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);

    BIO_free(b);
    return x;
}

static void show(SSL_CTX *ctx, const struct tls_identity *id)
{
    BIO *b = BIO_new_mem_buf(id->key, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);
    X509 *x = cert_of(id->cert);

    assert_int_equal(SSL_CTX_use_certificate(ctx, x), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
    X509_free(x);
    EVP_PKEY_free(key);
    BIO_free(b);
}

/* id NULL: it has no certificate. It does not look at the server's. */
static bool tls_connect(struct client *c, const struct tls_identity *id, int version)
{
    struct timeval limit = {.tv_sec = 10};

    c->ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(c->ctx, version);
    if (id != NULL)
        show(c->ctx, id);
    c->fd = raw_connect(s.address);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    c->ssl = SSL_new(c->ctx);
    SSL_set_fd(c->ssl, c->fd);
    return SSL_connect(c->ssl) == 1;
}

static void tls_close(struct client *c)
{
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    os_close(&c->fd);
    ERR_clear_error();
}

static void tls_say(struct client *c, const char *text)
{
    assert_int_equal(SSL_write(c->ssl, text, (int)strlen(text)), strlen(text));
}

/* One answer with Content-Length; its status, or 0 for none. */
static int tls_answer(struct client *c, struct buf *out)
{
    size_t want = SIZE_MAX;
    char part[65536];
    int n = 1;

    buf_clear(out);
    while (out->len < want && n > 0) {
        const char *end;

        n = SSL_read(c->ssl, part, (int)DLC_MIN(sizeof(part), want - out->len));
        if (n > 0)
            buf_add(out, part, (size_t)n);
        end = out->len > 0 && want == SIZE_MAX ? strstr(out->data, "\r\n\r\n") : NULL;
        if (end != NULL)
            want = (size_t)(end + 4 - out->data) +
                   strtoul(strstr(out->data, "Content-Length: ") + 16, NULL, 10);
    }
    return out->len >= want && want != SIZE_MAX ? atoi(out->data + 9) : 0;
}

static void use(struct tls_identity *id)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (async_server_identity(s.server, id, &err) < 0)
        fail_msg("%s", err.text);
}

/* A request with this certificate is answered. */
static bool is_served(const struct tls_identity *id, int version)
{
    struct buf b = BUF_INIT;
    struct client c;
    bool good = tls_connect(&c, id, version) &&
                SSL_write(c.ssl, GET("/data/10"), (int)strlen(GET("/data/10"))) > 0 &&
                tls_answer(&c, &b) == 200 && has_body(&b, 0, 10);

    tls_close(&c);
    buf_release(&b);
    return good;
}

/* ---- cases ---- */

static void test_who_is_let_in(void **state)
{
    struct tls_identity *a = cluster_cert("one", "a", DAY), *b = cluster_cert("one", "b", DAY);
    struct tls_identity *other = cluster_cert("two", "a", DAY);
    struct buf answer = BUF_INIT;
    int fd;

    (void)state;
    start(&secure);
    assert_false(is_served(a, TLS1_3_VERSION)); /* the server has no certificate yet */
    use(b);
    assert_true(is_served(a, TLS1_3_VERSION));
    assert_false(is_served(NULL, TLS1_3_VERSION));
    assert_false(is_served(other, TLS1_3_VERSION));
    assert_false(is_served(a, TLS1_2_VERSION));
    fd = raw_connect(s.address);
    say(fd, GET("/data/10")); /* in clear */
    raw_rest(fd, &answer);
    assert_null(answer.len > 0 ? strstr(answer.data, "HTTP") : NULL);
    os_close(&fd);
    WAIT_FOR(figures().connections == 0);
    assert_int_equal(figures().strangers, 4);
    assert_int_equal(s.begun, 1);
    buf_release(&answer);
    stop();
    tls_identity_put(&a);
    tls_identity_put(&b);
    tls_identity_put(&other);
}

static void test_requests(void **state)
{
    struct tls_identity *id = cluster_cert("one", "a", DAY);
    struct buf b = BUF_INIT;
    struct client c;
    static const char whole[] = GET("/data/3");

    (void)state;
    start(&secure);
    use(id);
    assert_true(tls_connect(&c, id, TLS1_3_VERSION));
    tls_say(&c, GET("/data/5000"));
    assert_int_equal(tls_answer(&c, &b), 200);
    assert_true(has_body(&b, 0, 5000));
    for (size_t i = 0; i < sizeof(whole) - 1; i++) /* a record for each byte */
        assert_int_equal(SSL_write(c.ssl, whole + i, 1), 1);
    assert_int_equal(tls_answer(&c, &b), 200);
    assert_true(has_body(&b, 0, 3));
    tls_say(&c, GET("/data/" LONG)); /* more than sockets and buffers hold */
    assert_int_equal(tls_answer(&c, &b), 200);
    assert_true(has_body(&b, 0, 16777216));
    tls_say(&c, GET("/file/3000000"));
    assert_int_equal(tls_answer(&c, &b), 200);
    assert_true(has_body(&b, 0, 3000000));
    tls_say(&c, GET("/echo/x"));
    assert_int_equal(tls_answer(&c, &b), 200);
    assert_non_null(strstr(b.data, "\"node\":\"a\""));
    tls_close(&c);
    assert_int_equal(figures().accepted, 1);
    buf_release(&b);
    stop();
    tls_identity_put(&id);
}

/* Requests that came together, more of them than are read at once. */
static void test_pipelined_requests(void **state)
{
    struct tls_identity *id = cluster_cert("one", "a", DAY);
    struct buf ask = BUF_INIT, b = BUF_INIT;
    struct client c;

    (void)state;
    start(&secure);
    use(id);
    assert_true(tls_connect(&c, id, TLS1_3_VERSION));
    for (int i = 0; i < 2000; i++)
        buf_addf(&ask, "GET /data/%d HTTP/1.1\r\nHost: x\r\n\r\n", i % 100);
    assert_int_equal(SSL_write(c.ssl, ask.data, (int)ask.len), ask.len);
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(tls_answer(&c, &b), 200);
        assert_true(has_body(&b, 0, (size_t)(i % 100)));
    }
    tls_close(&c);
    buf_release(&ask);
    buf_release(&b);
    stop();
    tls_identity_put(&id);
}

/* A connection, and what its client says first: to be sent by the caller. */
static void tls_begin(struct client *c, const struct tls_identity *id, struct buf *hello)
{
    BIO *out = BIO_new(BIO_s_mem());
    char *data;

    c->ctx = SSL_CTX_new(TLS_client_method());
    show(c->ctx, id);
    c->fd = raw_connect(s.address);
    c->ssl = SSL_new(c->ctx);
    SSL_set_bio(c->ssl, BIO_new(BIO_s_mem()), out);
    assert_int_equal(SSL_connect(c->ssl), -1);
    buf_add(hello, BIO_get_mem_data(out, &data) > 0 ? data : "",
            (size_t)BIO_get_mem_data(out, &data));
    SSL_set_fd(c->ssl, c->fd);
}

/* They come so fast that the loop finds as many as it takes in one turn. No turn is long. */
static void test_handshakes_at_once(void **state)
{
    struct tls_identity *id = cluster_cert("one", "a", DAY);
    static struct client all[200];
    struct buf hello[DLC_COUNT(all)] = {{0}}, b = BUF_INIT;

    (void)state;
    start(&secure);
    use(id);
    for (size_t i = 0; i < DLC_COUNT(all); i++)
        tls_begin(&all[i], id, &hello[i]);
    WAIT_FOR(figures().accepted == DLC_COUNT(all));
    for (size_t i = 0; i < DLC_COUNT(all); i++)
        assert_int_equal(os_write_all(all[i].fd, hello[i].data, hello[i].len), 0);
    for (size_t i = 0; i < DLC_COUNT(all); i++) {
        assert_int_equal(SSL_connect(all[i].ssl), 1);
        tls_say(&all[i], GET("/data/10"));
        buf_release(&hello[i]);
    }
    for (size_t i = 0; i < DLC_COUNT(all); i++) {
        assert_int_equal(tls_answer(&all[i], &b), 200);
        tls_close(&all[i]);
    }
    print_message("longest turn %.1f ms\n", (double)figures().longest_turn.ns / 1e6);
    assert_true(figures().longest_turn.ns < LOOP_TURN_MAX.ns);
    buf_release(&b);
    stop();
    tls_identity_put(&id);
}

static int64_t end_of_server(struct client *c)
{
    X509 *x = SSL_get0_peer_certificate(c->ssl);
    struct tm tm;

    assert_int_equal(ASN1_TIME_to_tm(X509_get0_notAfter(x), &tm), 1);
    return (int64_t)timegm(&tm);
}

/* A connection goes on with the certificate that it began with; the next one sees the new one. */
static void test_a_new_certificate(void **state)
{
    struct tls_identity *old = cluster_cert("one", "a", DAY);
    struct tls_identity *new = cluster_cert("one", "a", DLC_SEC(2 * 86400));
    struct buf b = BUF_INIT;
    struct client first, second;

    (void)state;
    start(&secure);
    use(old);
    assert_true(tls_connect(&first, old, TLS1_3_VERSION));
    tls_say(&first, GET("/data/10"));
    assert_int_equal(tls_answer(&first, &b), 200);
    use(new);
    tls_say(&first, GET("/data/11"));
    assert_int_equal(tls_answer(&first, &b), 200);
    assert_int_equal(end_of_server(&first), old->not_after);
    assert_true(tls_connect(&second, old, TLS1_3_VERSION));
    assert_int_equal(end_of_server(&second), new->not_after);
    assert_int_equal(figures().accepted, 2);
    tls_close(&first);
    tls_close(&second);
    buf_release(&b);
    stop();
    tls_identity_put(&old);
    tls_identity_put(&new);
}

/* A client whose certificate has expired gets its answer, and the connection ends. */
static void test_an_expired_client(void **state)
{
    struct tls_identity *server = cluster_cert("one", "a", DAY);
    struct tls_identity *brief = cluster_cert("one", "b", DLC_SEC(2));
    struct buf b = BUF_INIT;
    struct client c;

    (void)state;
    start(&secure);
    use(server);
    assert_true(tls_connect(&c, brief, TLS1_3_VERSION));
    do {
        tls_say(&c, GET("/data/10"));
        assert_int_equal(tls_answer(&c, &b), 200);
    } while (strstr(b.data, "Connection: close") == NULL);
    assert_true(dlc_wall_seconds() >= brief->not_after);
    assert_int_equal(tls_answer(&c, &b), 0);
    tls_close(&c);
    assert_false(is_served(brief, TLS1_3_VERSION));
    buf_release(&b);
    stop();
    tls_identity_put(&server);
    tls_identity_put(&brief);
}

/* The client compares the name of the node, whatever the address. */
static void test_the_node_is_named(void **state)
{
    struct tls_identity *a = cluster_cert("one", "a", DAY), *b = cluster_cert("one", "b", DAY);
    struct tls_identity *other = cluster_cert("two", "b", DAY);
    static const char *const nodes[] = {"b", "c", "b"};
    char *base;

    (void)state;
    start(&secure);
    use(b);
    base = mem_fmt("https://%s", s.address);
    for (int i = 0; i < 3; i++) {
        struct http_client_config c = {
            .base = base, .node = nodes[i], .identity = i == 2 ? other : a, .timeout = DLC_SEC(10)};
        struct dlc_err err = DLC_ERR_INIT;
        struct http_client *http = NULL;
        json_t *answer = NULL;

        assert_int_equal(http_client_open(&c, &http, &err), 0);
        assert_int_equal(http_json(http, "GET", "/echo/x", NULL, &answer, NULL, &err),
                         i == 0 ? 0 : DLC_EDENIED);
        json_decref(answer);
        http_client_close(&http);
    }
    mem_free(&base);
    stop();
    tls_identity_put(&a);
    tls_identity_put(&b);
    tls_identity_put(&other);
}

/* A stranger that says nothing is not waited for. */
static void test_a_silent_stranger(void **state)
{
    struct async_server_config quick = secure;
    struct tls_identity *id = cluster_cert("one", "a", DAY);
    int fd;

    (void)state;
    quick.head = DLC_MS(50);
    start(&quick);
    use(id);
    fd = raw_connect(s.address);
    raw_rest(fd, NULL);
    assert_int_equal(figures().late, 1);
    os_close(&fd);
    stop();
    tls_identity_put(&id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_let_in),      cmocka_unit_test(test_requests),
        cmocka_unit_test(test_handshakes_at_once), cmocka_unit_test(test_pipelined_requests),
        cmocka_unit_test(test_a_new_certificate),  cmocka_unit_test(test_an_expired_client),
        cmocka_unit_test(test_the_node_is_named),  cmocka_unit_test(test_a_silent_stranger),
    };

    signal(SIGPIPE, SIG_IGN); /* of this client: OpenSSL writes to sockets that are closed */
    return cmocka_run_group_tests(tests, prepare, clean);
}
