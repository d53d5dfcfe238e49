// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/job_register.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "manager/routes/api.h"
#include "manager/routes/dataset_fields.h"
#include "manager/routes/dataset_names.h"
#include "manager/routes/datasets.h"
#include "manager/routes/idempotency.h"
#include "manager/routes/jobs.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/store/wall_time.h"
#include "manager/tables/capacity.h"
#include "manager/tables/cluster_view.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/dataset_listing.h"
#include "manager/tables/dataset_placement.h"
#include "manager/tables/event_log.h"
#include "manager/tables/job_table.h"
#include "manager/tables/node_table.h"

#define PRIORITY_MAX   1000
#define JOBS_OF_TENANT 200 /* in the table */

static bool read_qos(const json_t *o, struct qos *q, struct http_reply *reply)
{
    const char *mode = job_modes[QOS_LAZY];
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
    m = name_index(job_modes, DLC_COUNT(job_modes), mode);
    if (m < 0) {
        refuse_field(reply, "qos.", "mode", "must be lazy or partitioned");
        return false;
    }
    q->mode = (enum qos_mode)m;
    q->priority = (int)priority;
    return true;
}

static bool read_job(struct api *api, const struct http_request *r, struct job *j,
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
        !nodes_known(api, nodes, "nodes", reply) || !read_qos(qos, &j->qos, reply))
        return false;
    snprintf(j->dataset, sizeof(j->dataset), "%s", dataset);
    j->splits = splits != NULL ? json_deep_copy(splits) : json_array();
    j->nodes = json_array_size(nodes) > 0 ? json_deep_copy(nodes) : NULL;
    j->gpus = (unsigned)gpus;
    j->node_count = (unsigned)count;
    j->created_ms = wall_ms();
    idempotency_new_id(r, 'j', j->id);
    return true;
}

/* Its dataset, if the caller may use it; 404 otherwise. Gives *d. */
static bool find_dataset(struct api *api, const struct http_request *r, struct job *j,
                         struct store_doc *d, struct http_reply *reply)
{
    if (!names_read(api, r, j->dataset, d, reply))
        return false;
    snprintf(j->dataset, sizeof(j->dataset), "%s", d->id);
    return true;
}

static void take_dataset(struct job *j, const struct store_doc *d)
{
    snprintf(j->tenant, sizeof(j->tenant), "%s", d->tenant);
    if (json_array_size(j->splits) == 0) { /* those the dataset was made for */
        json_decref(j->splits);
        j->splits = json_deep_copy(json_object_get(d->body, "splits"));
    }
    j->snapshot = json_deep_copy(dataset_snapshot(d->body));
    j->lies_on = json_deep_copy(dataset_nodes(d->body));
}

static bool read_dataset(struct api *api, const struct http_request *r, struct job *j,
                         struct http_reply *reply)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    bool ok = false;
    uint64_t bytes;

    if (!find_dataset(api, r, j, &d, reply))
        goto out;
    if (json_object_get(d.body, "node_count") != NULL && dataset_nodes(d.body) == NULL) {
        store_doc_release(&d);
        if (dataset_place(api->tables, j->dataset, j->gpus, &err) < 0) {
            reply_store_error(api, r, reply, &err);
            goto out;
        }
        if (!find_dataset(api, r, j, &d, reply))
            goto out;
    }
    take_dataset(j, &d);
    ok = j->snapshot == NULL || snapshot_bytes(j->snapshot, j->splits, &bytes);
    if (!ok)
        refuse_field(reply, "", "splits", "dataset %s has no such split", dataset_doc_name(&d));
out:
    store_doc_release(&d);
    return ok;
}

static void refuse(struct api *api, const struct http_request *r, struct http_reply *reply,
                   const struct job *j, const struct admission *a)
{
    json_t *numbers = admission_json(a);

    http_problem(reply, 507, "No room",
                 "the job needs %llu bytes; %llu are free and %llu may be evicted, of which %llu "
                 "are promised to others. Let it wait in the queue, read fewer splits, or take the "
                 "mode partitioned",
                 (unsigned long long)a->need, (unsigned long long)a->free,
                 (unsigned long long)a->evictable, (unsigned long long)a->promised);
    json_object_update(reply->body, numbers);
    json_object_set_new(reply->body, "dataset", json_string(j->dataset));
    names_show(api, caller_of(r), reply->body, "dataset");
    json_decref(numbers);
}

/* Written and in the table; or there already, when this is the same request again. */
static bool write_new(struct api *api, const struct http_request *r, struct job *j,
                      const struct admission *a, struct store_doc *d, struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;

    d->id = mem_str(j->id);
    d->tenant = mem_str(j->tenant);
    d->body = job_body(j, a);
    if (store_put(api->tables->store, STORE_JOB, d, STORE_NEW, &err) < 0) {
        struct store_doc was = STORE_DOC_INIT;

        if (err.code == DLC_EBUSY &&
            store_get(api->tables->store, STORE_JOB, j->id, &was, NULL) == 0 &&
            strcmp(was.tenant, j->tenant) == 0) {
            store_doc_release(d);
            *d = was;
            return true;
        }
        store_doc_release(&was);
        reply_store_error(api, r, reply, &err);
        return false;
    }
    event_log(api->tables->store, j->tenant, j->state == JOB_RUNNING ? "job.started" : "job.queued",
              json_pack("{s:s, s:s, s:o}", "job", j->id, "dataset", j->dataset, "admission",
                        admission_json(a)));
    j->heard = dlc_mono_now();
    jobs_add(api->tables, j);
    view_changed(api->tables);
    return true;
}

/* Every decision looks at every other job: no tenant may make them many. Admins may. */
static bool too_many(const struct job *jobs, size_t n, const struct job *j,
                     struct http_reply *reply)
{
    size_t mine = 0;

    for (size_t i = 0; i < n; i++)
        mine += strcmp(jobs[i].tenant, j->tenant) == 0;
    if (j->tenant[0] == '\0' || mine < JOBS_OF_TENANT)
        return false;
    http_problem(reply, 429, "Too many jobs",
                 "tenant %s has %zu jobs already; end some (`dlcache job rm`)", j->tenant, mine);
    return true;
}

/* With jobs.admit held. */
static bool admit_new(struct api *api, const struct http_request *r, struct job *j,
                      struct store_doc *d, struct http_reply *reply)
{
    struct node_info *nodes = NULL;
    size_t n_nodes = nodes_list(api->tables, &nodes), n;
    struct job *jobs = jobs_copy(api->tables, &n);
    struct admission a = {0};
    bool known = false, many = too_many(jobs, n, j, reply);

    if (!many)
        capacity_admit(nodes, n_nodes, jobs, n, j, &a, &known);
    jobs_copy_release(&jobs, n);
    nodes_release(&nodes, n_nodes);
    if (many)
        return false;
    if (known && !a.admitted && !j->queue) {
        refuse(api, r, reply, j, &a);
        return false;
    }
    j->state = known && a.admitted ? JOB_RUNNING : JOB_QUEUED;
    if (!known)
        dataset_list_for_job(api->tables, j->dataset);
    return write_new(api, r, j, &a, d, reply);
}

void route_jobs_create(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    struct job j = {0};
    bool ok;

    if (idempotency_replay(api, r, reply) || !read_job(api, r, &j, reply) ||
        !api_lock_jobs(api, reply))
        goto out;
    ok = read_dataset(api, r, &j, reply) && admit_new(api, r, &j, &d, reply);
    jobs_unlock(api->tables);
    if (ok) {
        json_t *out = job_json(&d);

        job_add_reason(api, out);
        job_add_live(api, out, d.id, d.body);
        names_show(api, caller_of(r), out, "dataset");
        reply_doc(reply, 201, out, d.version);
        reply->location = mem_fmt("/v1/jobs/%s", d.id);
        idempotency_record(api, r, reply);
    }
out:
    job_release(&j);
    store_doc_release(&d);
}
