// SPDX-License-Identifier: Apache-2.0
/*
 * TLS of a connection to Redis (rediss://), by OpenSSL: hiredis of Debian has none, and only its
 * reader is used here anyway.
 *
 * (RTLS-1) A connection is used only after the server's certificate was verified: its chain by the
 *          CA of the URL (or those of the system), its name by the address we connected to.
 * (RTLS-2) OpenSSL reads and writes through os_recv() and os_send(): no SIGPIPE, no waiting. Who
 *          waits, and until when, is decided in redis_conn.c as without TLS.
 *
 * The files of the URL are read for each connection, so a renewed certificate needs no restart.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/syscalls.h"
#include "net/redis/redis_i.h"

/* ---- input and output of OpenSSL ---- */

static int bio_fd(BIO *b)
{
    return (int)(intptr_t)BIO_get_data(b);
}

static bool is_retry(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static int bio_read(BIO *b, char *data, int len)
{
    ssize_t n = os_recv(bio_fd(b), data, (size_t)len, 0);

    BIO_clear_retry_flags(b);
    if (is_retry(n))
        BIO_set_retry_read(b);
    return (int)n;
}

static int bio_write(BIO *b, const char *data, int len)
{
    ssize_t n = os_send(bio_fd(b), data, (size_t)len, 0);

    BIO_clear_retry_flags(b);
    if (is_retry(n))
        BIO_set_retry_write(b);
    return (int)n;
}

static long bio_ctrl(BIO *b, int cmd, long number, void *data)
{
    (void)b;
    (void)number;
    (void)data;
    return cmd == BIO_CTRL_FLUSH;
}

static BIO *bio_of(int fd)
{
    static BIO_METHOD *methods; /* made once, kept until the process ends */
    BIO_METHOD *m = __atomic_load_n(&methods, __ATOMIC_ACQUIRE), *none = NULL;
    BIO *b;

    if (m == NULL) {
        m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "redis");
        dlc_check(m != NULL && BIO_meth_set_read(m, bio_read) && BIO_meth_set_write(m, bio_write) &&
                  BIO_meth_set_ctrl(m, bio_ctrl));
        if (!__atomic_compare_exchange_n(&methods, &none, m, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            BIO_meth_free(m); /* another thread was faster */
            m = none;
        }
    }
    b = BIO_new(m);
    dlc_check(b != NULL);
    BIO_set_data(b, (void *)(intptr_t)fd);
    BIO_set_init(b, 1);
    return b;
}

/* ---- errors ---- */

/* What OpenSSL says last; the queue is empty then. */
static const char *reason(void)
{
    unsigned long e = ERR_peek_last_error();
    const char *text = e == 0 ? NULL : ERR_reason_error_string(e);

    ERR_clear_error();
    return text != NULL ? text : "no reason given";
}

static int file_error(struct dlc_err *err, const char *what, const char *path)
{
    return dlc_err_set(err, DLC_EINVAL, "Redis: %s of the URL, %s, cannot be used: %s", what, path,
                       reason());
}

static int certificate_error(const SSL *ssl, const char *address, struct dlc_err *err)
{
    long why = SSL_get_verify_result(ssl);
    const char *text = X509_verify_cert_error_string(why);

    if (why == X509_V_ERR_HOSTNAME_MISMATCH || why == X509_V_ERR_IP_ADDRESS_MISMATCH)
        return dlc_err_set(err, DLC_EDENIED,
                           "Redis %s: its certificate is for another host (%s); write a name of "
                           "the certificate in the URL, or issue one for this name",
                           address, text);
    if (why == X509_V_ERR_CERT_HAS_EXPIRED || why == X509_V_ERR_CERT_NOT_YET_VALID)
        return dlc_err_set(err, DLC_EDENIED,
                           "Redis %s: %s; renew the server's certificate, or set the clock",
                           address, text);
    return dlc_err_set(err, DLC_EDENIED,
                       "Redis %s: its certificate is not of a CA we trust (%s); name the CA's file "
                       "in the URL: rediss://...?ca=FILE",
                       address, text);
}

/* The handshake failed for good. */
static int handshake_error(const SSL *ssl, int kind, const char *address, struct dlc_err *err)
{
    if (SSL_get_verify_result(ssl) != X509_V_OK)
        return certificate_error(ssl, address, err);
    if (kind == SSL_ERROR_SSL)
        return dlc_err_set(err, DLC_EBUCKET,
                           "Redis %s: no TLS with it (%s); does it listen with TLS at this port?",
                           address, reason());
    return dlc_err_set(err, DLC_EBUCKET, "Redis %s ended the TLS handshake; is this its TLS port?",
                       address);
}

/* ---- opening ---- */

static int load_files(SSL_CTX *ctx, const struct redis_url *u, struct dlc_err *err)
{
    if (u->ca == NULL ? SSL_CTX_set_default_verify_paths(ctx) != 1
                      : SSL_CTX_load_verify_locations(ctx, u->ca, NULL) != 1)
        return file_error(err, "ca", u->ca == NULL ? "the system's certificates" : u->ca);
    if (u->cert == NULL)
        return 0;
    if (SSL_CTX_use_certificate_chain_file(ctx, u->cert) != 1)
        return file_error(err, "cert", u->cert);
    if (SSL_CTX_use_PrivateKey_file(ctx, u->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1)
        return file_error(err, "key", u->key);
    return 0;
}

static int expect_host(SSL *ssl, const char *host)
{
    unsigned char bytes[16];

    if (inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) && SSL_set_tlsext_host_name(ssl, host);
}

static int handshake(SSL *ssl, int fd, const char *address, struct dlc_mono deadline,
                     struct dlc_err *err)
{
    for (;;) {
        struct pollfd p = {.fd = fd};
        int rc, kind;

        ERR_clear_error();
        rc = SSL_connect(ssl);
        if (rc == 1)
            return 0;
        kind = SSL_get_error(ssl, rc);
        if (kind != SSL_ERROR_WANT_READ && kind != SSL_ERROR_WANT_WRITE)
            return handshake_error(ssl, kind, address, err);
        p.events = (short)(kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT);
        if (!redis_wait(&p, 1, deadline))
            return dlc_err_set(err, DLC_EBUCKET,
                               "Redis %s: no TLS handshake in time; is this its TLS port?",
                               address);
    }
}

int redis_tls_open(const struct redis_url *u, const char *address, int fd, struct dlc_mono deadline,
                   SSL **out, struct dlc_err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    char host[80];
    uint16_t port;
    SSL *ssl = NULL;
    int rc;

    dlc_check(ctx != NULL && redis_address_split(address, host, &port));
    ERR_clear_error();
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    rc = load_files(ctx, u, err);
    if (rc == 0) {
        BIO *b = bio_of(fd);

        ssl = SSL_new(ctx);
        dlc_check(ssl != NULL && expect_host(ssl, host));
        SSL_set_bio(ssl, b, b);
        rc = handshake(ssl, fd, address, deadline, err);
    }
    if (rc < 0) {
        SSL_free(ssl);
        ssl = NULL;
    }
    SSL_CTX_free(ctx);
    *out = ssl;
    return rc;
}

void redis_tls_close(SSL **sp)
{
    SSL_free(*sp); /* without close_notify: replies that count have come */
    *sp = NULL;
}

/* ---- bytes ---- */

/* 0: later. -1 with errno: lost. */
static ssize_t failed(SSL *ssl, int rc, char why[static 80])
{
    int kind = SSL_get_error(ssl, rc), saved = errno;

    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return 0;
    if (kind == SSL_ERROR_SSL)
        (void)snprintf(why, 80, "%s", reason());
    ERR_clear_error();
    errno = kind == SSL_ERROR_SSL                     ? EPROTO
            : kind == SSL_ERROR_SYSCALL && saved != 0 ? saved
                                                      : ECONNRESET;
    return -1;
}

ssize_t redis_tls_send(SSL *ssl, const void *data, size_t len, char why[static 80])
{
    int rc;

    ERR_clear_error();
    errno = 0;
    rc = SSL_write(ssl, data, (int)DLC_MIN(len, (size_t)INT_MAX));
    return rc > 0 ? rc : failed(ssl, rc, why);
}

ssize_t redis_tls_receive(SSL *ssl, void *data, size_t cap, char why[static 80])
{
    int rc;

    ERR_clear_error();
    errno = 0;
    rc = SSL_read(ssl, data, (int)DLC_MIN(cap, (size_t)INT_MAX));
    return rc > 0 ? rc : failed(ssl, rc, why);
}

bool redis_tls_has_more(const SSL *ssl)
{
    return SSL_pending(ssl) > 0;
}
