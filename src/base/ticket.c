// SPDX-License-Identifier: Apache-2.0
#include "base/ticket.h"

#include <endian.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>

#include "base/check.h"
#include "base/str.h"

#define VERSION   1
#define SIGNATURE 64
#define DOMAIN    "dlcache ticket" /* no other thing that is signed begins so */

/* ---- its bytes ---- */

static void add_name(struct buf *b, const char *name)
{
    size_t len = strlen(name);

    dlc_check(len <= TICKET_NAME_MAX);
    buf_addc(b, (char)len);
    buf_add(b, name, len);
}

/* Gives false when there is none. */
static bool take_name(const unsigned char **p, const unsigned char *end,
                      char out[static TICKET_NAME_MAX + 1])
{
    size_t len = *p < end ? *(*p)++ : TICKET_NAME_MAX + 1;

    if (len > TICKET_NAME_MAX || len > (size_t)(end - *p))
        return false;
    memcpy(out, *p, len);
    out[len] = '\0';
    *p += len;
    return len == strlen(out);
}

static bool parse_bytes(const unsigned char *p, const unsigned char *end, struct ticket *out)
{
    uint64_t expires;

    if ((size_t)(end - p) < 1 + sizeof(expires) || *p++ != VERSION)
        return false;
    memcpy(&expires, p, sizeof(expires));
    p += sizeof(expires);
    expires = be64toh(expires);
    out->expires_ms = (int64_t)expires;
    return expires <= INT64_MAX && take_name(&p, end, out->dataset) &&
           take_name(&p, end, out->tenant) && take_name(&p, end, out->node) && p == end &&
           str_is_name(out->dataset) && str_is_name(out->node) &&
           (out->tenant[0] == '\0' || str_is_name(out->tenant));
}

/* Gives the bytes that are signed, with DOMAIN, and after them the signature. */
static int decode(const char *text, struct buf *b, struct ticket *out, struct dlc_err *err)
{
    const size_t domain = strlen(DOMAIN);
    const unsigned char *p;

    buf_adds(b, DOMAIN);
    if (strlen(text) > TICKET_TEXT_MAX || !str_starts(text, TICKET_PREFIX) ||
        !str_unbase64(text + strlen(TICKET_PREFIX), b) || b->len < domain + SIGNATURE)
        return dlc_err_set(err, DLC_EPROTO, "this is not a ticket");
    p = (const unsigned char *)b->data;
    if (!parse_bytes(p + domain, p + b->len - SIGNATURE, out))
        return dlc_err_set(err, DLC_EPROTO, "this is not a ticket of a version that we know");
    return 0;
}

int ticket_parse(const char *text, struct ticket *out, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    int rc = decode(text, &b, out, err);

    buf_release(&b);
    return rc;
}

/* ---- signatures ---- */

void ticket_sign(struct evp_pkey_st *pair, const struct ticket *t, struct buf *out)
{
    uint64_t expires = htobe64((uint64_t)t->expires_ms);
    const size_t domain = strlen(DOMAIN);
    unsigned char signature[SIGNATURE];
    size_t len = sizeof(signature);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    struct buf b = BUF_INIT;

    buf_adds(&b, DOMAIN);
    buf_addc(&b, VERSION);
    buf_add(&b, &expires, sizeof(expires));
    add_name(&b, t->dataset);
    add_name(&b, t->tenant);
    add_name(&b, t->node);
    dlc_check(ctx != NULL && EVP_DigestSignInit(ctx, NULL, NULL, NULL, pair) == 1 &&
              EVP_DigestSign(ctx, signature, &len, (const unsigned char *)b.data, b.len) == 1 &&
              len == SIGNATURE);
    EVP_MD_CTX_free(ctx);
    buf_add(&b, signature, SIGNATURE);
    buf_adds(out, TICKET_PREFIX);
    str_base64(b.data + domain, b.len - domain, out);
    buf_release(&b);
}

void ticket_key_of(struct evp_pkey_st *pair, struct ticket_key *out)
{
    size_t len = sizeof(out->bytes);

    dlc_check(EVP_PKEY_get_raw_public_key(pair, out->bytes, &len) == 1 && len == TICKET_KEY_LEN);
}

static bool is_signed(const struct ticket_key *key, const struct buf *b)
{
    const unsigned char *p = (const unsigned char *)b->data;
    EVP_PKEY *public =
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key->bytes, sizeof(key->bytes));
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good;

    dlc_check(ctx != NULL);
    good = public != NULL && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, public) == 1 &&
           EVP_DigestVerify(ctx, p + b->len - SIGNATURE, SIGNATURE, p, b->len - SIGNATURE) == 1;
    ERR_clear_error();
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(public);
    return good;
}

int ticket_check(const char *text, const struct ticket_key *keys, size_t n, struct ticket *out,
                 struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    int rc = decode(text, &b, out, err);
    bool good = false;

    for (size_t i = n; rc == 0 && !good && i-- > 0;) /* the newest signs */
        good = is_signed(&keys[i], &b);
    if (rc == 0 && !good)
        rc = dlc_err_set(err, DLC_EDENIED, "no manager of this cluster signed this ticket");
    buf_release(&b);
    return rc;
}
