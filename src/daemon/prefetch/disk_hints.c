// SPDX-License-Identifier: Apache-2.0
/*
 * Hints to the disk tier about the value of a dataset's chunks: which jobs read it, how often they
 * will read it again, and what its chunks cost to fetch again. The disk tier and its policy decide
 * (docs/policies.md).
 */
#include "daemon/prefetch/disk_hints.h"

#include <math.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "cache/disk/disk.h"
#include "cache/policy/policy.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/dataset_chunks.h"
#include "daemon/session.h"
#include "catalog/catalog.h"
#include "cluster/peer/view.h"
#include "daemon/state.h"
#include "daemon/work.h"
#include "order/cursor.h"
#include "order/schedule.h"
#include "base/config.h"

double dataset_get_cost(const struct dataset *ds, struct dlc_dur took, uint64_t bytes, bool billed)
{
    double second = ds->node->config->price_second;
    struct policy_prices prices = {.share = second / (1 + second)};

    if (billed && ds->bucket != NULL)
        bucket_prices(ds->bucket, &prices.request, &prices.transfer);
    return policy_cost(&prices, dlc_dur_seconds(took), bytes);
}

void dataset_fetched(struct dataset *ds, uint64_t sample, struct dlc_dur took, uint64_t bytes)
{
    double cost;

    ds->outcomes.fetched++;
    if (ds->bucket == NULL || (ds->node->disk == NULL && ds->cid == NULL))
        return;
    cost = dataset_get_cost(ds, took, bytes, true);
    if (ds->node->disk != NULL)
        disk_group_cost(ds->node->disk, ds->disk.group, cost, bytes);
    if (ds->cid != NULL)
        events_raise(ds->node, sample_cost, ds, sample, cost);
}

void dataset_derived(struct dataset *ds, uint64_t object, struct dlc_dur took, uint64_t bytes)
{
    struct catalog_entry e;
    double cost;

    if (ds->bucket == NULL || ds->node->disk == NULL)
        return;
    cost = dataset_get_cost(ds, took, bytes, true);
    disk_group_cost(ds->node->disk, ds->disk.group, cost, bytes);
    if (ds->catalog != NULL && catalog_object(ds->catalog, object, &e, NULL) == 0)
        disk_chunk_cost(ds->node->disk, dataset_derived_chunk(ds, &e), cost);
    if (ds->cid != NULL)
        events_raise(ds->node, derived_cost, ds, object, cost);
}

/* Samples that the session has still to read; -1: it did not say. */
static double reads_left(const struct reader_state *f)
{
    const struct cursor *c = f->active ? &f->schedule->cursor : NULL;

    if (c == NULL || c->length == 0 || c->epochs > INT32_MAX)
        return -1; /* no order, a list for each epoch, or no end */
    return fmax((double)c->epochs * (double)c->length - (double)f->pos, 0);
}

static void expect_runs(struct dataset *ds, int32_t runs)
{
    if (ds->node->disk != NULL)
        disk_group_expect(ds->node->disk, ds->disk.group, runs);
    if (runs == ds->runs)
        return;
    ds->runs = runs;
    mem_index_runs_changed(ds->index);
}

/* Ranks read a part each, so runs are counted in samples. */
void dataset_expect(struct dataset *ds)
{
    struct cluster_use use = {0, -1};
    double reads = 0, samples;
    bool known;

    if (ds->state != DATASET_READY)
        return;
    if (ds->prefetch.n_following == 0) /* else prefetch.c looks, and more often */
        next_use_heed_weights(ds);
    samples = (double)catalog_visible(ds->catalog);
    known = samples > 0 && !dlc_list_empty(&ds->sessions);
    dlc_list_each (l, &ds->sessions) {
        double left = reads_left(&dlc_container(l, struct session, link)->reader);

        known = known && left >= 0;
        reads += left;
    }
    if (ds->cid != NULL && ds->node->cluster != NULL)
        use = cluster_use(ds->node->cluster, ds->cid);
    if (use.readers > 0 && use.runs >= 0) { /* the manager knows of all jobs, and of ours */
        reads = fmax(reads, (double)use.runs * samples);
        known = samples > 0;
    }
    if (ds->runs_after != POLICY_UNKNOWN)
        reads = (known ? reads : 0) + (double)ds->runs_after * samples;
    known = known || (ds->runs_after != POLICY_UNKNOWN && samples > 0);
    expect_runs(ds, known ? (int32_t)fmin(ceil(reads / samples), INT32_MAX) : POLICY_UNKNOWN);
}

void dataset_run_begins(struct dataset *ds, int32_t runs)
{
    bool first = ds->sessions.next == ds->sessions.prev; /* else it is a rank of the same run */

    if (runs >= 0)
        ds->runs_after = runs;
    else if (first && ds->runs_after != POLICY_UNKNOWN)
        ds->runs_after = ds->runs_after > 0 ? ds->runs_after - 1 : POLICY_UNKNOWN;
    dataset_expect(ds);
}

/* ---- what an earlier daemon has left: made its group's in the background ---- */

#define ADOPT_AT_ONCE 100000u /* samples and objects: tens of milliseconds of a worker */

/* A walk over the dataset's chunks that makes them its group's, on a worker. A slice at a time:
 * what else waits for such a worker (an eviction, a chunk to be verified) goes in between. */
struct adoption {
    struct dataset *ds;
    uint64_t at; /* of samples, then of objects */
    struct work work;
    struct task task;
    _Atomic bool stop; /* W loop, R worker, relaxed: only asks it to hurry */
};

static bool stopped(struct adoption *a)
{
    return atomic_load_explicit(&a->stop, memory_order_relaxed); /* with the loop */
}

static uint64_t adopt_total(const struct dataset *ds)
{
    return catalog_count(ds->catalog) + catalog_objects(ds->catalog);
}

/* Sample `at`, or the unpacked copy of an object. */
static void adopt_one(const struct dataset *ds, uint64_t at)
{
    uint64_t samples = catalog_count(ds->catalog), size;
    struct catalog_entry e;

    if (at < samples && catalog_get(ds->catalog, at, &e, NULL) == 0)
        disk_has(ds->node->disk, dataset_chunk(ds, e.key, e.etag));
    else if (at >= samples && catalog_derived(ds->catalog, at - samples, &size, NULL) == 0 &&
             catalog_object(ds->catalog, at - samples, &e, NULL) == 0)
        disk_has(ds->node->disk, dataset_derived_chunk(ds, &e));
}

static void adopt_work(struct work *w)
{
    struct adoption *a = dlc_container(w, struct adoption, work);
    uint64_t end = DLC_MIN(a->at + ADOPT_AT_ONCE, adopt_total(a->ds));

    for (; a->at < end && !stopped(a); a->at++)
        adopt_one(a->ds, a->at);
    loop_post(a->ds->node->loop, &a->task);
}

static void adopt_back(struct task *t)
{
    struct adoption *a = dlc_container(t, struct adoption, task);

    if (a->at < adopt_total(a->ds) && !stopped(a)) {
        work_run(a->ds->node->work, WORK_BACKGROUND, &a->work);
        return;
    }
    a->ds->node->pending--;
    a->ds->disk.adoption = NULL;
    dataset_put(&a->ds);
    mem_free(&a);
}

static void adopt(struct dataset *ds)
{
    struct disk_group_figures orphans;
    struct disk_figures all;
    struct adoption *a;

    if (ds->node->disk == NULL || ds->node->stopping)
        return;
    disk_group_figures(ds->node->disk, 0, &orphans);
    disk_figures(ds->node->disk, &all);
    if (orphans.chunks == 0 && !all.scanning)
        return;
    a = mem_new(struct adoption);
    a->ds = ds;
    a->work.run = adopt_work;
    a->task.run = adopt_back;
    ds->disk.adoption = a;
    dataset_ref(ds);
    ds->node->pending++;
    work_run(ds->node->work, WORK_BACKGROUND, &a->work);
}

static void adopt_stop(struct dataset *ds)
{
    if (ds->disk.adoption != NULL)
        atomic_store_explicit(&ds->disk.adoption->stop, true, memory_order_relaxed); /* with it */
}

const struct node_events disk_hints_events = {.dataset_ready = adopt,
                                              .dataset_stopping = adopt_stop};
