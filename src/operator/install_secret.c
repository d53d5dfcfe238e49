// SPDX-License-Identifier: Apache-2.0
#include "operator/install_secret.h"

#include <string.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/api_token.h"
#include "operator/reconcile/manifest.h"

#define BYTES 32
#define REDIS "dlcache-redis:6379"

static void random_bytes(unsigned char out[static BYTES])
{
    dlc_check(RAND_bytes(out, BYTES) == 1);
}

/* As the manager makes them: "dlc_" and 32 bytes in base64url. Gives. */
static char *new_token(void)
{
    unsigned char bytes[BYTES];
    struct buf b = BUF_INIT;
    char *token;

    random_bytes(bytes);
    str_base64(bytes, sizeof(bytes), &b);
    for (char *s = b.data; *s != '\0'; s++)
        *s = *s == '+' ? '-' : *s == '/' ? '_' : *s;
    token = mem_fmt("dlc_%.*s", (int)strcspn(b.data, "="), b.data);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    OPENSSL_cleanse(b.data, b.cap);
    buf_release(&b);
    return token;
}

static char *new_hex(void)
{
    unsigned char bytes[BYTES];
    char *hex = mem_alloc(2 * BYTES + 1);

    random_bytes(bytes);
    str_hex(bytes, sizeof(bytes), hex);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return hex;
}

static bool has(const json_t *secret, const char *key)
{
    return json_string_length(json_object_get(json_object_get(secret, "data"), key)) > 0;
}

/* Takes and wipes text. */
static void put(json_t *into, const char *key, char *text)
{
    json_object_set_new(into, key, json_string(text));
    secret_free(&text);
}

static void put_store(json_t *into)
{
    char *password = new_hex();

    put(into, "store", mem_fmt("redis://:%s@" REDIS, password));
    put(into, "redis.conf", mem_fmt("requirepass %s\n", password));
    secret_free(&password);
}

static json_t *what_is_missing(const json_t *have)
{
    static const char *const tokens[] = {"admin.token", "node.token"};
    json_t *texts = json_object();

    for (size_t i = 0; i < DLC_COUNT(tokens); i++) {
        if (!has(have, tokens[i]))
            put(texts, tokens[i], new_token());
    }
    if (!has(have, "manager.key"))
        put(texts, "manager.key", new_hex());
    if (!has(have, "store"))
        put_store(texts);
    return texts;
}

json_t *bootstrap_secret(const char *ns, const json_t *have)
{
    json_t *texts = what_is_missing(have);
    const json_t *version = json_at(have, "metadata.resourceVersion");

    if (json_object_size(texts) == 0) {
        json_decref(texts);
        return NULL;
    }
    if (have != NULL)
        return json_pack("{s:{s:O*}, s:o}", "metadata", "resourceVersion", version, "stringData",
                         texts);
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s, s:s}}, s:s, s:o}", "apiVersion", "v1", "kind",
                     "Secret", "metadata", "name", MANAGER_SECRET, "namespace", ns, "labels",
                     "app.kubernetes.io/name", "dlcache", LABEL_MANAGED, MANAGED_BY, "type",
                     "Opaque", "stringData", texts);
}

char *bootstrap_text(const json_t *secret, const char *key)
{
    const char *b64 = json_string_value(json_object_get(json_object_get(secret, "data"), key));
    struct buf b = BUF_INIT;
    char *text = NULL;

    if (b64 != NULL && str_unbase64(b64, &b) && b.len > 0 && strlen(b.data) == b.len)
        text = mem_str(str_trim(b.data));
    if (b.data != NULL)
        OPENSSL_cleanse(b.data, b.cap);
    buf_release(&b);
    return text;
}
