// SPDX-License-Identifier: Apache-2.0
#include "net/async_server_tls_i.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/pem.h"
#include "base/str.h"
#include "base/syscalls.h"

#define TLS_TAG  DLC_TAG4('a', 's', 't', 'l')
#define OUT_MAX  (128u << 10)
#define OUT_KEEP (8u << 10) /* a larger buffer is not kept */
#define RECORD   (16u << 10)

struct async_tls {
    uint32_t tag;
    int fd;
    SSL *ssl;
    struct buf out; /* encrypted, not taken by the socket yet */
    size_t out_at;
    uint64_t written;
    bool began; /* something was received */
    char node[TLS_NAME_MAX];
    uint32_t generation;
    int64_t not_after; /* of the client's certificate; 0: it was not shown yet */
};

/* ---- what OpenSSL reads from and writes to ---- */

static int on_write(BIO *b, const char *data, int len)
{
    struct async_tls *t = BIO_get_data(b);

    BIO_clear_retry_flags(b);
    if (len <= 0)
        return 0;
    buf_add(&t->out, data, (size_t)len); /* async_tls_send() keeps it small */
    return len;
}

static int on_read(BIO *b, char *to, int len)
{
    struct async_tls *t = BIO_get_data(b);
    ssize_t n;

    BIO_clear_retry_flags(b);
    if (len <= 0)
        return 0;
    n = os_recv(t->fd, to, (size_t)len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(b);
    t->began = t->began || n > 0;
    return (int)n;
}

static long on_control(BIO *b, int cmd, long number, void *p)
{
    (void)b;
    (void)number;
    (void)p;
    return cmd == BIO_CTRL_FLUSH ? 1 : 0;
}

static int on_create(BIO *b)
{
    BIO_set_init(b, 1);
    return 1;
}

/* Made once for the process, and never freed: it is a table of functions. */
static BIO_METHOD *bio_method(void)
{
    static _Atomic(BIO_METHOD *) made; /* W, R any thread; acquire and release */
    BIO_METHOD *m = atomic_load_explicit(&made, memory_order_acquire), *none = NULL;

    if (m != NULL)
        return m;
    m = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "dlcache");
    dlc_check(m != NULL && BIO_meth_set_write(m, on_write) == 1 &&
              BIO_meth_set_read(m, on_read) == 1 && BIO_meth_set_ctrl(m, on_control) == 1 &&
              BIO_meth_set_create(m, on_create) == 1);
    if (!atomic_compare_exchange_strong_explicit(&made, &none, m, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        BIO_meth_free(m);
        m = none;
    }
    return m;
}

/* ---- contexts ---- */

static bool use_pem(SSL_CTX *c, const struct tls_identity *id)
{
    BIO *a = BIO_new_mem_buf(id->cert, -1), *b = BIO_new_mem_buf(id->key, -1);
    X509 *x = a != NULL ? PEM_read_bio_X509(a, NULL, NULL, NULL) : NULL;
    EVP_PKEY *key = b != NULL ? PEM_read_bio_PrivateKey(b, NULL, NULL, NULL) : NULL;
    bool ok = x != NULL && key != NULL && SSL_CTX_use_certificate(c, x) == 1 &&
              SSL_CTX_use_PrivateKey(c, key) == 1;

    X509_free(x);
    EVP_PKEY_free(key);
    BIO_free(a);
    BIO_free(b);
    return ok;
}

static bool trust(SSL_CTX *c, const char *authorities)
{
    BIO *b = BIO_new_mem_buf(authorities, -1);
    bool some = false;
    X509 *x;

    while (b != NULL && (x = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL) {
        some = X509_STORE_add_cert(SSL_CTX_get_cert_store(c), x) == 1 || some;
        X509_free(x);
    }
    BIO_free(b);
    return some;
}

/* Sessions are not resumed: a resumed one is not verified again. */
int async_tls_context_new(const struct tls_identity *id, SSL_CTX **out, struct dlc_err *err)
{
    SSL_CTX *c = SSL_CTX_new(TLS_server_method());
    bool ok = c != NULL && SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
              SSL_CTX_set_num_tickets(c, 0) == 1 && use_pem(c, id) && trust(c, id->authorities);

    ERR_clear_error();
    *out = NULL;
    if (!ok) {
        SSL_CTX_free(c);
        return dlc_err_set(err, DLC_EIO, "OpenSSL cannot use the certificate of node %s", id->name);
    }
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(c, 1);
    *out = c;
    return 0;
}

void async_tls_context_put(SSL_CTX **cp)
{
    SSL_CTX_free(*cp);
    *cp = NULL;
}

/* ---- connections ---- */

struct async_tls *async_tls_new(SSL_CTX *context, int fd)
{
    struct async_tls *t = mem_new(struct async_tls);
    BIO *b = BIO_new(bio_method());

    t->tag = TLS_TAG;
    t->fd = fd;
    t->ssl = SSL_new(context);
    if (t->ssl == NULL || b == NULL) {
        BIO_free(b);
        async_tls_free(&t);
        return NULL;
    }
    BIO_set_data(b, t);
    SSL_set_bio(t->ssl, b, b);
    SSL_set_accept_state(t->ssl);
    return t;
}

void async_tls_free(struct async_tls **tp)
{
    struct async_tls *t = *tp;

    *tp = NULL;
    if (t == NULL)
        return;
    dlc_check(t->tag == TLS_TAG);
    SSL_free(t->ssl);
    ERR_clear_error();
    buf_release(&t->out);
    t->tag = 0;
    mem_free(&t);
}

/* To the socket, as far as it takes it. False: the connection is dead. */
static bool tls_flush(struct async_tls *t)
{
    while (t->out_at < t->out.len) {
        ssize_t n = os_send(t->fd, t->out.data + t->out_at, t->out.len - t->out_at, MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        t->out_at += n > 0 ? (size_t)n : 0;
        t->written += n > 0 ? (uint64_t)n : 0;
    }
    t->out_at = 0;
    buf_clear(&t->out);
    if (t->out.cap > OUT_KEEP)
        buf_release(&t->out);
    return true;
}

static void note_client(struct async_tls *t)
{
    X509 *x = SSL_get0_peer_certificate(t->ssl);
    GENERAL_NAMES *names;
    struct tm tm;

    dlc_check(x != NULL && SSL_get_verify_result(t->ssl) == X509_V_OK); /* (TLS-SERVER-1) */
    t->not_after = ASN1_TIME_to_tm(X509_get0_notAfter(x), &tm) == 1 ? (int64_t)timegm(&tm) : 1;
    t->generation = x509_generation(x);
    names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *g = sk_GENERAL_NAME_value(names, i);
        const char *s = g->type == GEN_DNS ? (const char *)ASN1_STRING_get0_data(g->d.dNSName) : "";
        size_t n = strlen(s), m = strlen(TLS_NODE_DOMAIN);

        if (n > m && n - m < sizeof(t->node) && str_ends(s, TLS_NODE_DOMAIN))
            memcpy(t->node, s, n - m);
    }
    GENERAL_NAMES_free(names);
}

/* errno of a call of OpenSSL that gave n <= 0. */
static ssize_t tls_fault(struct async_tls *t, int n)
{
    int what = SSL_get_error(t->ssl, n);

    ERR_clear_error();
    if (what == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t async_tls_receive(struct async_tls *t, void *to, size_t most)
{
    ssize_t n;

    dlc_check(t->tag == TLS_TAG);
    ERR_clear_error();
    n = SSL_read(t->ssl, to, (int)DLC_MIN(most, (size_t)RECORD));
    if (t->not_after == 0 && SSL_is_init_finished(t->ssl))
        note_client(t);
    if (n <= 0)
        n = tls_fault(t, (int)n);
    if (!tls_flush(t)) { /* of the handshake: it always fits into the buffers of the socket */
        errno = ECONNRESET;
        return -1;
    }
    return n;
}

/* The beginning of what is to be sent as one record, so that a small answer is one. */
static size_t gather(const struct iovec *iov, size_t n, size_t skip, char record[static RECORD])
{
    size_t len = 0;

    for (size_t i = 0; i < n && len < RECORD; i++) {
        size_t from = DLC_MIN(skip, iov[i].iov_len);
        size_t take = DLC_MIN(iov[i].iov_len - from, RECORD - len);

        skip -= from;
        if (take > 0)
            memcpy(record + len, (const char *)iov[i].iov_base + from, take);
        len += take;
    }
    return len;
}

ssize_t async_tls_send(struct async_tls *t, const struct iovec *iov, size_t n)
{
    char record[RECORD]; /* what is about to be encrypted */
    size_t accepted = 0, len;
    int wrote = 1;

    dlc_check(t->tag == TLS_TAG);
    ERR_clear_error();
    if (!tls_flush(t))
        goto dead;
    while (t->out.len - t->out_at < OUT_MAX && (len = gather(iov, n, accepted, record)) > 0) {
        wrote = SSL_write(t->ssl, record, (int)len);
        if (wrote <= 0)
            goto dead; /* the buffer takes everything */
        accepted += (size_t)wrote;
    }
    if (!tls_flush(t))
        goto dead;
    if (accepted > 0 || async_tls_unsent(t) == 0)
        return (ssize_t)accepted;
    errno = EAGAIN;
    return -1;
dead:
    ERR_clear_error();
    errno = ECONNRESET;
    return -1;
}

size_t async_tls_unsent(const struct async_tls *t)
{
    return t->out.len - t->out_at;
}

uint64_t async_tls_written(const struct async_tls *t)
{
    return t->written;
}

bool async_tls_has_input(const struct async_tls *t)
{
    return SSL_has_pending(t->ssl) == 1;
}

bool async_tls_is_open(const struct async_tls *t)
{
    return t->not_after != 0;
}

bool async_tls_began(const struct async_tls *t)
{
    return t->began;
}

void async_tls_end(struct async_tls *t)
{
    if (async_tls_is_open(t))
        SSL_shutdown(t->ssl);
    ERR_clear_error();
    tls_flush(t);
}

const char *async_tls_node(const struct async_tls *t)
{
    return t->node;
}

uint32_t async_tls_generation(const struct async_tls *t)
{
    return t->generation;
}

bool async_tls_is_expired(const struct async_tls *t)
{
    return t->not_after != 0 && dlc_wall_seconds() >= t->not_after;
}
