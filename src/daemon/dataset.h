// SPDX-License-Identifier: Apache-2.0
/*
 * A dataset: a catalog, a bucket and an index under one name, shared by all sessions.
 *
 * This header defines the struct, its creation and its lifetime. A dataset is reference-counted
 * (refs). It stays open without users, so that its samples remain resident for the next run; once
 * it is stale, it is freed with its last reference. dataset_open.h opens datasets, dataset_table.h
 * finds them. Nothing here calls the users of a dataset: events.h tells them that it closes, and
 * they end their own work.
 */
#ifndef DLC_DAEMON_DATASET_H
#define DLC_DAEMON_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/usage.h"
#include "base/u64map.h"
#include "bucket/bucket.h"
#include "bucket/url.h"
#include "cache/memory/memory.h"
#include "daemon/backlog.h"
#include "daemon/budget.h"
#include "daemon/credentials.h"
#include "daemon/dataset_chunks.h"
#include "daemon/dataset_open.h"
#include "daemon/dataset_table.h"
#include "daemon/fetch/object_index.h"
#include "daemon/figures.h"
#include "daemon/ownership.h"
#include "daemon/prefetch/cache_bypass.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/prefetch/prefetch.h"
#include "daemon/prefetch/read_outcomes.h"
#include "daemon/tenant_memory.h"

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

/* How far a dataset has been evicted from memory: decoded 0 is its samples, higher numbers are its
 * decoded caches. */
struct evict_place {
    uint64_t decoded, sample;
};

/* The request of the client that opened it first. */
struct dataset_asked {
    char *name;     /* with shape, endpoint and tenant: finds it again */
    char *url;      /* with its shape */
    char *endpoint; /* or NULL */
    char *region;   /* of a tenant; or NULL */
    bool anonymous;
    bool foreign;  /* by another user than the daemon's */
    char *below;   /* a directory opened by another user: of --allow-path; or NULL */
    bool confined; /* a directory, of a tenant or opened by another user: links stay below it */
};

/* Totals of its readers. */
struct dataset_readers {
    struct mem_session_stats ended; /* sum over sessions that have ended */
    uint64_t stall_ns[N_STALLED];   /* how long readers waited, by reason */
};

struct dataset {
    uint32_t tag;
    struct node *node;
    struct dlc_list link;                          /* in node.datasets */
    struct dlc_list same_name, same_cid, same_url; /* dataset_table.c */
    struct dlc_list idle;                          /* in node.idle, if is_idle */
    bool is_idle;                                  /* has no users, and is not stale */
    uint64_t id;
    enum dataset_state state;
    unsigned refs; /* sessions, openers, warms, fetches; dataset_ref(), dataset_put() */
    bool stale;    /* not the newest: closes with its last session */
    bool deleted;  /* at the manager: closes when nobody uses it and its chunks are reported gone */
    struct dlc_mono last_used;
    struct evict_place emptied; /* daemon.c: everything before this was evicted */

    struct dataset_asked asked;
    struct url url;
    char *cid;       /* its id in the cluster; NULL: it has no owner */
    char *tenant;    /* with cid */
    char *name;      /* with cid: what its tenant calls it */
    char *shared_as; /* its name in the shared Redis, which includes the tenant */
    char *catalog_path;
    struct catalog *catalog;
    struct tenant_memory *tenant_memory; /* where its samples lie */
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
    struct dataset_ticket ticket; /* only with cid */
    struct dataset_disk disk;
    int32_t runs;       /* disk_hints.c: still to come, as its jobs declare; or POLICY_UNKNOWN */
    int32_t runs_after; /* disk_hints.c: of these, after the jobs that read it; or POLICY_UNKNOWN */
    struct dataset_readers readers;
    struct backlog backlog; /* prefetch requests that wait for their turn */
    struct object_entry objects;
    struct budget_use budget;
    struct prefetch_state prefetch;
    struct use_clock clock;
    struct outcomes outcomes;
    struct dataset_figures_state figures;
    struct bypass bypass;
    struct ownership ownership; /* only with cid, ... */
    struct peer_counts peer;    /* ... and so are these */
    struct report *report;
    struct usage accounted; /* cluster/usage.c: of its tally, reported so far */
};

static inline struct memory *dataset_memory(const struct dataset *ds)
{
    return ds->tenant_memory->memory;
}

/* A request to open a dataset. All borrowed. */
struct open_request {
    const char *url, *endpoint; /* endpoint may be NULL */
    bool anonymous, refresh;
    uid_t uid;                 /* of the client; 0 too where no client asks */
    bool foreign;              /* asked by another user than the daemon's and root */
    uint64_t snapshot;         /* 0: the newest */
    const struct grant *grant; /* of a cluster; NULL: nobody's */
};

/* Gives a dataset in state LISTING with one reference; dataset_open.c continues. NULL: see *err. */
struct dataset *dataset_new(struct node *n, const struct open_request *w, struct dlc_err *err);
/* The key under which the dataset is found. Gives. Datasets of different tenants or names have
 * different keys; so have a dataset that is read with its tenant's credentials and the same one
 * without them, and a directory in which links are followed anywhere and one in which they are not.
 */
char *dataset_name(const struct open_request *w);
/* Use the credentials and the ticket of a new grant from the manager. */
void dataset_take_grant(struct dataset *ds, const struct grant *g);
struct bucket_config dataset_bucket_config(const struct dataset *ds);

/* It is ready, has lost its last reference, or has one again: all of it may come into memory, or
 * not any more. */
void dataset_expect_bytes(struct dataset *ds);

static inline void dataset_ref(struct dataset *ds)
{
    if (ds->refs++ == 0) {
        dataset_table_idle(ds, false);
        dataset_expect_bytes(ds);
    }
}

/* Drop a reference; dropping the last one of a stale dataset frees it. */
void dataset_put(struct dataset **dp);
void dataset_forget(struct dataset *ds); /* mark it stale: freed with its last reference */
/* The daemon ends: stop listings and buckets so that nothing more is posted; free datasets without
 * users. */
void dataset_shutdown(struct dataset *ds);

#endif
