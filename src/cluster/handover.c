// SPDX-License-Identifier: Apache-2.0
/*
 * A walk over the samples that this node owned until owners changed (dataset_hands_over()) and has
 * a copy of. The new owner of each is asked to take it, and copies it from here by the peer
 * protocol. The walk begins again when owners change.
 *
 *     IDLE --owners changed--> COUNTING --all datasets--> MOVING --all datasets--> DONE
 *                                 ^                                                  |
 *                                 '---------- copies are left: after a pause --------'
 *                                 '--- a node that drains: more datasets on disk ----'
 *
 * Few datasets are open that nobody uses. A node that drains opens the others that lie on its disk,
 * some at a time (disk_inventory.h), and walks over each lot; what could not be handed over of the
 * lots before is carried along, and tried again when all have been walked over.
 *
 * It is the least important work of both nodes: while anybody reads, two samples are under way at a
 * time and RATE_WITH_READERS bytes a second at most; the loop is given back after each slice.
 *
 * (HANDOVER-3) A copy stays until its new owner has said that it has it: until then
 *              dataset_hands_over() is true, and it is kept like a sample that this node owns.
 * (HANDOVER-4) DONE without copies left means: at that time the owners of all samples that this
 *              node had and had owned had copies of them. A dataset that is still being opened, or
 *              may lie on disk unseen, keeps the walk from being done.
 */
#include "cluster/handover.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "cluster/agent.h"
#include "cluster/disk_inventory.h"
#include "cluster/evictions.h"
#include "cluster/member.h"
#include "cluster/peer/peer_client.h"
#include "cluster/peer/view.h"
#include "daemon/dataset.h"
#include "daemon/dataset_chunks.h"
#include "daemon/events.h"
#include "daemon/ownership.h"
#include "daemon/state.h"
#include "ipc/frame.h"

#define SLICE             256u /* samples looked at in one turn of the loop */
#define SLICE_PAUSE       DLC_MS(2)
#define WINDOW            8u /* samples under way */
#define WINDOW_READERS    2u
#define RATE_WITH_READERS (UINT64_C(64) << 20) /* bytes a second */
#define RETRY_AFTER       DLC_SEC(1)           /* then twice as long, up to 2^RETRY_SHIFT times */
#define RETRY_SHIFT       5u
#define OPENING           DLC_MS(200) /* datasets may be ready by then */
#define LATER             DLC_MS(200) /* views may agree by then */
#define LATERS_MAX        25u
#define LOOKS             64u /* datasets that a slice looks at for readers */
#define READ_LATELY       DLC_SEC(1)

enum phase { IDLE, COUNTING, MOVING, DONE };

/* What could not be handed over. */
struct unmoved {
    uint64_t samples, bytes; /* all of it */
    uint64_t no_room, no_room_bytes, failed;
    uint64_t unpacked_bytes;
};

struct handover {
    struct node *node;
    struct timer timer; /* the next slice */
    enum phase phase;
    uint64_t owners;     /* cluster_owners_version() of this walk */
    uint64_t from;       /* the first id of a dataset of this walk: those before are carried */
    uint64_t dataset;    /* the id of the dataset that the walk is at ... */
    uint64_t next;       /* ... and its next sample */
    unsigned in_flight;  /* struct offer */
    bool draining, busy; /* busy: somebody reads */
    bool again;          /* DONE, but datasets are being opened: they are the next walk's */
    bool lost;           /* one was closed before it was walked over: all once more */
    struct dlc_mono due; /* not before: the rate; DONE: the next walk */

    uint64_t done, bytes;            /* the new owners have them */
    uint64_t counted, counted_bytes; /* found by this walk, to be moved */
    uint64_t unpacked_bytes;         /* of unpacked archives, found by this walk */
    struct unmoved left, carried;
    unsigned tries;  /* walks that have left copies, since owners changed */
    uint64_t later;  /* the new owner has another view: it will have ours in a moment ... */
    unsigned laters; /* ... unless it had not after so many walks */
    char full[64];   /* the last node that had no room */
    struct dlc_err error;
    uint64_t looked;      /* dataset_step() of is_read() */
    struct dlc_mono read; /* when somebody was seen to read last; 0: never */
};

/* One sample that its new owner is asked to take. */
struct offer {
    struct handover *of;
    struct peer_read read;
    struct dataset *ds; /* with a reference */
    char *name, *address, *ticket;
    uint64_t size, owners;
    char evicted[EVICTION_MARK];
    struct task task;
};

static const char *const phase_names[] = {"idle", "counting", "moving", "done"};

/* ---- what there is ---- */

static bool takes_part(const struct dataset *ds)
{
    return ds->cid != NULL && ds->state == DATASET_READY && !ds->stale;
}

/* The first one that takes part and whose id is not less. */
static struct dataset *part_from(const struct node *n, uint64_t id)
{
    struct dataset *ds = dataset_from(n, id);

    while (ds != NULL && !takes_part(ds))
        ds = dataset_from(n, ds->id + 1);
    return ds;
}

/* (HANDOVER-4) */
static bool is_opening(const struct node *n)
{
    dlc_list_each (l, &n->datasets) {
        const struct dataset *ds = dlc_container(l, struct dataset, link);

        if (ds->cid != NULL && ds->state == DATASET_LISTING)
            return true;
    }
    return !n->member->inventory_read;
}

/* Does anybody read? Each time some datasets are looked at; an answer counts for a while. */
static bool is_read(struct handover *h)
{
    for (unsigned i = 0; i < LOOKS; i++) {
        const struct dataset *ds = dataset_step(h->node, &h->looked);

        if (ds == NULL)
            break;
        if (!dlc_list_empty(&ds->sessions) || dataset_read_elsewhere(ds)) {
            h->read = dlc_mono_now();
            return true;
        }
    }
    return h->read.ns != 0 && dlc_mono_since(h->read).ns < READ_LATELY.ns;
}

/* Is there a copy here? *on_disk: only there. */
static bool has_copy(struct dataset *ds, uint64_t sample, uint64_t *size, bool *on_disk)
{
    struct disk *d = ds->node->disk;
    struct catalog_entry e;

    if (ds->ownership.evicting > 0 || catalog_get(ds->catalog, sample, &e, NULL) < 0)
        return false;
    *size = e.size;
    *on_disk = !mem_index_ready(ds->index, sample);
    return !*on_disk ||
           (d != NULL && disk_lookup(d, dataset_chunk(ds, e.key, e.etag)) != DISK_ABSENT);
}

/* ---- one sample ---- */

static void handover_go_on(struct handover *h, struct dlc_dur after)
{
    if (!h->node->stopping)
        loop_timer_set(h->node->loop, &h->timer, dlc_mono_add(dlc_mono_now(), after));
}

static void offer_failed(struct handover *h, struct offer *o)
{
    uint64_t size;
    bool on_disk;

    if (o->read.rc == DLC_ENOTFOUND && !has_copy(o->ds, o->read.sample, &size, &on_disk)) {
        dataset_handed_over(o->ds, o->read.sample, false);
        h->counted--; /* evicted meanwhile */
        h->counted_bytes -= o->size;
    } else if (o->read.rc == DLC_ENOSPACE) {
        h->left.no_room++;
        h->left.no_room_bytes += o->size;
        snprintf(h->full, sizeof(h->full), "%s", o->name);
    } else {
        if (o->read.rc == DLC_ECHANGED && h->laters < LATERS_MAX)
            h->later++;
        else
            h->left.failed++;
        h->error = o->read.err;
    }
}

static void offer_ended(struct task *t)
{
    struct offer *o = dlc_container(t, struct offer, task);
    struct handover *h = o->of;

    h->node->pending--;
    h->in_flight--;
    if (o->owners == h->owners && o->read.rc == 0) {
        dataset_handed_over(o->ds, o->read.sample, true);
        h->done++;
        h->bytes += o->size;
        h->counted--;
        h->counted_bytes -= o->size;
    } else if (o->owners == h->owners) {
        offer_failed(h, o);
    }
    dataset_put(&o->ds);
    mem_free(&o->name);
    mem_free(&o->address);
    secret_free(&o->ticket);
    mem_free(&o);
    handover_go_on(h, DLC_MS(0));
}

/* On a thread of the peer client. */
static void offer_answered(struct peer_read *r)
{
    struct offer *o = r->priv;

    loop_post(o->of->node->loop, &o->task);
}

static void offer_send(struct handover *h, struct dataset *ds, uint64_t sample, uint64_t size,
                       bool on_disk, const struct cluster_peer *peer)
{
    struct offer *o = mem_new(struct offer);

    o->of = h;
    o->ds = ds;
    o->name = mem_str(peer->name);
    o->address = mem_str(peer->address);
    o->ticket = mem_str(ds->ticket.text);
    o->size = size;
    o->owners = h->owners;
    o->task.run = offer_ended;
    snprintf(o->evicted, sizeof(o->evicted), "%s", evictions_mark(h->node, ds));
    o->read = (struct peer_read){
        .peer = o->name,
        .address = o->address,
        .token = o->ticket,
        .dataset = ds->cid,
        .tenant = ds->tenant,
        .snapshot = catalog_snapshot(ds->catalog),
        .sample = sample,
        .take_from = agent_name(h->node->member->agent),
        .take_on_disk = on_disk,
        .evicted = o->evicted,
        .done = offer_answered,
        .priv = o,
    };
    dataset_ref(ds);
    h->in_flight++;
    h->node->pending++;
    if (h->busy)
        h->due =
            dlc_mono_add(dlc_mono_now(),
                         (struct dlc_dur){(int64_t)(size * 1000 / (RATE_WITH_READERS / 1000000))});
    peers_read(h->node->peers, &o->read);
}

/* ---- unpacked archives ---- */

/* They are not handed over: a node that drains says how many bytes stay behind. */
static void look_unpacked(struct handover *h, const struct dataset *ds, uint64_t object)
{
    struct disk *d = h->node->disk;
    struct catalog_entry e;
    uint64_t size;

    if (d != NULL && catalog_derived(ds->catalog, object, &size, NULL) == 0 &&
        catalog_object(ds->catalog, object, &e, NULL) == 0 &&
        disk_lookup(d, dataset_derived_chunk(ds, &e)) != DISK_ABSENT)
        h->unpacked_bytes += size;
}

/* The walk looks at its samples, and then at its archives. */
static uint64_t n_positions(const struct handover *h, const struct dataset *ds)
{
    bool archives = h->draining && h->phase == COUNTING && !catalog_is_whole(ds->catalog);

    return catalog_count(ds->catalog) + (archives ? catalog_objects(ds->catalog) : 0);
}

/* ---- the walk ---- */

static void handover_look(struct handover *h, struct dataset *ds, uint64_t sample)
{
    struct cluster_peer peer;
    uint64_t size = 0;
    bool on_disk;

    if (!dataset_hands_over(ds, sample) && (h->phase != COUNTING || !dataset_gave_away(ds, sample)))
        return;
    if (!has_copy(ds, sample, &size, &on_disk)) {
        dataset_handed_over(ds, sample, false); /* evicted since it was counted */
        h->counted -= h->phase == MOVING;
        h->counted_bytes -= h->phase == MOVING ? size : 0;
        return;
    }
    if (h->phase == COUNTING) {
        dataset_hand_over(ds, sample);
        h->counted++;
        h->counted_bytes += size;
    } else if (ds->ticket.text != NULL && dataset_peer(ds, sample, &peer)) {
        offer_send(h, ds, sample, size, on_disk, &peer);
    } else {
        h->left.failed++;
        dlc_err_set(&h->error, DLC_EMISS, "the new owner of sample %llu of %s is not reached",
                    (unsigned long long)sample, ds->cid);
    }
}

static void walk_begin(struct handover *h, enum phase phase, struct dlc_dur after)
{
    h->phase = phase;
    h->dataset = h->from;
    h->next = 0;
    h->again = false;
    if (phase == COUNTING)
        h->counted = h->counted_bytes = h->unpacked_bytes = 0;
    h->left = (struct unmoved){0};
    h->later = 0;
    h->due = dlc_mono_now();
    handover_go_on(h, after);
}

/* Over all datasets that are open, and, if it drains, then over the others on disk. */
static void walk_all(struct handover *h)
{
    h->from = 0;
    h->carried = (struct unmoved){0};
    h->error = (struct dlc_err)DLC_ERR_INIT;
    h->lost = false;
    if (h->draining && h->node->member->inventory_read)
        inventory_list(h->node);
    walk_begin(h, COUNTING, DLC_MS(0));
}

static uint64_t n_left(const struct handover *h)
{
    return h->left.no_room + h->left.failed + h->carried.no_room + h->carried.failed;
}

/* The walk is over: go on to datasets that are opened from now on. */
static void carry_on(struct handover *h)
{
    h->from = DLC_MAX(h->from, h->dataset); /* behind the last one that was walked over */
    h->carried.samples += h->counted;
    h->carried.bytes += h->counted_bytes;
    h->carried.no_room += h->left.no_room;
    h->carried.no_room_bytes += h->left.no_room_bytes;
    h->carried.failed += h->left.failed;
    h->carried.unpacked_bytes += h->unpacked_bytes;
    h->counted = h->counted_bytes = h->unpacked_bytes = 0;
    h->left = (struct unmoved){0};
}

static struct dlc_dur retry_after(const struct handover *h)
{
    return (struct dlc_dur){RETRY_AFTER.ns << DLC_MIN(h->tries, RETRY_SHIFT)};
}

static void walk_over(struct handover *h)
{
    if (h->phase == COUNTING && h->counted > 0) {
        walk_begin(h, MOVING, DLC_MS(0));
        return;
    }
    if (h->later > 0) {
        h->laters++;
        walk_begin(h, COUNTING, LATER);
        return;
    }
    h->laters = 0;
    h->phase = DONE;
    h->again = h->draining && is_opening(h->node); /* then over the same once more */
    if (h->draining && !h->again && inventory_more(h->node)) {
        h->again = true;
        carry_on(h);
    }
    if (h->again) {
        h->due = dlc_mono_add(dlc_mono_now(), OPENING);
        return;
    }
    if (h->draining && h->node->member->not_seen > 0) {
        h->left.failed += h->node->member->not_seen;
        h->error = h->node->member->why_not_seen;
    }
    if (h->draining && cluster_live(h->node->cluster) == 0) {
        h->left.failed++;
        dlc_err_set(&h->error, DLC_EMISS,
                    "there is no other node: start one, or let this one own chunks again "
                    "(`dlcache node undrain`)");
    }
    h->again = h->lost;
    h->due = dlc_mono_add(dlc_mono_now(), retry_after(h));
    if (n_left(h) > 0 && h->tries++ == 0)
        log_warn(
            "hand-over: %llu samples are with their new owners; %llu found no room at %s, %llu "
            "failed%s%s; tried again",
            (unsigned long long)h->done, (unsigned long long)(h->left.no_room + h->carried.no_room),
            h->full, (unsigned long long)(h->left.failed + h->carried.failed),
            h->error.code != 0 ? ": " : "", h->error.text);
    else if (h->done > 0)
        log_info("hand-over: %llu samples (%llu bytes) are with their new owners",
                 (unsigned long long)h->done, (unsigned long long)h->bytes);
}

/* May another sample be sent now? */
static bool may_send(const struct handover *h)
{
    return h->phase == COUNTING || (h->in_flight < (h->busy ? WINDOW_READERS : WINDOW) &&
                                    dlc_mono_passed(h->due, dlc_mono_now()));
}

static void on_slice(struct timer *t)
{
    struct handover *h = dlc_container(t, struct handover, timer);
    struct dataset *ds = part_from(h->node, h->dataset);
    unsigned looked = 0;

    if (h->phase != COUNTING && h->phase != MOVING)
        return;
    h->busy = is_read(h);
    for (; ds != NULL && looked < SLICE && may_send(h); looked++) {
        if (ds->id != h->dataset) {
            h->dataset = ds->id;
            h->next = 0;
        }
        if (h->next < catalog_count(ds->catalog)) {
            handover_look(h, ds, h->next++);
        } else if (h->next < n_positions(h, ds)) {
            look_unpacked(h, ds, h->next++ - catalog_count(ds->catalog));
        } else {
            h->dataset++;
            h->next = 0; /* also if the next dataset has that very id */
            ds = part_from(h->node, h->dataset);
        }
    }
    if (ds == NULL && h->in_flight == 0)
        walk_over(h);
    else if (ds != NULL && may_send(h))
        handover_go_on(h, SLICE_PAUSE);
    else if (ds != NULL && !dlc_mono_passed(h->due, dlc_mono_now()))
        loop_timer_set(h->node->loop, &h->timer, h->due);
}

/* ---- life ---- */

static struct handover *handover_new(struct node *n)
{
    struct handover *h = mem_new(struct handover);

    h->node = n;
    h->timer.fire = on_slice;
    h->owners = cluster_owners_version(n->cluster);
    return h;
}

void handover_tick(struct node *n)
{
    struct handover *h = n->member->handover;
    uint64_t owners;
    bool draining;

    if (n->cluster == NULL || n->peers == NULL || cluster_version(n->cluster) == 0 || n->stopping)
        return;
    if (h == NULL)
        h = n->member->handover = handover_new(n);
    owners = cluster_owners_version(n->cluster);
    draining = cluster_is_draining(n->cluster);
    if (owners != h->owners || draining != h->draining) {
        h->owners = owners;
        h->draining = draining;
        h->done = h->bytes = h->laters = h->tries = 0;
        walk_all(h);
    } else if (h->phase == DONE && dlc_mono_passed(h->due, dlc_mono_now()) && h->again &&
               !h->lost) {
        walk_begin(h, COUNTING, DLC_MS(0));
    } else if (h->phase == DONE && dlc_mono_passed(h->due, dlc_mono_now()) &&
               (h->lost || n_left(h) > 0)) {
        walk_all(h);
    }
}

uint64_t handover_pending(const struct node *n)
{
    const struct handover *h = n->member->handover;

    if (h == NULL || h->owners != cluster_owners_version(n->cluster) || h->phase == COUNTING)
        return UINT64_MAX / 2;
    return h->counted_bytes + h->carried.bytes;
}

json_t *handover_figures(const struct node *n)
{
    const struct handover *h = n->member->handover;
    uint64_t no_room, failed;
    bool done;
    json_t *o;

    if (h == NULL || h->phase == IDLE || (!h->draining && h->done + h->counted == 0))
        return NULL;
    done = h->phase == DONE && !h->again;
    no_room = h->left.no_room + h->carried.no_room;
    failed = h->left.failed + h->carried.failed;
    o = json_pack("{s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i}", "draining", h->draining,
                  "phase", phase_names[h->phase == DONE && !done ? COUNTING : h->phase], "samples",
                  (json_int_t)h->done, "total",
                  (json_int_t)(h->done + h->counted + h->carried.samples), "bytes",
                  (json_int_t)h->bytes, "total_bytes",
                  (json_int_t)(h->bytes + h->counted_bytes + h->carried.bytes), "no_room",
                  (json_int_t)no_room, "no_room_bytes",
                  (json_int_t)(h->left.no_room_bytes + h->carried.no_room_bytes), "failed",
                  (json_int_t)failed, "tries", (int)h->tries);
    if (h->draining)
        json_object_set_new(
            o, "unpacked_bytes",
            json_integer((json_int_t)(h->unpacked_bytes + h->carried.unpacked_bytes)));
    if (no_room > 0)
        json_object_set_new(o, "full", msg_string(h->full));
    if (failed > 0)
        json_object_set_new(o, "error", msg_string(h->error.text));
    return o;
}

/* Another dataset needed its place. */
static void dataset_closed(struct dataset *ds)
{
    struct handover *h = ds->node->member != NULL ? ds->node->member->handover : NULL;

    if (h != NULL && h->draining && takes_part(ds) && ds->id >= h->from)
        h->lost = true;
}

const struct node_events handover_events = {.dataset_closing = dataset_closed};

void handover_close(struct node *n)
{
    struct handover *h = n->member->handover;

    if (h == NULL)
        return;
    dlc_check(h->in_flight == 0);
    loop_timer_del(n->loop, &h->timer);
    mem_free(&n->member->handover);
}
