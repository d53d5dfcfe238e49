// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/heartbeat.h"

#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/policy/lifecycle.h"
#include "manager/routes/api.h"
#include "manager/routes/auth.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/node_join_token.h"
#include "manager/routes/nodes.h"
#include "manager/routes/route_util.h"
#include "manager/store/wall_time.h"
#include "manager/tables/accounting.h"
#include "manager/tables/command_results.h"
#include "manager/tables/job_table.h"
#include "manager/tables/node_drain.h"
#include "manager/tables/node_table.h"

#define CHUNKS_MAX   2000 /* in one heartbeat */
#define KEY_MAX      1024
#define ETAG_MAX     1024
#define DONE_AT_ONCE 1000
#define SESSIONS_MAX 64

/* ---- chunks ---- */

static const char *text_at(const json_t *row, size_t i, size_t max)
{
    const json_t *v = json_array_get(row, i);
    const char *s = json_string_value(v);

    return s != NULL && strlen(s) == json_string_length(v) && strlen(s) <= max ? s : NULL;
}

static bool number_at(const json_t *row, size_t i, uint64_t max, uint64_t *out)
{
    const json_t *v = json_array_get(row, i);

    if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) > max)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static bool state_at(const json_t *row, size_t i, uint8_t *out)
{
    const char *s = text_at(row, i, 32);

    for (int state = LIFE_PREPARE; s != NULL && state < LIFE_STATES; state++)
        if (strcasecmp(s, life_name((enum life_state)state)) == 0) {
            *out = (uint8_t)state;
            return true;
        }
    return false;
}

/* [DATASET, KEY, ETAG, SIZE, COST, REFERENCES, STATE, JOBS] */
static bool read_chunk(const json_t *row, const char *node, struct store_chunk *m)
{
    const json_t *cost = json_array_get(row, 4);
    uint64_t references = 0, jobs = 0;

    m->dataset = text_at(row, 0, 255);
    m->node = node;
    m->key = text_at(row, 1, KEY_MAX);
    m->etag = text_at(row, 2, ETAG_MAX);
    m->cost = json_number_value(cost);
    m->changed_ms = wall_ms();
    if (m->dataset == NULL || m->dataset[0] == '\0' || m->key == NULL || m->key[0] == '\0' ||
        m->etag == NULL || !json_is_number(cost) || m->cost < 0 ||
        !number_at(row, 3, UINT64_C(1) << 53, &m->size) ||
        !number_at(row, 5, UINT32_MAX, &references) || !state_at(row, 6, &m->state) ||
        !number_at(row, 7, UINT32_MAX, &jobs))
        return false;
    m->references = (uint32_t)references;
    m->jobs = (uint32_t)jobs;
    return true;
}

/* A node may not have heard yet that a dataset was deleted: what it tells of it is not kept. */
static bool exists(struct api *api, const char *dataset)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(api->tables->store, STORE_DATASET, dataset, &d, NULL);

    store_doc_release(&d);
    return rc != DLC_ENOTFOUND; /* a store that is away says so when it is written to */
}

/* Leave out rows of datasets that do not exist. Gives how many there are then. */
static size_t keep_existing(struct api *api, struct store_chunk *m, size_t n)
{
    const char *last = NULL;
    bool there = false;
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (last == NULL || strcmp(last, m[i].dataset) != 0)
            there = exists(api, m[i].dataset);
        last = m[i].dataset;
        if (there)
            m[kept++] = m[i];
    }
    return kept;
}

static bool write_chunks(struct api *api, const struct http_request *r, const char *node,
                         const json_t *rows, struct http_reply *reply)
{
    size_t all = json_array_size(rows), n = 0;
    struct store_chunk *m = mem_zero((all + 1) * sizeof(*m));
    struct dlc_err err = DLC_ERR_INIT;
    bool ok = true;

    for (size_t i = 0; i < all; i++)
        n += read_chunk(json_array_get(rows, i), node, &m[n]);
    if (n < all)
        log_debug("node %s: %zu rows of chunks make no sense", node, all - n);
    n = keep_existing(api, m, n);
    if (n > 0 && store_chunks_put(api->tables->store, m, n, &err) < 0) {
        reply_store_error(api, r, reply, &err);
        ok = false;
    }
    mem_free(&m);
    return ok;
}

/* Rows of one dataset that follow each other are dropped together. */
static bool drop_chunks(struct api *api, const struct http_request *r, const char *node,
                        const json_t *rows, struct http_reply *reply)
{
    size_t all = json_array_size(rows), n = 0;
    const char **keys = mem_zero((all + 1) * sizeof(*keys)), *dataset = NULL, *d, *key;
    struct dlc_err err = DLC_ERR_INIT;
    int rc = 0;

    for (size_t i = 0; i < all && rc == 0; i++) {
        const json_t *row = json_array_get(rows, i);

        d = text_at(row, 0, 255);
        key = text_at(row, 1, KEY_MAX);
        if (d == NULL || d[0] == '\0' || key == NULL)
            continue;
        if (n > 0 && strcmp(d, dataset) != 0) {
            rc = store_chunks_drop_keys(api->tables->store, dataset, node, keys, n, &err);
            n = 0;
        }
        dataset = d;
        keys[n++] = key;
    }
    if (rc == 0 && n > 0)
        rc = store_chunks_drop_keys(api->tables->store, dataset, node, keys, n, &err);
    if (rc < 0)
        reply_store_error(api, r, reply, &err);
    mem_free(&keys);
    return rc == 0;
}

/* Columns of a later release follow those that this one knows. */
static bool check_rows(const json_t *rows, const char *prefix, const char *field, size_t columns,
                       const char *form, struct http_reply *reply)
{
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (json_array_size(json_array_get(rows, i)) < columns) {
            refuse_field(reply, prefix, field, "row %zu is not %s", i, form);
            return false;
        }
    return true;
}

static bool take_chunks(struct api *api, const struct http_request *r, const char *node,
                        const json_t *chunks, struct http_reply *reply)
{
    const json_t *put = NULL, *gone = NULL;
    const struct field fields[] = {
        {"put", FIELD_ARRAY, false, CHUNKS_MAX, &put},
        {"gone", FIELD_ARRAY, false, CHUNKS_MAX, &gone},
        {NULL},
    };

    if (chunks == NULL)
        return true;
    return read_node_object(chunks, "chunks.", fields, reply) &&
           check_rows(put, "chunks.", "put", 8,
                      "[DATASET, KEY, ETAG, SIZE, COST, REFERENCES, STATE, JOBS]", reply) &&
           check_rows(gone, "chunks.", "gone", 2, "[DATASET, KEY]", reply) &&
           write_chunks(api, r, node, put, reply) && drop_chunks(api, r, node, gone, reply);
}

/* ---- sessions ---- */

/* [TOKEN'S SHA-256, DATASET, TENANT] */
static bool read_session(const json_t *row, unsigned char hash[static SHA256_LEN],
                         const char **dataset, const char **tenant)
{
    const char *hex = text_at(row, 0, 2 * SHA256_LEN);

    *dataset = text_at(row, 1, 255);
    *tenant = text_at(row, 2, 255);
    return hex != NULL && strlen(hex) == 2 * SHA256_LEN && str_unhex(hex, strlen(hex), hash) &&
           *dataset != NULL && *tenant != NULL;
}

/* Would its token not open it now? A store that is away takes nothing back. */
static bool is_revoked(struct api *api, const json_t *row)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    unsigned char hash[SHA256_LEN];
    const char *dataset, *tenant;
    struct caller who;
    bool gone;
    int rc;

    if (!read_session(row, hash, &dataset, &tenant))
        return false;
    rc = token_hash_caller(api, hash, &who, &err);
    if (rc == 0)
        rc = store_get(api->tables->store, STORE_DATASET, dataset, &d, &err);
    gone = rc == DLC_EDENIED || rc == DLC_ENOTFOUND;
    if (rc == 0) /* a dataset of no tenant is open to every token */
        gone =
            strcmp(d.tenant, tenant) != 0 || (tenant[0] != '\0' && strcmp(who.tenant, tenant) != 0);
    store_doc_release(&d);
    return gone;
}

/* Those of the node's sessions that are to end. A store that does not know the node has lost more
 * than that, and takes nothing back. Gives. */
static json_t *revoked_of(struct api *api, const char *node, const json_t *sessions)
{
    struct store_doc d = STORE_DOC_INIT;
    json_t *out = json_array(), *row;
    size_t i;

    json_array_foreach(sessions, i, row) if (is_revoked(api, row)) json_array_append(out, row);
    if (json_array_size(out) > 0 && store_get(api->tables->store, STORE_NODE, node, &d, NULL) < 0)
        json_array_clear(out);
    store_doc_release(&d);
    return out;
}

/* ---- usage ---- */

static bool take_usage(struct api *api, const struct http_request *r, const char *node,
                       const json_t *usage, struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (usage == NULL)
        return true;
    rc = accounting_take(api->tables, node, usage, wall_ms(), &err);
    if (rc == DLC_EINVAL)
        refuse_field(reply, "figures.", "usage", "%s", err.text);
    else if (rc < 0)
        reply_store_error(api, r, reply, &err);
    return rc == 0;
}

/* ---- the node itself ---- */

static bool check_done(const json_t *done, struct http_reply *reply)
{
    for (size_t i = 0; i < json_array_size(done); i++) {
        const json_t *v = json_array_get(done, i), *result = NULL;
        const char *id = NULL, *error = NULL;
        const struct field fields[] = {
            {"id", FIELD_NAME, true, 0, &id},
            {"error", FIELD_TEXT0, false, 4096, &error},
            {"result", FIELD_OBJECT, false, 0, &result},
            {NULL},
        };

        if (!json_is_object(v)) {
            refuse_field(reply, "", "commands_done", "its elements must be objects");
            return false;
        }
        if (!read_node_object(v, "commands_done.", fields, reply))
            return false;
    }
    return true;
}

void route_nodes_heartbeat(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_name(r, 0, "node", reply);
    const json_t *figures = NULL, *done = NULL, *progress = NULL, *chunks = NULL;
    const json_t *sessions = NULL;
    const char *instance = NULL;
    uint64_t view = 0;
    const struct field fields[] = {
        {"view", FIELD_U64, true, 0, &view},
        {"instance", FIELD_TEXT, false, 64, &instance},
        {"figures", FIELD_OBJECT, false, 0, &figures},
        {"progress", FIELD_OBJECT, false, 0, &progress},
        {"commands_done", FIELD_ARRAY, false, DONE_AT_ONCE, &done},
        {"chunks", FIELD_OBJECT, false, 0, &chunks},
        {"sessions", FIELD_ARRAY, false, SESSIONS_MAX, &sessions},
        {NULL},
    };
    struct dlc_err err = DLC_ERR_INIT;
    json_t *usage = NULL, *answer;
    bool woke = false;

    if (name == NULL || !read_node_body(r, fields, reply) || !check_done(done, reply) ||
        !check_rows(sessions, "", "sessions", 3, "[SHA-256 OF THE TOKEN, DATASET, TENANT]", reply))
        return;
    if (instance != NULL && !nodes_is_holder(api->tables, name, instance)) {
        nodes_refuse_name(api, name, "", reply);
        return;
    }
    usage = json_incref(json_object_get(figures, "usage"));
    json_object_del((json_t *)(uintptr_t)figures, "usage"); /* not a figure to be shown */
    if (!nodes_heard(api->tables, name, figures, progress, &woke)) {
        http_problem(reply, 404, "Not found",
                     "node %s is not known, or is to join again: it joins first", name);
        json_decref(usage);
        return;
    }
    jobs_seen(api->tables, figures);
    node_drain_heard(api->tables, name, figures);
    if (woke)
        nodes_write_state(api->tables, name, NODE_LIVE);
    if (!take_chunks(api, r, name, chunks, reply) || !take_usage(api, r, name, usage, reply))
        goto out;
    if (json_array_size(done) > 0 && commands_finish(api->tables, name, done, &err) < 0) {
        reply_store_error(api, r, reply, &err);
        goto out;
    }
    answer = json_pack("{s:o}", "revoked", revoked_of(api, name, sessions));
    if (usage != NULL)
        json_object_set_new(answer, "usage",
                            json_pack("{s:O, s:O}", "id", json_object_get(usage, "id"), "seq",
                                      json_object_get(usage, "seq")));
    node_credential_renew(api, r, name, answer);
    nodes_reply(api, name, view, answer, 200, 0, reply);
out:
    json_decref(usage);
}
