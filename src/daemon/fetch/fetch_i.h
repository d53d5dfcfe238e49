// SPDX-License-Identifier: Apache-2.0
/*
 * Inside fetches. fetch.c: one fetch from its start to its answers, and when the next may start.
 * fetch_local.c: the tiers of this node, which it passes through. fetch_remote.c: peers, the memory
 * that nodes share, the bucket.
 *
 * (FETCH-1) A sample is published with the checksum (XXH3, 64 bits) of its bytes as they came: from
 *           the bucket, which verifies its own where it has one, from the name of the chunk on
 *           disk, with the answer of a peer or of Redis, which are compared with it. Whoever takes
 *           the bytes from memory to another tier takes that checksum along.
 *
 *     start --the table of chunks says that it is not on disk--> AFAR
 *     start --> DISK --found--> publish
 *                 |--absent--> AFAR --> publish --> STORE (behind the reader's back) --> end
 *                                |--failed--> end
 *     a sample too large for memory, or wanted on disk only:
 *     start --> DISK --found--> end
 *                 |--absent--> PREPARE (space on disk) --> AFAR --> COMMIT --> end
 *
 * A DISK that takes too long is left behind: fetch_disk.c.
 *
 * DISK, PREPARE, COMMIT and STORE run on threads of their work class; each posts back to the node
 * loop, which alone decides the next step. Between steps nobody but the step's thread touches the
 * bytes.
 */
#ifndef DLC_DAEMON_FETCH_FETCH_I_H
#define DLC_DAEMON_FETCH_FETCH_I_H

#include "daemon/cluster_ops.h"
#include "daemon/dataset.h"
#include "daemon/fetch/fetch.h"
#include "cluster/peer/peer_client.h"
#include "cluster/peer/redis_tier.h"
#include "base/thread_pool.h"
#include "cache/disk/disk.h"
#include "catalog/catalog.h"
#include "daemon/work.h"

/* How much is known of the checksum of a fetch's bytes. */
enum fetch_sum {
    FETCH_SUM_NONE,
    FETCH_SUM_SAID,  /* what the peer that sent them says: to be compared */
    FETCH_SUM_KNOWN, /* theirs */
};

struct fetch {
    uint32_t tag;
    struct dataset *ds;
    uint64_t sample, size;
    struct catalog_entry entry;
    struct chunk_id chunk;
    bool to_disk;   /* the goal, or the size, is the disk tier's */
    bool from_disk; /* where the bytes came from */
    bool for_peer;  /* a peer waits: it is not passed on to another one */
    bool at_peer;   /* PEER is under way */
    bool tried_peer;
    bool from_bucket;
    bool past; /* all who want it keep nothing: cache_bypass.c */
    bool tried_shared;
    bool tried_again;      /* with other credentials */
    unsigned keys_version; /* of those that it was tried with */
    struct credential_retry again;
    bool on_demand; /* a reader was waiting when it began */
    enum fetch_sum sum;
    uint64_t checksum;            /* XXH3, 64 bits; see sum */
    struct mem_fill *fill;        /* memory goal */
    struct disk_reading *reading; /* of the disk tier, under way */
    struct disk_fill *file;       /* disk goal */
    const void *stored;           /* resident bytes while they are written to disk */
    struct dlc_list waiters;
    struct fetch_listener *listener;
    struct dlc_mono started, asked; /* asked: the bucket */

    struct work work;
    struct task task;
    void (*step)(struct fetch *f); /* what the worker does */
    void (*next)(struct fetch *f); /* what the loop does then */
    struct bucket_read read;
    struct bucket_stat stat; /* of an object that has changed */
    struct peer_read ask;
    struct shared_read look;
    char *peer, *address; /* of it */
    int rc;
    struct dlc_err err;
};

/* ---- fetch.c ---- */

typedef void fetch_step_f(struct fetch *f);
/* step() on a thread of that class, then next() on the loop. False: the class's queue is full, and
 * neither will be called. */
bool fetch_try_work(struct fetch *f, enum work_class class, fetch_step_f *step, fetch_step_f *next);
/* The same, whether it is full or not: for what must be ended. */
void fetch_work(struct fetch *f, enum work_class class, fetch_step_f *step, fetch_step_f *next);
/* The class of its disk reads. */
enum work_class fetch_reads(const struct fetch *f);
/* Somebody else will post f->task; then next(). */
void fetch_await(struct fetch *f, void (*next)(struct fetch *f));
void fetch_answer(struct fetch *f, int rc); /* all who wait are told */
void fetch_end(struct fetch *f, int rc);    /* the same, and it goes */
void fetch_free(struct fetch **fp);

/* ---- fetch_local.c ---- */

void fetch_local(struct fetch *f, enum fetch_goal goal); /* the first step */
void fetch_read_disk(struct fetch *f);                   /* the disk was read: f->rc, f->err */
void *fetch_destination(struct fetch *f);                /* where bytes from afar belong */
/* Of bytes that have just come, on the thread that brought them, if that takes no time: then the
 * loop need not ask a worker. */
void fetch_sum_small(struct fetch *f);
void fetch_arrived(struct fetch *f); /* they are there */
void fetch_give_up(struct fetch *f); /* they will not come: f->rc, f->err */

/* ---- fetch_disk.c ---- */

/* Read it from the disk tier into its memory; then fetch_read_disk(), or fetch_remote() when that
 * takes too long. False: too many do. */
bool fetch_try_disk(struct fetch *f);
void fetch_hurry(struct fetch *f); /* a reader waits for it now */

/* ---- fetch_remote.c ---- */

void fetch_remote(struct fetch *f);
void fetch_peer_came(struct fetch *f);    /* the bytes have the checksum that the peer said */
void fetch_peer_corrupt(struct fetch *f); /* they have not */
void fetch_share(struct fetch *f);        /* what the bucket gave, with the other nodes */

#endif
