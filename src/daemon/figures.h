// SPDX-License-Identifier: Apache-2.0
/*
 * Figures of the daemon: one snapshot that metrics, the page and later `dlcache top` render
 * (docs/design/0025). The loop takes it in steps of FIGURES_STEP sessions and datasets; the threads
 * that asked for it render it.
 *
 * (FIGURES-1) A step on the loop looks at FIGURES_STEP sessions and datasets at most.
 * (FIGURES-2) A snapshot does not change once it was published; it is counted.
 * (FIGURES-3) At most FIGURES_DATASETS datasets and FIGURES_JOBS jobs have figures of their own:
 *             those in use first. The others are summed in `other`.
 * (FIGURES-4) No counter of a snapshot is lower than in one before: not when a session, a job or a
 *             dataset ends, and not when one loses its place to another.
 * (FIGURES-5) What a job did lately is the difference to a snapshot that is up to a minute old: the
 *             first one of it, or one of 30 to 60 s ago. Nobody counts while nobody asks.
 *
 * Counters of clients are in their own memory, which they may write: differences that cannot be
 * true are left out.
 */
#ifndef DLC_DAEMON_FIGURES_H
#define DLC_DAEMON_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/event_loop.h"
#include "base/usage.h"
#include "bucket/bucket.h"
#include "cache/disk/disk.h"
#include "cache/memory/memory.h"
#include "cluster/peer/redis_tier.h"
#include "daemon/fetch/histogram.h"
#include "daemon/prefetch/read_outcomes.h"
#include "daemon/work.h"

struct dataset;
struct figures;
struct node;
struct node_events;

#define FIGURES_STEP     64u
#define FIGURES_DATASETS 100u
#define FIGURES_JOBS     100u

/* Counters of a dataset. Only uint64_t: figures.c adds and subtracts them as an array. */
struct dataset_counts {
    struct usage usage;
    uint64_t gets, lists, retries, hedges, errors;
    uint64_t outcomes[BUCKET_OUTCOMES];
    uint64_t reused, prefetched, late; /* reads of announced orders */
    uint64_t direct_nano; /* what the same reads would have cost without a cache, 1e-9 money */
};

/* Of its sessions, counted while the loop walks over them. */
struct reader_figures {
    unsigned sessions, reading; /* reading: that follow an order and are not idle */
    uint64_t window, ahead;     /* samples, the sum */
    double per_s;               /* samples that they read, without their waits */
};

struct dataset_figures {
    char *label; /* what metrics call it: its name, else its URL */
    char *url, *tenant;
    char snapshot[17];
    struct dataset_counts counts;
    struct reader_figures readers;
    uint64_t samples, bytes, resident, resident_bytes, decoded_bytes;
    uint64_t fetching, backlog;
    bool has_disk;
    struct disk_group_figures disk;
    struct bucket_figures bucket;
    double most_bytes_per_s; /* that it gave at any snapshot so far */
};

struct job_figures {
    char *job, *tenant, *dataset; /* job "": of sessions that named none */
    struct usage usage;
    struct reader_figures readers;
    /* Of the reader that is least far, among those with an order. */
    bool has_order;
    uint64_t epoch, at, length; /* at: of length positions of the epoch */
    uint64_t ahead;             /* positions that were fetched before it, from `at` on */
    struct outcomes_epoch epochs[OUTCOMES_EPOCHS]; /* of its sessions, the latest first */
    unsigned n_epochs;
    struct usage recent; /* (FIGURES-5) */
    double recent_s;     /* time of its readers together */
};

struct tenant_figures {
    char *tenant;
    struct memory_figures memory;
};

struct node_figures {
    _Atomic unsigned refs;
    struct dlc_mono taken;
    int64_t wall; /* Unix time */
    char *name;   /* of the node; "": none */
    struct dlc_dur uptime;
    unsigned connections, sessions, zombies;
    uint64_t *counters; /* as counter_table */
    struct memory_figures memory;
    bool has_disk;
    struct disk_figures disk;
    const char *memory_policy, *disk_policy;
    struct work_figures work[N_WORK];
    struct loop_figures loop;
    struct fetch_histogram fetched[FETCH_TIERS];
    unsigned peers;  /* live nodes of the cluster besides this one */
    json_t *cluster; /* as `stat` has it; or NULL. Read only */
    bool has_shared;
    struct shared_figures shared;
    struct dataset_figures *datasets; /* by id */
    size_t n_datasets, other_datasets;
    struct dataset_counts other; /* of the others */
    struct job_figures *jobs;
    size_t n_jobs, other_sessions;
    struct usage other_jobs;
    struct tenant_figures *tenants;
    size_t n_tenants;
};

/* Figures' own part of a session and of a dataset. */
struct session_figures {
    struct usage seen; /* counted so far */
    unsigned slot;     /* of its job, when it was counted last */
};
struct dataset_figures_state {
    struct usage reads;          /* of its sessions, ended ones too */
    struct dataset_counts other; /* counted in figures.other so far */
    struct reader_figures readers;
    double most_bytes_per_s; /* that the bucket gave at a snapshot */
    bool named;              /* it has figures of its own */
};

struct figures *figures_new(struct node *n); /* node.figures */
/* X: nobody waits any more, and nobody is to wait. */
void figures_end(struct figures *f);
void figures_free(struct figures **fp); /* the loop does not run; figures_end() was called */

/* X, not on the loop: a snapshot that is at most max_age old. Waits for it. Gives *out.
 * DLC_ETIMEDOUT: the loop does not answer in time. DLC_ECANCELED: the daemon ends. */
int figures_get(struct figures *f, struct dlc_dur max_age, struct dlc_dur wait,
                struct node_figures **out, struct dlc_err *err);
void node_figures_put(struct node_figures **fp); /* X; NULL is allowed */

extern const struct node_events figures_events;

#endif
