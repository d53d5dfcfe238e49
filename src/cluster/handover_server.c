// SPDX-License-Identifier: Apache-2.0
/*
 * The peer server's part in handing copies over to new owners (docs/design/0019-handover.md).
 *
 *     previous owner                          new owner
 *     handover.c: walks its copies --take--> handover_take(): has it? --no--> fetch_take()
 *     handover_give(): from memory or file <------------cached=1----------------'
 *                                  <--done-- handover_take(): it is in memory or on disk
 *
 * A new owner whose readers miss a sample before its turn has come asks with cached=1, too.
 *
 * (HANDOVER-1) handover_give() gives what is here and asks nobody, neither a peer nor the bucket: no
 *              request waits in a circle, and none costs a GET.
 * (HANDOVER-2) handover_take() never reads the bucket, and takes no place from what this node owns.
 */
#include "cluster/peer_server_i.h"

#include "base/counters.h"
#include "base/mem.h"
#include "cluster/commands.h"
#include "cluster/evictions.h"
#include "cluster/handover.h"
#include "net/async_server.h"
#include "catalog/catalog.h"
#include "daemon/dataset.h"
#include "daemon/dataset_chunks.h"
#include "daemon/fetch/fetch.h"
#include "daemon/ownership.h"
#include "daemon/state.h"

static bool is_on_disk(const struct dataset *ds, const struct catalog_entry *e)
{
    struct disk *d = ds->node->disk;

    return d != NULL && disk_lookup(d, dataset_chunk(ds, e->key, e->etag)) != DISK_ABSENT;
}

/* ---- the previous owner ---- */

static void on_joined(struct waiter *w, int rc, const char *text)
{
    struct peer_request *a = peer_request_of(dlc_container(w, struct peer_request, waiter));

    if (a->call == NULL)
        peer_request_end(a);
    else if (rc == 0)
        peer_request_send(a);
    else
        peer_request_fail(a, DLC_EMISS, text);
}

/* A read of the bucket that is under way will do. A fetch that asks a peer, or may yet do so, will
 * not: that peer may be the one that asks. */
static bool join_fetch(struct peer_request *a)
{
    struct dataset *ds = a->ds;

    if (!fetch_from_bucket_now(ds, a->sample))
        return false;
    a->waiter.done = on_joined;
    a->waiter.asked = dlc_mono_now();
    dlc_list_init(&a->waiter.of_fetch);
    dlc_list_init(&a->waiter.of_session);
    return fetch_for_peer(ds, a->sample, &a->waiter);
}

void handover_give(struct peer_request *a)
{
    struct dataset *ds = a->ds;
    struct catalog_entry e;

    a->resident = mem_index_ready(ds->index, a->sample);
    if (a->resident) {
        peer_request_send(a);
    } else if (join_fetch(a)) {
        return;
    } else if (catalog_get(ds->catalog, a->sample, &e, NULL) == 0 && is_on_disk(ds, &e)) {
        count(handover_served);
        count_add(handover_served_bytes, e.size);
        peer_request_open_large(a, &e);
    } else {
        peer_request_fail(a, DLC_EMISS, "this node has no copy of it");
    }
}

/* ---- the new owner ---- */

static void answer_taken(struct peer_request *a)
{
    struct http_reply reply = {.type = "application/octet-stream", .data = "", .data_len = 0};

    if (a->call != NULL)
        peer_request_answer(a, &reply);
    peer_request_end(a);
}

/* (HANDOVER-2) Borrowed samples may go for it, owned ones may not. */
static bool has_room(const struct dataset *ds, uint64_t size)
{
    struct memory_figures m;
    uint64_t most;

    memory_figures(dataset_memory(ds), &m);
    most = m.ceiling - m.ceiling / 16;
    return m.used - m.decoded_bytes + size <= most ||
           ds->tenant_memory->share + handover_pending(ds->node) <= most;
}

static void take_begin(struct peer_request *a, enum fetch_goal goal)
{
    dlc_list_init(&a->waiter.of_fetch);
    dlc_list_init(&a->waiter.of_session);
    a->waiter.asked = dlc_mono_now();
    a->ds->ownership.taking++;
    dataset_ref(a->ds);
    fetch_take(a->ds, a->sample, goal, a->from, &a->waiter);
}

static bool is_stored(const struct peer_request *a)
{
    return disk_lookup(a->peer_server->node->disk, a->chunk) == DISK_PRESENT;
}

static void store(struct peer_request *a);

/* The fetch of take_begin() has ended, and what follows it has begun. Takes ds. */
static void take_end(struct dataset *ds)
{
    if (--ds->ownership.taking == 0)
        commands_go_on(ds->node);
    dataset_put(&ds);
}

static void on_stored(struct waiter *w, int rc, const char *text)
{
    struct peer_request *a = peer_request_of(dlc_container(w, struct peer_request, waiter));
    struct dataset *ds = a->ds;

    if (rc == DLC_ELARGE || (a->resident && rc == DLC_EBYPASS && has_room(a->ds, 0)))
        answer_taken(a);
    else if (rc == 0 && a->call != NULL) /* it joined a fetch into memory */
        store(a);
    else
        peer_request_fail(a, rc, text);
    take_end(ds);
}

/* Where there is a disk, a copy lies there: memory may be too small for all that this node owns by
 * now. */
static void store(struct peer_request *a)
{
    a->waiter.done = on_stored;
    take_begin(a, FETCH_DISK);
}

static void on_resident(struct waiter *w, int rc, const char *text)
{
    struct peer_request *a = peer_request_of(dlc_container(w, struct peer_request, waiter));
    struct dataset *ds = a->ds;
    bool disk = a->peer_server->node->disk != NULL;

    a->resident = rc == 0;
    if (rc == DLC_ELARGE || (rc == 0 && (!disk || is_stored(a))))
        answer_taken(a);
    else if (a->call != NULL && disk && (rc == 0 || rc == DLC_EBYPASS))
        store(a);
    else
        peer_request_fail(a, rc, text);
    take_end(ds);
}

void handover_take(struct peer_request *a)
{
    struct dataset *ds = a->ds;
    bool disk = ds->node->disk != NULL && !disk_is_bypassed(ds->node->disk), room;
    struct catalog_entry e;

    if (evictions_forbid(ds->node, ds, a->evicted != NULL ? a->evicted : "")) {
        peer_request_fail(a, DLC_ECHANGED, "the dataset was evicted here, and not yet there");
        return;
    }
    if (!dataset_owns(ds, a->sample)) {
        peer_request_fail(a, DLC_EBUSY,
                          "this node does not own the sample in the view that it has");
        return;
    }
    if (catalog_get(ds->catalog, a->sample, &e, &a->err) < 0) {
        peer_request_fail(a, a->err.code, a->err.text);
        return;
    }
    a->chunk = dataset_chunk(ds, e.key, e.etag);
    a->resident = mem_index_ready(ds->index, a->sample);
    room = has_room(ds, a->resident ? 0 : e.size);
    a->waiter.done = on_resident;
    if (disk ? is_stored(a) : a->resident && room)
        answer_taken(a);
    else if (!room && !disk)
        peer_request_fail(a, DLC_ENOSPACE, "the memory of this node is full");
    else if (disk && (a->on_disk || a->resident || !room))
        store(a);
    else
        take_begin(a, FETCH_MEMORY);
}
