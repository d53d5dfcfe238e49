// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's state: one struct per process. It belongs to the event loop (docs/design/0001):
 * functions are L unless marked otherwise.
 */
#ifndef DLC_DAEMON_STATE_H
#define DLC_DAEMON_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address_rules.h"
#include "base/clock.h"
#include "base/event_loop.h"
#include "base/list.h"
#include "base/u64map.h"
#include "cache/memory/limits.h"
#include "daemon/budget.h"
#include "daemon/events.h"
#include "daemon/fetch/histogram.h"
#include "daemon/fetch/object_index.h"
#include "daemon/reserve.h"
#include "daemon/tenant_memory.h"

struct audit_log;
struct client_ops;
struct cluster;
struct cluster_ops;
struct config;
struct disk;
struct ending;
struct fetch_pipeline;
struct figures;
struct loop;
struct member;
struct node_cluster;
struct peers;
struct shared;
struct work_queues;

struct node {
    const struct config *config;
    struct address_rules tenant_networks; /* those of the settings */
    struct audit_log *audit;              /* NULL: none */
    struct loop *loop;
    struct work_queues *work;
    struct tenant_memories memories;
    struct tenant_memory *own_memory; /* where there may be no tenants: kept from start to end */
    struct disk *disk;                /* NULL: no disk tier */
    struct fetch_pipeline *fetches;
    struct figures *figures;
    struct fetch_histogram fetched[FETCH_TIERS]; /* by enum fetch_tier */
    struct host_memory machine;

    const struct node_events *events[EVENTS_MAX + 1]; /* event listeners: events.h */

    struct watch listener, signals;
    struct timer prefetch_timer; /* prefetch.c: polls the cursors */
    struct timer tick;           /* memory, progress, idle */
    struct timer pump;           /* continues what prefetch_pump() left for the next turn */
    struct timer freeing;        /* gives memory back in steps */
    bool pumping;                /* a fetch that ends at once must not pump again */
    struct dlc_mono started, room_told, last_client;
    int lock_fd;
    bool stopping;
    _Atomic bool ending;         /* the same, for long-running workers; W loop */
    struct ending *ending_watch; /* ending.c */

    const struct client_ops *client_ops;
    struct dlc_list conns;              /* struct conn.link */
    struct map conn_ids;                /* conn.id -> struct conn, of those in conns */
    struct dlc_list datasets;           /* struct dataset.link */
    struct map by_name, by_cid, by_url; /* dataset_table.c, and these: */
    struct dataset **by_id;             /* all datasets, by growing id */
    size_t n_datasets, cap_datasets;
    struct dlc_list idle; /* struct dataset.idle: those without users, left longest ago first */
    unsigned n_idle;
    uint64_t progress_at, freeing_at, expect_at; /* dataset_step() of passes of daemon.c */
    bool expecting;
    struct object_index objects;
    struct dlc_list following; /* struct dataset.prefetch.link: sessions follow an order there */
    uint64_t owned_id;         /* dataset_step() of ownership.c */
    struct dlc_list backlogs;  /* struct dataset.backlog.link: of those that have one */
    struct dlc_list warms;     /* struct warm.link */
    struct dlc_list deriving;  /* assemble.c */
    struct dlc_list decoded;   /* struct decoded_cache.of_node: those to be told of room first */
    unsigned n_decoded;
    unsigned n_conns;
    struct dlc_list zombies; /* struct conn.link: (CLIENT-CONN-4) */
    unsigned n_zombies;
    bool pauses; /* a connection is paused: the tick looks for it */
    int reserve[RESERVE];
    uint64_t next_id; /* of conns and datasets */

    /* cluster membership; NULL: not in a cluster */
    const struct cluster_ops *cluster_ops;
    const struct node_cluster *membership; /* the settings */
    const struct node_start *start;        /* NULL: nobody is told anything */
    struct member *member;                 /* src/cluster's own state */
    struct cluster *cluster;               /* the view */
    struct peers *peers;                   /* threads of its own */
    struct shared *shared;                 /* the Redis that nodes share */
    char *token;                           /* the node's own: for manager and peers */

    uint64_t used[N_BUDGETS]; /* budget.c: by all datasets, but for BUDGET_FILLING */
    unsigned n_sharing;       /* datasets that use or want some */
    uint64_t pending;         /* work and bucket reads that will still post to the loop */
};

/* X: long-running workers check it, and give up. */
static inline bool node_is_ending(const struct node *n)
{
    return atomic_load_explicit(&n->ending, memory_order_relaxed); /* with wind_down() */
}

#endif
