// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/tenants.h"

#include <string.h>

#include <openssl/crypto.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/routes/api.h"
#include "manager/routes/dataset_fields.h"
#include "manager/routes/idempotency.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/store/seal.h"
#include "manager/store/wall_time.h"
#include "manager/tables/accounting.h"
#include "manager/tables/documents.h"
#include "manager/tables/ended_jobs.h"
#include "manager/tables/event_log.h"
#include "manager/tables/weight_posts.h"

#define GRACE_MAX_S (7 * 24 * 3600)
#define TOKENS_MAX  8 /* of one tenant: the newest, and older ones in their grace */

/* ---- what is shown ---- */

static size_t tokens_alive(const json_t *tokens)
{
    int64_t now = wall_ms();
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(tokens); i++) {
        int64_t until = json_integer_value(json_object_get(json_array_get(tokens, i), "until_ms"));

        n += until == 0 || now < until;
    }
    return n;
}

static json_t *tenant_doc(const struct store_doc *d)
{
    const json_t *secret = json_object_get(d->body, "credentials"), *key;
    json_t *o = json_pack("{s:s, s:I}", "name", d->id, "tokens",
                          (json_int_t)tokens_alive(json_object_get(d->body, "tokens")));

    add_time(o, "created", json_integer_value(json_object_get(d->body, "created_ms")));
    if (secret != NULL) {
        json_t *shown =
            json_pack("{s:b}", "anonymous", json_is_true(json_object_get(secret, "anonymous")));

        key = json_object_get(json_object_get(secret, "sealed"), "key");
        json_object_set(shown, "key", (json_t *)key);
        add_time(shown, "set", json_integer_value(json_object_get(secret, "set_ms")));
        json_object_set_new(o, "credentials", shown);
    } else {
        json_object_set_new(o, "credentials", json_null());
    }
    return o;
}

/* ---- tokens ---- */

/* From now on the store says whose this hash is. Harmless until the tenant's document has it too.
 */
static int point_to(struct api *api, const unsigned char hash[static SHA256_LEN],
                    const char *tenant, struct dlc_err *err)
{
    char id[TOKEN_ID_LEN + 1];
    struct store_doc d = {id, (char *)"", json_pack("{s:s}", "tenant", tenant), 0};
    int rc;

    token_doc_id(hash, id);
    rc = store_put(api->tables->store, STORE_MANAGER, &d, STORE_ANY, err);
    json_decref(d.body);
    return rc;
}

static void forget(struct api *api, const char *hex)
{
    struct dlc_err err = DLC_ERR_INIT;
    char *id = mem_fmt("token.%s", hex);

    if (store_delete(api->tables->store, STORE_MANAGER, id, STORE_ANY, &err) < 0 &&
        err.code != DLC_ENOTFOUND)
        log_warn("an old token's entry stays in the store, without effect: %s", err.text);
    mem_free(&id);
}

/* What point_to() wrote, when the token did not become one after all. */
static void unpoint(struct api *api, const unsigned char hash[static SHA256_LEN])
{
    char hex[2 * SHA256_LEN + 1];

    str_hex(hash, SHA256_LEN, hex);
    forget(api, hex);
}

static void forget_all(struct api *api, const json_t *hashes)
{
    for (size_t i = 0; i < json_array_size(hashes); i++) {
        const json_t *t = json_array_get(hashes, i);
        const char *hex = json_string_value(json_is_object(t) ? json_object_get(t, "hash") : t);

        if (hex != NULL)
            forget(api, hex);
    }
}

static json_t *token_entry(const unsigned char hash[static SHA256_LEN])
{
    char hex[2 * SHA256_LEN + 1];

    str_hex(hash, SHA256_LEN, hex);
    return json_pack("{s:s, s:i}", "hash", hex, "until_ms", 0);
}

struct rotation {
    unsigned char hash[SHA256_LEN];
    uint64_t grace_s;
    json_t *dropped; /* hashes that count no longer */
};

/* The new token first; older ones until their time, at most TOKENS_MAX in all. */
static int rotate(struct store_doc *d, void *arg, struct dlc_err *err)
{
    struct rotation *r = arg;
    json_t *old = json_object_get(d->body, "tokens"), *tokens = json_array();
    int64_t now = wall_ms(), last = now + (int64_t)r->grace_s * 1000;

    (void)err;
    json_array_clear(r->dropped);
    json_array_append_new(tokens, token_entry(r->hash));
    for (size_t i = 0; i < json_array_size(old); i++) {
        json_t *t = json_array_get(old, i), *hash = json_object_get(t, "hash");
        int64_t until = json_integer_value(json_object_get(t, "until_ms"));

        if (until == 0 || until > last)
            until = last;
        if (until <= now || json_array_size(tokens) == TOKENS_MAX)
            json_array_append(r->dropped, hash);
        else
            json_array_append_new(
                tokens, json_pack("{s:O, s:I}", "hash", hash, "until_ms", (json_int_t)until));
    }
    json_object_set_new(d->body, "tokens", tokens);
    return 0;
}

/* ---- handlers: tenants ---- */

static json_t *shown(struct api *api, const struct store_doc *d, const struct caller *who)
{
    (void)api;
    (void)who;
    return tenant_doc(d);
}

void route_tenants_list(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);

    reply_page(api, r, caller_of(r), STORE_TENANT, NULL, shown, reply);
}

/* A tenant of this name that was deleted: the new one sees nothing of it (ACCOUNT-4). Done here,
 * since a manager may die between the deletion of a tenant and anything after it. */
static int forget_namesake(struct api *api, const char *name, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(api->tables->store, STORE_TENANT, name, &d, err);

    store_doc_release(&d);
    if (rc != DLC_ENOTFOUND)
        return rc; /* it is there: the caller hears so when it writes */
    *err = (struct dlc_err)DLC_ERR_INIT;
    ended_jobs_forget_tenant(api->tables, name);
    return accounting_forget_tenant(api->tables, name, err);
}

static int create(struct api *api, const char *name, const unsigned char hash[static SHA256_LEN],
                  uint64_t *version, struct dlc_err *err)
{
    struct store_doc d = {(char *)name, (char *)name, NULL, 0};
    int rc = forget_namesake(api, name, err);

    if (rc == 0)
        rc = point_to(api, hash, name, err);
    if (rc < 0)
        return rc;
    d.body =
        json_pack("{s:I, s:[o]}", "created_ms", (json_int_t)wall_ms(), "tokens", token_entry(hash));
    rc = store_put(api->tables->store, STORE_TENANT, &d, STORE_NEW, err);
    *version = d.version;
    json_decref(d.body);
    if (rc < 0)
        unpoint(api, hash);
    return rc;
}

void route_tenants_create(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = NULL;
    const struct field fields[] = {{"name", FIELD_NAME, true, 0, &name}, {NULL}};
    struct dlc_err err = DLC_ERR_INIT;
    unsigned char hash[SHA256_LEN];
    char token[TOKEN_LEN + 1];
    uint64_t version = 0;
    int rc;

    if (!read_body(r, fields, reply) || idempotency_replay(api, r, reply))
        return;
    token_new(token);
    token_hash(token, hash);
    rc = create(api, name, hash, &version, &err);
    if (rc == DLC_EBUSY && leader_leads(api->tables)) {
        http_problem(reply, 409, "Exists", "there is a tenant %s already", name);
    } else if (rc < 0) {
        reply_store_error(api, r, reply, &err);
    } else {
        reply_doc(reply, 201, json_pack("{s:s, s:s}", "name", name, "token", token), version);
        reply->location = mem_fmt("/v1/tenants/%s", name);
        idempotency_record(api, r, reply);
        event_log(api->tables->store, name, "tenant.created", json_pack("{s:s}", "name", name));
    }
    OPENSSL_cleanse(token, sizeof(token));
}

void route_tenants_show(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_name(r, 0, "tenant", reply);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (name == NULL)
        return;
    rc = store_get(api->tables->store, STORE_TENANT, name, &d, &err);
    if (rc == DLC_ENOTFOUND)
        reply_absent(reply, "tenant", name);
    else if (rc < 0)
        reply_store_error(api, r, reply, &err);
    else
        reply_doc(reply, 200, tenant_doc(&d), d.version);
    store_doc_release(&d);
}

/* True: it has one, and the reply says so; or the store failed. */
static bool still_has(struct api *api, const struct http_request *r, enum store_kind kind,
                      const char *what, const char *tenant, struct http_reply *reply)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    size_t n = 0;
    int rc = store_list(api->tables->store, kind, tenant, NULL, 1, &d, &n, &err);

    if (rc < 0)
        reply_store_error(api, r, reply, &err);
    else if (n > 0)
        http_problem(reply, 409, "Not empty", "tenant %s still has the %s %s: delete it first",
                     tenant, what, d.id);
    store_doc_release(&d);
    return rc < 0 || n > 0;
}

/* With jobs.admit held: nothing of the tenant is made between the look and the end. */
static void delete_empty(struct api *api, const struct http_request *r, const char *name,
                         uint64_t expect, struct http_reply *reply)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (still_has(api, r, STORE_JOB, "job", name, reply) ||
        still_has(api, r, STORE_DATASET, "dataset", name, reply))
        return;
    rc = store_get(api->tables->store, STORE_TENANT, name, &d, &err);
    if (rc == 0)
        rc = store_delete(api->tables->store, STORE_TENANT, name, expect, &err);
    if (rc < 0 && rc != DLC_ENOTFOUND) {
        reply_store_error(api, r, reply, &err);
    } else {
        if (rc == 0) {
            forget_all(api, json_object_get(d.body, "tokens"));
            idempotency_forget(api, name);
            weights_forget(api->tables, name);
            ended_jobs_forget_tenant(api->tables, name);
            event_log(api->tables->store, "", "tenant.deleted", json_pack("{s:s}", "name", name));
        }
        reply->status = 204;
    }
    store_doc_release(&d);
}

void route_tenants_delete(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_name(r, 0, "tenant", reply);
    uint64_t expect;

    if (name == NULL || !read_if_match(r, &expect, reply) || !api_lock_jobs(api, reply))
        return;
    delete_empty(api, r, name, expect, reply);
    jobs_unlock(api->tables);
}

/* ---- handlers: token and credentials, by admins and the tenant itself ---- */

static const char *read_own_name(const struct http_request *r, struct http_reply *reply)
{
    const char *name = read_name(r, 0, "tenant", reply);

    if (name == NULL || caller_sees(caller_of(r), name))
        return name;
    reply_absent(reply, "tenant", name);
    return NULL;
}

static void reply_failed_change(struct api *api, const struct http_request *r,
                                struct http_reply *reply, const char *name,
                                const struct dlc_err *err)
{
    if (err->code == DLC_ENOTFOUND)
        reply_absent(reply, "tenant", name);
    else
        reply_store_error(api, r, reply, err);
}

void route_tenants_rotate_token(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_own_name(r, reply);
    struct rotation rot = {.dropped = json_array()};
    const struct field fields[] = {{"grace_s", FIELD_U64, false, GRACE_MAX_S, &rot.grace_s},
                                   {NULL}};
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    char token[TOKEN_LEN + 1] = "";
    uint64_t expect;

    if (name == NULL || !read_body(r, fields, reply) || !read_if_match(r, &expect, reply) ||
        idempotency_replay(api, r, reply))
        goto out;
    token_new(token);
    token_hash(token, rot.hash);
    if (point_to(api, rot.hash, name, &err) < 0 ||
        document_change(api->tables, STORE_TENANT, name, expect, rotate, &rot, &d, &err) < 0) {
        unpoint(api, rot.hash);
        reply_failed_change(api, r, reply, name, &err);
        goto out;
    }
    forget_all(api, rot.dropped);
    reply_doc(reply, 200, json_pack("{s:s, s:s}", "name", name, "token", token), d.version);
    idempotency_record(api, r, reply);
    event_log(api->tables->store, name, "tenant.token",
              json_pack("{s:s, s:I}", "name", name, "grace_s", (json_int_t)rot.grace_s));
out:
    OPENSSL_cleanse(token, sizeof(token));
    store_doc_release(&d);
    json_decref(rot.dropped);
}

static int set_credentials(struct store_doc *d, void *arg, struct dlc_err *err)
{
    json_t *credentials = arg; /* NULL: remove */

    (void)err;
    if (credentials != NULL)
        return json_object_set(d->body, "credentials", credentials) < 0 ? DLC_ENOMEM : 0;
    return json_object_del(d->body, "credentials") < 0 ? 1 : 0;
}

struct credentials {
    const char *access_key, *secret_key, *session_token, *endpoint, *region;
    bool anonymous;
};

static bool check_credentials(const struct caller *who, const struct address_rules *rules,
                              const struct credentials *k, struct http_reply *reply)
{
    bool keys = k->access_key != NULL || k->secret_key != NULL || k->session_token != NULL;
    const char *e = k->endpoint;

    if (e != NULL && !str_starts(e, "http://") && !str_starts(e, "https://"))
        refuse_field(reply, "", "endpoint", "must begin with http:// or https://");
    else if (e != NULL && !dataset_web_ok(who, rules, e, "endpoint", reply))
        ;
    else if (k->anonymous && keys)
        refuse_field(reply, "", "anonymous", "is true, so there can be no keys");
    else if (!k->anonymous && k->access_key == NULL)
        refuse_field(reply, "", "access_key", "is missing; or set anonymous to true");
    else if (!k->anonymous && k->secret_key == NULL)
        refuse_field(reply, "", "secret_key", "is missing");
    else
        return true;
    return false;
}

/* Gives what lies in the store. */
static json_t *seal_credentials(struct api *api, const char *tenant, const struct credentials *k)
{
    json_t *clear =
        json_pack("{s:s*, s:s*, s:s*, s:s*, s:s*, s:b}", "access_key", k->access_key, "secret_key",
                  k->secret_key, "session_token", k->session_token, "endpoint", k->endpoint,
                  "region", k->region, "anonymous", k->anonymous);
    char *text = json_dumps(clear, JSON_COMPACT);
    json_t *sealed;

    dlc_check(text != NULL);
    sealed = json_pack("{s:o, s:I, s:b}", "sealed", seal_text(api->seal, tenant, text), "set_ms",
                       (json_int_t)wall_ms(), "anonymous", k->anonymous);
    secret_wipe(&text);
    secret_wipe_json(&clear);
    return sealed;
}

void route_tenants_put_credentials(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_own_name(r, reply);
    struct credentials k = {0};
    const struct field fields[] = {
        {"access_key", FIELD_TEXT, false, 256, &k.access_key},
        {"secret_key", FIELD_TEXT, false, 8192, &k.secret_key},
        {"session_token", FIELD_TEXT, false, 8192, &k.session_token},
        {"endpoint", FIELD_TEXT, false, 1024, &k.endpoint},
        {"region", FIELD_TEXT, false, 64, &k.region},
        {"anonymous", FIELD_BOOL, false, 0, &k.anonymous},
        {NULL},
    };
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *sealed;
    uint64_t expect;

    if (name == NULL || !read_body(r, fields, reply) ||
        !check_credentials(caller_of(r), &api->tenant_networks, &k, reply) ||
        !read_if_match(r, &expect, reply))
        return;
    sealed = seal_credentials(api, name, &k);
    if (document_change(api->tables, STORE_TENANT, name, expect, set_credentials, sealed, &d,
                        &err) < 0) {
        reply_failed_change(api, r, reply, name, &err);
    } else {
        reply_doc(reply, 200, tenant_doc(&d), d.version);
        event_log(api->tables->store, name, "tenant.credentials",
                  json_pack("{s:s, s:b}", "name", name, "set", 1));
    }
    store_doc_release(&d);
    json_decref(sealed);
}

void route_tenants_delete_credentials(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_own_name(r, reply);
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t expect;

    if (name == NULL || !read_if_match(r, &expect, reply))
        return;
    if (document_change(api->tables, STORE_TENANT, name, expect, set_credentials, NULL, NULL,
                        &err) < 0) {
        reply_failed_change(api, r, reply, name, &err);
        return;
    }
    reply->status = 204;
    event_log(api->tables->store, name, "tenant.credentials",
              json_pack("{s:s, s:b}", "name", name, "set", 0));
}
