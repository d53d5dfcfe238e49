// SPDX-License-Identifier: Apache-2.0
#include "operator/webhook/certs.h"

#include <arpa/inet.h>
#include <string.h>
#include <time.h>

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/pem.h"
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
    X509 *x = pem_read_cert(pem);
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
    X509 *ca = pem_read_cert(c->bundle), *cert = pem_read_cert(c->cert);
    EVP_PKEY *ca_key = pem_read_key(c->ca_key), *key = pem_read_key(c->key);
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

static X509 *make_ca(EVP_PKEY *key, int days, int64_t now)
{
    X509 *x = blank(key, CA_NAME, now, now + (int64_t)days * CERTS_DAY);

    if (x != NULL && X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
        x509_add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        x509_add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
        x509_add_extension(x, x, NID_subject_key_identifier, "hash") &&
        X509_sign(x, key, EVP_sha256()) > 0)
        return x;
    X509_free(x);
    return NULL;
}

static X509 *make_cert(EVP_PKEY *key, X509 *ca, EVP_PKEY *ca_key, const struct certs_names *names,
                       int64_t now)
{
    int64_t days = names->days > 0 ? names->days : CERTS_DAYS;
    int64_t end = now + days * CERTS_DAY, last = end_of(ca);
    X509 *x = blank(key, names->v[0], now, DLC_MIN(end, last));
    struct buf alt = BUF_INIT;
    bool ok;

    for (size_t i = 0; i < names->n; i++)
        buf_addf(&alt, "%s%s:%s", i > 0 ? "," : "", is_address(names->v[i]) ? "IP" : "DNS",
                 names->v[i]);
    ok = x != NULL && X509_set_issuer_name(x, X509_get_subject_name(ca)) == 1 &&
         x509_add_extension(x, ca, NID_basic_constraints, "critical,CA:FALSE") &&
         x509_add_extension(x, ca, NID_key_usage, "critical,digitalSignature") &&
         x509_add_extension(x, ca, NID_ext_key_usage, "serverAuth") &&
         x509_add_extension(x, ca, NID_subject_key_identifier, "hash") &&
         x509_add_extension(x, ca, NID_authority_key_identifier, "keyid:always") &&
         x509_add_extension(x, ca, NID_subject_alt_name, buf_str(&alt)) &&
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
    X509 *old = pem_read_cert(before);
    char *first = pem_of_cert(ca), *second, *out;

    if (old == NULL || end_of(old) <= now) {
        X509_free(old);
        return first;
    }
    second = pem_of_cert(old);
    out = mem_fmt("%s%s", first, second);
    mem_free(&first);
    mem_free(&second);
    X509_free(old);
    return out;
}

static int renew_ca(struct certs *c, int days, int64_t now, struct dlc_err *err)
{
    EVP_PKEY *key = new_key();
    X509 *ca = key != NULL ? make_ca(key, days > 0 ? days : CERTS_CA_DAYS, now) : NULL;
    int rc = 0;

    if (ca == NULL) {
        rc = failed(err, "make a CA");
    } else {
        char *bundle = bundle_of(ca, c->bundle, now);

        mem_free(&c->bundle);
        c->bundle = bundle;
        secret_free(&c->ca_key);
        c->ca_key = pem_of_key(key);
    }
    X509_free(ca);
    EVP_PKEY_free(key);
    return rc;
}

static int renew_cert(struct certs *c, const struct certs_names *names, int64_t now,
                      struct dlc_err *err)
{
    X509 *ca = pem_read_cert(c->bundle), *x = NULL;
    EVP_PKEY *ca_key = pem_read_key(c->ca_key), *key = new_key();
    int rc = 0;

    dlc_check(ca != NULL && ca_key != NULL);
    if (key != NULL)
        x = make_cert(key, ca, ca_key, names, now);
    if (x == NULL) {
        rc = failed(err, "make a certificate");
    } else {
        mem_free(&c->cert);
        secret_free(&c->key);
        c->cert = pem_of_cert(x);
        c->key = pem_of_key(key);
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
        rc = renew_ca(&next, names->days, now, err);
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
