// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/jobs.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/routes/accounting_route.h"
#include "manager/routes/api.h"
#include "manager/routes/dataset_names.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/tables/capacity.h"
#include "manager/store/wall_time.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/ended_jobs.h"
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
    static const char *const copied[] = {"dataset",    "splits", "qos",   "gpus",      "nodes",
                                         "node_count", "queue",  "state", "admission", "snapshot"};
    json_t *out = json_pack("{s:s, s:s}", "id", d->id, "tenant", d->tenant);

    for (size_t i = 0; i < DLC_COUNT(copied); i++)
        if (json_object_get(d->body, copied[i]) != NULL)
            json_object_set(out, copied[i], json_object_get(d->body, copied[i]));
    add_time_of(out, "created", d->body, "created_ms");
    add_time_of(out, "started", d->body, "started_ms");
    return out;
}

/* What it used, and what to do about its waits. ms: when it ended, or now. */
static void add_usage(json_t *out, const struct usage *u, const json_t *body, int64_t ms)
{
    int64_t started = json_int_at(body, "started_ms");
    struct buf advice = BUF_INIT;

    if (started == 0)
        started = json_int_at(body, "created_ms");
    json_object_set_new(out, "usage", usage_shown(u));
    if (usage_advice(u, (double)(ms - started) / 1000, &advice))
        json_object_set_new(out, "advice", json_string(buf_str(&advice)));
    buf_release(&advice);
}

static json_t *ended_json(struct api *api, const struct store_doc *d, const struct caller *who)
{
    static const char *const copied[] = {"epochs_done", "figures", "was"};
    json_t *out = job_json(d);
    struct usage u;

    for (size_t i = 0; i < DLC_COUNT(copied); i++)
        if (json_object_get(d->body, copied[i]) != NULL)
            json_object_set(out, copied[i], json_object_get(d->body, copied[i]));
    add_time_of(out, "ended", d->body, "ended_ms");
    json_object_set_new(out, "reason", json_string(json_text_at(d->body, "why")));
    usage_of_json(&u, json_object_get(d->body, "usage"));
    add_usage(out, &u, d->body, json_int_at(d->body, "ended_ms"));
    json_object_set_new(out, "usage_final", json_boolean(ended_job_is_settled(d)));
    names_show(api, who, out, "dataset");
    return out;
}

/* What nodes have reported since it ended, too. */
static void add_newest_usage(struct api *api, json_t *out, const struct store_doc *d)
{
    json_t *usage = NULL;
    struct usage u;

    if (!ended_job_is_settled(d) && ended_job_usage(api->tables->store, d, &usage, NULL) == 0 &&
        usage != NULL) {
        usage_of_json(&u, usage);
        add_usage(out, &u, d->body, json_int_at(d->body, "ended_ms"));
    }
    json_decref(usage);
}

/* Why a job waits or was refused, and what a person can do. */
void job_add_reason(struct api *api, json_t *out)
{
    const char *state = json_text_at(out, "state"), *id = json_text_at(out, "dataset"), *name, *why;
    char need[24], room[24], others[24];
    struct store_doc d = STORE_DOC_INIT;
    struct job j = {0};
    uint64_t promised;

    if (strcmp(state, "running") == 0)
        return;
    /* What the document says is from its registration, mostly before the dataset was listed. */
    if (jobs_find(api->tables, json_text_at(out, "id"), &j) && j.admission.need > 0)
        json_object_set_new(out, "admission", admission_json(&j.admission));
    job_release(&j);
    promised = json_u64_at(out, "admission.promised");
    if (store_get(api->tables->store, STORE_DATASET, id, &d, NULL) < 0)
        d.body = NULL;
    name = d.body != NULL ? dataset_doc_name(&d) : id;
    why = json_string_value(json_object_get(d.body, "error"));
    if (dataset_snapshot(d.body) != NULL)
        json_object_set_new(
            out, "reason",
            json_sprintf("it needs room for %s, and %s are free or may be evicted%s%s: end other "
                         "jobs, add nodes or disk space, read fewer splits, or take the mode "
                         "partitioned",
                         str_size(json_u64_at(out, "admission.need"), need),
                         str_size(json_u64_at(out, "admission.free") +
                                      json_u64_at(out, "admission.evictable"),
                                  room),
                         promised > 0 ? ", but promised to other jobs are " : "",
                         promised > 0 ? str_size(promised, others) : ""));
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
    struct place_ask ask = {.gpus = j->gpus, .nodes = j->node_count, .job = j->id};
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

void job_add_live(struct api *api, json_t *out, const char *id, const json_t *body)
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
        add_usage(out, &j->usage, body, wall_ms());
        if (j->figures != NULL)
            json_object_set(out, "figures", j->figures);
    }
    json_object_set_new(
        out, "live",
        live_of(nodes, n_nodes, id, json_string_value(json_object_get(out, "dataset"))));
    jobs_copy_release(&jobs, n);
    nodes_release(&nodes, n_nodes);
}

/* A job, if the caller may see it: one that runs or waits, or with kind STORE_ENDED one that has
 * ended. DLC_ENOTFOUND otherwise. */
static int job_get(struct api *api, const struct http_request *r, const char *id,
                   enum store_kind kind, struct store_doc *out, struct dlc_err *err)
{
    int rc = store_get(api->tables->store, kind, id, out, err);

    if (rc == 0 && !caller_sees(caller_of(r), out->tenant)) {
        store_doc_release(out);
        rc = dlc_err_set(err, DLC_ENOTFOUND, "there is no job %s", id);
    }
    return rc;
}

static void reply_no_job(struct api *api, const struct http_request *r, const char *id,
                         struct http_reply *reply, const struct dlc_err *err)
{
    if (err->code == DLC_ENOTFOUND)
        reply_absent(reply, "job", id);
    else
        reply_store_error(api, r, reply, err);
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
    const char *state = http_query(r, "state");
    bool ended = state != NULL && strcmp(state, "ended") == 0;

    if (state != NULL && !ended) {
        refuse_field(reply, "", "state", "must be ended, or absent: jobs that run or wait");
        return;
    }
    reply_page(api, r, caller_of(r), ended ? STORE_ENDED : STORE_JOB,
               who->role == ROLE_ADMIN ? http_query(r, "tenant") : who->tenant,
               ended ? ended_json : shown, reply);
}

void route_jobs_show(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *id = read_name(r, 0, "job", reply);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    bool ended = false;
    json_t *out;
    int rc;

    if (id == NULL)
        return;
    rc = job_get(api, r, id, STORE_JOB, &d, &err);
    /* Clients of older versions take "not found" for the end of a job. */
    if (rc == DLC_ENOTFOUND && http_query(r, "ended") != NULL) {
        rc = job_get(api, r, id, STORE_ENDED, &d, &err);
        ended = true;
    }
    if (rc < 0) {
        reply_no_job(api, r, id, reply, &err);
        return;
    }
    out = ended ? ended_json(api, &d, caller_of(r)) : job_json(&d);
    if (ended) {
        add_newest_usage(api, out, &d);
        json_object_set_new(out, "live", json_object());
    } else {
        job_add_reason(api, out);
        job_add_live(api, out, d.id, d.body);
        names_show(api, caller_of(r), out, "dataset");
    }
    reply_doc(reply, 200, out, d.version);
    store_doc_release(&d);
}

/* (ENDED-1), unless If-Match names another version: the deletion then fails. */
static int end_job(struct api *api, const struct store_doc *d, uint64_t expect, struct dlc_err *err)
{
    struct job j = {0};
    int rc = 0;

    if ((expect == STORE_ANY || expect == d->version) && jobs_find(api->tables, d->id, &j))
        rc = ended_job_add(api->tables, &j, "it was deregistered", err);
    if (rc == 0)
        rc = store_delete(api->tables->store, STORE_JOB, d->id, expect, err);
    job_release(&j);
    return rc;
}

void route_jobs_delete(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *id = read_name(r, 0, "job", reply);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t expect;

    if (id == NULL || !read_if_match(r, &expect, reply))
        return;
    if (job_get(api, r, id, STORE_JOB, &d, &err) < 0) {
        reply_no_job(api, r, id, reply, &err);
        return;
    }
    if (end_job(api, &d, expect, &err) < 0) {
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

static void refuse_dataset(struct api *api, const struct job *j, const char *dataset,
                           struct http_reply *reply)
{
    json_t *o = json_pack("{s:s, s:s}", "reads", j->dataset, "asked", dataset);
    struct caller who = {.role = ROLE_TENANT};

    snprintf(who.tenant, sizeof(who.tenant), "%s", j->tenant);
    names_show(api, &who, o, "reads");
    names_show(api, &who, o, "asked");
    http_problem(reply, 404, "Another dataset", "job %s reads dataset %s, not %.300s", j->id,
                 json_text_at(o, "reads"), json_text_at(o, "asked"));
    json_decref(o);
}

/* A node asks for a session that names the job: is it one of this dataset? (job_check.c) */
static bool job_fits(struct api *api, const struct http_request *r, const struct job *j,
                     const char *id, struct http_reply *reply)
{
    const char *dataset = http_query(r, "dataset"), *tenant = http_query(r, "tenant");
    struct store_doc d = STORE_DOC_INIT;

    if (tenant == NULL)
        tenant = "";
    if (j->id[0] != '\0' && strcmp(j->tenant, tenant) == 0) {
        if (strcmp(j->dataset, dataset) == 0)
            return true;
        refuse_dataset(api, j, dataset, reply);
    } else if (j->id[0] == '\0' && store_get(api->tables->store, STORE_ENDED, id, &d, NULL) == 0 &&
               strcmp(d.tenant, tenant) == 0) {
        http_problem(reply, 404, "Ended", "job %s has ended: %s", id, json_text_at(d.body, "why"));
    } else {
        reply_absent(reply, "job", id);
    }
    store_doc_release(&d);
    return false;
}

/* (JOB-4) A node has asked for a rank. j->reads: what the rank has to read; 0: none has opened it
 * yet, and the node asks again with the snapshot that it has opened. */
static bool agree_snapshot(struct api *api, const struct http_request *r, struct job *j,
                           struct http_reply *reply)
{
    const char *opened = http_query(r, "snapshot");
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t id = 0;
    int rc;

    if (opened == NULL || j->reads != 0)
        return true;
    if (!str_parse_hex64(opened, &id) || id == 0) {
        refuse_field(reply, "", "snapshot", "must be 16 hexadecimal digits");
        return false;
    }
    rc = jobs_agree_snapshot(api->tables, j->id, &id, &err);
    if (rc == DLC_ENOTFOUND)
        reply_absent(reply, "job", j->id);
    else if (rc < 0)
        reply_store_error(api, r, reply, &err);
    else
        j->reads = id;
    return rc == 0;
}

static json_t *heard_json(struct api *api, const struct job *j, enum job_state state)
{
    json_t *out = json_pack("{s:s, s:I}", "state", job_state_name(state), "interval_ms",
                            (json_int_t)(api->tables->job_ttl.ns / 1000000 / 4));

    if (j->reads != 0)
        json_object_set_new(out, "snapshot", json_sprintf("%016llx", (unsigned long long)j->reads));
    return out;
}

/* Answered from memory, but for the first rank that has opened the dataset: they come often. */
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
    if (!jobs_find(api->tables, id, &j))
        memset(&j, 0, sizeof(j));
    if (who->role == ROLE_NODE && http_query(r, "dataset") != NULL) {
        if (!job_fits(api, r, &j, id, reply) || !agree_snapshot(api, r, &j, reply)) {
            job_release(&j);
            return;
        }
        if (http_query(r, "node") != NULL && j.state == JOB_RUNNING && job_keeps(&j))
            spread_reader(api->tables, j.dataset, http_query(r, "node"));
    }
    if (j.id[0] == '\0' || (who->role != ROLE_NODE && !caller_sees(who, j.tenant)))
        reply_absent(reply, "job", id);
    else if ((who->role == ROLE_NODE ? read_node_body : read_body)(r, fields, reply) &&
             figures_ok(figures, reply)) {
        if (jobs_heard(api->tables, id, epochs != UINT64_MAX ? &epochs : NULL, figures, &state))
            reply_doc(reply, 200, heard_json(api, &j, state), 0);
        else
            reply_absent(reply, "job", id);
    }
    job_release(&j);
}
