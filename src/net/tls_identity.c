// SPDX-License-Identifier: Apache-2.0
#include "net/tls_identity.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/pem.h"
#include "base/secret.h"
#include "base/str.h"

#define IDENTITY_TAG DLC_TAG4('t', 'l', 's', 'i')

void tls_node_host(const char *node, char out[static TLS_NODE_HOST_MAX])
{
    int n = snprintf(out, TLS_NODE_HOST_MAX, "%s%s", node, TLS_NODE_DOMAIN);

    dlc_check(n > 0 && n < TLS_NODE_HOST_MAX);
}

/* ---- a request ---- */

static X509_REQ *request_for(const char *node, EVP_PKEY *key)
{
    X509_REQ *r = X509_REQ_new();

    if (r != NULL && X509_REQ_set_version(r, 0) == 1 &&
        X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(r), "CN", MBSTRING_UTF8,
                                   (const unsigned char *)node, -1, -1, 0) == 1 &&
        X509_REQ_set_pubkey(r, key) == 1 && X509_REQ_sign(r, key, EVP_sha256()) > 0)
        return r;
    X509_REQ_free(r);
    return NULL;
}

int tls_request_new(const char *node, char **key, char **request, struct dlc_err *err)
{
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    X509_REQ *r = pair != NULL ? request_for(node, pair) : NULL;
    unsigned char *der = NULL;
    int len = r != NULL ? i2d_X509_REQ(r, &der) : 0, rc = 0;
    struct buf text = BUF_INIT;

    *key = *request = NULL;
    if (len <= 0) {
        ERR_clear_error();
        rc = dlc_err_set(err, DLC_EIO, "OpenSSL cannot make a request for a certificate");
    } else {
        *key = pem_of_key(pair);
        str_base64(der, (size_t)len, &text);
        *request = buf_take(&text);
    }
    OPENSSL_free(der);
    X509_REQ_free(r);
    EVP_PKEY_free(pair);
    return rc;
}

/* ---- an identity ---- */

/* Gives, or NULL: there is none in it. */
static X509_STORE *read_authorities(const char *pem)
{
    BIO *b = BIO_new_mem_buf(pem, -1);
    X509_STORE *s = X509_STORE_new();
    bool some = false;
    X509 *x;

    dlc_check(b != NULL && s != NULL);
    while ((x = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL) {
        some = X509_STORE_add_cert(s, x) == 1 || some;
        X509_free(x);
    }
    BIO_free(b);
    if (!some) {
        X509_STORE_free(s);
        s = NULL;
    }
    return s;
}

/* The clock of this host may be wrong: that is for peers to judge. */
static bool is_signed(X509 *x, X509_STORE *trusted)
{
    X509_STORE_CTX *c = X509_STORE_CTX_new();
    bool good = c != NULL && X509_STORE_CTX_init(c, trusted, x, NULL) == 1;

    if (good) {
        X509_STORE_CTX_set_flags(c, X509_V_FLAG_NO_CHECK_TIME);
        good = X509_verify_cert(c) == 1;
    }
    X509_STORE_CTX_free(c);
    return good;
}

static int64_t end_of(const X509 *x)
{
    struct tm tm;

    return ASN1_TIME_to_tm(X509_get0_notAfter(x), &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

/* What is wrong; NULL: nothing. */
static const char *fault_of(const char *node, X509 *x, EVP_PKEY *key, X509_STORE *trusted)
{
    char host[TLS_NODE_HOST_MAX];

    tls_node_host(node, host);
    if (x == NULL || key == NULL || trusted == NULL)
        return "it cannot be read";
    if (X509_check_private_key(x, key) != 1)
        return "it is for another key";
    if (X509_check_host(x, host, 0, X509_CHECK_FLAG_NO_WILDCARDS, NULL) != 1)
        return "it names another node";
    if (!is_signed(x, trusted))
        return "none of the authorities that came with it has signed it";
    return NULL;
}

int tls_identity_new(const char *node, const char *cert, const char *key, const char *authorities,
                     struct tls_identity **out, struct dlc_err *err)
{
    X509 *x = pem_read_cert(cert);
    EVP_PKEY *pair = pem_read_key(key);
    X509_STORE *trusted = read_authorities(authorities);
    const char *fault = fault_of(node, x, pair, trusted);
    int rc = 0;

    *out = NULL;
    if (fault != NULL) {
        rc = dlc_err_set(err, DLC_EPROTO, "the certificate for node %s is not valid: %s", node,
                         fault);
    } else {
        struct tls_identity *id = mem_new(struct tls_identity);

        id->tag = IDENTITY_TAG;
        atomic_init(&id->refs, 1);
        id->cert = mem_str(cert);
        id->key = mem_str(key);
        id->authorities = mem_str(authorities);
        id->not_after = end_of(x);
        snprintf(id->name, sizeof(id->name), "%s", node);
        *out = id;
    }
    ERR_clear_error();
    X509_free(x);
    EVP_PKEY_free(pair);
    X509_STORE_free(trusted);
    return rc;
}

struct tls_identity *tls_identity_get(struct tls_identity *id)
{
    if (id != NULL) {
        dlc_check(id->tag == IDENTITY_TAG);
        atomic_fetch_add_explicit(&id->refs, 1, memory_order_relaxed); /* the caller has one */
    }
    return id;
}

void tls_identity_put(struct tls_identity **idp)
{
    struct tls_identity *id = *idp;

    *idp = NULL;
    if (id == NULL)
        return;
    dlc_check(id->tag == IDENTITY_TAG);
    if (atomic_fetch_sub_explicit(&id->refs, 1, memory_order_acq_rel) > 1) /* the last one frees */
        return;
    mem_free(&id->cert);
    secret_free(&id->key);
    mem_free(&id->authorities);
    id->tag = 0;
    mem_free(&id);
}
