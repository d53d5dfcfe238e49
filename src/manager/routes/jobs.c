// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/jobs.h"

#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/routes/api.h"
#include "manager/routes/dataset_names.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/tables/capacity.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/event_log.h"
#include "manager/tables/job_table.h"
#include "manager/tables/node_table.h"

#define FIGURES_MAX 64

static void add_time_of(json_t *out, const char *name, const json_t *body, const char *from)
{
    if (json_object_get(body, from) != NULL)
        add_time(out, name, json_int_at(body, from));
}

json_t *job_json(const struct store_doc *d)
{
    static const char *const copied[] = {"dataset",    "splits", "qos",   "gpus",     "nodes",
                                         "node_count", "queue",  "state", "admission"};
    json_t *out = json_pack("{s:s, s:s}", "id", d->id, "tenant", d->tenant);

    for (size_t i = 0; i < DLC_COUNT(copied); i++)
        if (json_object_get(d->body, copied[i]) != NULL)
            json_object_set(out, copied[i], json_object_get(d->body, copied[i]));
    add_time_of(out, "created", d->body, "created_ms");
    add_time_of(out, "started", d->body, "started_ms");
    return out;
}

/* Why a job waits or was refused, and what a person can do. */
void job_add_reason(struct api *api, json_t *out)
{
    const char *state = json_text_at(out, "state"), *id = json_text_at(out, "dataset"), *name, *why;
    char need[24], room[24];
    struct store_doc d = STORE_DOC_INIT;

    if (strcmp(state, "running") == 0)
        return;
    if (store_get(api->tables->store, STORE_DATASET, id, &d, NULL) < 0)
        d.body = NULL;
    name = d.body != NULL ? dataset_doc_name(&d) : id;
    why = json_string_value(json_object_get(d.body, "error"));
    if (dataset_snapshot(d.body) != NULL)
        json_object_set_new(
            out, "reason",
            json_sprintf("it needs %s, and %s are free or may be evicted: end other jobs, add "
                         "nodes or disk space, read fewer splits, or take the mode partitioned",
                         str_size(json_u64_at(out, "admission.need"), need),
                         str_size(json_u64_at(out, "admission.free") +
                                      json_u64_at(out, "admission.evictable"),
                                  room)));
    else if (why != NULL)
        json_object_set_new(out, "reason",
                            json_sprintf("dataset %s could not be listed: %s. It is tried again; "
                                         "the job starts when it succeeds",
                                         name, why));
    else
        json_object_set_new(out, "reason",
                            json_sprintf("dataset %s is not listed yet; a node does it now, or as "
                                         "soon as one is there",
                                         name));
    store_doc_release(&d);
}

/* Where it should run, best first: what it asked for by DLCache's rule. */
static json_t *placement_of(const struct node_info *nodes, size_t n, const struct job *jobs,
                            size_t n_jobs, const struct job *j)
{
    struct place_ask ask = {.gpus = j->gpus, .nodes = j->node_count};
    json_t *out;

    if (j->node_count == 0) /* all that may be used */
        ask.nodes = (unsigned)n;
    out = capacity_place(nodes, n, jobs, n_jobs, j->dataset,
                         j->nodes != NULL ? j->nodes : j->lies_on, &ask);
    return out != NULL ? out : json_array();
}

/* What nodes said of this job in their last heartbeats, node by node. Any program may call itself
 * part of it: only those that read its dataset are. */
static json_t *live_of(const struct node_info *nodes, size_t n, const char *id, const char *dataset)
{
    json_t *out = json_object();

    for (size_t i = 0; i < n; i++) {
        json_t *f = json_object_get(json_object_get(nodes[i].figures, "jobs"), id);
        const char *reads = json_string_value(json_object_get(f, "dataset"));

        if (reads != NULL && strcmp(reads, dataset) == 0 && nodes[i].state != NODE_GONE)
            json_object_set_new(out, nodes[i].name, json_deep_copy(f));
    }
    return out;
}

void job_add_live(struct api *api, json_t *out, const char *id)
{
    struct node_info *nodes = NULL;
    size_t n_nodes = nodes_list(api->tables, &nodes), n;
    struct job *jobs = jobs_copy(api->tables, &n);

    for (size_t i = 0; i < n; i++) {
        const struct job *j = &jobs[i];

        if (strcmp(j->id, id) != 0)
            continue;
        json_object_set_new(out, "placement", placement_of(nodes, n_nodes, jobs, n, j));
        json_object_set_new(out, "epochs_done", json_integer((json_int_t)j->epochs_done));
        json_object_set_new(out, "silent_ms", json_integer(dlc_mono_since(j->heard).ns / 1000000));
        if (j->figures != NULL)
            json_object_set(out, "figures", j->figures);
    }
    json_object_set_new(
        out, "live",
        live_of(nodes, n_nodes, id, json_string_value(json_object_get(out, "dataset"))));
    jobs_copy_release(&jobs, n);
    nodes_release(&nodes, n_nodes);
}

/* The job of the path, if the caller may see it. */
static bool job_read(struct api *api, const struct http_request *r, struct store_doc *out,
                     struct http_reply *reply)
{
    const char *id = read_name(r, 0, "job", reply);
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (id == NULL)
        return false;
    rc = store_get(api->tables->store, STORE_JOB, id, out, &err);
    if (rc == 0 && caller_sees(caller_of(r), out->tenant))
        return true;
    if (rc == 0 || rc == DLC_ENOTFOUND)
        reply_absent(reply, "job", id);
    else
        reply_store_error(api, r, reply, &err);
    store_doc_release(out);
    return false;
}

/* ---- routes ---- */

static json_t *shown(struct api *api, const struct store_doc *d, const struct caller *who)
{
    json_t *out = job_json(d);

    job_add_reason(api, out);
    names_show(api, who, out, "dataset");
    return out;
}

void route_jobs_list(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const struct caller *who = caller_of(r);

    reply_page(api, r, caller_of(r), STORE_JOB,
               who->role == ROLE_ADMIN ? http_query(r, "tenant") : who->tenant, shown, reply);
}

void route_jobs_show(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    json_t *out;

    if (!job_read(api, r, &d, reply))
        return;
    out = job_json(&d);
    job_add_reason(api, out);
    job_add_live(api, out, d.id);
    names_show(api, caller_of(r), out, "dataset");
    reply_doc(reply, 200, out, d.version);
    store_doc_release(&d);
}

void route_jobs_delete(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t expect;

    if (!read_if_match(r, &expect, reply) || !job_read(api, r, &d, reply))
        return;
    if (store_delete(api->tables->store, STORE_JOB, d.id, expect, &err) < 0) {
        reply_store_error(api, r, reply, &err);
    } else {
        jobs_remove(api->tables, d.id);
        event_log(api->tables->store, d.tenant, "job.ended",
                  json_pack("{s:s, s:s*, s:s}", "job", d.id, "dataset",
                            json_text_at(d.body, "dataset"), "why", "it was deregistered"));
        view_changed(api->tables);
        reply->status = 204;
    }
    store_doc_release(&d);
}

/* Names to numbers: what a training loop says of itself. */
static bool figures_ok(const json_t *figures, struct http_reply *reply)
{
    const char *name;
    json_t *v;

    json_object_foreach((json_t *)figures, name, v)
    {
        if (strlen(name) > 63 || !json_is_number(v)) {
            refuse_field(reply, "figures.", name, "must be a number with a name of 1 to 63 bytes");
            return false;
        }
    }
    if (json_object_size(figures) > FIGURES_MAX) {
        refuse_field(reply, "", "figures", "at most %d of them", FIGURES_MAX);
        return false;
    }
    return true;
}

/* Answered from memory: they come often. */
void route_jobs_heartbeat(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const struct caller *who = caller_of(r);
    const char *id = read_name(r, 0, "job", reply);
    const json_t *figures = NULL;
    uint64_t epochs = UINT64_MAX;
    enum job_state state = JOB_QUEUED;
    struct job j = {0};
    const struct field fields[] = {
        {"epochs_done", FIELD_U64, false, EPOCHS_MAX, &epochs},
        {"figures", FIELD_OBJECT, false, 0, &figures},
        {NULL, 0, false, 0, NULL},
    };

    if (id == NULL)
        return;
    if (!jobs_find(api->tables, id, &j) || (who->role != ROLE_NODE && !caller_sees(who, j.tenant)))
        reply_absent(reply, "job", id);
    else if (read_body(r, fields, reply) && figures_ok(figures, reply)) {
        if (jobs_heard(api->tables, id, epochs != UINT64_MAX ? &epochs : NULL, figures, &state))
            reply_doc(reply, 200,
                      json_pack("{s:s, s:I}", "state", job_state_name(state), "interval_ms",
                                (json_int_t)(api->tables->job_ttl.ns / 1000000 / 4)),
                      0);
        else
            reply_absent(reply, "job", id);
    }
    job_release(&j);
}
