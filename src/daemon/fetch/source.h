// SPDX-License-Identifier: Apache-2.0
/*
 * Sources of a fetch: the tiers that may have a sample, as rows of one table (source.c), in the
 * order in which the pipeline (fetch.c) tries them. A source does one thing: it writes given bytes
 * to a destination. It does not know which source comes before or after it, who waits for the
 * sample, or what happens when it is late.
 *
 * (SRC-1) start() is called on the node loop. When it returned true, the source calls
 *         fetch_attempt_done() (any thread) or fetch_attempt_ended() (the loop, also from within
 *         start()) exactly once, unless cancel() returned true before.
 * (SRC-2) The source touches the attempt and its destination only between start() and that call.
 */
#ifndef DLC_DAEMON_FETCH_SOURCE_H
#define DLC_DAEMON_FETCH_SOURCE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/event_loop.h"
#include "base/list.h"
#include "base/thread_pool.h"
#include "cache/disk/disk.h"
#include "catalog/catalog.h"
#include "daemon/work.h"

struct dataset;
struct disk_fill;
struct fetch;
struct fetch_attempt;
struct fetch_listener;
struct mem_fill;
struct waiter;

enum fetch_tier { TIER_MEMORY, TIER_DISK, TIER_PEER, TIER_REDIS, TIER_BUCKET };

/* How much is known of the checksum of a sample's bytes. */
enum fetch_sum {
    FETCH_SUM_NONE,
    FETCH_SUM_CLAIMED, /* the source's claim, to be compared */
    FETCH_SUM_KNOWN,   /* computed or verified */
};

struct fetch_source {
    const char *name;
    enum fetch_tier tier;
    bool remote; /* reads over the network: needs a destination, not asked while the daemon stops */
    bool waits_for_owner; /* another node may be asked, which may wait for this one */
    bool gives_copies;    /* fetch_take() asks it */
    size_t state_size;    /* bytes of fetch_attempt.state */

    /* The pipeline goes on to the next source when this one takes longer than four times the 99th
     * percentile of its reads, within [least, most], and a second more for each `slowest` MB. When
     * all others have failed it is asked once more, and has ten times as long. All 0: it has
     * deadlines of its own. */
    struct dlc_dur least, most;
    uint64_t slowest;

    _Atomic uint64_t *hits, *misses, *late; /* counters; NULL: none */

    bool (*can_serve)(struct fetch *f);     /* cheap; NULL: always */
    bool (*start)(struct fetch_attempt *a); /* false: not this sample, or not now */
    /* The source is late. True: it has stopped and has not touched the destination. False, or NULL:
     * it cannot be stopped and will call fetch_attempt_done(). */
    bool (*cancel)(struct fetch_attempt *a);
    void (*hurry)(struct fetch_attempt *a); /* a reader waits for it now; or NULL */
    /* The attempt failed with a->rc, a->err. True: the source investigates and calls
     * fetch_attempt_repaired() or fetch_attempt_done() again, possibly before this returns. Once
     * per attempt; or NULL. */
    bool (*repair)(struct fetch_attempt *a);
    /* The result of the attempt. 0: the sample was accepted; DLC_EBYPASS: its bytes came but could
     * not be kept; DLC_ECORRUPT: wrong checksum; otherwise why it failed. Not called when it was
     * late. */
    void (*finished)(struct fetch_attempt *a, int rc); /* or NULL */
    /* For tiers that keep a copy of other sources' samples; or NULL. offer(): the bytes have come
     * and are about to be published. published(): the sample has become resident. */
    void (*offer)(struct fetch *f, const void *bytes);
    void (*published)(struct fetch *f);
};

/* One source that serves one fetch. */
struct fetch_attempt {
    uint32_t tag;
    const struct fetch_source *source;
    struct fetch *f;       /* NULL: it was late, and the fetch has gone on without it */
    struct dataset *ds;    /* counted */
    struct dlc_list link;  /* in the pipeline's list while it may become late */
    struct mem_fill *fill; /* the destination; its own once f is NULL */
    void *dst;             /* NULL: the chunk on disk is the goal, and has no file yet */
    uint64_t size;
    struct dlc_mono began, due;
    struct dlc_dur took;
    bool repairing; /* repair() was called */
    struct task task;

    /* Set by the source before it calls fetch_attempt_done(). */
    int rc;
    struct dlc_err err;
    enum fetch_tier from; /* its own tier unless the source changes it */
    enum fetch_sum sum;
    uint64_t checksum; /* XXH3, 64 bits; see sum */

    alignas(max_align_t) unsigned char state[]; /* the source's, zeroed */
};

/* A sample on its way into a tier, for all that want it. */
struct fetch {
    uint32_t tag;
    struct dataset *ds;
    uint64_t sample, size;
    struct catalog_entry entry;
    struct chunk_id chunk;
    bool to_disk;               /* the goal, or the size, is the disk tier's */
    bool for_peer;              /* a peer waits: no other peer is asked */
    bool bypass;                /* all that want it bypass the cache: cache_bypass.c */
    bool on_demand;             /* a reader was waiting when it began */
    uint64_t user;              /* whose reader it was for first: memory_reserve_for() */
    char *take_from;            /* only a copy of this peer is wanted (fetch_take()); or NULL */
    bool retried;               /* a source was asked a second time */
    unsigned owner_waits;       /* how often: wait_for_owner.c */
    bool owner_passed;          /* another peer was asked, since the owner was absent */
    bool walk_again;            /* the source that ends knows that one before it may serve now */
    unsigned row;               /* of the table: the source that serves it now */
    unsigned end_row, late_row; /* where the walk ends; the first source that was late */
    bool last_try;              /* all others have failed: the late source is waited for */
    struct fetch_attempt *attempt;
    enum fetch_tier from; /* where the bytes came from */
    double cost;          /* of bringing them, in the unit of policy_cost() */
    enum fetch_sum sum;
    uint64_t checksum;
    struct mem_fill *fill;  /* memory goal */
    struct disk_fill *file; /* disk goal */
    struct dlc_list waiters;
    struct fetch_listener *listener;
    struct dlc_mono started;
    bool (*again)(struct fetch *f); /* room.c, and what follows */
    struct dlc_list of_room;
    struct dlc_mono room_until; /* it waits for room until then; 0: it has not had to */

    struct work work;
    struct task task;
    void (*step)(struct fetch *f); /* what the worker does */
    void (*next)(struct fetch *f); /* what the loop does then */
    int rc;
    struct dlc_err err;
};

/* ---- for sources ---- */

void fetch_attempt_done(struct fetch_attempt *a);  /* X: posts to the loop */
void fetch_attempt_ended(struct fetch_attempt *a); /* L */
/* L: repaired: ask the source again, once per fetch; otherwise go on to the next source. */
void fetch_attempt_repaired(struct fetch_attempt *a, bool repaired);
/* Any thread: compute the checksum of bytes that have just arrived, if they are few. The pipeline
 * then needs no worker for it. */
void fetch_attempt_sum(struct fetch_attempt *a);
/* The work class of a fetch's disk reads: does a reader wait? */
enum work_class fetch_read_class(const struct fetch *f);

/* ---- wait_for_owner.c ---- */

/* Is the owner of its sample restarted, and does the fetch wait for it? */
bool fetch_awaits_owner(const struct fetch *f);

/* ---- stall.c ---- */

/* Its fetch has just ended, with rc. */
void stall_count(const struct fetch *f, const struct waiter *w, int rc);

/* ---- source.c: the table ---- */

extern const struct fetch_source *const fetch_sources[];
extern const unsigned n_fetch_sources;

extern const struct fetch_source fetch_from_memory, fetch_from_disk, fetch_from_same_object,
    fetch_from_peer, fetch_from_draining_node, fetch_from_previous_owner, fetch_from_earlier_owner,
    fetch_from_redis, fetch_wait_for_owner, fetch_from_bucket;

#endif
