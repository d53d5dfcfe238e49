// SPDX-License-Identifier: Apache-2.0
/*
 * Fetches: read-through, one per sample whatever the number of readers (N3). fetch_i.h has the way
 * of one; here it starts, is joined, and ends, and others start when there is room.
 */
#include "daemon/fetch/fetch_i.h"

#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "cache/disk/disk.h"
#include "catalog/catalog.h"
#include "daemon/dataset_chunks.h"
#include "daemon/prefetch/pump.h"
#include "daemon/prefetch/reader_state.h"
#include "daemon/session.h"
#include "daemon/state.h"
#include "daemon/work.h"

#define FETCH_TAG DLC_TAG4('f', 't', 'c', 'h')

static struct fetch *fetch_of_task(struct task *t)
{
    struct fetch *f = dlc_container(t, struct fetch, task);

    dlc_check(f->tag == FETCH_TAG);
    return f;
}

/* ---- moving between threads ---- */

static void back_on_loop(struct task *t)
{
    struct fetch *f = fetch_of_task(t);

    f->ds->node->pending--;
    f->next(f);
}

static void on_worker(struct work *w)
{
    struct fetch *f = dlc_container(w, struct fetch, work);

    f->step(f);
    loop_post(f->ds->node->loop, &f->task);
}

void fetch_await(struct fetch *f, void (*next)(struct fetch *f))
{
    f->next = next;
    f->ds->node->pending++;
}

enum work_class fetch_reads(const struct fetch *f)
{
    return dlc_list_empty(&f->waiters) ? WORK_PREFETCH : WORK_DEMAND;
}

bool fetch_try_work(struct fetch *f, enum work_class class, fetch_step_f *step, fetch_step_f *next)
{
    f->step = step;
    f->next = next;
    f->work.run = on_worker;
    if (!work_try(f->ds->node->work, class, &f->work, f->size))
        return false;
    f->ds->node->pending++;
    return true;
}

void fetch_work(struct fetch *f, enum work_class class, fetch_step_f *step, fetch_step_f *next)
{
    f->step = step;
    f->work.run = on_worker;
    fetch_await(f, next);
    work_run(f->ds->node->work, class, &f->work);
}

/* ---- the end ---- */

static enum stalled why_stalled(const struct fetch *f, const struct waiter *w)
{
    const struct reader_state *follow = reader_state_of(w->session);
    struct bucket_figures b;

    if (f->from_disk)
        return STALLED_DISK;
    if (follow != NULL && follow->short_of_memory)
        return STALLED_MEMORY;
    if (follow == NULL && f->on_demand)
        return STALLED_CLIENT;
    bucket_figures(f->ds->bucket, &b);
    return b.queued > 0 ? STALLED_BANDWIDTH : STALLED_LATENCY;
}

/* Why did the reader have to wait? Counted, so that a slow run can be explained. */
static void count_stall(const struct fetch *f, const struct waiter *w)
{
    enum stalled why = why_stalled(f, w);
    uint64_t ns = (uint64_t)dlc_mono_since(w->asked).ns;

    f->ds->readers.stall_ns[why] += ns;
    switch (why) {
    case STALLED_LATENCY: count_add(stall_latency_ns, ns); break;
    case STALLED_BANDWIDTH: count_add(stall_bandwidth_ns, ns); break;
    case STALLED_DISK: count_add(stall_disk_ns, ns); break;
    case STALLED_MEMORY: count_add(stall_memory_ns, ns); break;
    case STALLED_CLIENT: count_add(stall_client_ns, ns); break;
    }
}

void fetch_answer(struct fetch *f, int rc)
{
    struct dlc_list *n;

    while ((n = dlc_list_pop_head(&f->waiters)) != NULL) {
        struct waiter *w = dlc_container(n, struct waiter, of_fetch);

        if (f->ds->bucket != NULL && w->session != NULL)
            count_stall(f, w);
        session_answer(w, rc, f->err.text);
    }
    if (f->listener != NULL)
        f->listener->ended(f->listener, f->size, rc == DLC_ELARGE ? 0 : rc, &f->err);
    f->listener = NULL;
}

void fetch_free(struct fetch **fp)
{
    struct fetch *f = *fp;

    *fp = NULL;
    budget_give(f->ds, BUDGET_FETCHES, 1);
    mem_free(&f->peer);
    mem_free(&f->address);
    f->tag = 0;
    mem_free(&f);
}

void fetch_end(struct fetch *f, int rc)
{
    struct dataset *ds = f->ds;

    if (rc < 0 && rc != DLC_ELARGE && rc != DLC_EBYPASS && rc != DLC_ECANCELED)
        log_warn("sample %llu of %s: %s", (unsigned long long)f->sample, ds->url.shown,
                 f->err.text);
    map_remove(&ds->fetching, f->sample);
    fetch_answer(f, rc);
    fetch_free(&f);
    prefetch_pump(ds->node);
    dataset_put(&ds);
}

/* ---- start ---- */

static struct fetch *fetch_new(struct dataset *ds, uint64_t sample)
{
    struct fetch *f = mem_new(struct fetch);

    f->tag = FETCH_TAG;
    f->ds = ds;
    f->sample = sample;
    f->started = dlc_mono_now();
    f->task.run = back_on_loop;
    dlc_list_init(&f->waiters);
    ds->refs++;
    budget_take(ds, BUDGET_FETCHES, 1);
    map_set(&ds->fetching, sample, f);
    return f;
}

static void join(struct fetch *f, struct waiter *w, struct fetch_listener *l)
{
    if (w != NULL)
        dlc_list_push_tail(&f->waiters, &w->of_fetch);
    if (l != NULL && f->listener == NULL)
        f->listener = l;
    else if (l != NULL)
        l->ended(l, f->size, 0, NULL); /* two warm-ups of one dataset: the other one waits */
}

static void start(struct dataset *ds, uint64_t sample, enum fetch_goal goal, struct waiter *w,
                  struct fetch_listener *l, bool for_peer, bool past)
{
    struct fetch *f = map_get(&ds->fetching, sample);

    if (f != NULL) {
        count(requests_joined);
        f->for_peer |= for_peer;
        f->past = f->past && past;
        join(f, w, l);
        if (w != NULL)
            fetch_hurry(f);
        return;
    }
    f = fetch_new(ds, sample);
    f->on_demand = w != NULL;
    f->for_peer = for_peer;
    f->past = past;
    join(f, w, l);
    f->rc = catalog_get(ds->catalog, sample, &f->entry, &f->err);
    if (f->rc < 0) {
        fetch_end(f, f->rc);
        return;
    }
    f->size = f->entry.size;
    f->chunk = dataset_chunk(ds, f->entry.key, f->entry.etag);
    fetch_local(f, goal);
}

void fetch_start(struct dataset *ds, uint64_t sample, enum fetch_goal goal, struct waiter *w,
                 struct fetch_listener *l)
{
    if (goal == FETCH_MEMORY && mem_index_ready(ds->index, sample)) {
        if (w != NULL)
            session_answer(w, 0, NULL);
        if (l != NULL)
            l->ended(l, 0, 0, NULL);
        return;
    }
    start(ds, sample, goal, w, l, false, w != NULL && w->session != NULL && w->session->past);
}

void fetch_past(struct dataset *ds, uint64_t sample)
{
    start(ds, sample, FETCH_MEMORY, NULL, NULL, false, true);
}

bool fetch_for_peer(struct dataset *ds, uint64_t sample, struct waiter *w)
{
    struct fetch *f = map_get(&ds->fetching, sample);

    if (f != NULL && f->at_peer)
        return false; /* that peer may be waiting for us */
    if (mem_index_ready(ds->index, sample))
        session_answer(w, 0, NULL);
    else
        start(ds, sample, FETCH_MEMORY, w, NULL, true, false);
    return true;
}
