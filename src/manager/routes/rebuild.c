// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/rebuild.h"

#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/routes/api.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/store/record_copy.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/dataset_listing.h"
#include "manager/tables/deleted_datasets.h"
#include "manager/tables/event_log.h"
#include "manager/tables/job_scheduler.h"
#include "manager/tables/node_table.h"

#define RECORDS_MAX 1000        /* of one node */
#define LEAD_WAIT   DLC_SEC(20) /* until a manager leads whose store was filled */

/* ---- a store that was emptied ---- */

static int read_copy(struct api *api, json_t **out, struct dlc_err *err)
{
    char *path = mem_fmt("%s/" RECORD_COPY, api->tables->leader.dir);
    int rc = record_copy_read(path, out, err);

    mem_free(&path);
    if (rc == DLC_ENOTFOUND)
        dlc_err_set(
            err, rc,
            "this manager has no copy of the records: restore a backup of the store; or ask "
            "another manager; or remove %s/manager.agreed, restart, create the tenants, and "
            "run `dlcache rebuild` again",
            api->tables->leader.dir);
    return rc;
}

static json_t *items_of_copy(struct api *api, const json_t *copy, enum store_kind kind)
{
    const json_t *list = record_copy_of(copy, kind);
    json_t *out = json_array();

    for (size_t i = 0; i < json_array_size(list); i++) {
        struct store_doc d = STORE_DOC_INIT;
        struct dlc_err err = DLC_ERR_INIT;

        if (store_doc_import(api->tables->store, kind, json_array_get(list, i), &d, &err) == 0)
            json_array_append_new(out, json_pack("{s:s, s:s, s:s*, s:s}", "name", d.id, "tenant",
                                                 d.tenant, "url",
                                                 json_string_value(json_object_get(d.body, "url")),
                                                 "action", "restore"));
        else
            json_array_append_new(out, json_pack("{s:s, s:s, s:s}", "name",
                                                 json_text_at(json_array_get(list, i), "id"),
                                                 "action", "failed", "reason", err.text));
        store_doc_release(&d);
    }
    return out;
}

/* What the copy has. Gives. */
static json_t *plan_of_copy(struct api *api, const json_t *copy)
{
    json_t *plan = json_pack("{s:s, s:o, s:o, s:[]}", "store", "lost", "tenants",
                             items_of_copy(api, copy, STORE_TENANT), "datasets",
                             items_of_copy(api, copy, STORE_DATASET), "nodes");

    add_time(plan, "copy", json_integer_value(json_object_get(copy, "time_ms")));
    return plan;
}

static bool await_leading(struct api *api)
{
    struct dlc_mono end = dlc_mono_add(dlc_mono_now(), LEAD_WAIT);
    bool leads;

    while (!(leads = leader_leads(api->tables)) && !dlc_mono_passed(end, dlc_mono_now()))
        dlc_sleep(DLC_MS(20));
    return leads;
}

static int repair(struct api *api, const json_t *copy, struct dlc_err *err)
{
    int rc = store_reopen(api->tables->store, true, err);

    if (rc == 0)
        rc = leader_take_fence(api->tables, err);
    if (rc == 0)
        rc = record_copy_restore(api->tables->store, copy, err);
    if (rc == 0 && !await_leading(api))
        rc = dlc_err_set(err, DLC_ETIMEDOUT,
                         "the store has its records again, but this manager does not lead yet");
    if (rc == 0)
        log_warn("the store was emptied and has its records again, from this manager's copy");
    return rc;
}

static void rebuild_lost(struct api *api, const struct http_request *r, bool apply,
                         struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;
    json_t *copy = NULL;
    int rc = read_copy(api, &copy, &err);

    if (rc == 0 && apply)
        rc = repair(api, copy, &err);
    if (rc == DLC_ENOTFOUND)
        http_problem(reply, 409, "No copy", "%s", err.text);
    else if (rc < 0)
        reply_store_error(api, r, reply, &err);
    else
        reply_doc(reply, 200, plan_of_copy(api, copy), 0);
    json_decref(copy);
}

/* ---- datasets that nodes have records of ---- */

struct planning {
    struct api *api;
    json_t *deleted;
    json_t *datasets; /* the plan */
    bool apply;
};

static bool tenant_exists(struct api *api, const char *tenant)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = tenant[0] == '\0' ? 0 : store_get(api->tables->store, STORE_TENANT, tenant, &d, NULL);

    store_doc_release(&d);
    return rc == 0;
}

/* What becomes of it: NULL: nothing, it is there. *reason: for "failed". */
static const char *action_of(struct planning *p, const struct store_doc *d, char reason[256])
{
    struct store_doc there = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int rc = store_get(p->api->tables->store, STORE_DATASET, d->id, &there, &err);
    bool same = rc == 0 && dataset_is(&there, d);

    store_doc_release(&there);
    reason[0] = '\0';
    if (same)
        return NULL;
    if (deleted_datasets_has(p->deleted, d))
        return "deleted";
    if (rc == 0)
        snprintf(reason, 256, "another dataset has its name by now: register it under another one");
    else if (rc != DLC_ENOTFOUND)
        snprintf(reason, 256, "%s", err.text);
    else if (!tenant_exists(p->api, d->tenant))
        snprintf(reason, 256, "there is no tenant %.63s: `dlcache tenant create %.63s` first",
                 d->tenant, d->tenant);
    else
        return "register";
    return "failed";
}

/* As it was, except what was under way. */
static int register_again(struct planning *p, struct store_doc *d, struct dlc_err *err)
{
    struct tables *t = p->api->tables;
    int rc;

    json_object_del(d->body, "moving");
    if (!jobs_lock(t))
        return dlc_err_set(err, DLC_EBUSY, "this manager does not lead any more");
    rc = tenant_exists(p->api, d->tenant)
             ? store_put(t->store, STORE_DATASET, d, STORE_NEW, err)
             : dlc_err_set(err, DLC_ENOTFOUND, "its tenant was deleted just now");
    dataset_written(t, rc, d);
    jobs_unlock(t);
    if (rc < 0)
        return rc;
    event_log(t->store, d->tenant, "dataset.created", json_pack("{s:s}", "dataset", d->id));
    if (dataset_snapshot(d->body) == NULL && dataset_have_listed(t, d, NULL, err) < 0)
        log_warn("dataset %s: not listed yet: %s", d->id, err->text);
    view_changed(t);
    return 0;
}

static void plan_one(struct planning *p, struct store_doc *d)
{
    struct dlc_err err = DLC_ERR_INIT;
    char reason[256];
    const char *action = action_of(p, d, reason);

    if (action == NULL)
        return;
    if (p->apply && strcmp(action, "register") == 0 && register_again(p, d, &err) < 0) {
        action = "failed";
        snprintf(reason, sizeof(reason), "%.200s", err.text);
    }
    json_array_append_new(p->datasets,
                          json_pack("{s:s, s:s, s:s*, s:I, s:s, s:s*}", "name", d->id, "tenant",
                                    d->tenant, "url",
                                    json_string_value(json_object_get(d->body, "url")), "samples",
                                    (json_int_t)json_u64_at(dataset_snapshot(d->body), "samples"),
                                    "action", action, "reason", reason[0] != '\0' ? reason : NULL));
}

static json_int_t created_of(const struct store_doc *d)
{
    return json_integer_value(json_object_get(d->body, "created_ms"));
}

/* Of records of one name the one that was made last, and changed last: for it to be made, one that
 * was made before it must have been deleted. Takes *d. */
static void keep_newest(struct store_doc *docs, size_t *n, struct store_doc *d)
{
    size_t i = 0;

    while (i < *n && strcmp(docs[i].id, d->id) != 0)
        i++;
    if (i < *n && (created_of(&docs[i]) > created_of(d) ||
                   (created_of(&docs[i]) == created_of(d) && docs[i].version >= d->version))) {
        store_doc_release(d);
        return;
    }
    if (i < *n)
        store_doc_release(&docs[i]);
    else
        ++*n;
    docs[i] = *d;
    *d = (struct store_doc)STORE_DOC_INIT;
}

/* All that is authentic; what is not is in the plan as such. Gives docs[0..*n). */
static struct store_doc *read_records(struct planning *p, const json_t *nodes, size_t *n)
{
    struct store_doc *docs = NULL;
    json_t *node, *record;
    size_t i, k, cap = 0;

    *n = 0;
    json_array_foreach((json_t *)nodes, i, node)
    {
        json_array_foreach(json_object_get(node, "records"), k, record)
        {
            struct store_doc d = STORE_DOC_INIT;
            struct dlc_err err = DLC_ERR_INIT;

            mem_reserve(docs, *n, cap);
            if (store_doc_import(p->api->tables->store, STORE_DATASET, record, &d, &err) == 0)
                keep_newest(docs, n, &d);
            else
                json_array_append_new(p->datasets, json_pack("{s:s, s:s, s:s, s:s, s:s}", "name",
                                                             json_text_at(record, "id"), "tenant",
                                                             json_text_at(record, "tenant"), "node",
                                                             json_text_at(node, "node"), "action",
                                                             "failed", "reason", err.text));
        }
    }
    return docs;
}

/* What nodes know to be deleted: the list of the store may be lost. */
static void add_deleted(struct planning *p, const json_t *nodes)
{
    json_t *all = json_array(), *node, *record;
    size_t i, k;

    json_array_extend(all, p->deleted);
    json_array_foreach((json_t *)nodes, i, node)
    {
        json_array_foreach(json_object_get(node, "deleted"), k, record)
        {
            struct store_doc d = STORE_DOC_INIT;

            if (store_doc_import(p->api->tables->store, STORE_DATASET, record, &d, NULL) == 0)
                json_array_append_new(all, deleted_datasets_item(&d));
            store_doc_release(&d);
        }
    }
    json_decref(p->deleted);
    p->deleted = all;
}

static int plan_datasets(struct planning *p, const json_t *nodes, struct dlc_err *err)
{
    size_t n = 0;
    struct store_doc *docs = NULL;
    int rc = deleted_datasets_get(p->api->tables, &p->deleted, err);

    if (rc == 0)
        add_deleted(p, nodes);
    if (rc == 0)
        docs = read_records(p, nodes, &n);
    for (size_t i = 0; i < n; i++) {
        plan_one(p, &docs[i]);
        store_doc_release(&docs[i]);
    }
    mem_free(&docs);
    json_decref(p->deleted);
    return rc;
}

static void strip_records(json_t *nodes)
{
    json_t *node;
    size_t i;

    json_array_foreach(nodes, i, node)
    {
        json_object_del(node, "records");
        json_object_del(node, "deleted");
    }
}

static void rebuild_known(struct api *api, const struct http_request *r, bool apply,
                          struct http_reply *reply)
{
    struct planning p = {.api = api, .datasets = json_array(), .apply = apply};
    json_t *nodes = nodes_inventories(api->tables);
    struct dlc_err err = DLC_ERR_INIT;

    if (plan_datasets(&p, nodes, &err) < 0) {
        reply_store_error(api, r, reply, &err);
        json_decref(p.datasets);
        json_decref(nodes);
        return;
    }
    strip_records(nodes);
    reply_doc(reply, 200,
              json_pack("{s:s, s:b, s:[], s:o, s:o}", "store", "whole", "settled",
                        leader_is_settled(api->tables), "tenants", "datasets", p.datasets, "nodes",
                        nodes),
              0);
}

/* ---- routes ---- */

void route_rebuild_show(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    char *lost = leader_store_lost(api->tables);

    if (lost != NULL)
        rebuild_lost(api, r, false, reply);
    else if (!leader_leads(api->tables))
        reply_not_leading(api, reply);
    else
        rebuild_known(api, r, false, reply);
    mem_free(&lost);
}

void route_rebuild(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    bool apply = false, ask = false;
    const struct field fields[] = {
        {"apply", FIELD_BOOL, false, 0, &apply},
        {"ask", FIELD_BOOL, false, 0, &ask},
        {NULL},
    };
    char *lost;

    if (!read_body(r, fields, reply))
        return;
    lost = leader_store_lost(api->tables);
    if (lost != NULL) {
        rebuild_lost(api, r, apply, reply);
    } else if (!leader_leads(api->tables)) {
        reply_not_leading(api, reply);
    } else {
        if (ask)
            nodes_ask_inventory(api->tables);
        rebuild_known(api, r, apply, reply);
    }
    mem_free(&lost);
}

static bool is_record(const json_t *v)
{
    return json_is_string(json_object_get(v, "id")) &&
           json_is_string(json_object_get(v, "tenant")) &&
           json_is_integer(json_object_get(v, "version")) &&
           json_is_string(json_object_get(v, "sealed"));
}

static bool are_records(const json_t *list, const char *field, struct http_reply *reply)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!is_record(json_array_get(list, i))) {
            refuse_field(reply, "", field,
                         "element %zu is not {\"id\", \"tenant\", \"version\", \"sealed\"}", i);
            return false;
        }
    return true;
}

void route_nodes_inventory(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_name(r, 0, "node", reply), *instance = NULL;
    const json_t *records = NULL, *deleted = NULL;
    const struct field fields[] = {
        {"instance", FIELD_TEXT, true, 64, &instance},
        {"records", FIELD_ARRAY, true, RECORDS_MAX, &records},
        {"deleted", FIELD_ARRAY, false, RECORDS_MAX, &deleted},
        {NULL},
    };

    if (name == NULL || !read_node_body(r, fields, reply))
        return;
    if (!are_records(records, "records", reply) || !are_records(deleted, "deleted", reply))
        return;
    if (!nodes_is_holder(api->tables, name, instance) ||
        !nodes_told_inventory(api->tables, name, records, deleted))
        http_problem(reply, 404, "Not found", "node %s is not known: it joins first", name);
    else
        reply->status = 204;
}
