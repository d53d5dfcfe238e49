// SPDX-License-Identifier: Apache-2.0
/*
 * Next use: when a resident sample is needed again. That decides which samples stay in memory.
 *
 * The next use is the number of samples that will be read before the sample is needed again, by the
 * cursor that needs it first. It is counted from a clock that advances as the cursors do
 * (dataset.progress), so an answer stays right while time passes, until a cursor reads the sample.
 * Different datasets are compared in seconds: samples x the dataset's pace, which is kept until its
 * clock has drifted far from real time.
 *
 * Nothing is pushed. The memory tier asks when it must choose a victim (cache/memory/evict.c), and
 * is told only that answers are out of date: of all samples when a session begins, ends, jumps,
 * becomes idle or wakes, which costs nothing; of one sample when a cursor passes it. A session that
 * does not move for PREFETCH_IDLE_AFTER, or four times its longest pause so far, is idle: it has no
 * next uses, so that its memory goes to active readers. A session that waits, itself or through its
 * workers, is not idle.
 *
 * An answer asks every session that follows an order in this dataset. Passing a sample asks none.
 *
 * Where lists are given one epoch at a time, and the job has weights (job_weights.c), a sample that
 * is in no known list is *expected*: the sooner, the more the model has yet to learn from it
 * (cache/policy/expected_use.h). This is counted from the end of the known lists, so that it stays
 * right too.
 */
#include "daemon/prefetch/next_use.h"

#include <math.h>

#include "base/counters.h"
#include "cache/policy/expected_use.h"
#include "daemon/ownership.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/job_weights.h"
#include "daemon/prefetch/prefetch.h"
#include "daemon/session.h"
#include "daemon/substitution.h"
#include "catalog/catalog.h"
#include "daemon/state.h"
#include "order/cursor.h"
#include "order/order.h"
#include "order/schedule.h"

#define MARKS_MAX    4096u /* changed weights heeded, or looked for, in one look, of each job */
#define PACE_NEW     1e-3  /* seconds per sample, before anything is measured */
#define DRIFT_MOST   0.1   /* of an epoch, between a dataset's clock and the time */
#define ANCHOR_LEAST DLC_SEC(1)
#define IDLE_USE     1e18 /* seconds: never, but not the first to go */

/* The clock of the dataset, in seconds since the machine started. */
static double clock_of(const struct dataset *ds)
{
    return (double)ds->clock.anchored.ns / 1e9 +
           (ds->clock.progress - ds->clock.anchor) * ds->clock.pace;
}

/*
 * What the cluster makes of it (docs/design/0006). Samples that are ours are read by others at any
 * time: they are needed within half an epoch. Those that are borrowed can be had again from their
 * owner: outside of the window they go before all that is ours.
 */
static double shared_use(struct dataset *ds, uint64_t sample, double soonest, bool in_window,
                         bool kept)
{
    double epoch = (double)catalog_count(ds->catalog);

    if (!dataset_owns(ds, sample) && !dataset_hands_over(ds, sample))
        return in_window ? soonest : soonest + 2 * epoch;
    return kept || dataset_read_elsewhere(ds) ? fmin(soonest, epoch / 2) : soonest;
}

/* Nobody reads the dataset. What this node has for the cluster stays before what it borrowed, which
 * another node has. */
static double idle_use(struct dataset *ds, uint64_t sample)
{
    return dataset_is_kept(ds, sample) ? IDLE_USE : INFINITY;
}

/* When will the session draw a sample that is in no list it has told? INFINITY: it has no weights.
 */
static double expected_use(const struct session *s, uint64_t sample)
{
    const struct schedule *t = s->reader.schedule;
    const struct job_weights *w = s->job_weights;
    uint64_t pos = s->reader.pos;

    if (w == NULL || t->cursor.kind != ORDER_EXPLICIT)
        return INFINITY;
    return policy_expected_use(t->cursor.known - DLC_MIN(pos, t->cursor.known), t->length,
                               weights_get(&w->w, sample), w->mean, w->uses[sample]);
}

/* When will the sample be needed next, by any cursor of the dataset? INFINITY: nobody knows. */
static double next_use(struct dataset *ds, uint64_t sample, unsigned *steps)
{
    double soonest = INFINITY;
    bool in_window = false, kept = false;

    dlc_list_each (l, &ds->sessions) {
        const struct session *s = dlc_container(l, struct session, link);
        const struct reader_state *f = &s->reader;
        uint64_t at;

        kept = kept || (f->active && !s->bypasses_cache);
        if (!f->active || f->idle)
            continue;
        ++*steps;
        count(next_use_steps);
        at = cursor_next_use(&f->schedule->cursor, sample, f->pos);
        if (at == CURSOR_LATER && !s->bypasses_cache)
            soonest = fmin(soonest, expected_use(s, sample));
        if (at >= CURSOR_LATER ||
            (s->bypasses_cache && at >= DLC_MAX(f->ahead, f->pos + f->window)))
            continue; /* it keeps nothing beyond its window */
        soonest = fmin(soonest, substitution_distance(f, at));
        in_window = in_window || at <= f->ahead; /* f->window may change before it is filled */
    }
    if (ds->cid != NULL)
        soonest = shared_use(ds, sample, soonest, in_window, kept);
    if (isinf(soonest))
        return ds->cid != NULL ? idle_use(ds, sample) : INFINITY;
    if (ds->prefetch.n_following == 0) /* only others read it */
        return (double)loop_now(ds->node->loop).ns / 1e9 + soonest * PACE_NEW;
    return clock_of(ds) + soonest * ds->clock.pace;
}

double next_use_after(const struct dataset *ds, uint64_t sample)
{
    double soonest = INFINITY;

    dlc_list_each (l, &ds->sessions) {
        const struct reader_state *f = &dlc_container(l, struct session, link)->reader;
        uint64_t at;

        if (!f->active || f->schedule->length == 0)
            continue;
        at = cursor_next_use(&f->schedule->cursor, sample, f->pos);
        if (at < CURSOR_LATER) /* that is what it is brought for */
            at = cursor_next_use(&f->schedule->cursor, sample, at + 1);
        if (at < CURSOR_LATER)
            soonest = fmin(soonest, (double)(at - f->pos) / (double)f->schedule->length);
    }
    return soonest;
}

static double next_use_callback(void *arg, uint64_t sample, unsigned *steps)
{
    return next_use(arg, sample, steps);
}

bool next_use_known(struct dataset *ds, uint64_t sample)
{
    unsigned steps = 0;

    return next_use(ds, sample, &steps) < IDLE_USE;
}

void next_use_changed(struct dataset *ds)
{
    bool anybody = ds->prefetch.n_following > 0 || ds->cid != NULL;

    mem_index_set_next_use(ds->index, anybody ? next_use_callback : NULL, ds);
}

void next_use_begin(struct dataset *ds)
{
    ds->clock.pace = PACE_NEW;
    ds->clock.anchor = ds->clock.progress;
    ds->clock.anchored = loop_now(ds->node->loop);
}

void next_use_heed_weights(struct dataset *ds)
{
    uint64_t sample;

    dlc_list_each (l, &ds->job_weights) {
        struct job_weights *w = dlc_container(l, struct job_weights, link);
        uint64_t steps = MARKS_MAX;

        if (w->users == 0)
            continue;
        job_weights_measure(w);
        while (job_weights_take(w, &steps, &sample))
            memory_forget_use(ds->index, sample);
    }
}

static void anchor_clock(struct dataset *ds, struct dlc_mono now)
{
    double took = dlc_dur_seconds(dlc_mono_sub(now, ds->clock.anchored));

    if (ds->clock.progress > ds->clock.anchor)
        ds->clock.pace = took / (ds->clock.progress - ds->clock.anchor);
    ds->clock.anchor = ds->clock.progress;
    ds->clock.anchored = now;
    next_use_changed(ds);
}

void next_use_keep_time(struct dataset *ds)
{
    struct dlc_mono now = loop_now(ds->node->loop);
    double drift = fabs(clock_of(ds) - (double)now.ns / 1e9);
    double epoch = (double)catalog_count(ds->catalog) * ds->clock.pace;

    if (drift > fmax(epoch * DRIFT_MOST, dlc_dur_seconds(PREFETCH_IDLE_AFTER) / 4) &&
        dlc_mono_sub(now, ds->clock.anchored).ns > ANCHOR_LEAST.ns)
        anchor_clock(ds, now);
}

const struct node_events next_use_events = {.dataset_ready = next_use_changed};
