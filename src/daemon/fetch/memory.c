// SPDX-License-Identifier: Apache-2.0
/*
 * Resident samples as a source of the disk tier: the copy that a fetch leaves there once its sample
 * is published, and the disk goal of a sample that is resident, for which the bucket is not read
 * again. The daemon holds the bytes in memory while a worker of WORK_STORE writes them, with the
 * checksum that they came with (FETCH-1).
 *
 * Not here: the memory goal of a resident sample. It needs no fetch: fetch_start() answers at once.
 */
#include "daemon/fetch/source.h"

#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/dataset.h"
#include "daemon/fetch/fetch.h"
#include "daemon/ownership.h"
#include "daemon/state.h"

struct store {
    struct dataset *ds; /* counted */
    uint64_t sample, size;
    struct chunk_id chunk;
    const void *bytes; /* held in memory */
    uint64_t checksum;
    struct fetch_attempt *attempt; /* that waits for it; NULL: nobody does */
    struct work work;
    struct task task;
    int rc;
    struct dlc_err err;
};

static void store_on_worker(struct work *w)
{
    struct store *s = dlc_container(w, struct store, work);
    struct disk *d = s->ds->node->disk;

    if (node_is_ending(s->ds->node)) { /* hundreds may be queued, and the bucket has them */
        count(disk_stores_dropped);
        s->rc = DLC_EDENIED;
    } else if (s->attempt == NULL || !disk_has(d, s->chunk)) {
        s->rc = disk_store_sum(d, s->chunk, s->bytes, s->size, s->checksum, &s->err);
    }
    loop_post(s->ds->node->loop, &s->task);
}

/* If the bytes have changed since they came, no reader gets them any more. */
static void store_drop_corrupt(struct store *s)
{
    count(mem_corrupt);
    log_warn("sample %llu of %s: its bytes in memory have changed since they came; dropped, it "
             "will be fetched again. Is this machine's memory sound?",
             (unsigned long long)s->sample, s->ds->url.shown);
    memory_evict_soon(s->ds->index, s->sample);
}

static void store_free(struct store *s)
{
    struct dataset *ds = s->ds;

    memory_unhold(dataset_memory(ds), ds->index, s->sample);
    mem_free(&s);
    dataset_put(&ds);
}

/* A disk that is full or read-only takes nothing: then readers go to the bucket. */
static void store_end_attempt(struct store *s)
{
    struct fetch_attempt *a = s->attempt;

    a->rc = s->rc == 0 || s->rc == DLC_ECORRUPT ? s->rc : DLC_EBYPASS;
    a->err = s->err;
    store_free(s);
    fetch_attempt_ended(a);
}

static void store_on_loop(struct task *t)
{
    struct store *s = dlc_container(t, struct store, task);
    struct node *n = s->ds->node;

    n->pending--;
    if (s->rc == DLC_ECORRUPT)
        store_drop_corrupt(s);
    if (s->attempt != NULL) {
        store_end_attempt(s);
        return;
    }
    if (s->rc < 0 && s->rc != DLC_EDENIED && s->rc != DLC_ECORRUPT)
        log_at(s->rc == DLC_ENOSPACE ? LOG_DEBUG : LOG_INFO,
               "sample %llu of %s is not kept on disk: %s", (unsigned long long)s->sample,
               s->ds->url.shown, s->err.text);
    budget_give(s->ds, BUDGET_STORING, s->size);
    budget_give(s->ds, BUDGET_FETCHES, 1);
    store_free(s);
    fetch_room(n);
}

/* NULL: it is not resident. */
static struct store *store_new(const struct fetch *f)
{
    struct dataset *ds = f->ds;
    uint64_t len;
    const void *bytes = memory_hold(dataset_memory(ds), ds->index, f->sample, &len);
    struct store *s;

    if (bytes == NULL)
        return NULL;
    s = mem_new(struct store);
    s->ds = ds;
    s->sample = f->sample;
    s->size = f->size;
    s->chunk = f->chunk;
    s->bytes = bytes;
    s->checksum = mem_index_checksum(ds->index, f->sample);
    s->work.run = store_on_worker;
    s->task.run = store_on_loop;
    dataset_ref(ds);
    return s;
}

/* A node stores what it owns; the owner of a borrowed sample stores that. */
static bool store_is_ours(const struct fetch *f)
{
    const struct disk *d = f->ds->node->disk;

    return d != NULL && !disk_is_bypassed(d) && dataset_owns(f->ds, f->sample);
}

static void memory_published(struct fetch *f)
{
    struct dataset *ds = f->ds;
    struct store *s;

    if (f->from == TIER_DISK || f->bypass || ds->node->stopping || !store_is_ours(f))
        return;
    if (!budget_for_store(ds, f->size)) {
        count(disk_stores_dropped); /* the disk is slower than the bucket: its backlog must not
                                     * fill memory */
        return;
    }
    s = store_new(f);
    if (s == NULL)
        return;
    if (!work_try(ds->node->work, WORK_STORE, &s->work, s->size)) {
        count(disk_stores_dropped);
        store_free(s);
        return;
    }
    ds->node->pending++;
    budget_take(ds, BUDGET_STORING, s->size);
    budget_take(ds, BUDGET_FETCHES, 1);
}

static bool memory_start(struct fetch_attempt *a)
{
    struct store *s = store_is_ours(a->f) ? store_new(a->f) : NULL;

    if (s == NULL)
        return false;
    s->attempt = a;
    a->ds->node->pending++;
    work_run(a->ds->node->work, WORK_STORE, &s->work);
    return true;
}

static bool memory_can_serve(struct fetch *f)
{
    return f->to_disk;
}

const struct fetch_source fetch_from_memory = {
    .name = "memory",
    .tier = TIER_MEMORY,
    .can_serve = memory_can_serve,
    .start = memory_start,
    .published = memory_published,
};
