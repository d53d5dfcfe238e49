// SPDX-License-Identifier: Apache-2.0
/* Open datasets: each has a catalog, a bucket and slots in memory; sessions share it. */
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
#include "daemon/budget.h"
#include "daemon/prefetch/read_outcomes.h"

struct adoption;
struct bucket;
struct bucket_keys;
struct bucket_tally;
struct catalog;
struct conn;
struct grant;
struct listing;
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
    uint64_t wanted;     /* the snapshot that the manager named when it was opened; 0: none */
    uint64_t instead_of; /* it could not be had, or the client wanted it listed anew */
    uint64_t pinned;     /* opened for readers that asked for this snapshot; 0: it is the newest */
    bool loading;        /* LISTING: its stored catalog is looked for; nobody lists */
    uint64_t stored;     /* the newest stored snapshot, when that was done; 0: none */
    bool stale;          /* not the newest: goes when its last session does */
    uint64_t disk_id;    /* names its chunks: independent of shape */
    uint32_t group;      /* of its chunks in the disk tier */
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
    struct dlc_list openers;        /* struct conn.waiting */
    struct dlc_list needers;        /* struct dataset_waiter.link */
    struct listing *listing;
    unsigned refs; /* sessions, openers, warms, fetches */

    uint64_t used[N_BUDGETS]; /* budget.c */
    unsigned n_warms;         /* warm-ups of it */

    /* Prefetch requests that wait for their turn: a queue of sample numbers. */
    uint64_t *backlog;
    size_t backlog_head, backlog_len, backlog_cap;
    struct dlc_list backlogs; /* in node.backlogs while there are any */

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

    /* peer_server.c, ownership.c: only with cid */
    uint8_t *whose;         /* two bits per sample: enum whose; forgotten with each view */
    uint64_t whose_version; /* cluster_owners_version() of them */
    uint64_t passing_left;  /* cache_bypass.c: of those below, the ones before this have left */
    uint8_t *passing; /* cache_bypass.c: a bit per sample that leaves when it was read; or NULL */
    bool read_elsewhere;   /* by others in the cluster, lately */
    bool joined_elsewhere; /* and the disk tier counts them as a job */
    struct dlc_mono served_at;
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

/* Find or start; the connection is answered when the dataset is READY or FAILED. */
void dataset_open(struct conn *c, const struct open_request *w);

/* One of the daemon itself that needs a dataset. */
struct dataset_waiter {
    struct dlc_list link;
    /* Once, perhaps before dataset_need() returns. ds is NULL when *err says why. */
    void (*ready)(struct dataset_waiter *d, struct dataset *ds, const struct dlc_err *err);
};
/* Whose it is and what it is read with; again whenever the manager was asked. */
void dataset_take_grant(struct dataset *ds, const struct grant *g);
void dataset_need(struct node *n, const struct open_request *w, struct dataset_waiter *d);
/* The one of the cluster's that is ready; snapshot 0: the newest. tenant: NULL: whoever's it is: a
 * name that was freed may be another one's by now (K2). NULL: none. */
struct dataset *dataset_of_cluster(struct node *n, const char *cid, const char *tenant,
                                   uint64_t snapshot);
/* Have it ready by the catalog that is stored here, if that one counts; else nothing happens. */
void dataset_reopen(struct node *n, const struct open_request *w);
struct dataset *dataset_find(struct node *n, const char *url);
void dataset_put(struct dataset **dp);
/* Its listing has ended. Takes the catalog, NULL when rc says why there is none. */
void dataset_listed(struct dataset *ds, int rc, struct catalog **catalog, struct dlc_err *err);
/* A peer has given its catalog, or none has it. */
void dataset_catalog_came(struct dataset *ds, int rc, struct catalog **catalog);
struct bucket_config dataset_bucket_config(const struct dataset *ds);
/* End listings and buckets so that nothing more is posted; frees those nobody uses. */
void dataset_shutdown(struct dataset *ds);

#endif
