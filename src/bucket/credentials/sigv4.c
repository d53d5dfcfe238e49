// SPDX-License-Identifier: Apache-2.0
/*
 * Signing: canonical request -> string to sign -> signature, all in buffers that the signer keeps.
 *
 * OpenSSL 3 looks an algorithm up by name in every one-shot SHA256() and HMAC(), which costs more
 * than hashing a request. So SHA-256 is fetched once for the process, each signer keeps one digest
 * context, and HMAC is spelt out over it (RFC 2104; our keys never exceed a block except the first,
 * which is hashed down like any long key).
 */
#include "bucket/credentials/sigv4_i.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include <openssl/evp.h>

#include "base/check.h"
#include "base/str.h"
#include "base/secret.h"

#define BLOCK        64 /* SHA-256's */
#define OWN_HEADERS  4  /* host and the x-amz-* ones */
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* The headers of one request in the order they are signed. */
struct header_set {
    struct sigv4_header h[OWN_HEADERS + SIGV4_EXTRA_MAX];
    size_t n;
};

static EVP_MD *sha256_md;
static pthread_once_t sha256_once = PTHREAD_ONCE_INIT;

static void sha256_fetch(void)
{
    sha256_md = EVP_MD_fetch(NULL, "SHA256", NULL);
    dlc_check(sha256_md != NULL);
}

void sigv4_signer_init(struct sigv4_signer *sg)
{
    *sg = (struct sigv4_signer){.second = INT64_MIN};
    pthread_once(&sha256_once, sha256_fetch);
    sg->md = EVP_MD_CTX_new();
    dlc_check(sg->md != NULL);
}

void sigv4_signer_release(struct sigv4_signer *sg)
{
    EVP_MD_CTX_free(sg->md);
    secret_buf_release(&sg->canonical);
    secret_buf_release(&sg->secret);
    buf_release(&sg->scope);
    explicit_bzero(sg, sizeof(*sg));
}

static void digest(EVP_MD_CTX *md, const void *a, size_t a_len, const void *b, size_t b_len,
                   unsigned char out[static SHA256_LEN])
{
    dlc_check(EVP_DigestInit_ex2(md, sha256_md, NULL) == 1 && EVP_DigestUpdate(md, a, a_len) == 1 &&
              EVP_DigestUpdate(md, b, b_len) == 1 && EVP_DigestFinal_ex(md, out, NULL) == 1);
}

static void hmac(EVP_MD_CTX *md, const void *key, size_t key_len, const void *data, size_t len,
                 unsigned char out[static SHA256_LEN])
{
    unsigned char pad[BLOCK] = {0}, inner[SHA256_LEN];

    if (key_len > BLOCK)
        digest(md, key, key_len, "", 0, pad);
    else
        memcpy(pad, key, key_len);
    for (int i = 0; i < BLOCK; i++)
        pad[i] ^= 0x36;
    digest(md, pad, BLOCK, data, len, inner);
    for (int i = 0; i < BLOCK; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    digest(md, pad, BLOCK, inner, sizeof(inner), out);
    explicit_bzero(pad, sizeof(pad));
}

static void hmac_str(EVP_MD_CTX *md, const unsigned char key[static SHA256_LEN], const char *s,
                     size_t len, unsigned char out[static SHA256_LEN])
{
    hmac(md, key, SHA256_LEN, s, len, out);
}

static void stamp_at(struct sigv4_signer *sg, int64_t now)
{
    time_t t = (time_t)now;
    struct tm tm;

    if (sg->second == now)
        return;
    dlc_check(gmtime_r(&t, &tm) != NULL && strftime(sg->stamp, sizeof(sg->stamp), "%Y%m%dT%H%M%SZ",
                                                    &tm) == sizeof(sg->stamp) - 1);
    sg->second = now;
}

/* Is sg->scope "YYYYMMDD/region/service/aws4_request" of these? */
static bool scope_is(const struct sigv4_signer *sg, const char *region, const char *service)
{
    size_t r = strlen(region), v = strlen(service);
    const char *s = sg->scope.data;

    return sg->scope.len == 8 + 1 + r + 1 + v + sizeof("/aws4_request") - 1 &&
           memcmp(s, sg->stamp, 8) == 0 && memcmp(s + 9, region, r) == 0 && s[9 + r] == '/' &&
           memcmp(s + 10 + r, service, v) == 0;
}

/* Bring sg->scope and sg->key up to date. */
static void derive_key(struct sigv4_signer *sg, const char *secret, const char *region,
                       const char *service)
{
    unsigned char k[SHA256_LEN];
    size_t len = strlen(secret);

    if (scope_is(sg, region, service) && sg->secret.len == 4 + len &&
        memcmp(sg->secret.data + 4, secret, len) == 0)
        return;
    secret_buf_release(&sg->secret);
    buf_reserve(&sg->secret, 4 + len);
    buf_add(&sg->secret, "AWS4", 4);
    buf_add(&sg->secret, secret, len);
    buf_clear(&sg->scope);
    buf_addf(&sg->scope, "%.8s/%s/%s/aws4_request", sg->stamp, region, service);

    hmac(sg->md, sg->secret.data, sg->secret.len, sg->stamp, 8, k);
    hmac_str(sg->md, k, region, strlen(region), k);
    hmac_str(sg->md, k, service, strlen(service), k);
    hmac_str(sg->md, k, "aws4_request", sizeof("aws4_request") - 1, sg->key);
    explicit_bzero(k, sizeof(k));
}

static void header_insert(struct header_set *s, const char *name, const char *value)
{
    size_t i = s->n++;

    for (; i > 0 && strcmp(s->h[i - 1].name, name) > 0; i--)
        s->h[i] = s->h[i - 1];
    s->h[i] = (struct sigv4_header){name, value};
}

/* The value without blanks around it and with one for several inside. */
static void add_value(struct buf *b, const char *v)
{
    bool blank = false;

    if (strpbrk(v, " \t") == NULL) {
        buf_adds(b, v);
        return;
    }
    for (v += strspn(v, " \t"); *v != '\0'; v++) {
        if (*v == ' ' || *v == '\t') {
            blank = true;
            continue;
        }
        if (blank)
            buf_addc(b, ' ');
        blank = false;
        buf_addc(b, *v);
    }
}

static void add_names(struct buf *b, const struct header_set *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (i > 0)
            buf_addc(b, ';');
        buf_adds(b, s->h[i].name);
    }
}

static void canonical_request(struct buf *b, const struct header_set *s, const char *method,
                              const char *path, const char *query, const char *payload_hash)
{
    buf_clear(b);
    buf_adds(b, method);
    buf_addc(b, '\n');
    buf_adds(b, path);
    buf_addc(b, '\n');
    buf_adds(b, query);
    buf_addc(b, '\n');
    for (size_t i = 0; i < s->n; i++) {
        buf_adds(b, s->h[i].name);
        buf_addc(b, ':');
        add_value(b, s->h[i].value);
        buf_addc(b, '\n');
    }
    buf_addc(b, '\n');
    add_names(b, s);
    buf_addc(b, '\n');
    buf_adds(b, payload_hash);
}

/* From the canonical request in sg->canonical, which it overwrites, to the signature in hex. */
static void signature(struct sigv4_signer *sg, char hex[static 2 * SHA256_LEN + 1])
{
    struct buf *b = &sg->canonical;
    unsigned char hash[SHA256_LEN];

    digest(sg->md, b->data, b->len, "", 0, hash);
    str_hex(hash, sizeof(hash), hex);
    buf_clear(b);
    buf_add(b, "AWS4-HMAC-SHA256\n", 17);
    buf_add(b, sg->stamp, sizeof(sg->stamp) - 1);
    buf_addc(b, '\n');
    buf_add(b, sg->scope.data, sg->scope.len);
    buf_addc(b, '\n');
    buf_add(b, hex, sizeof(hash) * 2);
    hmac_str(sg->md, sg->key, b->data, b->len, hash);
    str_hex(hash, sizeof(hash), hex);
}

static void add_line(struct buf *out, const char *name, const char *value)
{
    buf_adds(out, name);
    buf_add(out, ": ", 2);
    buf_adds(out, value);
    buf_addc(out, '\n');
}

void sigv4_sign(struct sigv4_signer *sg, const struct credentials *c, const char *region,
                const char *service, int64_t now, const char *method, const char *host,
                const char *path, const char *query, const struct sigv4_header *extra,
                size_t n_extra, const char *payload_hash, struct buf *out)
{
    char hex[2 * SHA256_LEN + 1];
    struct header_set set = {.n = 0};

    dlc_check(n_extra <= SIGV4_EXTRA_MAX);
    if (payload_hash == NULL)
        payload_hash = EMPTY_SHA256;
    stamp_at(sg, now);
    derive_key(sg, c->secret_key, region, service);

    header_insert(&set, "host", host);
    header_insert(&set, "x-amz-content-sha256", payload_hash);
    header_insert(&set, "x-amz-date", sg->stamp);
    if (c->session_token != NULL)
        header_insert(&set, "x-amz-security-token", c->session_token);
    for (size_t i = 0; i < n_extra; i++)
        header_insert(&set, extra[i].name, extra[i].value);
    canonical_request(&sg->canonical, &set, method, path, query, payload_hash);
    signature(sg, hex);

    add_line(out, "x-amz-content-sha256", payload_hash);
    add_line(out, "x-amz-date", sg->stamp);
    if (c->session_token != NULL)
        add_line(out, "x-amz-security-token", c->session_token);
    buf_adds(out, "authorization: AWS4-HMAC-SHA256 Credential=");
    buf_adds(out, c->access_key);
    buf_addc(out, '/');
    buf_add(out, sg->scope.data, sg->scope.len);
    buf_adds(out, ", SignedHeaders=");
    add_names(out, &set);
    buf_adds(out, ", Signature=");
    buf_add(out, hex, sizeof(hex) - 1);
    buf_addc(out, '\n');
}
