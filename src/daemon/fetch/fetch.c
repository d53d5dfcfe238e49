// SPDX-License-Identifier: Apache-2.0
/*
 * The fetch pipeline: read-through, one fetch per sample whatever the number of readers
 * (ONE-NODE-3). A fetch walks over the table of sources (source.c) until one of them brings the
 * bytes.
 *
 *                                  .------ retry, once ------.
 *                                  v                         |
 *     fetch_start --> RESERVE --> WALK --> (PREPARE) -----> READ --> VERIFY --> PUBLISH --> END
 *         |              |         ^ |         |             |         | |                   ^
 *      resident       no room      | | none    | no space    |         | '----> COMMIT ------|
 *         v              v         | | left    v             |         |          |          |
 *      answer           END        | '-> END  END            |         |          |          |
 *                                  '-------------------------+---------+----------'          |
 *                                     failed, late (hedge), wrong checksum:                  |
 *                                     the next source                 in place on disk ------'
 *
 *     RESERVE  memory for the sample; the disk goal, and samples too large, go on without
 *     WALK     the next source that can serve
 *     PREPARE  a file in the disk tier, for the disk goal, before the first remote source. Worker
 *     READ     one fetch_attempt: the source brings the bytes, on threads of its own
 *     VERIFY   compare or take the checksum. Worker, where the source has not done it
 *     PUBLISH  the memory goal: the sample is resident, readers are answered, other tiers copy it
 *     COMMIT   the disk goal: the file becomes a chunk. Worker
 *     END      whoever still waits is answered, each once
 *
 * Workers and sources post back to the node loop, which alone decides the next step.
 *
 * (FETCH-1) A sample is published with the checksum (XXH3, 64 bits) of its bytes as they came: from
 *           the bucket, which verifies its own where it has one, from the name of the chunk on
 *           disk, with the answer of a peer or of Redis, which are compared with it. Whoever takes
 *           the bytes from memory to another tier takes that checksum along.
 * (FETCH-2) A late source that cannot be stopped keeps the memory that it writes into until it
 *           comes back; the fetch goes on with other memory.
 * (FETCH-3) DLC_EBYPASS and DLC_ECANCELED of a source end the fetch; after any other error the
 *           next source is tried.
 * (FETCH-4) Before a fetch fails, the first source that was late is asked again, without haste.
 *
 * Not here: fetch_start() and the other requests, and RESERVE (request.c).
 */
#include "daemon/fetch/fetch.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/fetch/fetch_i.h"
#include "daemon/fetch/hedge.h"
#include "daemon/fetch/source.h"
#include "daemon/prefetch/disk_hints.h"
#include "daemon/session.h"
#include "daemon/state.h"

#define FETCH_TAG   DLC_TAG4('f', 't', 'c', 'h')
#define ATTEMPT_TAG DLC_TAG4('f', 'a', 't', 't')
#define SUM_SMALL   (4u << 20) /* bytes: less than a millisecond */

struct fetch_pipeline {
    struct node *node;
    const struct fetch_source *const *sources;
    unsigned n_sources;
    void (*room)(struct node *n);
    struct hedge *hedge;
};

static struct fetch_pipeline *pipeline_of(const struct fetch *f)
{
    return f->ds->node->fetches;
}

/* ---- steps on workers ---- */

static void step_on_loop(struct task *t)
{
    struct fetch *f = dlc_container(t, struct fetch, task);

    dlc_check(f->tag == FETCH_TAG);
    f->ds->node->pending--;
    f->next(f);
}

static void step_on_worker(struct work *w)
{
    struct fetch *f = dlc_container(w, struct fetch, work);

    f->step(f);
    loop_post(f->ds->node->loop, &f->task);
}

/* step() on a thread of that class, then next() on the loop. */
static void fetch_step(struct fetch *f, enum work_class class, void (*step)(struct fetch *f),
                       void (*next)(struct fetch *f))
{
    f->step = step;
    f->next = next;
    f->work.run = step_on_worker;
    f->ds->node->pending++;
    work_run(f->ds->node->work, class, &f->work);
}

enum work_class fetch_read_class(const struct fetch *f)
{
    return dlc_list_empty(&f->waiters) ? WORK_PREFETCH : WORK_DEMAND;
}

/* A reader of a large sample waits for its file to be made, and must not wait for other writes. */
static enum work_class fetch_write_class(const struct fetch *f)
{
    return dlc_list_empty(&f->waiters) ? WORK_STORE : WORK_DEMAND;
}

/* ---- END ---- */

static void fetch_answer(struct fetch *f, int rc)
{
    struct dlc_list *n;

    map_remove(&f->ds->fetching, f->sample);
    while ((n = dlc_list_pop_head(&f->waiters)) != NULL) {
        struct waiter *w = dlc_container(n, struct waiter, of_fetch);

        if (f->ds->bucket != NULL && w->session != NULL)
            stall_count(f, w, rc);
        session_answer(w, rc, f->err.text);
    }
    if (f->listener != NULL)
        f->listener->ended(f->listener, f->size, rc == DLC_ELARGE ? 0 : rc, &f->err);
    f->listener = NULL;
}

static void fetch_free(struct fetch *f)
{
    struct dataset *ds = f->ds;

    dlc_check(f->attempt == NULL && f->fill == NULL && f->file == NULL);
    budget_give(ds, BUDGET_FETCHES, 1);
    f->tag = 0;
    mem_free(&f->take_from);
    mem_free(&f);
    fetch_room(ds->node);
    dataset_put(&ds);
}

void fetch_end(struct fetch *f, int rc)
{
    struct dataset *ds = f->ds;

    if (rc < 0 && rc != DLC_ELARGE && rc != DLC_EBYPASS && rc != DLC_ECANCELED &&
        f->take_from == NULL)
        log_warn("sample %llu of %s: %s", (unsigned long long)f->sample, ds->url.shown,
                 f->err.text);
    if (f->fill != NULL) {
        budget_give(ds, BUDGET_FILLING, f->size);
        memory_abandon(dataset_memory(ds), &f->fill);
    }
    if (f->file != NULL)
        disk_fill_abandon(ds->node->disk, &f->file);
    fetch_answer(f, rc);
    fetch_free(f);
}

void fetch_room(struct node *n)
{
    n->fetches->room(n);
}

/* ---- attempts ---- */

static void attempt_on_loop(struct task *t);

static void attempt_free(struct fetch_attempt *a)
{
    struct dataset *ds = a->ds;

    ds->node->pending--;
    dlc_list_remove(&a->link);
    a->tag = 0;
    mem_free(&a);
    dataset_put(&ds);
}

/* READ. False: the source does not serve it. */
static bool attempt_start(struct fetch *f, const struct fetch_source *s)
{
    struct fetch_attempt *a = mem_zero(sizeof(*a) + s->state_size);

    a->tag = ATTEMPT_TAG;
    a->source = s;
    a->f = f;
    a->ds = f->ds;
    a->fill = f->fill;
    a->dst = f->fill != NULL ? mem_fill_data(f->fill) : NULL;
    if (f->file != NULL)
        a->dst = disk_fill_data(f->file);
    a->size = f->size;
    a->from = s->tier;
    a->began = dlc_mono_now();
    a->task.run = attempt_on_loop;
    dlc_list_init(&a->link);
    f->attempt = a;
    dataset_ref(f->ds);
    f->ds->node->pending++;
    hedge_watch(pipeline_of(f)->hedge, a, f->row, f->last_try);
    if (s->start(a)) /* perhaps it has ended by now */
        return true;
    f->attempt = NULL;
    attempt_free(a);
    return false;
}

static void add_to(_Atomic uint64_t *counter)
{
    if (counter != NULL)
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); /* as count() */
}

/* The source's part is over: rc as fetch_source.finished() has it. */
static void attempt_finish(struct fetch *f, int rc)
{
    struct fetch_attempt *a = f->attempt;
    const struct fetch_source *s = a->source;

    f->attempt = NULL;
    if (rc != DLC_EBYPASS)
        add_to(rc == 0 ? s->hits : s->misses);
    if (s->finished != NULL)
        s->finished(a, rc);
    attempt_free(a);
}

static void fetch_try_next(struct fetch *f)
{
    f->row = f->walk_again ? 0 : f->row + 1;
    f->walk_again = false;
    fetch_walk(f);
}

/* The source has failed, or what it brought is wrong. */
static void attempt_failed(struct fetch *f, int rc)
{
    attempt_finish(f, rc);
    if (rc == DLC_EBYPASS || rc == DLC_ECANCELED)
        fetch_end(f, rc); /* (FETCH-3) */
    else
        fetch_try_next(f);
}

/* ---- COMMIT: the disk goal ---- */

static void commit_step(struct fetch *f)
{
    struct disk *d = f->ds->node->disk;

    if (node_is_ending(f->ds->node)) { /* a checksum over gigabytes takes seconds */
        disk_fill_abandon(d, &f->file);
        f->rc = dlc_err_set(&f->err, DLC_ECANCELED, "the daemon is stopping");
        return;
    }
    f->rc =
        disk_fill_commit_sum(d, &f->file, f->sum != FETCH_SUM_NONE ? &f->checksum : NULL, &f->err);
}

static void commit_next(struct fetch *f)
{
    if (f->rc == DLC_ECORRUPT && f->sum == FETCH_SUM_CLAIMED) {
        attempt_failed(f, f->rc); /* the file is gone, too */
        return;
    }
    /* The bytes are right even if they could not be kept: let readers get them from the bucket. */
    if (f->rc < 0)
        log_warn("disk tier: %s", f->err.text);
    attempt_finish(f, f->rc < 0 ? DLC_EBYPASS : 0);
    fetch_end(f, f->rc < 0 ? DLC_EBYPASS : DLC_ELARGE);
}

/* ---- VERIFY, PUBLISH ---- */

static void fetch_offer(struct fetch *f, const void *bytes)
{
    const struct fetch_pipeline *p = pipeline_of(f);

    for (unsigned i = 0; i < p->n_sources; i++)
        if (p->sources[i]->offer != NULL)
            p->sources[i]->offer(f, bytes);
}

static void fetch_published(struct fetch *f)
{
    const struct fetch_pipeline *p = pipeline_of(f);

    for (unsigned i = 0; i < p->n_sources; i++)
        if (p->sources[i]->published != NULL)
            p->sources[i]->published(f);
}

static void fetch_publish(struct fetch *f)
{
    struct dataset *ds = f->ds;

    dlc_check(f->sum == FETCH_SUM_KNOWN); /* (FETCH-1) */
    attempt_finish(f, 0);
    fetch_offer(f, mem_fill_data(f->fill));
    budget_give(ds, BUDGET_FILLING, f->size);
    mem_fill_set_checksum(f->fill, f->checksum);
    mem_fill_set_cost(f->fill, f->cost);
    memory_publish(dataset_memory(ds), &f->fill);
    events_raise(ds->node, sample_resident, ds, f->sample, f->bypass);
    hist_add(&ds->prefetch.latency, (uint64_t)dlc_mono_since(f->started).ns / 1000);
    fetch_answer(f, 0);
    fetch_published(f);
    fetch_free(f);
}

static void verify_step(struct fetch *f)
{
    uint64_t checksum = hash64(mem_fill_data(f->fill), f->size);

    f->rc = f->sum == FETCH_SUM_CLAIMED && checksum != f->checksum ? DLC_ECORRUPT : 0;
    f->checksum = checksum;
}

static void verify_next(struct fetch *f)
{
    if (f->rc < 0) {
        attempt_failed(f, f->rc);
        return;
    }
    f->sum = FETCH_SUM_KNOWN;
    fetch_publish(f);
}

void fetch_attempt_sum(struct fetch_attempt *a)
{
    if (a->fill == NULL || a->size > SUM_SMALL)
        return;
    a->checksum = hash64(a->dst, a->size);
    a->sum = FETCH_SUM_KNOWN;
}

static void fetch_arrived(struct fetch *f)
{
    const struct fetch_attempt *a = f->attempt;

    f->from = a->from;
    fetch_histogram_add(&f->ds->node->fetched[a->from], a->took, a->size);
    f->cost = dataset_get_cost(f->ds, a->took, a->size, a->from == TIER_BUCKET);
    f->chunk.cost = (float)f->cost;
    if (f->file != NULL)
        disk_fill_set_cost(f->file, f->cost);
    f->sum = a->sum;
    f->checksum = a->checksum;
    if (f->to_disk && a->dst == NULL) { /* its chunk is on disk */
        attempt_finish(f, 0);
        fetch_end(f, DLC_ELARGE);
    } else if (f->to_disk) {
        fetch_offer(f, a->dst);
        fetch_step(f, fetch_write_class(f), commit_step, commit_next);
    } else if (f->sum != FETCH_SUM_KNOWN) { /* memory only: it does not wait for a disk */
        fetch_step(f, WORK_COPY, verify_step, verify_next);
    } else {
        fetch_publish(f);
    }
}

/* ---- a source comes back ---- */

/* It was late, and the fetch has gone on without it: (FETCH-2). */
static void attempt_drop(struct fetch_attempt *a)
{
    if (a->fill != NULL) {
        memory_abandon(dataset_memory(a->ds), &a->fill);
        budget_give(a->ds, BUDGET_FILLING, a->size);
    }
    attempt_free(a);
}

void fetch_attempt_ended(struct fetch_attempt *a)
{
    const struct fetch_source *s = a->source;
    struct fetch *f = a->f;

    dlc_check(a->tag == ATTEMPT_TAG);
    if (f == NULL) {
        attempt_drop(a);
        return;
    }
    a->took = dlc_mono_since(a->began);
    hedge_ended(pipeline_of(f)->hedge, a, f->row);
    if (a->rc == 0) {
        fetch_arrived(f);
        return;
    }
    if (f->file != NULL && disk_fill_failed(f->file))
        a->rc = DLC_EBYPASS; /* the source's bytes are not to blame */
    if (!a->repairing && s->repair != NULL) {
        a->repairing = true;
        if (s->repair(a))
            return;
    }
    f->rc = a->rc;
    f->err = a->err;
    attempt_failed(f, f->rc);
}

void fetch_attempt_repaired(struct fetch_attempt *a, bool repaired)
{
    struct fetch *f = a->f;

    f->rc = a->rc;
    f->err = a->err;
    if (!repaired || f->retried) {
        attempt_failed(f, f->rc);
        return;
    }
    f->retried = true;
    attempt_finish(f, f->rc);
    fetch_walk(f); /* the same source */
}

static void attempt_on_loop(struct task *t)
{
    fetch_attempt_ended(dlc_container(t, struct fetch_attempt, task));
}

void fetch_attempt_done(struct fetch_attempt *a)
{
    loop_post(a->ds->node->loop, &a->task);
}

/* ---- hedges ---- */

int fetch_reserve_memory(struct fetch *f)
{
    int rc = memory_reserve_for(dataset_memory(f->ds), f->ds->index, f->sample, f->size, f->user,
                                &f->fill);

    if (rc == 0)
        budget_take(f->ds, BUDGET_FILLING, f->size);
    return rc;
}

/* The attempt goes on without its fetch, and with its memory: (FETCH-2). */
static int attempt_abandon(struct fetch_attempt *a)
{
    struct fetch *f = a->f;

    a->f = NULL;
    if (f->fill == NULL)
        return 0;
    memory_detach(dataset_memory(f->ds), f->fill);
    f->fill = NULL;
    return fetch_reserve_memory(f);
}

/* It takes too long: the next source. */
static void attempt_late(struct fetch_attempt *a)
{
    struct fetch *f = a->f;
    int rc = 0;

    add_to(a->source->late);
    f->late_row = DLC_MIN(f->late_row, f->row);
    f->attempt = NULL;
    if (a->source->cancel != NULL && a->source->cancel(a))
        attempt_free(a);
    else
        rc = attempt_abandon(a);
    if (rc == 0)
        fetch_try_next(f);
    else
        fetch_end(f, DLC_EBYPASS);
}

/* ---- PREPARE: a file for the disk goal ---- */

static void prepare_step(struct fetch *f)
{
    f->rc = disk_fill_begin(f->ds->node->disk, f->chunk, f->size, &f->file, &f->err);
}

static void prepare_next(struct fetch *f)
{
    if (f->rc < 0) {
        log_at(f->rc == DLC_ENOSPACE ? LOG_DEBUG : LOG_WARN, "disk tier: %s", f->err.text);
        fetch_end(f, DLC_EBYPASS);
        return;
    }
    fetch_walk(f); /* the same source */
}

/* ---- WALK ---- */

void fetch_walk(struct fetch *f)
{
    const struct fetch_pipeline *p = pipeline_of(f);

    for (; f->row < f->end_row; f->row++) {
        const struct fetch_source *s = p->sources[f->row];

        if (f->take_from != NULL && s->remote && !s->gives_copies)
            continue;
        if (s->can_serve != NULL && !s->can_serve(f))
            continue;
        if (s->remote && p->node->stopping) {
            f->rc = dlc_err_set(&f->err, DLC_ECANCELED, "the daemon is stopping");
            break;
        }
        if (s->remote && f->to_disk && f->file == NULL) {
            fetch_step(f, fetch_write_class(f), prepare_step, prepare_next);
            return;
        }
        if (attempt_start(f, s))
            return;
    }
    if (f->late_row < f->end_row && !f->last_try && f->rc != DLC_ECANCELED) { /* (FETCH-4) */
        f->last_try = true;
        f->row = f->late_row;
        f->end_row = f->late_row + 1;
        fetch_walk(f);
        return;
    }
    if (f->rc == 0)
        f->rc = dlc_err_set(&f->err, DLC_EBUCKET, "no source serves sample %llu of %s",
                            (unsigned long long)f->sample, f->ds->url.shown);
    fetch_end(f, f->rc);
}

/* ---- life ---- */

struct fetch *fetch_new(struct dataset *ds, uint64_t sample)
{
    struct fetch *f = mem_new(struct fetch);

    f->tag = FETCH_TAG;
    f->ds = ds;
    f->sample = sample;
    f->end_row = f->late_row = ds->node->fetches->n_sources;
    f->started = dlc_mono_now();
    f->task.run = step_on_loop;
    dlc_list_init(&f->waiters);
    dlc_list_init(&f->of_room);
    dataset_ref(ds);
    budget_take(ds, BUDGET_FETCHES, 1);
    map_set(&ds->fetching, sample, f);
    return f;
}

/* ---- the pipeline ---- */

struct fetch_pipeline *fetch_pipeline_new(struct node *n, const struct fetch_source *const *sources,
                                          unsigned n_sources, void (*room)(struct node *n))
{
    struct fetch_pipeline *p = mem_new(struct fetch_pipeline);

    p->node = n;
    p->sources = sources;
    p->n_sources = n_sources;
    p->room = room;
    p->hedge = hedge_new(n, n_sources, attempt_late);
    return p;
}

void fetch_pipeline_free(struct fetch_pipeline **pp)
{
    if (*pp != NULL)
        hedge_free(&(*pp)->hedge);
    mem_free(pp);
}
