// SPDX-License-Identifier: Apache-2.0
/* Jobs: register, list, show, heart-beat, deregister. */
#include "control/jobs_i.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "control/datasets_i.h"

#define PRIORITY_MAX 1000
#define EPOCHS_MAX   1000000000
#define FIGURES_MAX  64

static const char *const states[] = {"queued", "running", "refused"};
static const char *const modes[] = {"lazy", "partitioned"};

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
    return json_pack("{s:b, s:s, s:I, s:i, s:I}", "cache", q->use_cache, "mode", modes[q->mode],
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

static int index_of(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; name != NULL && i < n; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

static const char *text_of(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

static json_int_t number_of(const json_t *o, const char *name)
{
    return json_integer_value(json_object_get(o, name));
}

bool job_of_doc(struct job *j, const struct meta_doc *d)
{
    const json_t *qos = json_object_get(d->body, "qos");
    const char *dataset = text_of(d->body, "dataset");
    int state = index_of(states, DLC_COUNT(states), text_of(d->body, "state"));
    int mode = index_of(modes, DLC_COUNT(modes), text_of(qos, "mode"));

    memset(j, 0, sizeof(*j));
    if (dataset == NULL || !name_ok(dataset) || state < 0 || mode < 0 ||
        strlen(d->id) >= sizeof(j->id) || strlen(d->tenant) >= sizeof(j->tenant))
        return false;
    snprintf(j->id, sizeof(j->id), "%s", d->id);
    snprintf(j->dataset, sizeof(j->dataset), "%s", dataset);
    snprintf(j->tenant, sizeof(j->tenant), "%s", d->tenant);
    j->state = (enum job_state)state;
    j->qos = (struct qos){.use_cache = json_is_true(json_object_get(qos, "cache")),
                          .mode = (enum qos_mode)mode,
                          .memory_limit = (uint64_t)number_of(qos, "memory_limit"),
                          .priority = (int)number_of(qos, "priority"),
                          .epochs = (uint64_t)number_of(qos, "epochs")};
    j->queue = json_is_true(json_object_get(d->body, "queue"));
    j->gpus = (unsigned)number_of(d->body, "gpus");
    j->node_count = (unsigned)number_of(d->body, "node_count");
    j->splits = json_deep_copy(json_object_get(d->body, "splits"));
    j->nodes = json_deep_copy(json_object_get(d->body, "nodes"));
    j->created_ms = (int64_t)number_of(d->body, "created_ms");
    return true;
}

/* ---- as the API shows it ---- */

static void add_time(json_t *out, const char *name, const json_t *body, const char *from)
{
    char *text;

    if (json_object_get(body, from) == NULL)
        return;
    text = control_time((int64_t)number_of(body, from));
    json_object_set_new(out, name, json_string(text));
    mem_free(&text);
}

static json_t *job_json(const struct meta_doc *d)
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
    out = room_place(nodes, n, jobs, n_jobs, j->dataset, j->nodes != NULL ? j->nodes : j->lies_on,
                     &ask);
    return out != NULL ? out : json_array();
}

/* What nodes said of this job in their last heart-beats, node by node. */
static json_t *live_of(const struct node_info *nodes, size_t n, const char *id)
{
    json_t *out = json_object();

    for (size_t i = 0; i < n; i++) {
        json_t *f = json_object_get(json_object_get(nodes[i].figures, "jobs"), id);

        if (f != NULL && nodes[i].state != NODE_GONE)
            json_object_set(out, nodes[i].name, f);
    }
    return out;
}

static void add_live(struct control *c, json_t *out, const char *id)
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
    json_object_set_new(out, "live", live_of(nodes, n_nodes, id));
    jobs_copy_release(&jobs, n);
    nodes_release(&nodes, n_nodes);
}

/* The job of the path, if the caller may see it. */
static bool job_read(struct control *c, const struct http_request *r, struct meta_doc *out,
                     struct http_reply *reply)
{
    const char *id = read_name(r, 0, "job", reply);
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (id == NULL)
        return false;
    rc = meta_get(c->meta, META_JOB, id, out, &err);
    if (rc == 0 && caller_sees(caller_of(r), out->tenant))
        return true;
    if (rc == 0 || rc == DLC_ENOTFOUND)
        reply_absent(reply, "job", id);
    else
        reply_store_error(c, r, reply, &err);
    meta_doc_release(out);
    return false;
}

/* ---- register ---- */

static bool read_qos(const json_t *o, struct qos *q, struct http_reply *reply)
{
    const char *mode = modes[QOS_LAZY];
    int64_t priority = 0;
    int m;
    const struct field fields[] = {
        {"cache", FIELD_BOOL, false, 0, &q->use_cache},
        {"mode", FIELD_TEXT, false, 0, &mode},
        {"memory_limit", FIELD_U64, false, 0, &q->memory_limit},
        {"priority", FIELD_INT, false, PRIORITY_MAX, &priority},
        {"epochs", FIELD_U64, false, EPOCHS_MAX, &q->epochs},
        {NULL, 0, false, 0, NULL},
    };

    q->use_cache = true;
    if (o != NULL && !read_object(o, "qos.", fields, reply))
        return false;
    m = index_of(modes, DLC_COUNT(modes), mode);
    if (m < 0) {
        refuse_field(reply, "qos.", "mode", "must be lazy or partitioned");
        return false;
    }
    q->mode = (enum qos_mode)m;
    q->priority = (int)priority;
    return true;
}

static bool read_job(struct control *c, const struct http_request *r, struct job *j,
                     struct http_reply *reply)
{
    const char *dataset = NULL;
    const json_t *splits = NULL, *nodes = NULL, *qos = NULL;
    uint64_t gpus = 0, count = 0;
    const struct field fields[] = {
        {"dataset", FIELD_NAME, true, 0, &dataset},
        {"splits", FIELD_TEXTS, false, SPLITS_MAX, &splits},
        {"qos", FIELD_OBJECT, false, 0, &qos},
        {"gpus", FIELD_U64, false, 1024, &gpus},
        {"nodes", FIELD_NAMES, false, 0, &nodes},
        {"node_count", FIELD_U64, false, 1000, &count},
        {"queue", FIELD_BOOL, false, 0, &j->queue},
        {NULL, 0, false, 0, NULL},
    };

    if (!read_body(r, fields, reply) || !splits_ok(splits, "splits", reply) ||
        !nodes_known(c, nodes, "nodes", reply) || !read_qos(qos, &j->qos, reply))
        return false;
    snprintf(j->dataset, sizeof(j->dataset), "%s", dataset);
    j->splits = splits != NULL ? json_deep_copy(splits) : json_array();
    j->nodes = json_array_size(nodes) > 0 ? json_deep_copy(nodes) : NULL;
    j->gpus = (unsigned)gpus;
    j->node_count = (unsigned)count;
    j->created_ms = control_wall_ms();
    new_id(r, 'j', j->id);
    return true;
}

/* Its dataset, if the caller may use it; 404 otherwise. Gives *d. */
static bool find_dataset(struct control *c, const struct http_request *r, const struct job *j,
                         struct meta_doc *d, struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc = meta_get(c->meta, META_DATASET, j->dataset, d, &err);

    if (rc == 0 && caller_sees(caller_of(r), d->tenant))
        return true;
    if (rc == 0 || rc == DLC_ENOTFOUND)
        reply_absent(reply, "dataset", j->dataset);
    else
        reply_store_error(c, r, reply, &err);
    return false;
}

static void take_dataset(struct job *j, const struct meta_doc *d)
{
    snprintf(j->tenant, sizeof(j->tenant), "%s", d->tenant);
    if (json_array_size(j->splits) == 0) { /* those the dataset was made for */
        json_decref(j->splits);
        j->splits = json_deep_copy(json_object_get(d->body, "splits"));
    }
    j->snapshot = json_deep_copy(dataset_snapshot(d->body));
    j->lies_on = json_deep_copy(dataset_nodes(d->body));
}

static bool read_dataset(struct control *c, const struct http_request *r, struct job *j,
                         struct http_reply *reply)
{
    struct meta_doc d = META_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    bool ok = false;
    uint64_t bytes;

    if (!find_dataset(c, r, j, &d, reply))
        goto out;
    if (json_object_get(d.body, "node_count") != NULL && dataset_nodes(d.body) == NULL) {
        meta_doc_release(&d);
        if (dataset_place(c, j->dataset, j->gpus, &err) < 0) {
            reply_store_error(c, r, reply, &err);
            goto out;
        }
        if (!find_dataset(c, r, j, &d, reply))
            goto out;
    }
    take_dataset(j, &d);
    ok = j->snapshot == NULL || snapshot_bytes(j->snapshot, j->splits, &bytes);
    if (!ok)
        refuse_field(reply, "", "splits", "dataset %s has no such split", j->dataset);
out:
    meta_doc_release(&d);
    return ok;
}

static void refuse(struct http_reply *reply, const struct job *j, const struct admission *a)
{
    json_t *numbers = admission_json(a);

    http_problem(reply, 507, "No room",
                 "the job needs %llu bytes; %llu are free and %llu may be evicted, of which %llu "
                 "are promised to others. Wait with \"queue\": true, read fewer splits, or use "
                 "qos.mode partitioned",
                 (unsigned long long)a->need, (unsigned long long)a->free,
                 (unsigned long long)a->evictable, (unsigned long long)a->promised);
    json_object_update(reply->body, numbers);
    json_object_set_new(reply->body, "dataset", json_string(j->dataset));
    json_decref(numbers);
}

/* Written and in the table; or there already, when this is the same request again. */
static bool write_new(struct control *c, const struct http_request *r, struct job *j,
                      const struct admission *a, struct meta_doc *d, struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;

    d->id = mem_str(j->id);
    d->tenant = mem_str(j->tenant);
    d->body = job_body(j, a);
    if (meta_put(c->meta, META_JOB, d, META_NEW, &err) < 0) {
        struct meta_doc was = META_DOC_INIT;

        if (err.code == DLC_EBUSY && meta_get(c->meta, META_JOB, j->id, &was, NULL) == 0 &&
            strcmp(was.tenant, j->tenant) == 0) {
            meta_doc_release(d);
            *d = was;
            return true;
        }
        meta_doc_release(&was);
        reply_store_error(c, r, reply, &err);
        return false;
    }
    control_event(c, j->tenant, j->state == JOB_RUNNING ? "job.started" : "job.queued",
                  json_pack("{s:s, s:s, s:o}", "job", j->id, "dataset", j->dataset, "admission",
                            admission_json(a)));
    j->heard = dlc_mono_now();
    jobs_add(c, j);
    view_changed(c);
    return true;
}

/* With jobs->admit held. */
static bool admit_new(struct control *c, const struct http_request *r, struct job *j,
                      struct meta_doc *d, struct http_reply *reply)
{
    struct node_info *nodes = NULL;
    size_t n_nodes = nodes_list(c, &nodes), n;
    struct job *jobs = jobs_copy(c, &n);
    struct dlc_err err = DLC_ERR_INIT;
    struct admission a;
    bool known;

    room_admit(nodes, n_nodes, jobs, n, j, &a, &known);
    jobs_copy_release(&jobs, n);
    nodes_release(&nodes, n_nodes);
    if (known && !a.admitted && !j->queue) {
        refuse(reply, j, &a);
        return false;
    }
    j->state = known && a.admitted ? JOB_RUNNING : JOB_QUEUED;
    if (!known) {
        json_t *body = json_pack("{s:O*}", "nodes", j->lies_on);

        if (dataset_have_listed(c, j->dataset, body, &err) < 0)
            log_warn("dataset %s: not listed yet: %s", j->dataset, err.text);
        json_decref(body);
    }
    return write_new(c, r, j, &a, d, reply);
}

static void create(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
    struct meta_doc d = META_DOC_INIT;
    struct job j = {0};
    bool ok;

    if (reply_again(c, r, reply) || !read_job(c, r, &j, reply) || !jobs_lock(c, reply))
        goto out;
    ok = read_dataset(c, r, &j, reply) && admit_new(c, r, &j, &d, reply);
    jobs_unlock(c);
    if (ok) {
        json_t *out = job_json(&d);

        add_live(c, out, d.id);
        reply_doc(reply, 201, out, d.version);
        reply->location = mem_fmt("/v1/jobs/%s", d.id);
        reply_remember(c, r, reply);
    }
out:
    job_release(&j);
    meta_doc_release(&d);
}

/* ---- the rest ---- */

static void list(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
    const struct caller *who = caller_of(r);
    const char *tenant = who->role == ROLE_ADMIN ? http_query(r, "tenant") : who->tenant;
    struct dlc_err err = DLC_ERR_INIT;
    struct meta_doc *docs;
    struct page p;
    json_t *items;
    size_t n = 0;

    if (!read_page(r, &p, reply))
        return;
    docs = mem_zero((p.limit + 1) * sizeof(*docs));
    if (meta_list(c->meta, META_JOB, tenant, p.after, p.limit + 1, docs, &n, &err) < 0) {
        reply_store_error(c, r, reply, &err);
    } else {
        items = json_array();
        for (size_t i = 0; i < n && i < p.limit; i++)
            json_array_append_new(items, job_json(&docs[i]));
        reply_list(reply, items, n > p.limit ? docs[p.limit - 1].id : NULL);
    }
    for (size_t i = 0; i < n; i++)
        meta_doc_release(&docs[i]);
    mem_free(&docs);
}

static void show(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
    struct meta_doc d = META_DOC_INIT;
    json_t *out;

    if (!job_read(c, r, &d, reply))
        return;
    out = job_json(&d);
    add_live(c, out, d.id);
    reply_doc(reply, 200, out, d.version);
    meta_doc_release(&d);
}

static void delete (struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
    struct meta_doc d = META_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t expect;

    if (!read_if_match(r, &expect, reply) || !job_read(c, r, &d, reply))
        return;
    if (meta_delete(c->meta, META_JOB, d.id, expect, &err) < 0) {
        reply_store_error(c, r, reply, &err);
    } else {
        jobs_remove(c, d.id);
        control_event(c, d.tenant, "job.ended",
                      json_pack("{s:s, s:s*, s:s}", "job", d.id, "dataset",
                                text_of(d.body, "dataset"), "why", "it was deregistered"));
        view_changed(c);
        reply->status = 204;
    }
    meta_doc_release(&d);
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
    {"POST", "/v1/jobs", OWNER, create},
    {"GET", "/v1/jobs/{id}", OWNER, show},
    {"DELETE", "/v1/jobs/{id}", OWNER, delete},
    {"POST", "/v1/jobs/{id}/heartbeat", ROLE_ANY, heartbeat},
    {NULL, NULL, 0, NULL},
};
