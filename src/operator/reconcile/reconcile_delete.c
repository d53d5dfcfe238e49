// SPDX-License-Identifier: Apache-2.0
/*
 * Deletion of a DLTPod. (RECONCILE-3) Its jobs are deregistered first. A job that was created just
 * before a crash, whose number nobody recorded, is found by sending its idempotency key again, and
 * then deregistered. The data stays for the DLTPod's retention, as a CachedDataset that expires by
 * itself. The operator deletes the pods itself, because the garbage collector, which deletes all
 * other owned objects, is slow.
 */
#include "operator/reconcile/reconcile_i.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"

static void add_end(struct round *r, enum action_kind kind, size_t i, const char *name)
{
    struct action *a = add_action(r->out, kind);

    a->job = i;
    snprintf(a->name, sizeof(a->name), "%s", name);
}

/* Was there perhaps a job that nobody wrote down? Only where there is data there can be one. */
static bool may_have_job(const struct round *r, size_t i)
{
    const struct seen_job *j = &r->o->jobs[i];
    const json_t *was = status_of_job(r->o, j->name, j->dataset);

    return j->in_spec && !j->job.ended && j->job.refused == 0 && j->data.body != NULL &&
           (was == NULL || json_object_get(was, "registered") == NULL ||
            json_true_at(was, "registered"));
}

static enum step find_job(struct round *r, size_t i)
{
    struct job_round w;
    bool known;

    job_init(&w, r, i);
    known = w.known;
    if (known)
        job_make(&w);
    job_round_release(&w);
    return known ? AGAIN : GO;
}

static enum step end_jobs(struct round *r)
{
    enum step all = GO;

    for (size_t i = 0; i < r->o->n_jobs; i++) {
        const struct seen_job *j = &r->o->jobs[i];

        if (j->job.body != NULL) {
            add_end(r, ACT_END_JOB, i, json_text_at(j->job.body, "id"));
            all = AGAIN;
        } else if (may_have_job(r, i) && find_job(r, i) == AGAIN) {
            all = AGAIN;
        }
    }
    return all;
}

static bool names_before(const struct observed *o, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(o->jobs[k].dataset, o->jobs[i].dataset) == 0)
            return true;
    return false;
}

/* Is this data that we read, that nobody else names, and that is still there? */
static bool is_left(const struct observed *o, size_t i)
{
    const struct seen_job *j = &o->jobs[i];

    if (j->data.body == NULL || j->shared || j->ref[0] != '\0' || j->data.refused != 0 ||
        names_before(o, i))
        return false;
    return j->in_spec ? data_is(j->data.body, o->tenant, &o->spec.jobs[i].data) : j->id[0] != '\0';
}

/* Nobody can hold it: the API server did not take the CachedDataset that would. */
static bool is_rejected(const struct observed *o, size_t i)
{
    const struct rejection *no = &o->rejected;
    char name[SPEC_NAME_LEN];

    if (no->status == 0 || no->kind != KUBE_DATASET)
        return false;
    spec_data_name(json_text_at(o->object, "metadata.name"), &o->spec.jobs[i], name);
    return no->name[0] == '\0' || strcmp(no->name, name) == 0;
}

static void say_not_kept(struct round *r, size_t i)
{
    struct action *a = add_action(r->out, ACT_EVENT);

    a->warning = true;
    snprintf(a->reason, sizeof(a->reason), "NotKept");
    snprintf(a->text, sizeof(a->text),
             "dataset %s is given up, not kept: the API server does not take a CachedDataset for "
             "it: %.340s",
             r->o->jobs[i].dataset, r->o->rejected.message);
    cut_text(a->text);
}

/* What is not to be kept, or cannot be: given up. */
static enum step give_up(struct round *r)
{
    const struct observed *o = r->o;
    enum step all = GO;

    for (size_t i = 0; i < o->n_jobs; i++) {
        bool rejected = o->jobs[i].in_spec && is_rejected(o, i);

        if (!is_left(o, i) || (o->jobs[i].in_spec && o->spec.retention_s > 0 && !rejected))
            continue;
        if (rejected)
            say_not_kept(r, i);
        add_end(r, ACT_END_DATASET, i, o->jobs[i].dataset);
        all = AGAIN;
    }
    return all;
}

/* What is to be kept for a while. */
static void hand_on(struct round *r)
{
    const struct observed *o = r->o;

    for (size_t i = 0; i < o->n_jobs; i++) {
        struct build_input in = {.object = o->object, .spec = &o->spec, .job = i};
        struct action *a;

        if (!is_left(o, i) || !o->jobs[i].in_spec)
            continue;
        a = add_action(r->out, ACT_APPLY);
        a->object = KUBE_DATASET;
        a->body = build_retained(&in);
        snprintf(a->name, sizeof(a->name), "%s", json_text_at(a->body, "metadata.name"));
    }
}

/* Nobody waits until they are gone: nothing of ours depends on it. */
static void end_pods(struct round *r)
{
    const struct observed *o = r->o;
    const json_t *pod;
    size_t i;

    json_array_foreach(o->pods, i, pod)
    {
        if (is_owned(pod, o->object) && !is_deleted(pod) && !pod_has_ended(pod))
            pod_remove(r->out, pod, false);
    }
}

/* Data that was to go and that somebody reads, whom no object of Kubernetes tells of. NULL: none.
 */
static const struct response *data_in_use(const struct round *r)
{
    for (size_t i = 0; i < r->o->n_jobs; i++)
        if (r->o->jobs[i].data.body != NULL && r->o->jobs[i].data.refused != 0)
            return &r->o->jobs[i].data;
    return NULL;
}

/* r->message says for what. */
static void wait_on(struct round *r)
{
    const json_t *jobs = json_object_get(r->was, "jobs");

    if (jobs != NULL)
        json_object_set(r->fields, "jobs", (json_t *)jobs);
    look_after(r->out, RECON_LOOK_AWAY);
    end_pods(r);
    status_write(r);
}

void reconcile_away(struct round *r)
{
    if (r->o->is_dataset) {
        reconcile_dataset(r);
        return;
    }
    if (r->o->manager_away) {
        snprintf(r->message, sizeof(r->message),
                 "its deletion waits for the manager, which does not answer: %s",
                 r->o->manager_error);
        wait_on(r);
        return;
    }
    if (end_jobs(r) == AGAIN || give_up(r) == AGAIN) {
        r->out->again = true;
        return;
    }
    if (data_in_use(r) != NULL) {
        snprintf(r->message, sizeof(r->message), "its deletion waits: %.400s",
                 data_in_use(r)->message);
        wait_on(r);
        return;
    }
    end_pods(r);
    hand_on(r);
    add_action(r->out, ACT_DROP_FINALIZER);
}
