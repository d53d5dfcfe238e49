// SPDX-License-Identifier: Apache-2.0
/* Reconcile a DLTPod: the order of its steps, and its phase. */
#include "operator/reconcile/reconcile_i.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"

/* ---- figures ---- */

struct sums {
    double hits, misses, bytes, stall_s, readers, cost, pod_s;
    int64_t samples, total, percent_of, percent_in;
};

/* The manager's account of the job, which restarts of nodes do not change. False: it is not known. */
static bool add_usage(struct sums *s, const struct seen_job *j)
{
    const json_t *body = j->job.body != NULL ? j->job.body : j->ended.body;
    const json_t *usage = json_object_get(body, "usage");
    const char *name;
    json_t *v;

    json_object_foreach(json_object_get(usage, "hits"), name, v)
    {
        s->hits += json_number_value(v);
    }
    s->misses += json_number_at(usage, "misses");
    s->bytes += json_number_at(usage, "read_bytes");
    s->stall_s += json_number_at(usage, "stalled_s");
    json_object_foreach(json_object_get(body, "live"), name, v)
    {
        s->readers += json_number_at(v, "readers");
    }
    return usage != NULL;
}

static void add_progress(struct sums *s, const json_t *data)
{
    const json_t *snapshot = json_object_get(data, "snapshot");
    int64_t bytes = json_int_at(snapshot, "bytes"), cached = prepared_bytes(data);

    if (snapshot == NULL)
        return;
    s->total += json_int_at(snapshot, "samples");
    s->samples +=
        bytes > 0
            ? (int64_t)((double)json_int_at(snapshot, "samples") * (double)cached / (double)bytes)
            : json_int_at(snapshot, "samples");
    s->percent_of += bytes;
    s->percent_in += cached;
}

/* Jobs that read the same data have spent it together. */
static void add_cost(struct sums *s, const struct observed *o, size_t job)
{
    double money = spent_at(o->jobs[job].data.body);

    for (size_t i = 0; i < job; i++)
        if (strcmp(o->jobs[i].dataset, o->jobs[job].dataset) == 0 &&
            spent_at(o->jobs[i].data.body) >= 0)
            return;
    if (money >= 0)
        s->cost = fmax(s->cost, 0) + money;
}

/* How long its pods have run so far. */
static double pod_seconds(const struct observed *o)
{
    const json_t *pod;
    double sum = 0;
    size_t i;

    json_array_foreach(o->pods, i, pod)
    {
        const json_t *status = json_object_get(pod, "status");
        const json_t *container = json_array_get(json_object_get(status, "containerStatuses"), 0);
        int64_t since = time_at(status, "startTime");
        int64_t end = time_at(json_at(container, "state.terminated"), "finishedAt");

        end = end > 0 ? end : o->now;
        if (is_owned(pod, o->object) && since > 0 && since < end)
            sum += (double)(end - since);
    }
    return sum;
}

static void set_figures(struct round *r)
{
    const struct observed *o = r->o;
    struct sums s = {.cost = -1};
    bool known = true;

    for (size_t i = 0; i < o->n_jobs && o->jobs[i].in_spec; i++) {
        known &= add_usage(&s, &o->jobs[i]) || o->jobs[i].id[0] == '\0';
        add_progress(&s, o->jobs[i].data.body);
        add_cost(&s, o, i);
    }
    s.pod_s = pod_seconds(o) * fmax(1, s.readers / fmax(1, (double)o->spec.replicas));
    if (s.total > 0)
        json_object_set_new(
            r->figures, "progress",
            json_pack("{s:I, s:I, s:I}", "samples", (json_int_t)s.samples, "total",
                      (json_int_t)s.total, "percent",
                      (json_int_t)(s.percent_of > 0 ? 100 * s.percent_in / s.percent_of : 100)));
    if (known && s.hits + s.misses > 0) {
        json_object_set_new(r->figures, "hitShare",
                            json_real(round3(s.hits / (s.hits + s.misses))));
        json_object_set_new(r->figures, "bytes", json_integer((json_int_t)s.bytes));
        if (s.pod_s > 0)
            json_object_set_new(r->figures, "stallShare",
                                json_real(round3(fmin(1, s.stall_s / s.pod_s))));
    }
    set_cost(r, s.cost);
}

/* ---- phase and conditions ---- */

/* Jobs do not know of each other: one that fails does not end the others. When all have ended the
 * DLTPod has, and it has failed if one of them has. */
static enum phase phase_of(const struct job_round *w, size_t n)
{
    enum phase least = FAILED, most = PENDING;
    bool running = false;

    for (size_t i = 0; i < n; i++) {
        running |= w[i].state == RUNNING;
        least = DLC_MIN(least, w[i].state);
        most = DLC_MAX(most, w[i].state);
    }
    if (least >= SUCCEEDED)
        return most;
    return running ? RUNNING : least;
}

/* The first that has something else to say than True, or the first. */
static const struct condition *worst(const struct job_round *w, size_t n, size_t offset)
{
    const struct condition *first = NULL;

    for (size_t i = 0; i < n; i++) {
        const struct condition *c = (const void *)((const char *)&w[i] + offset);

        if (c->status == NULL)
            continue;
        if (strcmp(c->status, "True") != 0)
            return c;
        first = first == NULL ? c : first;
    }
    return first;
}

static void set_ends(struct round *r, enum phase p, const struct job_round *failed)
{
    if (p == SUCCEEDED)
        say(r, COND_SUCCEEDED, "True", "Succeeded", "all pods have ended well");
    else
        say(r, COND_SUCCEEDED, "False", p == FAILED ? "Failed" : "NotEnded", "%s",
            p == FAILED ? "it has failed" : "it has not ended");
    if (p == FAILED)
        warn(r, COND_FAILED, "True", failed->failed.reason, "%s", failed->failed.message);
    else if (failed != NULL)
        warn(r, COND_FAILED, "False", "JobFailed", "job %s has failed, others go on: %s",
             failed->j->name, failed->failed.message);
    else
        say(r, COND_FAILED, "False", p == SUCCEEDED ? "Succeeded" : "NotEnded", "%s",
            p == SUCCEEDED ? "it has ended well" : "it has not ended");
}

static void set_conditions(struct round *r, const struct job_round *w, size_t n)
{
    const struct condition *ready = worst(w, n, offsetof(struct job_round, ready));
    const struct condition *placed = worst(w, n, offsetof(struct job_round, placed));
    const struct condition *trouble = worst(w, n, offsetof(struct job_round, trouble));
    const struct job_round *failed = NULL;
    enum phase p = phase_of(w, n);

    for (size_t i = 0; i < n && failed == NULL; i++)
        failed = w[i].state == FAILED ? &w[i] : NULL;
    if (ready != NULL && r->conds[COND_DATASET].status == NULL)
        r->conds[COND_DATASET] = *ready;
    if (placed != NULL)
        r->conds[COND_PLACED] = *placed;
    else if (!r->o->manager_away)
        say(r, COND_PLACED, "False", "NotPrepared", "its data is not ready for it yet");
    if (trouble != NULL && p < SUCCEEDED)
        r->conds[COND_RUNNING] = *trouble;
    else if (p == RUNNING)
        say(r, COND_RUNNING, "True", "Running", "its pods run");
    else
        say(r, COND_RUNNING, "False", p >= SUCCEEDED ? "Ended" : "NotStarted", "%s",
            p >= SUCCEEDED ? "its pods have ended" : "no pod runs");
    set_ends(r, p, failed);
    r->phase = phase_names[p];
}

/* What people should read first. */
static void set_message(struct round *r)
{
    static const size_t order[] = {COND_FAILED, COND_DATASET, COND_PLACED, COND_RUNNING};

    for (size_t i = 0; i < DLC_COUNT(order); i++) {
        const struct condition *c = &r->conds[order[i]];
        const char *bad = order[i] == COND_FAILED    ? "True"
                          : order[i] == COND_RUNNING ? "" /* only a warning: it may not be time */
                                                     : "False";

        if (c->status != NULL &&
            (strcmp(c->status, bad) == 0 || c->warning || strcmp(c->status, "Unknown") == 0)) {
            snprintf(r->message, sizeof(r->message), "%s", c->message);
            return;
        }
    }
}

/* ---- when to look again ---- */

/* The longer something takes the less often it is looked at. */
static struct dlc_dur pace(const struct round *r)
{
    const json_t *c = condition_was(r, "DatasetReady");
    int64_t since = c != NULL
                        ? time_at(c, "lastTransitionTime")
                        : time_at(json_object_get(r->o->object, "metadata"), "creationTimestamp");

    return DLC_SEC(DLC_CLAMP((r->o->now - since) / 4, 1, 10));
}

/* Has a pod of it the data open? Then nodes say that it lives. */
static bool is_read(const struct job_round *w)
{
    const char *node;
    json_t *f;

    json_object_foreach(json_object_get(w->j->job.body, "live"), node, f)
    {
        if (json_int_at(f, "readers") > 0)
            return true;
    }
    return false;
}

static void set_looks(struct round *r, const struct job_round *w, size_t n)
{
    for (size_t i = 0; i < n && !r->o->manager_away; i++) {
        if (w[i].over && !w[i].registered)
            continue;
        if (w[i].rejected)
            look_after(r->out, RECON_LOOK_WAITING);
        else if (w[i].state >= PLACED && w[i].data == GO)
            look_after(r->out, is_read(&w[i]) ? RECON_LOOK_READING : RECON_LOOK_RUNNING);
        else if (w[i].ready.warning)
            look_after(r->out, RECON_LOOK_RUNNING);
        else
            look_after(r->out, pace(r));
    }
}

/* ---- a round ---- */

/* The control plane's side of all jobs. AGAIN: look at the answers before anything else. */
static enum step control_steps(struct round *r, struct job_round *w, size_t n)
{
    const struct observed *o = r->o;
    enum step all = GO, tenant;
    bool over = true;

    for (size_t i = 0; i < n; i++)
        over &= w[i].over;
    if (!over) {
        tenant = tenant_step(r);
        if (tenant != GO)
            return tenant;
    }
    for (size_t i = n; i < o->n_jobs; i++)
        if (orphan_step(r, i) == AGAIN)
            all = AGAIN;
    for (size_t i = 0; i < n; i++)
        if (job_step(&w[i]) == AGAIN)
            all = AGAIN;
    return all;
}

static void remove_orphans(struct round *r)
{
    const struct observed *o = r->o;
    const json_t *pod;
    size_t i;

    json_array_foreach(o->pods, i, pod)
    {
        bool known = false;

        for (size_t k = 0; k < o->spec.n_jobs; k++)
            known |= strcmp(o->spec.jobs[k].name, label(pod, LABEL_JOB)) == 0;
        if (!known && is_owned(pod, o->object) && !is_deleted(pod))
            pod_remove(r->out, pod, false);
    }
}

static void say_away(struct round *r)
{
    const json_t *was = condition_was(r, "DatasetReady");

    if (strcmp(json_text_at(was, "status"), "True") != 0) /* what was ready is not worse for that */
        say(r, COND_DATASET, "Unknown", "ManagerAway", "the manager does not answer: %s",
            r->o->manager_error);
    look_after(r->out, RECON_LOOK_AWAY);
}

static void finish(struct round *r, struct job_round *w, size_t n)
{
    json_t *jobs = json_array();
    bool over = true;

    for (size_t i = 0; i < n; i++) {
        json_array_append_new(jobs, job_entry(&w[i]));
        over &= w[i].over;
    }
    for (size_t i = n; i < r->o->n_jobs; i++)
        if (orphan_waits(r->o, i))
            json_array_append_new(jobs, orphan_entry(r->o, i));
    json_object_set_new(r->fields, "jobs", jobs);
    set_conditions(r, w, n);
    set_message(r);
    if (!r->o->manager_away)
        set_figures(r);
    r->every = strcmp(r->phase, phase_names[PREPARING]) == 0 ? RECON_PROGRESS_S
               : over                                        ? 0
                                                             : RECON_FIGURES_S;
    set_looks(r, w, n);
    status_write(r);
}

static void reconcile_jobs(struct round *r)
{
    size_t n = r->o->spec.n_jobs;
    struct job_round *w = mem_zero(n * sizeof(*w));
    enum step s = WAIT;

    r->jobs = w;
    for (size_t i = 0; i < n; i++) {
        job_init(&w[i], r, i);
        pods_see(&w[i]);
    }
    if (r->o->manager_away)
        say_away(r);
    else
        s = control_steps(r, w, n);
    if (s == AGAIN) {
        r->out->again = true;
    } else {
        for (size_t i = 0; i < n && !r->o->manager_away; i++) {
            job_orders(&w[i]);
            pods_act(&w[i]);
        }
        if (!r->o->manager_away)
            remove_orphans(r);
        for (size_t i = 0; i < n; i++)
            pods_conclude(&w[i]);
        finish(r, w, n);
    }
    for (size_t i = 0; i < n; i++)
        job_round_release(&w[i]);
    mem_free(&w);
}

static void say_invalid(struct round *r)
{
    warn(r, COND_DATASET, "False", "InvalidSpec", "%s", r->o->why.text);
    snprintf(r->message, sizeof(r->message), "%s", r->o->why.text);
    if (json_object_get(r->was, "jobs") != NULL) /* who runs runs on */
        json_object_set(r->fields, "jobs", json_object_get(r->was, "jobs"));
    status_write(r);
}

void reconcile(const struct observed *o, struct actions *out)
{
    struct round r;

    round_init(&r, o, out);
    if (is_deleted(o->object)) {
        if (has_finalizer(o->object))
            reconcile_away(&r);
    } else if (o->invalid) {
        say_invalid(&r);
    } else if (!has_finalizer(o->object)) {
        add_action(out, ACT_ADD_FINALIZER);
        out->again = true;
    } else if (o->is_dataset) {
        reconcile_dataset(&r);
    } else {
        reconcile_jobs(&r);
    }
    round_release(&r);
}
