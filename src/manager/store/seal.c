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
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/file_stamp.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/secret_memory.h"
#include "base/syscalls.h"
#include "base/str.h"

#define KEY_LEN    32
#define NONCE_LEN  12
#define TAG_LEN    16
#define SEALED_MAX (1 << 20)
#define KEY_ENV    "DLCACHE_MANAGER_KEY"
#define FILE_MAX   4096
#define SEPARATORS " \t\r\n,"

#define SECRETS_TAG DLC_TAG4('s', 'c', 'r', 't')

struct ring_key {
    unsigned char key[KEY_LEN], mac_key[SHA256_LEN];
    char id[SEAL_KEY_ID_LEN + 1];
};

struct ring {
    struct ring_key keys[SEAL_KEYS_MAX]; /* in the order of the source */
    size_t n;
    size_t sealing; /* which of them seals */
};

struct seal {
    uint32_t tag;
    char *source; /* path of the file, or the variable's name */
    bool from_file;
    struct file_stamp stamp; /* the thread's that reloads */
    struct dlc_mtx mtx;      /* rank LCK_seal */
    struct ring *ring;       /* G: mtx */
};

/* ---- the keys ---- */

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

static const struct ring_key *ring_find(const struct ring *r, const char *id)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->keys[i].id, id) == 0)
            return &r->keys[i];
    return NULL;
}

/* HKDF-SHA-256 (RFC 5869) without salt, for one block: what authenticates does not encrypt. */
static void derive_mac_key(struct ring_key *k)
{
    static const unsigned char salt[SHA256_LEN];
    static const char info[] = "dlcache record authentication\1"; /* the number of the block */
    unsigned char prk[SHA256_LEN];

    hmac_sha256(salt, sizeof(salt), k->key, KEY_LEN, prk);
    hmac_sha256(prk, sizeof(prk), info, sizeof(info) - 1, k->mac_key);
    OPENSSL_cleanse(prk, sizeof(prk));
}

/* Cuts the text into its keys. */
static int ring_parse(struct ring *r, char *text, const char *source, struct dlc_err *err)
{
    unsigned char hash[SHA256_LEN];
    char *rest = NULL;

    memset(r, 0, sizeof(*r));
    for (char *word = strtok_r(text, SEPARATORS, &rest); word != NULL;
         word = strtok_r(NULL, SEPARATORS, &rest)) {
        struct ring_key *k = &r->keys[r->n];

        if (r->n == SEAL_KEYS_MAX)
            return dlc_err_set(err, DLC_EINVAL, "%s holds more than %d keys: remove old ones",
                               source, SEAL_KEYS_MAX);
        if (!parse_key(word, k->key))
            return dlc_err_set(err, DLC_EINVAL,
                               "%s: key %zu is not a key: write 64 hexadecimal digits or 32 bytes "
                               "in base64",
                               source, r->n + 1);
        hmac_sha256(k->key, KEY_LEN, "dlcache key id", 14, hash);
        str_hex(hash, SEAL_KEY_ID_LEN / 2, k->id);
        derive_mac_key(k);
        if (ring_find(r, k->id) != NULL)
            return dlc_err_set(err, DLC_EINVAL, "%s holds key %s twice: remove one", source, k->id);
        r->n++;
    }
    return r->n > 0 ? 0
                    : dlc_err_set(err, DLC_EINVAL,
                                  "%s holds no key: 64 hexadecimal digits or 32 bytes in base64",
                                  source);
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

static int read_key_file(const char *path, struct ring *out, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    int rc = check_mode(path, err);

    buf_reserve(&b, FILE_MAX + 1); /* growing would leave copies of a key behind */
    if (rc == 0)
        rc = os_read_file(path, FILE_MAX, &b, err);
    if (rc == 0) {
        buf_addc(&b, '\n');
        rc = ring_parse(out, b.data, path, err);
    }
    wipe_buf(&b);
    return rc;
}

static int load_file(struct seal *s, const char *dir, struct dlc_err *err)
{
    int rc = 0;

    s->from_file = true;
    s->source = mem_fmt("%s/manager.key", dir);
    if (os_access(s->source, F_OK) < 0 && errno == ENOENT)
        rc = make_key_file(s->source, err);
    file_stamp_take(&s->stamp, s->source);
    return rc == 0 ? read_key_file(s->source, s->ring, err) : rc;
}

static int load_env(struct seal *s, const char *env, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    int rc;

    s->source = mem_str(KEY_ENV);
    buf_reserve(&b, strlen(env) + 1);
    buf_adds(&b, env);
    buf_addc(&b, '\n');
    rc = ring_parse(s->ring, b.data, KEY_ENV, err);
    wipe_buf(&b);
    return rc;
}

int seal_open(const char *dir, struct seal **out, struct dlc_err *err)
{
    struct seal *s = mem_new(struct seal);
    const char *env = getenv(KEY_ENV);
    int rc;

    s->tag = SECRETS_TAG;
    s->ring = secret_map(sizeof(*s->ring));
    dlc_mtx_init(&s->mtx, LCK_seal);
    rc = env != NULL ? load_env(s, env, err) : load_file(s, dir, err);
    if (rc < 0)
        seal_close(&s);
    *out = s;
    return rc;
}

void seal_close(struct seal **sp)
{
    struct seal *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    dlc_check(s->tag == SECRETS_TAG);
    mem_free(&s->source);
    dlc_mtx_release(&s->mtx);
    secret_unmap((void **)&s->ring, sizeof(*s->ring));
    s->tag = 0;
    mem_free(&s);
}

int seal_reload(struct seal *s, struct dlc_err *err)
{
    char sealing[SEAL_KEY_ID_LEN + 1];
    const struct ring_key *kept;
    struct ring *fresh;
    int rc;

    if (!s->from_file || !file_stamp_take(&s->stamp, s->source))
        return 0;
    fresh = secret_map(sizeof(*fresh));
    rc = read_key_file(s->source, fresh, err);
    seal_key_id(s, sealing);
    kept = rc == 0 ? ring_find(fresh, sealing) : NULL;
    if (rc == 0 && kept == NULL)
        rc = dlc_err_set(err, DLC_EDENIED,
                         "%s lacks key %s, which seals the records of the store: put it back, and "
                         "run `dlcache manager rekey` before it is removed",
                         s->source, sealing);
    if (rc == 0) {
        fresh->sealing = (size_t)(kept - fresh->keys);
        dlc_mtx_lock(&s->mtx);
        *s->ring = *fresh;
        dlc_mtx_unlock(&s->mtx);
    }
    secret_unmap((void **)&fresh, sizeof(*fresh));
    return rc == 0 ? 1 : rc;
}

const char *seal_source(const struct seal *s)
{
    return s->source;
}

/* ---- which key ---- */

/* The ring belongs to the seal, which is const for those that only use it. */
static struct ring *ring_lock(const struct seal *s)
{
    struct seal *own = (struct seal *)(uintptr_t)s;

    dlc_check(s->tag == SECRETS_TAG);
    dlc_mtx_lock(&own->mtx);
    return own->ring;
}

static void ring_unlock(const struct seal *s)
{
    dlc_mtx_unlock(&((struct seal *)(uintptr_t)s)->mtx);
}

/* A copy of the key with this id, NULL: of the one that seals. The caller wipes it. */
static bool key_copy(const struct seal *s, const char *id, struct ring_key *out)
{
    const struct ring *r = ring_lock(s);
    const struct ring_key *k = id != NULL ? ring_find(r, id) : &r->keys[r->sealing];

    if (k != NULL)
        *out = *k;
    ring_unlock(s);
    return k != NULL;
}

void seal_key_id(const struct seal *s, char out[static SEAL_KEY_ID_LEN + 1])
{
    const struct ring *r = ring_lock(s);

    memcpy(out, r->keys[r->sealing].id, SEAL_KEY_ID_LEN + 1);
    ring_unlock(s);
}

void seal_first_id(const struct seal *s, char out[static SEAL_KEY_ID_LEN + 1])
{
    const struct ring *r = ring_lock(s);

    memcpy(out, r->keys[0].id, SEAL_KEY_ID_LEN + 1);
    ring_unlock(s);
}

size_t seal_key_ids(const struct seal *s, char out[static SEAL_KEYS_MAX][SEAL_KEY_ID_LEN + 1])
{
    const struct ring *r = ring_lock(s);
    size_t n = r->n;

    for (size_t i = 0; i < n; i++)
        memcpy(out[i], r->keys[i].id, SEAL_KEY_ID_LEN + 1);
    ring_unlock(s);
    return n;
}

bool seal_use(struct seal *s, const char *id)
{
    struct ring *r = ring_lock(s);
    const struct ring_key *k = ring_find(r, id);

    if (k != NULL)
        r->sealing = (size_t)(k - r->keys);
    ring_unlock(s);
    return k != NULL;
}

/* ---- seal and open ---- */

json_t *seal_text(const struct seal *s, const char *owner, const char *text)
{
    struct ring_key k;
    size_t len = strlen(text);
    unsigned char *out = mem_alloc(NONCE_LEN + len + TAG_LEN);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    struct buf b64 = BUF_INIT;
    json_t *sealed;
    int n = 0, m = 0;
    bool ok;

    dlc_check(s->tag == SECRETS_TAG && len <= SEALED_MAX && key_copy(s, NULL, &k));
    ok = ctx != NULL && RAND_bytes(out, NONCE_LEN) == 1 &&
         EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, k.key, out) == 1 &&
         EVP_EncryptUpdate(ctx, NULL, &n, (const unsigned char *)owner, (int)strlen(owner)) == 1 &&
         EVP_EncryptUpdate(ctx, out + NONCE_LEN, &n, (const unsigned char *)text, (int)len) == 1 &&
         EVP_EncryptFinal_ex(ctx, out + NONCE_LEN + n, &m) == 1 &&
         EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_LEN, out + NONCE_LEN + len) == 1;
    dlc_check(ok); /* nothing but a broken OpenSSL fails here, and clear text may not leave */
    EVP_CIPHER_CTX_free(ctx);
    str_base64(out, NONCE_LEN + len + TAG_LEN, &b64);
    sealed = json_pack("{s:s, s:s, s:s}", "key", k.id, "owner", owner, "sealed", buf_str(&b64));
    OPENSSL_cleanse(&k, sizeof(k));
    buf_release(&b64);
    mem_free(&out);
    return sealed;
}

/* Gives the text, or NULL when a bit of it, of the owner or of the key differs. */
static char *open_bytes(const struct ring_key *k, const char *owner, const unsigned char *in,
                        size_t in_len)
{
    size_t len = in_len - NONCE_LEN - TAG_LEN;
    unsigned char tag[TAG_LEN];
    char *text = mem_alloc(len + 1);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n = 0, m = 0;
    bool ok;

    memcpy(tag, in + NONCE_LEN + len, TAG_LEN);
    ok = ctx != NULL && EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, k->key, in) == 1 &&
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
    struct ring_key k;
    int rc = 0;

    *out = NULL;
    if (key == NULL || b64 == NULL || !str_unbase64(b64, &b) || b.len < NONCE_LEN + TAG_LEN ||
        b.len > SEALED_MAX + NONCE_LEN + TAG_LEN)
        rc = dlc_err_set(err, DLC_ECORRUPT, "what is stored as a secret of %s is none", owner);
    else if (!key_copy(s, key, &k))
        rc =
            dlc_err_set(err, DLC_EDENIED,
                        "a secret of %s was encrypted with key %.16s, which %s does not hold: give "
                        "the manager the old key, or set the secret again",
                        owner, key, s->source);
    else if ((*out = open_bytes(&k, owner, (const unsigned char *)b.data, b.len)) == NULL)
        rc = dlc_err_set(err, DLC_ECORRUPT,
                         "a secret of %s does not decrypt: it was changed, or belongs to another; "
                         "set it again",
                         owner);
    OPENSSL_cleanse(&k, sizeof(k));
    buf_release(&b);
    return rc;
}

/* ---- authentication ---- */

void seal_mac(const struct seal *s, const void *data, size_t len,
              char key[static SEAL_KEY_ID_LEN + 1], unsigned char mac[static SEAL_MAC_LEN])
{
    struct ring_key k;

    dlc_check(key_copy(s, NULL, &k));
    memcpy(key, k.id, SEAL_KEY_ID_LEN + 1);
    hmac_sha256(k.mac_key, sizeof(k.mac_key), data, len, mac);
    OPENSSL_cleanse(&k, sizeof(k));
}

int seal_check_mac(const struct seal *s, const void *data, size_t len, const char *key,
                   const unsigned char mac[static SEAL_MAC_LEN])
{
    unsigned char own[SHA256_LEN];
    struct ring_key k;

    if (!key_copy(s, key, &k))
        return DLC_EDENIED;
    hmac_sha256(k.mac_key, sizeof(k.mac_key), data, len, own);
    OPENSSL_cleanse(&k, sizeof(k));
    return CRYPTO_memcmp(own, mac, sizeof(own)) == 0 ? 0 : DLC_ECORRUPT;
}

/* ---- all sealed texts of a value ---- */

static const char *sealed_by(const json_t *v)
{
    return json_is_string(json_object_get(v, "sealed"))
               ? json_string_value(json_object_get(v, "key"))
               : NULL;
}

/* 1: another key had sealed it. */
static int seal_one_again(const struct seal *s, json_t *sealed, struct dlc_err *err)
{
    const char *owner = json_string_value(json_object_get(sealed, "owner"));
    char now[SEAL_KEY_ID_LEN + 1], *text = NULL;
    json_t *fresh;
    int rc;

    seal_key_id(s, now);
    if (strcmp(sealed_by(sealed), now) == 0)
        return 0;
    rc = unseal_text(s, owner != NULL ? owner : "", sealed, &text, err);
    if (rc < 0)
        return rc;
    fresh = seal_text(s, owner, text);
    secret_wipe(&text);
    json_object_update(sealed, fresh);
    json_decref(fresh);
    return 1;
}

int seal_again(const struct seal *s, json_t *value, struct dlc_err *err)
{
    int n = 0, rc = 0;
    const char *name;
    json_t *v;
    size_t i;

    if (sealed_by(value) != NULL)
        return seal_one_again(s, value, err);
    json_object_foreach(value, name, v)
    {
        rc = rc < 0 ? rc : seal_again(s, v, err);
        n += rc > 0 ? rc : 0;
    }
    json_array_foreach(value, i, v)
    {
        rc = rc < 0 ? rc : seal_again(s, v, err);
        n += rc > 0 ? rc : 0;
    }
    return rc < 0 ? rc : n;
}

void seal_each_key(const json_t *value, void (*each)(const char *id, void *arg), void *arg)
{
    const char *name;
    json_t *v;
    size_t i;

    if (sealed_by(value) != NULL) {
        each(sealed_by(value), arg);
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)value, name, v) seal_each_key(v, each, arg);
    json_array_foreach(value, i, v) seal_each_key(v, each, arg);
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
