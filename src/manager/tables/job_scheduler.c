// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/job_scheduler.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/store/wall_time.h"
#include "manager/tables/accounting.h"
#include "manager/tables/capacity.h"
#include "manager/tables/cluster_view.h"
#include "manager/tables/dataset_listing.h"
#include "manager/tables/documents.h"
#include "manager/tables/ended_jobs.h"
#include "manager/tables/event_log.h"
#include "manager/tables/job_table.h"
#include "manager/tables/node_table.h"
#include "manager/tables/tables.h"

#define LIST_AGAIN DLC_SEC(5)

/* From the store, then from the table. */
static void job_end(struct tables *t, const struct job *j, const char *why)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc = ended_job_add(t, j, why, &err); /* (ENDED-1) */

    if (rc == 0)
        rc = store_delete(t->store, STORE_JOB, j->id, STORE_ANY, &err);
    if (rc < 0 && rc != DLC_ENOTFOUND) {
        log_warn("job %s has ended (%s), but: %s", j->id, why, err.text);
        return; /* the next tick tries again */
    }
    jobs_remove(t, j->id);
    event_log(t->store, j->tenant, "job.ended",
              json_pack("{s:s, s:s, s:s}", "job", j->id, "dataset", j->dataset, "why", why));
    view_changed(t);
}

void jobs_end_of_dataset(struct tables *t, const char *dataset)
{
    size_t n;
    struct job *jobs = jobs_copy(t, &n);

    for (size_t i = 0; i < n; i++)
        if (strcmp(jobs[i].dataset, dataset) == 0)
            job_end(t, &jobs[i], "its dataset was deleted");
    jobs_copy_release(&jobs, n);
}

static void end_silent(struct tables *t, struct dlc_mono now)
{
    size_t n;
    struct job *jobs = jobs_copy(t, &n);

    for (size_t i = 0; i < n; i++)
        if (dlc_mono_sub(now, jobs[i].heard).ns > t->job_ttl.ns)
            job_end(t, &jobs[i], "it was not heard of for too long");
    jobs_copy_release(&jobs, n);
}

struct verdict {
    enum job_state state;
    const struct admission *a;
};

static int set_verdict(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct verdict *v = arg;

    (void)err;
    json_object_set_new(d->body, "state", json_string(job_state_name(v->state)));
    json_object_set_new(d->body, "admission", admission_json(v->a));
    if (v->state == JOB_RUNNING)
        json_object_set_new(d->body, "started_ms", json_integer((json_int_t)wall_ms()));
    return 0;
}

static void decide(struct tables *t, struct job *j, const struct admission *a, enum job_state state)
{
    struct verdict v = {state, a};
    struct dlc_err err = DLC_ERR_INIT;

    if (document_change(t, STORE_JOB, j->id, STORE_ANY, set_verdict, &v, NULL, &err) < 0) {
        if (err.code != DLC_ENOTFOUND) /* it was deregistered just now */
            log_warn("job %s waits on: %s", j->id, err.text);
        return;
    }
    j->state = state;
    jobs_set_state(t, j->id, state);
    event_log(t->store, j->tenant, state == JOB_RUNNING ? "job.started" : "job.refused",
              json_pack("{s:s, s:s, s:o}", "job", j->id, "dataset", j->dataset, "admission",
                        admission_json(a)));
    view_changed(t);
}

/* Whoever is first in the queue, then the next: the order of capacity_admit() itself keeps others from
 * overtaking, so any order of looking is right. */
static void start_waiting(struct tables *t)
{
    struct node_info *nodes = NULL;
    size_t n_nodes = nodes_list(t, &nodes), n;
    struct job *jobs = jobs_copy(t, &n);

    for (size_t i = 0; i < n; i++) {
        struct job *j = &jobs[i];
        struct admission a;
        bool known;

        if (j->state != JOB_QUEUED)
            continue;
        capacity_admit(nodes, n_nodes, jobs, n, j, &a, &known);
        if (known && a.admitted)
            decide(t, j, &a, JOB_RUNNING);
        else if (known && !j->queue)
            decide(t, j, &a, JOB_REFUSED);
        else if (known)
            jobs_set_admission(t, j->id, &a);
    }
    jobs_copy_release(&jobs, n);
    nodes_release(&nodes, n_nodes);
}

/* Jobs whose datasets nobody has listed: the node that should have may be gone. */
static void list_again(struct tables *t, struct dlc_mono now)
{
    struct job *jobs;
    size_t n;

    if (dlc_mono_sub(now, t->jobs.listed_at).ns < LIST_AGAIN.ns)
        return;
    t->jobs.listed_at = now;
    jobs = jobs_copy(t, &n);
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].snapshot == NULL && jobs[i].state == JOB_QUEUED)
            dataset_list_for_job(t, jobs[i].dataset);
    }
    jobs_copy_release(&jobs, n);
}

/* Jobs may say that an epoch is done as often as they like: that alone makes a view a second. */
static void tell_runs(struct tables *t)
{
    bool changed;

    dlc_mtx_lock(&t->mtx);
    changed = t->jobs.runs_changed;
    t->jobs.runs_changed = false;
    dlc_mtx_unlock(&t->mtx);
    if (changed)
        view_changed(t);
}

/* (ENDED-3), one at a time: it reads the accounts since the job was made. */
static void settle_ended(struct tables *t)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *usage = NULL;
    char id[20];
    int rc;

    if (!ended_job_due(t, wall_ms(), id))
        return;
    rc = store_get(t->store, STORE_ENDED, id, &d, &err);
    if (rc == 0)
        rc = ended_job_usage(t->store, &d, &usage, &err);
    if (rc == 0 || rc == DLC_ENOTFOUND)
        rc = ended_job_settle(t, id, usage, &err);
    if (rc < 0)
        log_warn("the usage of job %s is not final yet: %s", id, err.text);
    json_decref(usage);
    store_doc_release(&d);
}

void jobs_tick(struct tables *t, struct dlc_mono now)
{
    if (!t->jobs.loaded)
        return;
    tell_runs(t);
    end_silent(t, now);
    dlc_mtx_lock(&t->jobs.admit);
    start_waiting(t);
    dlc_mtx_unlock(&t->jobs.admit);
    list_again(t, now);
    settle_ended(t);
}
