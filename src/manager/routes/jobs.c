// SPDX-License-Identifier: Apache-2.0
/* Jobs: their documents, list, show, heart-beat, deregister. Registering is in job_register.c. */
#include "manager/routes/jobs_i.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/routes/datasets_i.h"

#define FIGURES_MAX 64

static const char *const states[] = {"queued", "running", "refused"};
const char *const job_modes[2] = {"lazy", "partitioned"};

const char *job_state_name(enum job_state s)
{
    return states[s];
}

/* ---- documents ---- */

json_t *admission_json(const struct admission *a)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "need", (json_int_t)a->need, "free",
                     (json_int_t)a->free, "evictable", (json_int_t)a->evictable, "promised",
                     (json_int_t)a->promised);
}

static json_t *qos_json(const struct qos *q)
{
    return json_pack("{s:b, s:s, s:I, s:i, s:I}", "cache", q->use_cache, "mode", job_modes[q->mode],
                     "memory_limit", (json_int_t)q->memory_limit, "priority", q->priority, "epochs",
                     (json_int_t)q->epochs);
}

json_t *job_body(const struct job *j, const struct admission *a)
{
    json_t *b = json_pack("{s:s, s:O, s:o, s:i, s:b, s:s, s:I, s:o}", "dataset", j->dataset,
                          "splits", j->splits, "qos", qos_json(&j->qos), "gpus", (int)j->gpus,
                          "queue", j->queue, "state", states[j->state], "created_ms",
                          (json_int_t)j->created_ms, "admission", admission_json(a));

    if (j->nodes != NULL)
        json_object_set(b, "nodes", j->nodes);
    if (j->node_count > 0)
        json_object_set_new(b, "node_count", json_integer(j->node_count));
    if (j->state == JOB_RUNNING)
        json_object_set_new(b, "started_ms", json_integer((json_int_t)control_wall_ms()));
    return b;
}

int name_index(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; name != NULL && i < n; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

bool job_of_doc(struct job *j, const struct store_doc *d)
{
    const json_t *qos = json_object_get(d->body, "qos");
    const char *dataset = json_text_at(d->body, "dataset");
    int state = name_index(states, DLC_COUNT(states), json_text_at(d->body, "state"));
    int mode = name_index(job_modes, DLC_COUNT(job_modes), json_text_at(qos, "mode"));

    memset(j, 0, sizeof(*j));
    if (!name_ok(dataset) || state < 0 || mode < 0 || strlen(d->id) >= sizeof(j->id) ||
        strlen(d->tenant) >= sizeof(j->tenant))
        return false;
    snprintf(j->id, sizeof(j->id), "%s", d->id);
    snprintf(j->dataset, sizeof(j->dataset), "%s", dataset);
    snprintf(j->tenant, sizeof(j->tenant), "%s", d->tenant);
    j->state = (enum job_state)state;
    j->qos = (struct qos){.use_cache = json_is_true(json_object_get(qos, "cache")),
                          .mode = (enum qos_mode)mode,
                          .memory_limit = (uint64_t)json_int_at(qos, "memory_limit"),
                          .priority = (int)json_int_at(qos, "priority"),
                          .epochs = (uint64_t)json_int_at(qos, "epochs")};
    j->queue = json_is_true(json_object_get(d->body, "queue"));
    j->gpus = (unsigned)json_int_at(d->body, "gpus");
    j->node_count = (unsigned)json_int_at(d->body, "node_count");
    j->splits = json_deep_copy(json_object_get(d->body, "splits"));
    j->nodes = json_deep_copy(json_object_get(d->body, "nodes"));
    j->created_ms = json_int_at(d->body, "created_ms");
    return true;
}

/* ---- as the API shows it ---- */

static void add_time(json_t *out, const char *name, const json_t *body, const char *from)
{
    char *text;

    if (json_object_get(body, from) == NULL)
        return;
    text = control_time(json_int_at(body, from));
    json_object_set_new(out, name, json_string(text));
    mem_free(&text);
}

json_t *job_json(const struct store_doc *d)
{
    static const char *const copied[] = {"dataset",    "splits", "qos",   "gpus",     "nodes",
                                         "node_count", "queue",  "state", "admission"};
    json_t *out = json_pack("{s:s, s:s}", "id", d->id, "tenant", d->tenant);

    for (size_t i = 0; i < DLC_COUNT(copied); i++)
        if (json_object_get(d->body, copied[i]) != NULL)
            json_object_set(out, copied[i], json_object_get(d->body, copied[i]));
    add_time(out, "created", d->body, "created_ms");
    add_time(out, "started", d->body, "started_ms");
    return out;
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

/* What nodes said of this job in their last heart-beats, node by node. Any program may call itself
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

void job_add_live(struct control *c, json_t *out, const char *id)
{
    struct node_info *nodes = NULL;
    size_t n_nodes = nodes_list(c, &nodes), n;
    struct job *jobs = jobs_copy(c, &n);

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
static bool job_read(struct control *c, const struct http_request *r, struct store_doc *out,
                     struct http_reply *reply)
{
    const char *id = read_name(r, 0, "job", reply);
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (id == NULL)
        return false;
    rc = store_get(c->store, STORE_JOB, id, out, &err);
    if (rc == 0 && caller_sees(caller_of(r), out->tenant))
        return true;
    if (rc == 0 || rc == DLC_ENOTFOUND)
        reply_absent(reply, "job", id);
    else
        reply_store_error(c, r, reply, &err);
    store_doc_release(out);
    return false;
}

/* ---- the rest ---- */

static json_t *shown(struct control *c, const struct store_doc *d, const struct caller *who)
{
    (void)c;
    (void)who;
    return job_json(d);
}

static void list(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
    const struct caller *who = caller_of(r);

    reply_page(c, r, STORE_JOB, who->role == ROLE_ADMIN ? http_query(r, "tenant") : who->tenant,
               shown, reply);
}

static void show(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    json_t *out;

    if (!job_read(c, r, &d, reply))
        return;
    out = job_json(&d);
    job_add_live(c, out, d.id);
    reply_doc(reply, 200, out, d.version);
    store_doc_release(&d);
}

static void delete (struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t expect;

    if (!read_if_match(r, &expect, reply) || !job_read(c, r, &d, reply))
        return;
    if (store_delete(c->store, STORE_JOB, d.id, expect, &err) < 0) {
        reply_store_error(c, r, reply, &err);
    } else {
        jobs_remove(c, d.id);
        control_event(c, d.tenant, "job.ended",
                      json_pack("{s:s, s:s*, s:s}", "job", d.id, "dataset",
                                json_text_at(d.body, "dataset"), "why", "it was deregistered"));
        view_changed(c);
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
static void heartbeat(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
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
    if (!jobs_find(c, id, &j) || (who->role != ROLE_NODE && !caller_sees(who, j.tenant)))
        reply_absent(reply, "job", id);
    else if (read_body(r, fields, reply) && figures_ok(figures, reply)) {
        if (jobs_heard(c, id, epochs != UINT64_MAX ? &epochs : NULL, figures, &state))
            reply_doc(reply, 200,
                      json_pack("{s:s, s:I}", "state", states[state], "interval_ms",
                                (json_int_t)(c->job_ttl.ns / 1000000 / 4)),
                      0);
        else
            reply_absent(reply, "job", id);
    }
    job_release(&j);
}

#define OWNER (ROLE_ADMIN | ROLE_TENANT)

const struct http_route control_job_routes[] = {
    {"GET", "/v1/jobs", OWNER, list},
    {"POST", "/v1/jobs", OWNER, job_create},
    {"GET", "/v1/jobs/{id}", OWNER, show},
    {"DELETE", "/v1/jobs/{id}", OWNER, delete},
    {"POST", "/v1/jobs/{id}/heartbeat", ROLE_ANY, heartbeat},
    {"POST", "/v1/jobs/{id}/weights", ROLE_NODE, job_weights},
    {NULL, NULL, 0, NULL},
};
