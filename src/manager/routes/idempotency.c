// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/idempotency.h"

#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/routes/api.h"
#include "manager/routes/route_util.h"
#include "manager/store/wall_time.h"

#define PURGE_AT_ONCE 10000
#define KEY_MAX       255
#define REMEMBERED_MS (INT64_C(24) * 3600 * 1000)
#define ID_LEN        (5 + 2 * SHA256_LEN) /* "idem." and a hash */

static const char *key_of(const struct http_request *r)
{
    return http_header(r, "Idempotency-Key");
}

/* Hash over caller, route and key; its hexadecimal digits with `prefix` before them. */
static void key_hash(const struct http_request *r, const char *prefix, char *out)
{
    const struct caller *who = caller_of(r);
    struct buf b = BUF_INIT;
    unsigned char hash[SHA256_LEN];
    size_t len = strlen(prefix);

    buf_addf(&b, "%d\n%s\n%s\n%s\n%s", (int)who->role, who->tenant, r->method, r->path, key_of(r));
    sha256(b.data, b.len, hash);
    memcpy(out, prefix, len);
    str_hex(hash, sizeof(hash), out + len);
    buf_release(&b);
}

static char *body_hash(const struct http_request *r)
{
    char *text = r->body != NULL ? json_dumps(r->body, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    unsigned char hash[SHA256_LEN];
    char hex[2 * SHA256_LEN + 1];

    sha256(text != NULL ? text : "", text != NULL ? strlen(text) : 0, hash);
    str_hex(hash, sizeof(hash), hex);
    if (text != NULL)
        OPENSSL_cleanse(text, strlen(text)); /* it may hold a secret */
    free(text);
    return mem_str(hex);
}

static bool key_ok(const char *key)
{
    size_t len = strlen(key);

    if (len == 0 || len > KEY_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if (key[i] < 0x21 || key[i] > 0x7e)
            return false;
    return true;
}

/* The remembered answer, into the reply. */
static int give_again(struct api *api, const char *id, const json_t *was, struct http_reply *reply,
                      struct dlc_err *err)
{
    const char *location = json_string_value(json_object_get(was, "location"));
    const char *etag = json_string_value(json_object_get(was, "etag"));
    char *text = NULL;
    int rc = unseal_text(api->seal, id, json_object_get(was, "body"), &text, err);

    if (rc < 0)
        return rc;
    reply->status = (int)json_integer_value(json_object_get(was, "status"));
    reply->body = json_loads(text, JSON_DECODE_ANY, NULL);
    reply->location = mem_str(location);
    reply->etag = mem_str(etag);
    secret_wipe(&text);
    return 0;
}

/* Not there, or so old that it does not count: as if it had never been. */
static bool find(struct api *api, const char *id, struct store_doc *d, int *rc, struct dlc_err *err)
{
    *rc = store_get(api->tables->store, STORE_MANAGER, id, d, err);
    if (*rc == DLC_ENOTFOUND)
        *rc = 0;
    return *rc == 0 && d->body != NULL &&
           json_integer_value(json_object_get(d->body, "until_ms")) > wall_ms();
}

bool idempotency_replay(struct api *api, const struct http_request *r, struct http_reply *reply)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    char id[ID_LEN + 1], *hash = NULL;
    const char *key = key_of(r);
    bool done = true;
    int rc = 0;

    if (key == NULL)
        return false;
    if (!key_ok(key)) {
        http_problem(reply, 400, "Bad Idempotency-Key",
                     "Idempotency-Key must be 1 to %d printable characters", KEY_MAX);
        return true;
    }
    key_hash(r, "idem.", id);
    if (find(api, id, &d, &rc, &err)) {
        const char *was = json_string_value(json_object_get(d.body, "asked"));

        hash = body_hash(r);
        if (was == NULL || strcmp(was, hash) != 0)
            http_problem(reply, 422, "Key used before",
                         "this Idempotency-Key came with another body before; use a new one");
        else
            rc = give_again(api, id, d.body, reply, &err);
    } else {
        done = rc < 0;
    }
    if (rc < 0)
        reply_store_error(api, r, reply, &err);
    mem_free(&hash);
    store_doc_release(&d);
    return done;
}

void idempotency_record(struct api *api, const struct http_request *r,
                        const struct http_reply *reply)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    char id[ID_LEN + 1], *text, *hash;

    if (key_of(r) == NULL || reply->status >= 300)
        return;
    key_hash(r, "idem.", id);
    text = json_dumps(reply->body, JSON_COMPACT | JSON_ENCODE_ANY);
    hash = body_hash(r);
    d.id = id;
    d.tenant = (char *)caller_of(r)->tenant;
    d.body = json_pack("{s:s, s:i, s:I, s:o, s:s*, s:s*}", "asked", hash, "status",
                       reply->status == 0 ? 200 : reply->status, "until_ms",
                       (json_int_t)(wall_ms() + REMEMBERED_MS), "body",
                       seal_text(api->seal, id, text != NULL ? text : "null"), "location",
                       reply->location, "etag", reply->etag);
    if (store_put(api->tables->store, STORE_MANAGER, &d, STORE_ANY, &err) < 0)
        log_warn("an answer was not remembered: %s", err.text);
    json_decref(d.body);
    secret_wipe(&text);
    mem_free(&hash);
}

void idempotency_new_id(const struct http_request *r, char prefix, char out[static 20])
{
    char hex[2 * SHA256_LEN + 1];
    unsigned char random[8];

    if (key_of(r) != NULL) {
        key_hash(r, "", hex);
    } else {
        dlc_check(RAND_bytes(random, sizeof(random)) == 1);
        str_hex(random, sizeof(random), hex);
    }
    snprintf(out, 20, "%c-%.16s", prefix, hex);
}

static bool collect_old(struct store_doc *d, void *arg)
{
    json_t *ids = arg;

    if (str_starts(d->id, "idem.") &&
        json_integer_value(json_object_get(d->body, "until_ms")) <= wall_ms())
        json_array_append_new(ids, json_string(d->id));
    return json_array_size(ids) < PURGE_AT_ONCE;
}

static bool collect_all(struct store_doc *d, void *arg)
{
    if (str_starts(d->id, "idem."))
        json_array_append_new(arg, json_string(d->id));
    return true;
}

static void drop(struct api *api, const char *tenant,
                 bool (*collect)(struct store_doc *d, void *arg))
{
    struct dlc_err err = DLC_ERR_INIT;
    json_t *ids = json_array();

    if (store_each(api->tables->store, STORE_MANAGER, tenant, collect, ids, &err) < 0)
        log_warn("old answers are not forgotten: %s", err.text);
    for (size_t i = 0; i < json_array_size(ids); i++)
        store_delete(api->tables->store, STORE_MANAGER, json_string_value(json_array_get(ids, i)),
                     STORE_ANY, NULL);
    json_decref(ids);
}

void idempotency_purge(struct api *api)
{
    drop(api, NULL, collect_old);
}

void idempotency_forget(struct api *api, const char *tenant)
{
    drop(api, tenant, collect_all);
}
