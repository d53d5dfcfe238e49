// SPDX-License-Identifier: Apache-2.0
#include "operator/webhook/certs.h"

#include <arpa/inet.h>
#include <string.h>
#include <time.h>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"

#define SKEW_S    3600 /* clocks of those who look may be behind */
#define CA_NAME   "dlcache operator"
#define SUBJECT   64 /* most that a common name holds */
#define SERIAL    16
#define FORBIDDEN "\"',;: \t\r\n" /* in a name: it becomes part of a line of configuration */

void certs_release(struct certs *c)
{
    mem_free(&c->bundle);
    mem_free(&c->cert);
    secret_free(&c->ca_key);
    secret_free(&c->key);
}

static int failed(struct dlc_err *err, const char *what)
{
    char text[200];

    ERR_error_string_n(ERR_peek_last_error(), text, sizeof(text));
    ERR_clear_error();
    return dlc_err_set(err, DLC_EIO, "OpenSSL cannot %s: %s", what, text);
}

/* -------- PEM -------- */

/* The nth certificate of a text; NULL: there is none. */
static X509 *nth_cert(const char *pem, int nth)
{
    BIO *b = pem != NULL ? BIO_new_mem_buf(pem, -1) : NULL;
    X509 *x = NULL;

    if (b == NULL)
        return NULL;
    for (int i = 0; i <= nth; i++) {
        X509_free(x);
        x = PEM_read_bio_X509(b, NULL, NULL, NULL);
        if (x == NULL)
            break;
    }
    BIO_free(b);
    ERR_clear_error();
    return x;
}

/* Nobody is asked for a password: an encrypted key is none. */
static int no_password(char *buf, int size, int rw, void *arg)
{
    (void)buf;
    (void)size;
    (void)rw;
    (void)arg;
    return 0;
}

static EVP_PKEY *read_key(const char *pem)
{
    BIO *b = pem != NULL ? BIO_new_mem_buf(pem, -1) : NULL;
    EVP_PKEY *k = b != NULL ? PEM_read_bio_PrivateKey(b, NULL, no_password, NULL) : NULL;

    BIO_free(b);
    ERR_clear_error();
    return k;
}

/* Gives what was written into a memory BIO, and frees that. */
static char *text_of(BIO *b)
{
    char *data = NULL;
    long len = BIO_get_mem_data(b, &data);
    char *text = len > 0 ? mem_strn(data, (size_t)len) : NULL;

    if (len > 0)
        OPENSSL_cleanse(data, (size_t)len);
    BIO_free(b);
    return text;
}

static char *cert_text(X509 *x)
{
    BIO *b = BIO_new(BIO_s_mem());

    dlc_check(b != NULL && PEM_write_bio_X509(b, x) == 1);
    return text_of(b);
}

static char *key_text(EVP_PKEY *k)
{
    BIO *b = BIO_new(BIO_s_mem());

    dlc_check(b != NULL && PEM_write_bio_PKCS8PrivateKey(b, k, NULL, NULL, 0, NULL, NULL) == 1);
    return text_of(b);
}

/* -------- time -------- */

static int64_t unix_of(const ASN1_TIME *t)
{
    struct tm tm;

    return ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static int64_t end_of(const X509 *x)
{
    return x != NULL ? unix_of(X509_get0_notAfter(x)) : 0;
}

static int64_t begin_of(const X509 *x)
{
    return x != NULL ? unix_of(X509_get0_notBefore(x)) : 0;
}

int64_t certs_end(const char *pem)
{
    X509 *x = nth_cert(pem, 0);
    int64_t end = end_of(x);

    X509_free(x);
    return end;
}

/* -------- looking -------- */

static bool is_address(const char *name)
{
    unsigned char a[16];

    return inet_pton(AF_INET, name, a) == 1 || inet_pton(AF_INET6, name, a) == 1;
}

static bool is_for(X509 *x, const struct certs_names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        const char *n = names->v[i];

        if ((is_address(n) ? X509_check_ip_asc(x, n, 0) : X509_check_host(x, n, 0, 0, NULL)) != 1)
            return false;
    }
    return true;
}

/* What is wrong with the CA; NULL: nothing. */
static const char *ca_fault(X509 *ca, EVP_PKEY *key, int64_t now)
{
    if (ca == NULL || key == NULL)
        return "there is no CA, or none that can be read";
    if (X509_check_private_key(ca, key) != 1 || X509_check_ca(ca) != 1 || X509_verify(ca, key) != 1)
        return "the CA and its key do not belong together";
    if (begin_of(ca) > now)
        return "the CA is of the future";
    if (end_of(ca) - now < (int64_t)CERTS_CA_RENEW * CERTS_DAY)
        return "the CA ends soon";
    return NULL;
}

static const char *cert_fault(X509 *x, EVP_PKEY *key, EVP_PKEY *ca_key,
                              const struct certs_names *names, int64_t now)
{
    if (x == NULL || key == NULL)
        return "there is no certificate, or none that can be read";
    if (X509_check_private_key(x, key) != 1 || X509_verify(x, ca_key) != 1)
        return "the certificate, its key and the CA do not belong together";
    if (!is_for(x, names))
        return "the certificate is for other names";
    if (begin_of(x) > now)
        return "the certificate is of the future";
    if (end_of(x) - now < (int64_t)CERTS_RENEW_DAYS * CERTS_DAY)
        return "the certificate ends soon";
    return NULL;
}

enum certs_state certs_check(const struct certs *c, const struct certs_names *names, int64_t now,
                             struct dlc_err *why)
{
    X509 *ca = nth_cert(c->bundle, 0), *cert = nth_cert(c->cert, 0);
    EVP_PKEY *ca_key = read_key(c->ca_key), *key = read_key(c->key);
    const char *fault = ca_fault(ca, ca_key, now);
    enum certs_state s = CERTS_GOOD;

    if (fault != NULL)
        s = CERTS_CA_DUE;
    else if ((fault = cert_fault(cert, key, ca_key, names, now)) != NULL)
        s = CERTS_DUE;
    if (fault != NULL)
        dlc_err_set(why, DLC_ECHANGED, "%s", fault);
    X509_free(ca);
    X509_free(cert);
    EVP_PKEY_free(ca_key);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return s;
}

/* -------- making -------- */

static EVP_PKEY *new_key(void)
{
    EVP_PKEY_CTX *x = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
    EVP_PKEY *k = NULL;

    if (x == NULL || EVP_PKEY_keygen_init(x) != 1 ||
        EVP_PKEY_CTX_set_ec_paramgen_curve_nid(x, NID_X9_62_prime256v1) != 1 ||
        EVP_PKEY_CTX_set_ec_param_enc(x, OPENSSL_EC_NAMED_CURVE) != 1 ||
        EVP_PKEY_keygen(x, &k) != 1)
        k = NULL;
    EVP_PKEY_CTX_free(x);
    return k;
}

static bool set_serial(X509 *x)
{
    unsigned char bytes[SERIAL];
    BIGNUM *n = NULL;
    bool ok = RAND_bytes(bytes, sizeof(bytes)) == 1;

    bytes[0] &= 0x7f; /* positive */
    bytes[0] |= 0x40; /* and never 0 */
    if (ok)
        n = BN_bin2bn(bytes, sizeof(bytes), NULL);
    ok = n != NULL && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x)) != NULL;
    BN_free(n);
    return ok;
}

static bool extend(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;
    bool ok;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ok = e != NULL && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

/* All but extensions and signature. */
static X509 *blank(EVP_PKEY *key, const char *subject, int64_t now, int64_t end)
{
    X509 *x = X509_new();
    X509_NAME *name = x != NULL ? X509_get_subject_name(x) : NULL;

    if (x != NULL && X509_set_version(x, 2) == 1 && set_serial(x) &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)subject,
                                   (int)strnlen(subject, SUBJECT), -1, 0) == 1 &&
        ASN1_TIME_set(X509_getm_notBefore(x), (time_t)(now - SKEW_S)) != NULL &&
        ASN1_TIME_set(X509_getm_notAfter(x), (time_t)end) != NULL && X509_set_pubkey(x, key) == 1)
        return x;
    X509_free(x);
    return NULL;
}

static X509 *make_ca(EVP_PKEY *key, int64_t now)
{
    X509 *x = blank(key, CA_NAME, now, now + (int64_t)CERTS_CA_DAYS * CERTS_DAY);

    if (x != NULL && X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
        extend(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        extend(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
        extend(x, x, NID_subject_key_identifier, "hash") && X509_sign(x, key, EVP_sha256()) > 0)
        return x;
    X509_free(x);
    return NULL;
}

static X509 *make_cert(EVP_PKEY *key, X509 *ca, EVP_PKEY *ca_key, const struct certs_names *names,
                       int64_t now)
{
    int64_t end = now + (int64_t)CERTS_DAYS * CERTS_DAY, last = end_of(ca);
    X509 *x = blank(key, names->v[0], now, DLC_MIN(end, last));
    struct buf alt = BUF_INIT;
    bool ok;

    for (size_t i = 0; i < names->n; i++)
        buf_addf(&alt, "%s%s:%s", i > 0 ? "," : "", is_address(names->v[i]) ? "IP" : "DNS",
                 names->v[i]);
    ok = x != NULL && X509_set_issuer_name(x, X509_get_subject_name(ca)) == 1 &&
         extend(x, ca, NID_basic_constraints, "critical,CA:FALSE") &&
         extend(x, ca, NID_key_usage, "critical,digitalSignature") &&
         extend(x, ca, NID_ext_key_usage, "serverAuth") &&
         extend(x, ca, NID_subject_key_identifier, "hash") &&
         extend(x, ca, NID_authority_key_identifier, "keyid:always") &&
         extend(x, ca, NID_subject_alt_name, buf_str(&alt)) &&
         X509_sign(x, ca_key, EVP_sha256()) > 0;
    buf_release(&alt);
    if (ok)
        return x;
    X509_free(x);
    return NULL;
}

/* -------- renewing -------- */

/* The new CA, and after it the one that was first until now, while it is good. (CERTS-2) */
static char *bundle_of(X509 *ca, const char *before, int64_t now)
{
    X509 *old = nth_cert(before, 0);
    char *first = cert_text(ca), *second, *out;

    if (old == NULL || end_of(old) <= now) {
        X509_free(old);
        return first;
    }
    second = cert_text(old);
    out = mem_fmt("%s%s", first, second);
    mem_free(&first);
    mem_free(&second);
    X509_free(old);
    return out;
}

static int renew_ca(struct certs *c, int64_t now, struct dlc_err *err)
{
    EVP_PKEY *key = new_key();
    X509 *ca = key != NULL ? make_ca(key, now) : NULL;
    int rc = 0;

    if (ca == NULL) {
        rc = failed(err, "make a CA");
    } else {
        char *bundle = bundle_of(ca, c->bundle, now);

        mem_free(&c->bundle);
        c->bundle = bundle;
        secret_free(&c->ca_key);
        c->ca_key = key_text(key);
    }
    X509_free(ca);
    EVP_PKEY_free(key);
    return rc;
}

static int renew_cert(struct certs *c, const struct certs_names *names, int64_t now,
                      struct dlc_err *err)
{
    X509 *ca = nth_cert(c->bundle, 0), *x = NULL;
    EVP_PKEY *ca_key = read_key(c->ca_key), *key = new_key();
    int rc = 0;

    dlc_check(ca != NULL && ca_key != NULL);
    if (key != NULL)
        x = make_cert(key, ca, ca_key, names, now);
    if (x == NULL) {
        rc = failed(err, "make a certificate");
    } else {
        mem_free(&c->cert);
        secret_free(&c->key);
        c->cert = cert_text(x);
        c->key = key_text(key);
    }
    X509_free(x);
    X509_free(ca);
    EVP_PKEY_free(key);
    EVP_PKEY_free(ca_key);
    return rc;
}

static int check_names(const struct certs_names *names, struct dlc_err *err)
{
    if (names->n == 0 || names->n > CERTS_NAMES_MAX)
        return dlc_err_set(err, DLC_EINVAL, "a certificate has 1 to %d names, not %zu",
                           CERTS_NAMES_MAX, names->n);
    for (size_t i = 0; i < names->n; i++) {
        const char *n = names->v[i];

        if (n[0] == '\0' || strlen(n) > 253 || (!is_address(n) && n[strcspn(n, FORBIDDEN)] != '\0'))
            return dlc_err_set(err, DLC_EINVAL,
                               "a certificate cannot be for '%.60s': write host names or addresses",
                               n);
    }
    return 0;
}

int certs_renew(struct certs *c, const struct certs_names *names, int64_t now, bool *changed,
                struct dlc_err *err)
{
    struct certs next = {mem_str(c->bundle), mem_str(c->ca_key), mem_str(c->cert), mem_str(c->key)};
    enum certs_state due = CERTS_GOOD;
    int rc = check_names(names, err);

    if (rc == 0)
        due = certs_check(c, names, now, NULL);
    if (rc == 0 && due == CERTS_CA_DUE)
        rc = renew_ca(&next, now, err);
    if (rc == 0 && due != CERTS_GOOD)
        rc = renew_cert(&next, names, now, err);
    if (rc == 0) {
        struct certs old = *c;

        *c = next;
        next = old;
    }
    certs_release(&next);
    if (changed != NULL)
        *changed = rc == 0 && due != CERTS_GOOD;
    return rc;
}
