// SPDX-License-Identifier: Apache-2.0
/*
 * A dataset: a catalog, a bucket and an index under one name, shared by all sessions. Here is what
 * it is, how it is made, and its life: it is counted (refs), stays when nobody uses it, so that its
 * samples remain resident for the next run, and goes with its last reference once it is stale.
 * dataset_open.h opens datasets, dataset_table.h finds them. Nothing here calls those who use a
 * dataset: that it goes they hear by events.h, and end what is theirs.
 */
#ifndef DLC_DAEMON_DATASET_H
#define DLC_DAEMON_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/u64map.h"
#include "bucket/bucket.h"
#include "bucket/url.h"
#include "cache/memory/memory.h"
#include "daemon/backlog.h"
#include "daemon/budget.h"
#include "daemon/credentials.h"
#include "daemon/dataset_chunks.h"
#include "daemon/dataset_open.h"
#include "daemon/ownership.h"
#include "daemon/prefetch/cache_bypass.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/prefetch/prefetch.h"
#include "daemon/prefetch/read_outcomes.h"

struct bucket;
struct bucket_tally;
struct catalog;
struct conn;
struct grant;
struct mem_index;
struct node;
struct report;

enum dataset_state { DATASET_LISTING, DATASET_READY, DATASET_FAILED };

/* Why a reader had to wait: the counters stall_*_ns. */
enum stalled { STALLED_LATENCY, STALLED_BANDWIDTH, STALLED_DISK, STALLED_MEMORY, STALLED_CLIENT };
#define N_STALLED 5

/* How far a dataset has been evicted from memory: decoded 0 are its samples, the others its decoded
 * caches. */
struct evict_place {
    uint64_t decoded, sample;
};

/* What it was asked for by whoever opened it first. */
struct dataset_asked {
    char *name;     /* with shape, endpoint and tenant: finds it again */
    char *url;      /* with its shape */
    char *endpoint; /* or NULL */
    char *region;   /* of a tenant; or NULL */
    bool anonymous;
    bool foreign; /* by another user than the daemon's */
};

/* What readers have done. */
struct dataset_readers {
    struct mem_session_stats ended; /* of sessions that have */
    uint64_t stall_ns[N_STALLED];   /* how long they waited, and why */
};

struct dataset {
    uint32_t tag;
    struct node *node;
    struct dlc_list link; /* in node.datasets, in order of use */
    uint64_t id;
    enum dataset_state state;
    unsigned refs; /* sessions, openers, warms, fetches */
    bool stale;    /* not the newest: goes when its last session does */
    struct dlc_mono last_used;
    struct evict_place emptied; /* daemon.c: what is before this has left memory */

    struct dataset_asked asked;
    struct url url;
    char *cid;       /* what the cluster calls it; NULL: it is nobody's */
    char *tenant;    /* with cid */
    char *shared_as; /* its name in a Redis in common: with the tenant */
    char *catalog_path;
    struct catalog *catalog;
    struct mem_index *index;
    struct bucket *bucket;
    struct bucket_tally *tally; /* of all its buckets: its own and those that make catalogs */

    struct map fetching;            /* sample -> struct fetch */
    struct dlc_list sessions;       /* struct session.link */
    struct dlc_list decoded_caches; /* struct decoded_cache.link */
    struct dlc_list job_weights;    /* struct job_weights.link */

    /* Each belongs to the module that defines it. */
    struct dataset_opening opening;
    struct dataset_credentials credentials;
    struct dataset_disk disk;
    struct dataset_readers readers;
    struct backlog backlog; /* prefetch requests that wait for their turn */
    struct budget_use budget;
    struct prefetch_state prefetch;
    struct use_clock clock;
    struct outcomes outcomes;
    struct bypass bypass;
    struct ownership ownership; /* only with cid, ... */
    struct peer_counts peer;    /* ... and so are these */
    struct report *report;
};

/* What is to be opened. All borrowed. */
struct open_request {
    const char *url, *endpoint; /* endpoint may be NULL */
    bool anonymous, refresh;
    bool foreign;              /* asked by another user than the daemon's and root */
    uint64_t snapshot;         /* 0: the newest */
    const struct grant *grant; /* of a cluster; NULL: nobody's */
};

/* Gives, with one reference, LISTING: dataset_open.c goes on. NULL: *err says why. */
struct dataset *dataset_new(struct node *n, const struct open_request *w, struct dlc_err *err);
/* What finds it again. Gives. Datasets of different tenants, and of different names, are never the
 * same; nor is one that is read with its tenant's credentials what it was before there were any. */
char *dataset_name(const struct open_request *w);
/* The manager was asked again: what it is read with. */
void dataset_take_grant(struct dataset *ds, const struct grant *g);
struct bucket_config dataset_bucket_config(const struct dataset *ds);

/* One reference less; the last one of a stale dataset frees it. */
void dataset_put(struct dataset **dp);
void dataset_forget(struct dataset *ds); /* it is stale: it goes with its last reference */
/* The daemon ends: end listings and buckets so that nothing more is posted; frees those nobody
 * uses. */
void dataset_shutdown(struct dataset *ds);

#endif
