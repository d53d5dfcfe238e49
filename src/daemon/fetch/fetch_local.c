// SPDX-License-Identifier: Apache-2.0
/* A fetch in the tiers of this node: the memory goal, the disk goal, and the copy on disk. */
#include "daemon/fetch/fetch_i.h"

#include "base/counters.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/list.h"
#include "cache/disk/disk.h"
#include "daemon/ownership.h"
#include "daemon/prefetch/cache_bypass.h"
#include "daemon/prefetch/pump.h"
#include "daemon/state.h"
#include "daemon/work.h"

#define SUM_SMALL (4u << 20) /* bytes: less than a millisecond */

/* ---- storing what is resident on disk ---- */

static void store_step(struct fetch *f)
{
    if (node_is_ending(f->ds->node)) { /* hundreds may be queued, and the bucket has them */
        count(disk_stores_dropped);
        f->rc = DLC_EDENIED;
        return;
    }
    f->rc = disk_store_sum(f->ds->node->disk, f->chunk, f->stored, f->size, f->checksum, &f->err);
}

/* The bytes that were stored are done with. If they have changed since they came, nobody gets them
 * any more. */
static void store_over(struct fetch *f)
{
    struct dataset *ds = f->ds;

    memory_unhold(ds->node->memory, ds->index, f->sample);
    if (f->rc != DLC_ECORRUPT)
        return;
    count(mem_corrupt);
    log_warn("sample %llu of %s: its bytes in memory have changed since they came; dropped, it "
             "will be fetched again. Is this machine's memory sound?",
             (unsigned long long)f->sample, ds->url.shown);
    memory_evict_soon(ds->index, f->sample);
}

static void store_next(struct fetch *f)
{
    struct node *n = f->ds->node;
    struct dataset *ds = f->ds;

    if (f->rc < 0 && f->rc != DLC_EDENIED && f->rc != DLC_ECORRUPT)
        log_at(f->rc == DLC_ENOSPACE ? LOG_DEBUG : LOG_INFO, "%s not kept on disk: %s",
               f->entry.key, f->err.text);
    store_over(f);
    budget_give(ds, BUDGET_STORING, f->size);
    fetch_free(&f);
    prefetch_pump(n);
    dataset_put(&ds);
}

/* The readers have their answer; the fetch lives on to write the bytes. */
static bool try_store(struct fetch *f)
{
    struct node *n = f->ds->node;
    uint64_t len;

    if (n->disk == NULL || disk_is_bypassed(n->disk) || f->from_disk || f->past || n->stopping ||
        !dataset_owns(f->ds, f->sample))
        return false; /* what is borrowed is kept on disk by its owner */
    if (!budget_for_store(f->ds, f->size)) {
        count(disk_stores_dropped);
        return false; /* the disk is slower than the bucket: do not fill memory with its backlog */
    }
    f->stored = memory_hold(n->memory, f->ds->index, f->sample, &len);
    if (f->stored == NULL)
        return false;
    if (!fetch_try_work(f, WORK_STORE, store_step, store_next)) {
        memory_unhold(n->memory, f->ds->index, f->sample);
        count(disk_stores_dropped);
        return false;
    }
    budget_take(f->ds, BUDGET_STORING, f->size);
    return true;
}

/* ---- memory goal ---- */

static void publish(struct fetch *f)
{
    struct dataset *ds = f->ds;

    dlc_check(f->sum == FETCH_SUM_KNOWN); /* (FETCH-1) */
    fetch_share(f);
    budget_give(ds, BUDGET_FILLING, f->size);
    mem_fill_set_checksum(f->fill, f->checksum);
    memory_publish(ds->node->memory, &f->fill);
    bypass_came(ds, f->sample, f->past);
    hist_add(&ds->prefetch.latency, (uint64_t)dlc_mono_since(f->started).ns / 1000);
    outcomes_came(ds, f->sample);
    map_remove(&ds->fetching, f->sample);
    fetch_answer(f, 0);
    if (try_store(f)) {
        prefetch_pump(ds->node);
        return;
    }
    fetch_free(&f);
    prefetch_pump(ds->node);
    dataset_put(&ds);
}

void fetch_give_up(struct fetch *f)
{
    if (f->fill != NULL) {
        budget_give(f->ds, BUDGET_FILLING, f->size);
        memory_abandon(f->ds->node->memory, &f->fill);
    }
    if (f->file != NULL)
        disk_fill_abandon(f->ds->node->disk, &f->file);
    fetch_end(f, f->rc);
}

void fetch_read_disk(struct fetch *f)
{
    if (f->rc < 0) {
        if (f->rc != DLC_EMISS)
            log_warn("disk tier: %s; reading it from the bucket", f->err.text);
        fetch_remote(f);
        return;
    }
    f->from_disk = true;
    publish(f);
}

/* ---- disk goal ---- */

static void commit_step(struct fetch *f)
{
    if (node_is_ending(f->ds->node)) { /* a checksum over gigabytes takes seconds */
        disk_fill_abandon(f->ds->node->disk, &f->file);
        f->rc = dlc_err_set(&f->err, DLC_ECANCELED, "the daemon is stopping");
        return;
    }
    f->rc = disk_fill_commit_sum(f->ds->node->disk, &f->file,
                                 f->sum != FETCH_SUM_NONE ? &f->checksum : NULL, &f->err);
}

static void fetch_prepare(struct fetch *f);

static void commit_next(struct fetch *f)
{
    if (f->rc == DLC_ECORRUPT && f->sum == FETCH_SUM_SAID) {
        fetch_peer_corrupt(f);
        fetch_prepare(f); /* the file is gone */
        return;
    }
    if (f->rc == 0 && f->sum == FETCH_SUM_SAID)
        fetch_peer_came(f);
    /* The bytes are right even if they could not be kept: let readers get them from the bucket. */
    if (f->rc < 0)
        log_warn("disk tier: %s", f->err.text);
    fetch_end(f, f->rc < 0 ? DLC_EBYPASS : DLC_ELARGE);
}

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
    fetch_remote(f);
}

/* A reader of a large sample waits for its file to be made, and must not wait for other writes. */
static enum work_class writes(const struct fetch *f)
{
    return dlc_list_empty(&f->waiters) ? WORK_STORE : WORK_DEMAND;
}

static void fetch_prepare(struct fetch *f)
{
    fetch_work(f, writes(f), prepare_step, prepare_next);
}

static void copy_next(struct fetch *f)
{
    store_over(f);
    if (f->rc == DLC_ECORRUPT)
        fetch_prepare(f);
    else
        fetch_end(f, f->rc == 0 ? DLC_ELARGE : DLC_EBYPASS); /* full, or read-only */
}

/* The disk goal of a resident sample: its bytes are at hand, and the bucket need not be asked
 * again. It may also be queued as what readers fetched; then the second to come finds the chunk. */
static bool copy_resident(struct fetch *f)
{
    struct node *n = f->ds->node;
    uint64_t len;

    if (disk_is_bypassed(n->disk) || !dataset_owns(f->ds, f->sample))
        return false;
    f->stored = memory_hold(n->memory, f->ds->index, f->sample, &len);
    if (f->stored == NULL)
        return false;
    f->checksum = mem_index_checksum(f->ds->index, f->sample);
    fetch_work(f, WORK_STORE, store_step, copy_next);
    return true;
}

static void probe_step(struct fetch *f)
{
    f->rc = disk_has(f->ds->node->disk, f->chunk) ? 0 : DLC_EMISS;
}

static void probe_next(struct fetch *f)
{
    if (f->rc == 0)
        fetch_end(f, DLC_ELARGE);
    else if (!copy_resident(f))
        fetch_prepare(f);
}

/* ---- for what comes from afar ---- */

void *fetch_destination(struct fetch *f)
{
    return f->to_disk ? disk_fill_data(f->file) : mem_fill_data(f->fill);
}

static void sum_step(struct fetch *f)
{
    uint64_t checksum = hash64(mem_fill_data(f->fill), f->size);

    f->rc = f->sum == FETCH_SUM_SAID && checksum != f->checksum ? DLC_ECORRUPT : 0;
    f->checksum = checksum;
}

static void sum_next(struct fetch *f)
{
    if (f->rc < 0) {
        fetch_peer_corrupt(f);
        fetch_remote(f);
        return;
    }
    if (f->sum == FETCH_SUM_SAID)
        fetch_peer_came(f);
    f->sum = FETCH_SUM_KNOWN;
    publish(f);
}

void fetch_sum_small(struct fetch *f)
{
    if (f->to_disk || f->size > SUM_SMALL)
        return;
    f->checksum = hash64(mem_fill_data(f->fill), f->size);
    f->sum = FETCH_SUM_KNOWN;
}

void fetch_arrived(struct fetch *f)
{
    if (f->to_disk) {
        fetch_share(f);
        fetch_work(f, writes(f), commit_step, commit_next);
    } else if (f->sum != FETCH_SUM_KNOWN) {
        fetch_work(f, WORK_COPY, sum_step, sum_next); /* memory only: it does not wait for a disk */
    } else {
        publish(f);
    }
}

/* ---- start ---- */

/* As the table in memory says: what is not there need not wait for a thread. */
static bool may_be_on_disk(const struct fetch *f)
{
    struct disk *d = f->ds->node->disk;

    return d != NULL && disk_lookup(d, f->chunk) != DISK_ABSENT;
}

/* Reserve room and take the first step. */
void fetch_local(struct fetch *f, enum fetch_goal goal)
{
    struct node *n = f->ds->node;

    f->rc = goal == FETCH_DISK
                ? DLC_ELARGE
                : memory_reserve(n->memory, f->ds->index, f->sample, f->size, &f->fill);
    if (f->rc == 0) {
        budget_take(f->ds, BUDGET_FILLING, f->size);
        if (!may_be_on_disk(f) || !fetch_try_disk(f))
            fetch_remote(f);
    } else if (f->rc == DLC_ELARGE && n->disk != NULL) {
        f->to_disk = true;
        if (may_be_on_disk(f))
            fetch_work(f, fetch_reads(f), probe_step, probe_next);
        else if (!copy_resident(f))
            fetch_prepare(f);
    } else {
        if (f->rc == DLC_ELARGE) /* the memory tier counts its own */
            count(mem_bypasses);
        fetch_end(f, DLC_EBYPASS);
    }
}
