// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/authority.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/pem.h"
#include "base/str.h"
#include "manager/store/wall_time.h"
#include "manager/tables/cluster_keys.h"

#define SKEW_S      3600 /* clocks of nodes may be behind */
#define AUTHORITY_S (10 * 365 * 86400LL)
#define SERIAL      16
#define TRUST_LIFE  DLC_SEC(10)
#define KEY_ID      16 /* hexadecimal digits in the name of an authority */

void authority_certificate_release(struct authority_certificate *c)
{
    mem_free(&c->cert);
    mem_free(&c->authorities);
}

/* ---- parts of certificates ---- */

static bool set_serial(X509 *x, const unsigned char bytes[static SERIAL])
{
    BIGNUM *n = BN_bin2bn(bytes, SERIAL, NULL);
    bool ok = n != NULL && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x)) != NULL;

    BN_free(n);
    return ok;
}

/* All but issuer, extensions and signature. */
static X509 *blank(EVP_PKEY *key, const char *subject, const unsigned char serial[static SERIAL],
                   int64_t from, int64_t to)
{
    X509 *x = X509_new();

    if (x != NULL && X509_set_version(x, 2) == 1 && set_serial(x, serial) &&
        X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
                                   (const unsigned char *)subject, -1, -1, 0) == 1 &&
        ASN1_TIME_set(X509_getm_notBefore(x), (time_t)from) != NULL &&
        ASN1_TIME_set(X509_getm_notAfter(x), (time_t)to) != NULL && X509_set_pubkey(x, key) == 1)
        return x;
    X509_free(x);
    return NULL;
}

/* ---- the authorities ---- */

/* The certificate of an authority follows from its key and age. Its signature differs each time,
 * which nobody looks at: an authority is trusted by its name and key. */
static X509 *authority_of(const struct cluster_key *k)
{
    unsigned char hash[SHA256_LEN], *der = NULL;
    int len = i2d_PUBKEY(k->pair, &der);
    int64_t made = k->made_ms / 1000;
    char name[64] = "dlcache cluster ";
    X509 *x = NULL;

    if (len > 0) {
        sha256(der, (size_t)len, hash);
        OPENSSL_free(der);
        str_hex(hash, KEY_ID / 2, name + strlen(name));
        hash[0] &= 0x7f; /* a serial number is positive */
        x = blank(k->pair, name, hash, made - SKEW_S, made + AUTHORITY_S);
    }
    if (x != NULL && X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
        x509_add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        x509_add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
        x509_add_extension(x, x, NID_subject_key_identifier, "hash") &&
        X509_sign(x, k->pair, EVP_sha256()) > 0)
        return x;
    X509_free(x);
    return NULL;
}

static void add_pem(struct buf *to, X509 *x)
{
    char *text = pem_of_cert(x);

    buf_adds(to, text);
    mem_free(&text);
}

/* (AUTHORITY-2) */
static const struct cluster_key *signer(const struct cluster_keys *k, struct dlc_dur life)
{
    int64_t until = wall_ms() - life.ns / 1000000;

    for (size_t i = k->n; i-- > 1;)
        if (k->v[i].made_ms <= until)
            return &k->v[i];
    return &k->v[0];
}

static char *authorities_text(const struct cluster_keys *k)
{
    struct buf b = BUF_INIT;

    for (size_t i = 0; i < k->n; i++) {
        X509 *x = authority_of(&k->v[i]);

        if (x != NULL)
            add_pem(&b, x);
        X509_free(x);
    }
    return buf_take(&b);
}

/* ---- a node's ---- */

/* The public key of a request whose signature is right. Gives, or NULL. */
static EVP_PKEY *request_key(const char *text)
{
    struct buf der = BUF_INIT;
    const unsigned char *at;
    X509_REQ *r = NULL;
    EVP_PKEY *key;

    if (str_unbase64(text, &der) && der.len > 0) {
        at = (const unsigned char *)der.data;
        r = d2i_X509_REQ(NULL, &at, (long)der.len);
    }
    key = r != NULL ? X509_REQ_get_pubkey(r) : NULL;

    if (key != NULL && (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC || EVP_PKEY_get_bits(key) != 256 ||
                        X509_REQ_verify(r, key) != 1)) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    X509_REQ_free(r);
    buf_release(&der);
    return key;
}

/* (AUTHORITY-1) node is a name by str_is_name(): it cannot break out of the extension's text. */
static X509 *node_certificate(EVP_PKEY *key, const struct authority_subject *who,
                              const struct cluster_key *ca, struct dlc_dur life)
{
    X509 *issuer = authority_of(ca), *x = NULL;
    int64_t now = wall_ms() / 1000, end = now + DLC_MAX(life.ns / DLC_SEC(1).ns, 1);
    unsigned char serial[SERIAL];
    char alt[160];
    bool ok;

    snprintf(alt, sizeof(alt), "DNS:%s%s", who->node, AUTHORITY_DOMAIN);
    if (issuer != NULL && RAND_bytes(serial, SERIAL) == 1) {
        serial[0] &= 0x7f;
        x = blank(key, who->node, serial, now - SKEW_S,
                  DLC_MIN(end, ca->made_ms / 1000 + AUTHORITY_S));
    }
    ok = x != NULL && x509_set_generation(x, who->generation) &&
         X509_set_issuer_name(x, X509_get_subject_name(issuer)) == 1 &&
         x509_add_extension(x, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
         x509_add_extension(x, issuer, NID_key_usage, "critical,digitalSignature") &&
         x509_add_extension(x, issuer, NID_ext_key_usage, "serverAuth,clientAuth") &&
         x509_add_extension(x, issuer, NID_subject_key_identifier, "hash") &&
         x509_add_extension(x, issuer, NID_authority_key_identifier, "keyid:always") &&
         x509_add_extension(x, issuer, NID_subject_alt_name, alt) &&
         X509_sign(x, ca->pair, EVP_sha256()) > 0;
    X509_free(issuer);
    if (ok)
        return x;
    X509_free(x);
    return NULL;
}

static int64_t end_of(const X509 *x)
{
    struct tm tm;

    return ASN1_TIME_to_tm(X509_get0_notAfter(x), &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

int authority_sign(struct store *store, const struct seal *seal,
                   const struct authority_subject *who, const char *request, struct dlc_dur life,
                   struct authority_certificate *out, struct dlc_err *err)
{
    EVP_PKEY *key = strlen(request) <= AUTHORITY_REQUEST_MAX ? request_key(request) : NULL;
    struct cluster_keys keys = {0};
    struct buf pem = BUF_INIT;
    X509 *x = NULL;
    int rc = 0;

    memset(out, 0, sizeof(*out));
    dlc_check(str_is_name(who->node));
    if (key == NULL)
        rc = dlc_err_set(
            err, DLC_EINVAL,
            "this is not a certificate request (PKCS #10 in base64) that was signed with its "
            "own P-256 key");
    if (rc == 0)
        rc = cluster_keys_get(store, seal, CLUSTER_KEY_AUTHORITY, &keys, err);
    if (rc == 0 && (x = node_certificate(key, who, signer(&keys, life), life)) == NULL)
        rc = dlc_err_set(err, DLC_EIO, "OpenSSL cannot make a certificate for node %s", who->node);
    if (rc == 0) {
        add_pem(&pem, x);
        out->cert = buf_take(&pem);
        out->authorities = authorities_text(&keys);
        out->not_after = end_of(x);
    }
    ERR_clear_error();
    X509_free(x);
    EVP_PKEY_free(key);
    cluster_keys_release(&keys);
    return rc;
}

int authority_list(struct store *store, const struct seal *seal, char **out, struct dlc_err *err)
{
    struct cluster_keys keys = {0};
    int rc = cluster_keys_get(store, seal, CLUSTER_KEY_AUTHORITY, &keys, err);

    *out = rc == 0 ? authorities_text(&keys) : NULL;
    cluster_keys_release(&keys);
    return rc;
}

/* ---- whose certificate is this? ---- */

void authority_trust_init(struct authority_trust *t, struct store *store, const struct seal *seal)
{
    *t = (struct authority_trust){.store = store, .seal = seal};
    dlc_mtx_init(&t->mtx, LCK_authority);
}

void authority_trust_release(struct authority_trust *t)
{
    if (t->store == NULL)
        return;
    X509_STORE_free(t->trusted);
    dlc_mtx_release(&t->mtx);
    memset(t, 0, sizeof(*t));
}

/* While the store cannot be read, those that were read before are trusted. */
static void trust_read_locked(struct authority_trust *t)
{
    struct cluster_keys keys = {0};
    X509_STORE *fresh;

    if (t->trusted != NULL && dlc_mono_since(t->read_at).ns < TRUST_LIFE.ns)
        return;
    t->read_at = dlc_mono_now();
    if (cluster_keys_get(t->store, t->seal, CLUSTER_KEY_AUTHORITY, &keys, NULL) < 0)
        return;
    fresh = X509_STORE_new();
    for (size_t i = 0; i < keys.n && fresh != NULL; i++) {
        X509 *x = authority_of(&keys.v[i]);

        if (x != NULL)
            X509_STORE_add_cert(fresh, x);
        X509_free(x);
    }
    cluster_keys_release(&keys);
    X509_STORE_free(t->trusted);
    t->trusted = fresh;
}

static bool is_valid(X509_STORE *trusted, X509 *x)
{
    X509_STORE_CTX *c = X509_STORE_CTX_new();
    bool good = trusted != NULL && c != NULL && X509_STORE_CTX_init(c, trusted, x, NULL) == 1 &&
                X509_STORE_CTX_set_purpose(c, X509_PURPOSE_SSL_CLIENT) == 1 &&
                X509_verify_cert(c) == 1;

    X509_STORE_CTX_free(c);
    return good;
}

/* The subject of a certificate of ours is the name of its node. */
void authority_identify(struct authority_trust *t, const void *der, size_t len,
                        char node[static NAME_MAX_LEN + 1], uint32_t *generation)
{
    const unsigned char *at = der;
    X509 *x = d2i_X509(NULL, &at, (long)len);
    bool good;

    node[0] = '\0';
    *generation = 0;
    if (x == NULL) {
        ERR_clear_error();
        return;
    }
    dlc_mtx_lock(&t->mtx);
    trust_read_locked(t);
    good = is_valid(t->trusted, x);
    dlc_mtx_unlock(&t->mtx);
    if (!good || X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, node,
                                           NAME_MAX_LEN + 1) <= 0)
        node[0] = '\0';
    *generation = x509_generation(x);
    ERR_clear_error();
    X509_free(x);
}

/* ---- a new key ---- */

/* How many of the oldest keys are not needed: the next one has signed for as long as a certificate
 * lives. */
static size_t unneeded(const struct cluster_keys *k, struct dlc_dur life)
{
    int64_t until = wall_ms() - 2 * (life.ns / 1000000);
    size_t n = 0;

    while (n + 1 < k->n && k->v[n + 1].made_ms <= until)
        n++;
    return n;
}

int authority_rotate(struct store *store, const struct seal *seal, struct dlc_dur life,
                     struct dlc_err *err)
{
    struct cluster_keys keys = {0};
    int rc = cluster_keys_get(store, seal, CLUSTER_KEY_AUTHORITY, &keys, err);
    int64_t signs_ms;

    if (rc < 0)
        return rc;
    signs_ms = cluster_keys_signer(&keys)->made_ms + life.ns / 1000000;
    if (keys.n > 1 && signs_ms > wall_ms())
        rc = dlc_err_set(err, DLC_EBUSY,
                         "the authority is being replaced already: the new key signs in %lld s; "
                         "try again then",
                         (long long)(signs_ms - wall_ms() + 999) / 1000);
    else
        rc = cluster_keys_add(store, seal, CLUSTER_KEY_AUTHORITY, unneeded(&keys, life), err);
    cluster_keys_release(&keys);
    return rc;
}
