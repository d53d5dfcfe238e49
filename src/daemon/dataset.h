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
#include "base/histogram.h"
#include "base/list.h"
#include "base/u64map.h"
#include "bucket/bucket.h"
#include "bucket/url.h"
#include "cache/memory/memory.h"
#include "daemon/backlog.h"
#include "daemon/budget.h"
#include "daemon/dataset_open.h"
#include "daemon/ownership.h"
#include "daemon/prefetch/read_outcomes.h"

struct adoption;
struct bucket;
struct bucket_keys;
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

struct dataset {
    uint32_t tag;
    struct node *node;
    struct dlc_list link;
    uint64_t id;
    enum dataset_state state;
    struct url url;
    char *name;     /* what was asked for, with shape and endpoint: finds it again */
    char *given;    /* the URL with its shape */
    char *endpoint; /* as the client asked, or NULL */
    bool anonymous;
    char *cid;                /* what the cluster calls it; NULL: it is nobody's */
    char *tenant, *region;    /* with cid; region may be NULL */
    char *shared_as;          /* its name in a Redis in common: with the tenant, as disk_id */
    struct bucket_keys *keys; /* NULL: it has no credentials of its own */
    unsigned keys_version;    /* grows when they change */
    struct dlc_list
        agains; /* struct credential_retry.link: the bucket refused them, the manager is asked */
    bool asking_again;
    struct dlc_mono asked_again;
    bool stale;       /* not the newest: goes when its last session does */
    uint64_t disk_id; /* names its chunks: independent of shape */
    uint32_t group;   /* of its chunks in the disk tier */
    struct adoption *adoption;
    char *catalog_path;
    struct catalog *catalog;
    struct bucket *bucket;
    struct mem_index *index;
    struct dlc_err error; /* DATASET_FAILED */

    struct map fetching;            /* sample -> struct fetch */
    struct dlc_list sessions;       /* struct session.link */
    struct dlc_list decoded_caches; /* struct decoded_cache.link */
    struct dlc_list job_weights;    /* struct job_weights.link */
    struct dataset_opening opening;
    struct backlog backlog;     /* prefetch requests that wait for their turn */
    struct ownership ownership; /* only with cid */
    unsigned refs;              /* sessions, openers, warms, fetches */

    uint64_t used[N_BUDGETS]; /* budget.c */
    unsigned n_warms;         /* warm-ups of it */

    /* read_outcomes.c */
    uint8_t *seen;             /* two bits per sample; NULL: nobody has told an order yet */
    struct outcomes_sum reads; /* of all cursors there were */
    uint64_t fetched;          /* samples that came from the bucket */

    /* What prefetch.c knows. */
    struct hist latency;      /* of fetches, in microseconds */
    unsigned n_following;     /* sessions that told their order */
    unsigned n_reading;       /* of those the ones that are not idle; node.n_reading has all */
    unsigned n_waiting;       /* sessions whose readers wait */
    double progress;          /* how far they are, on average: the clock of next uses */
    double pace;              /* seconds per sample, to compare with other datasets, ... */
    double anchor;            /* ... from this progress on, which was reached ... */
    struct dlc_mono anchored; /* ... then */

    struct dlc_mono last_used;  /* when its last session ended */
    struct evict_place emptied; /* daemon.c: what is before this has left memory */

    /* of sessions that have ended */
    struct mem_session_stats past;

    uint64_t passing_left; /* cache_bypass.c: of those below, the ones before this have left */
    uint8_t *passing; /* cache_bypass.c: a bit per sample that leaves when it was read; or NULL */
    uint64_t peer_hits, peer_misses, peer_bytes, served, served_bytes;
    struct report *report; /* report.c */

    struct bucket_tally *tally;   /* of all its buckets: its own and those that make catalogs */
    uint64_t stall_ns[N_STALLED]; /* how long readers waited, and why */
};

/* What is to be opened. All borrowed. */
struct open_request {
    const char *url, *endpoint; /* endpoint may be NULL */
    bool anonymous, refresh;
    uint64_t snapshot;         /* 0: the newest */
    const struct grant *grant; /* of a cluster; NULL: nobody's */
};

/* Gives, with one reference, LISTING: dataset_open.c goes on. NULL: *err says why. */
struct dataset *dataset_new(struct node *n, const struct open_request *w, struct dlc_err *err);
/* What finds it again. Gives. Datasets of different tenants, and of different names, are never the
 * same; nor is one that is read with its tenant's credentials what it was before there were any. */
char *dataset_name(const struct open_request *w);
/* Whose it is and what it is read with; again whenever the manager was asked. */
void dataset_take_grant(struct dataset *ds, const struct grant *g);
/* A tenant's, to be read with credentials that it has not? Those of the node are its own: else a
 * tenant would read whatever the node may. What belongs to nobody an admin has registered. */
bool dataset_lacks_credentials(const struct dataset *ds);
struct bucket_config dataset_bucket_config(const struct dataset *ds);

/* One reference less; the last one of a stale dataset frees it. */
void dataset_put(struct dataset **dp);
void dataset_forget(struct dataset *ds); /* it is stale: it goes with its last reference */
/* The daemon ends: end listings and buckets so that nothing more is posted; frees those nobody
 * uses. */
void dataset_shutdown(struct dataset *ds);

#endif
