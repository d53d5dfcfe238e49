// SPDX-License-Identifier: Apache-2.0
/*
 * Format of a sealed text: base64(nonce[12] | ciphertext | tag[16]). The nonce is random: at one
 * write a second it would take more than a century until two of them are equal with a chance of one
 * in 2^32.
 */
#include "manager/store/seal.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"

#define KEY_LEN    32
#define NONCE_LEN  12
#define TAG_LEN    16
#define SEALED_MAX (1 << 20)
#define KEY_ENV    "DLCACHE_MANAGER_KEY"

#define SECRETS_TAG DLC_TAG4('s', 'c', 'r', 't')

struct seal {
    uint32_t tag;
    unsigned char key[KEY_LEN];
    char id[17];
    char *source;
};

/* ---- the key ---- */

static void wipe_buf(struct buf *b)
{
    if (b->data != NULL)
        OPENSSL_cleanse(b->data, b->cap);
    buf_release(b);
}

/* 64 hexadecimal digits, or base64 of 32 bytes. */
static bool parse_key(const char *text, unsigned char key[static KEY_LEN])
{
    struct buf b = BUF_INIT;
    bool ok;

    if (strlen(text) == 2 * KEY_LEN && str_unhex(text, 2 * KEY_LEN, key))
        return true;
    ok = str_unbase64(text, &b) && b.len == KEY_LEN;
    if (ok)
        memcpy(key, b.data, KEY_LEN);
    wipe_buf(&b);
    return ok;
}

static int make_key_file(const char *path, struct dlc_err *err)
{
    unsigned char key[KEY_LEN];
    char text[2 * KEY_LEN + 2];
    int rc;

    if (RAND_bytes(key, sizeof(key)) != 1)
        return dlc_err_set(err, DLC_EIO, "no random bytes for a key");
    str_hex(key, sizeof(key), text);
    text[2 * KEY_LEN] = '\n';
    rc = os_write_file(path, text, 2 * KEY_LEN + 1, 0600, err);
    OPENSSL_cleanse(key, sizeof(key));
    OPENSSL_cleanse(text, sizeof(text));
    return rc;
}

static int check_mode(const char *path, struct dlc_err *err)
{
    struct stat st;

    if (os_stat(path, &st) < 0)
        return dlc_err_sys(err, "%s", path);
    if ((st.st_mode & 077) != 0)
        return dlc_err_set(err, DLC_EDENIED,
                           "%s can be read by others (mode %03o): chmod 600 it, or make a new key",
                           path, (unsigned)(st.st_mode & 0777));
    return 0;
}

static int load_key_file(struct seal *s, const char *dir, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    int rc = 0;

    s->source = mem_fmt("%s/manager.key", dir);
    if (os_access(s->source, F_OK) < 0 && errno == ENOENT)
        rc = make_key_file(s->source, err);
    if (rc == 0)
        rc = check_mode(s->source, err);
    if (rc == 0)
        rc = os_read_file(s->source, 4096, &b, err);
    if (rc == 0 && (b.len == 0 || !parse_key(str_trim(b.data), s->key)))
        rc = dlc_err_set(err, DLC_EINVAL,
                         "%s holds no key: 64 hexadecimal digits or 32 bytes in base64", s->source);
    wipe_buf(&b);
    return rc;
}

int seal_open(const char *dir, struct seal **out, struct dlc_err *err)
{
    struct seal *s = mem_new(struct seal);
    const char *env = getenv(KEY_ENV);
    unsigned char hash[SHA256_LEN];
    int rc = 0;

    s->tag = SECRETS_TAG;
    if (env == NULL) {
        rc = load_key_file(s, dir, err);
    } else {
        s->source = mem_str(KEY_ENV);
        if (!parse_key(env, s->key))
            rc = dlc_err_set(err, DLC_EINVAL,
                             KEY_ENV
                             " is not a key: write 64 hexadecimal digits or 32 bytes in base64");
    }
    if (rc < 0) {
        seal_close(&s);
        return rc;
    }
    hmac_sha256(s->key, KEY_LEN, "dlcache key id", 14, hash);
    str_hex(hash, 8, s->id);
    *out = s;
    return 0;
}

void seal_close(struct seal **sp)
{
    struct seal *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    dlc_check(s->tag == SECRETS_TAG);
    mem_free(&s->source);
    OPENSSL_cleanse(s, sizeof(*s));
    mem_free(&s);
}

const char *seal_key_id(const struct seal *s)
{
    return s->id;
}

const char *seal_source(const struct seal *s)
{
    return s->source;
}

/* ---- seal and open ---- */

json_t *seal_text(const struct seal *s, const char *owner, const char *text)
{
    size_t len = strlen(text);
    unsigned char *out = mem_alloc(NONCE_LEN + len + TAG_LEN);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    struct buf b64 = BUF_INIT;
    json_t *sealed;
    int n = 0, m = 0;
    bool ok;

    dlc_check(s->tag == SECRETS_TAG && len <= SEALED_MAX);
    ok = ctx != NULL && RAND_bytes(out, NONCE_LEN) == 1 &&
         EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, s->key, out) == 1 &&
         EVP_EncryptUpdate(ctx, NULL, &n, (const unsigned char *)owner, (int)strlen(owner)) == 1 &&
         EVP_EncryptUpdate(ctx, out + NONCE_LEN, &n, (const unsigned char *)text, (int)len) == 1 &&
         EVP_EncryptFinal_ex(ctx, out + NONCE_LEN + n, &m) == 1 &&
         EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_LEN, out + NONCE_LEN + len) == 1;
    dlc_check(ok); /* nothing but a broken OpenSSL fails here, and clear text may not leave */
    EVP_CIPHER_CTX_free(ctx);
    str_base64(out, NONCE_LEN + len + TAG_LEN, &b64);
    sealed = json_pack("{s:s, s:s}", "key", s->id, "sealed", buf_str(&b64));
    buf_release(&b64);
    mem_free(&out);
    return sealed;
}

/* Gives the text, or NULL when a bit of it, of the owner or of the key differs. */
static char *open_bytes(const struct seal *s, const char *owner, const unsigned char *in,
                        size_t in_len)
{
    size_t len = in_len - NONCE_LEN - TAG_LEN;
    unsigned char tag[TAG_LEN];
    char *text = mem_alloc(len + 1);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n = 0, m = 0;
    bool ok;

    memcpy(tag, in + NONCE_LEN + len, TAG_LEN);
    ok = ctx != NULL && EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, s->key, in) == 1 &&
         EVP_DecryptUpdate(ctx, NULL, &n, (const unsigned char *)owner, (int)strlen(owner)) == 1 &&
         EVP_DecryptUpdate(ctx, (unsigned char *)text, &n, in + NONCE_LEN, (int)len) == 1 &&
         EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_LEN, tag) == 1 &&
         EVP_DecryptFinal_ex(ctx, (unsigned char *)text + n, &m) == 1;
    EVP_CIPHER_CTX_free(ctx);
    text[len] = '\0';
    if (!ok) {
        OPENSSL_cleanse(text, len + 1);
        mem_free(&text);
    }
    return text;
}

int unseal_text(const struct seal *s, const char *owner, const json_t *sealed, char **out,
                struct dlc_err *err)
{
    const char *key = json_string_value(json_object_get(sealed, "key"));
    const char *b64 = json_string_value(json_object_get(sealed, "sealed"));
    struct buf b = BUF_INIT;
    int rc = 0;

    dlc_check(s->tag == SECRETS_TAG);
    *out = NULL;
    if (key == NULL || b64 == NULL || !str_unbase64(b64, &b) || b.len < NONCE_LEN + TAG_LEN ||
        b.len > SEALED_MAX + NONCE_LEN + TAG_LEN)
        rc = dlc_err_set(err, DLC_ECORRUPT, "what is stored as a secret of %s is none", owner);
    else if (strcmp(key, s->id) != 0)
        rc = dlc_err_set(
            err, DLC_EDENIED,
            "a secret of %s was encrypted with key %.16s, but %s holds key %s: give the "
            "manager the old key, or set the secret again",
            owner, key, s->source, s->id);
    else if ((*out = open_bytes(s, owner, (const unsigned char *)b.data, b.len)) == NULL)
        rc = dlc_err_set(err, DLC_ECORRUPT,
                         "a secret of %s does not decrypt: it was changed, or belongs to another; "
                         "set it again",
                         owner);
    buf_release(&b);
    return rc;
}

void secret_wipe(char **text)
{
    if (*text != NULL)
        OPENSSL_cleanse(*text, strlen(*text));
    mem_free(text);
}

static void wipe_texts(json_t *j)
{
    const char *key;
    json_t *v;
    size_t i;

    if (json_is_string(j))
        OPENSSL_cleanse((char *)json_string_value(j), json_string_length(j));
    json_object_foreach(j, key, v) wipe_texts(v);
    json_array_foreach(j, i, v) wipe_texts(v);
}

void secret_wipe_json(json_t **j)
{
    if (*j != NULL)
        wipe_texts(*j);
    json_decref(*j);
    *j = NULL;
}
