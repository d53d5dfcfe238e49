// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/datasets.h"

#include <string.h>

#include "base/check.h"
#include "base/dataset_name.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/routes/api.h"
#include "manager/routes/dataset_fields.h"
#include "manager/routes/dataset_names.h"
#include "manager/routes/idempotency.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/store/wall_time.h"
#include "manager/tables/dataset_cost.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/dataset_listing.h"
#include "manager/tables/deleted_datasets.h"
#include "manager/tables/event_log.h"
#include "manager/tables/job_scheduler.h"
#include "manager/tables/node_commands.h"

#define SUMS_MAX     1024
#define DELETE_TRIES 8

bool dataset_read(struct api *api, const struct http_request *r, struct store_doc *out,
                  struct http_reply *reply)
{
    const char *name = read_name(r, 0, "dataset", reply);

    return name != NULL && names_read(api, r, name, out, reply);
}

bool nodes_known(struct api *api, const json_t *nodes, const char *field, struct http_reply *reply)
{
    struct node_info *known = NULL;
    size_t n = nodes_list(api->tables, &known), i;
    const char *name = NULL;

    for (i = 0; i < json_array_size(nodes); i++) {
        size_t k = 0;

        name = json_string_value(json_array_get(nodes, i));
        while (k < n && strcmp(known[k].name, name) != 0)
            k++;
        if (k == n)
            break;
    }
    nodes_release(&known, n);
    if (i == json_array_size(nodes))
        return true;
    refuse_field(reply, "", field, "there is no node %s", name);
    return false;
}

/* ---- make ---- */

struct dataset_request {
    const char *name, *url, *endpoint, *tenant;
    const json_t *splits, *nodes;
    uint64_t node_count;
};

static bool read_dataset_request(struct api *api, const struct http_request *r,
                                 struct dataset_request *m, struct http_reply *reply)
{
    const struct field fields[] = {
        {"name", FIELD_NAME, true, 0, &m->name},
        {"url", FIELD_TEXT, true, 4096, &m->url},
        {"endpoint", FIELD_TEXT, false, 1024, &m->endpoint},
        {"splits", FIELD_TEXTS, false, SPLITS_MAX, &m->splits},
        {"tenant", FIELD_NAME, false, 0, &m->tenant},
        {"nodes", FIELD_NAMES, false, 0, &m->nodes},
        {"node_count", FIELD_U64, false, 1000, &m->node_count},
        {NULL, 0, false, 0, NULL},
    };

    if (!read_body(r, fields, reply) || !splits_ok(m->splits, "splits", reply) ||
        !dataset_url_ok(caller_of(r), &api->tenant_networks, m->url, m->endpoint, reply) ||
        !nodes_known(api, m->nodes, "nodes", reply))
        return false;
    if (json_array_size(m->nodes) > 0 && m->node_count > 0) {
        refuse_field(reply, "", "node_count", "either names of nodes or how many, not both");
        return false;
    }
    return true;
}

/* What comes before a dot is a tenant, to whoever reads it: a tenant that says another than itself
 * is mistaken. */
static bool name_is_for(const char *tenant, const char *name, struct http_reply *reply)
{
    if (strchr(name, '.') == NULL || dataset_short_name(name, tenant) != name)
        return true;
    refuse_field(reply, "", "name",
                 "has a dot: such names of yours begin with %s. (or choose one "
                 "without dots)",
                 tenant);
    return false;
}

/* Whose will it be? Tenants make their own, admins anybody's or nobody's. With jobs.admit held:
 * the tenant stays until the dataset is written. */
static bool read_tenant(struct api *api, const struct http_request *r, struct dataset_request *m,
                        struct http_reply *reply)
{
    const struct caller *who = caller_of(r);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (who->role == ROLE_TENANT) {
        if (m->tenant != NULL && strcmp(m->tenant, who->tenant) != 0) {
            refuse_field(reply, "", "tenant", "a tenant makes its own datasets only");
            return false;
        }
        m->tenant = who->tenant;
        if (!name_is_for(who->tenant, m->name, reply))
            return false;
    }
    if (m->tenant == NULL) {
        m->tenant = "";
        return true;
    }
    rc = store_get(api->tables->store, STORE_TENANT, m->tenant, &d, &err);
    store_doc_release(&d);
    if (rc == DLC_ENOTFOUND)
        reply_absent(reply, "tenant", m->tenant); /* whoever makes tenants can tell */
    else if (rc < 0)
        reply_store_error(api, r, reply, &err);
    return rc == 0;
}

static json_t *body_of(const struct dataset_request *m, const char *id, const char *name)
{
    json_t *b = json_pack("{s:s, s:I}", "url", m->url, "created_ms", (json_int_t)wall_ms());

    if (strcmp(dataset_short_name(id, m->tenant), name) != 0)
        json_object_set_new(b, "name", json_string(name));
    json_object_set_new(b, "splits", m->splits != NULL ? json_deep_copy(m->splits) : json_array());
    if (m->endpoint != NULL)
        json_object_set_new(b, "endpoint", json_string(m->endpoint));
    if (json_array_size(m->nodes) > 0)
        json_object_set_new(b, "nodes", json_deep_copy(m->nodes));
    if (m->node_count > 0)
        json_object_set_new(b, "node_count", json_integer((json_int_t)m->node_count));
    return b;
}

/* The same request again, whose answer was lost in a crash. */
static bool is_repeated(const struct http_request *r, const struct dataset_request *m,
                        const struct store_doc *was)
{
    const char *url = json_string_value(json_object_get(was->body, "url"));

    return http_header(r, "Idempotency-Key") != NULL && strcmp(was->tenant, m->tenant) == 0 &&
           url != NULL && strcmp(url, m->url) == 0;
}

/* Heartbeats that were under way as a dataset was deleted may have left rows. */
static int drop_rows_of_former(struct api *api, const char *name, struct dlc_err *err)
{
    struct store_doc was = STORE_DOC_INIT;
    int rc = store_get(api->tables->store, STORE_DATASET, name, &was, err);

    store_doc_release(&was);
    return rc == DLC_ENOTFOUND ? store_chunks_drop(api->tables->store, name, NULL, err) : rc;
}

static int write_as(struct api *api, const struct dataset_request *m, const char *id,
                    const char *name, struct store_doc *d, struct dlc_err *err)
{
    int rc = drop_rows_of_former(api, id, err);

    if (rc < 0)
        return rc;
    store_doc_release(d);
    d->id = mem_str(id);
    d->tenant = mem_str(m->tenant);
    d->body = body_of(m, id, name);
    rc = store_put(api->tables->store, STORE_DATASET, d, STORE_NEW, err);
    dataset_written(api->tables, rc, d);
    return rc;
}

static bool reply_exists(const struct dataset_request *m, struct http_reply *reply)
{
    http_problem(reply, 409, "Exists", "a dataset called %s exists already; choose another name",
                 m->name);
    return false;
}

/* With jobs.admit held: nobody else gives ids. An id that another tenant has is passed over. */
static bool write_new(struct api *api, const struct http_request *r,
                      const struct dataset_request *m, struct store_doc *d,
                      struct http_reply *reply)
{
    const char *name = dataset_short_name(m->name, m->tenant);
    struct dlc_err err = DLC_ERR_INIT;
    struct dataset_ids ids;
    int rc = names_find(api, m->tenant, m->name, d, &err);

    if (rc == 0)
        return is_repeated(r, m, d) || reply_exists(m, reply);
    dataset_ids(m->tenant, name, &ids);
    if (rc == DLC_ENOTFOUND)
        rc = DLC_EBUSY;
    else
        ids.n_new = 0;
    for (size_t i = 0; i < ids.n_new && rc == DLC_EBUSY; i++)
        rc = write_as(api, m, ids.v[i], name, d, &err);
    if (rc == DLC_EBUSY && m->tenant[0] == '\0' && leader_leads(api->tables))
        return reply_exists(m, reply);
    if (rc < 0)
        reply_store_error(api, r, reply, &err);
    return rc == 0;
}

static json_t *shown(struct api *api, const struct store_doc *d, const struct caller *who)
{
    json_t *out = dataset_json(d);

    names_show(api, who, out, "name");
    return out;
}

static char *location_of(const json_t *dataset)
{
    return mem_fmt("/v1/datasets/%s", json_string_value(json_object_get(dataset, "name")));
}

void route_datasets_create(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct dataset_request m = {0};
    bool ok;

    if (idempotency_replay(api, r, reply) || !read_dataset_request(api, r, &m, reply) ||
        !api_lock_jobs(api, reply))
        goto out;
    ok = read_tenant(api, r, &m, reply) && write_new(api, r, &m, &d, reply);
    jobs_unlock(api->tables);
    if (!ok)
        goto out;
    event_log(api->tables->store, d.tenant, "dataset.created", json_pack("{s:s}", "dataset", d.id));
    if (dataset_have_listed(api->tables, &d, NULL, &err) < 0)
        log_warn("dataset %s: not listed yet: %s", d.id, err.text);
    if (dataset_nodes(d.body) != NULL)
        view_changed(api->tables);
    caller_set_object(r, d.id);
    reply_doc(reply, 201, shown(api, &d, caller_of(r)), d.version);
    reply->location = location_of(reply->body);
    idempotency_record(api, r, reply);
out:
    store_doc_release(&d);
}

/* ---- list, show ---- */

void route_datasets_list(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const struct caller *who = caller_of(r);

    reply_page(api, r, caller_of(r), STORE_DATASET,
               who->role == ROLE_ADMIN ? http_query(r, "tenant") : who->tenant, shown, reply);
}

static bool is_gone(const struct node_info *nodes, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(nodes[i].name, name) == 0)
            return nodes[i].state == NODE_GONE;
    return false; /* it may come yet: what is recorded of it counts */
}

/* What lies on nodes that are not gone; copies count. */
static int add_cached(struct api *api, json_t *out, const char *name, const struct node_info *live,
                      size_t n_live, struct dlc_err *err)
{
    struct store_sum *sums = mem_zero(SUMS_MAX * sizeof(*sums));
    json_t *nodes = json_array();
    uint64_t bytes = 0;
    size_t n = 0;
    int rc = store_chunks_sums(api->tables->store, name, sums, SUMS_MAX, &n, err);

    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (is_gone(live, n_live, sums[i].node))
            continue;
        bytes += sums[i].bytes;
        json_array_append_new(nodes, json_pack("{s:s, s:I, s:I}", "node", sums[i].node, "chunks",
                                               (json_int_t)sums[i].chunks, "bytes",
                                               (json_int_t)sums[i].bytes));
    }
    json_object_set_new(out, "cached",
                        json_pack("{s:I, s:o}", "bytes", (json_int_t)bytes, "nodes", nodes));
    mem_free(&sums);
    return rc;
}

/* How far nodes are with listing, unpacking, warming. */
static void add_preparation(json_t *out, const char *name, const struct node_info *nodes, size_t n)
{
    static const char *const copied[] = {"phase", "done", "total", "bytes"};
    json_t *all = json_array();

    for (size_t i = 0; i < n; i++) {
        const json_t *p = json_object_get(nodes[i].progress, name);
        json_t *one;

        if (p == NULL || nodes[i].state == NODE_GONE)
            continue;
        one = json_pack("{s:s}", "node", nodes[i].name);
        for (size_t k = 0; k < DLC_COUNT(copied); k++)
            if (json_object_get(p, copied[k]) != NULL)
                json_object_set_new(one, copied[k], json_deep_copy(json_object_get(p, copied[k])));
        json_array_append_new(all, one);
    }
    json_object_set_new(out, "preparation", all);
}

/* What nodes hold of it, and have said of it in their last heartbeats. */
static int add_said(struct api *api, json_t *out, const struct store_doc *d, struct dlc_err *err)
{
    struct node_info *nodes = NULL;
    size_t n = nodes_list(api->tables, &nodes);
    int rc = add_cached(api, out, d->id, nodes, n, err);
    json_t *spent =
        leader_leads(api->tables) ? dataset_cost(api->tables, d) : NULL; /* else it is old */

    add_preparation(out, d->id, nodes, n);
    if (spent != NULL)
        json_object_set_new(out, "spent", spent);
    nodes_release(&nodes, n);
    return rc;
}

void route_datasets_show(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *out;

    if (!dataset_read(api, r, &d, reply))
        return;
    out = shown(api, &d, caller_of(r));
    if (add_said(api, out, &d, &err) < 0) {
        json_decref(out);
        reply_store_error(api, r, reply, &err);
        goto out;
    }
    json_object_set_new(out, "jobs", json_integer((json_int_t)jobs_running(api->tables, d.id)));
    reply_doc(reply, 200, out, d.version);
out:
    store_doc_release(&d);
}

/* ---- delete ---- */

static bool read_force(const struct http_request *r, bool *force, struct http_reply *reply)
{
    const char *s = http_query(r, "force");

    *force = false;
    if (s == NULL || str_parse_bool(s, force))
        return true;
    refuse_field(reply, "", "force", "must be 1 or 0");
    return false;
}

/* An open one stays for the next run, unless there will be none. Gives. */
static json_t *last_eviction(const struct store_doc *d)
{
    json_t *command = dataset_command(d, "evict", "all");

    json_object_set_new(command, "deleted", json_true());
    return command;
}

/* The nodes are told to forget it; what they do not hear now their next cleaning finds. */
static void forget(struct api *api, const struct store_doc *d)
{
    struct dlc_err err = DLC_ERR_INIT;

    deleted_datasets_add(api->tables, d);
    if (commands_withdraw(api->tables, d, &err) < 0 ||
        command_send_all(api->tables, NULL, last_eviction(d), &err) < 0 ||
        store_chunks_drop(api->tables->store, d->id, NULL, &err) < 0)
        log_warn("dataset %s is deleted, but: %s", d->id, err.text);
    event_log(api->tables->store, d->tenant, "dataset.deleted",
              json_pack("{s:s}", "dataset", d->id));
    view_changed(api->tables);
}

/* The one that the caller saw, not another that has its name since. Without If-Match it may have
 * changed meanwhile. */
static int delete_this(struct api *api, const struct store_doc *d, uint64_t expect,
                       struct dlc_err *err)
{
    struct store_doc now = STORE_DOC_INIT;
    int rc = DLC_EBUSY;

    for (int i = 0; i < DELETE_TRIES && rc == DLC_EBUSY; i++) {
        rc = store_get(api->tables->store, STORE_DATASET, d->id, &now, err);
        if (rc == 0 && !dataset_is(&now, d))
            rc = dlc_err_set(err, DLC_ENOTFOUND, "there is no dataset %s", d->id);
        if (rc == 0) {
            rc = store_delete(api->tables->store, STORE_DATASET, d->id,
                              expect == STORE_ANY ? now.version : expect, err);
            dataset_deleted(api->tables, rc, d->id);
        }
        store_doc_release(&now);
        if (expect != STORE_ANY || !leader_leads(api->tables))
            break;
    }
    return rc;
}

void route_datasets_delete(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t expect;
    bool force;
    size_t n;

    if (!read_if_match(r, &expect, reply) || !read_force(r, &force, reply) ||
        !dataset_read(api, r, &d, reply))
        return;
    if (!api_lock_jobs(api, reply))
        goto out;
    n = jobs_count(api->tables, d.id);
    if (n > 0 && !force) {
        http_problem(reply, 409, "In use",
                     "%zu jobs run or wait on dataset %s; end them first, or force it (--force)", n,
                     dataset_doc_name(&d));
    } else if (delete_this(api, &d, expect, &err) < 0) {
        reply_store_error(api, r, reply, &err);
    } else {
        jobs_end_of_dataset(api->tables, d.id);
        forget(api, &d);
        reply->status = 204;
    }
    jobs_unlock(api->tables);
out:
    store_doc_release(&d);
}
