// SPDX-License-Identifier: Apache-2.0
/*
 * The end of a job at the manager, and of its data: for a job whose pods have ended, after the
 * DLTPod's retention; for an orphan, which is in status.jobs but not in the spec, at once. Data
 * that another object or another job of the spec reads is kept.
 */
#include "operator/reconcile/reconcile_i.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

/* ---- of the spec ---- */

/* When the last job of the spec ended that reads the same data; INT64_MAX: one still does. */
static int64_t last_end(const struct job_round *w)
{
    int64_t last = w->end_time;

    for (size_t i = 0; i < w->r->o->spec.n_jobs; i++) {
        const struct job_round *other = &w->r->jobs[i];

        if (strcmp(other->j->dataset, w->j->dataset) != 0)
            continue;
        if (!other->over)
            return INT64_MAX;
        last = DLC_MAX(last, other->end_time);
    }
    return last;
}

static enum step give_up_data(struct job_round *w)
{
    const struct observed *o = w->r->o;
    int64_t left, last = last_end(w);
    struct action *a;

    if (w->released || o->spec.retention_s == SPEC_FOREVER || w->j->ref[0] != '\0' ||
        last == INT64_MAX)
        return GO;
    left = last + o->spec.retention_s - o->now;
    if (left > 0) {
        look_after_s(w->r->out, left);
        return GO;
    }
    if (!w->j->shared && w->j->data.body != NULL &&
        data_is(w->j->data.body, o->tenant, &w->sj->data)) {
        if (w->j->data.refused != 0) { /* somebody reads it: it goes when they end */
            look_after(w->r->out, RECON_LOOK_RUNNING);
            return GO;
        }
        a = add_action(w->r->out, ACT_END_DATASET);
        a->job = w->i;
        snprintf(a->name, sizeof(a->name), "%s", w->j->dataset);
        return AGAIN;
    }
    w->released = true;
    return GO;
}

enum step job_end_step(struct job_round *w)
{
    w->ready = (struct condition){0};
    if (w->registered && w->j->job.body != NULL)
        return job_end(w, w->id);
    if (w->j->job.absent)
        w->registered = false;
    if (!w->registered && w->r->o->now < w->end_time + RECON_SETTLE_S)
        look_after_s(w->r->out, w->end_time + RECON_SETTLE_S - w->r->o->now);
    return give_up_data(w);
}

/* ---- orphans ---- */

static bool is_named_in_spec(const struct observed *o, const char *dataset)
{
    for (size_t i = 0; i < o->n_jobs && o->jobs[i].in_spec; i++)
        if (strcmp(o->jobs[i].dataset, dataset) == 0)
            return true;
    return false;
}

/* Is its data to go, and not known to be gone? Not if another reads it, of this DLTPod or not. Data
 * that never had a job may be somebody else's with that name. */
static bool orphan_has_data(const struct observed *o, const struct seen_job *j)
{
    return j->id[0] != '\0' && j->ask_data && !j->data.absent && !j->shared &&
           !is_named_in_spec(o, j->dataset);
}

bool orphan_waits(const struct observed *o, size_t i)
{
    const struct seen_job *j = &o->jobs[i];

    return (j->ask_job && !j->job.absent) || orphan_has_data(o, j);
}

/* The spec does not know it any more: its job ends, then its data goes. */
enum step orphan_step(struct round *r, size_t i)
{
    const struct seen_job *j = &r->o->jobs[i];
    struct action *a;

    if (j->job.body != NULL) {
        a = add_action(r->out, ACT_END_JOB);
        snprintf(a->name, sizeof(a->name), "%s", j->id);
    } else if (j->data.body != NULL && j->data.refused == 0 && orphan_has_data(r->o, j)) {
        a = add_action(r->out, ACT_END_DATASET);
        snprintf(a->name, sizeof(a->name), "%s", j->dataset);
    } else {
        if (orphan_waits(r->o, i)) /* somebody reads it: it goes when they end */
            look_after(r->out, RECON_LOOK_RUNNING);
        return GO;
    }
    a->job = i;
    return AGAIN;
}

json_t *orphan_entry(const struct observed *o, size_t i)
{
    json_t *e = json_deep_copy(status_of_job(o, o->jobs[i].name, o->jobs[i].dataset));

    if (o->jobs[i].job.absent)
        json_object_set_new(e, "registered", json_false());
    return e;
}
