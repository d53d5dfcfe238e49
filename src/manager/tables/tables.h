// SPDX-License-Identifier: Apache-2.0
/*
 * The tables of a manager: its knowledge of the cluster and its decisions, without HTTP. Each
 * module defines its part; this file only combines them.
 *
 *     view_builder   job_scheduler   command_results   dataset_placement,  weight_posts
 *           |               |               |           dataset_spread         |
 *           |               |               |                  |                |
 *     dataset_move   dataset_listing   capacity   accounting   |                |
 *           |               |               |         |        |                |
 *           |               |               | ended_jobs, dataset_cost          |
 *           |               |               |         |        |                |
 *     node_commands   job_table   node_table   cluster_view    |                |
 *           |               |          |            |          |                |
 *     node_token                |          |            |          |                |
 *           |               |          |            |          |                |
 *     node_revocation           |          |            |          |                |
 *           |               |          |            |          |                |
 *     documents   dataset_index   leader   event_log   job_doc   dataset_doc ---+   cluster_keys
 *           |
 *     manager/store
 *
 * (TABLES-1) Calls go downwards only. An upper module that must hear of something registers a hook
 *            (leader.h), or is called by whoever calls the lower one.
 * (TABLES-2) The store is never called with mtx held.
 * (TABLES-3) Threads share only JSON values that never change and whose owner has a reference count
 *            of its own (struct view, dataset_entry, shared_json). Everything else in struct tables
 *            is read and copied with mtx held.
 *
 * Threads: "thread" in a comment means the manager's own one; all else is called by any thread.
 */
#ifndef DLC_MANAGER_TABLES_TABLES_H
#define DLC_MANAGER_TABLES_TABLES_H

#include "base/clock.h"
#include "base/err.h"
#include "base/mutex.h"
#include "manager/store/store.h"
#include "manager/tables/accounting.h"
#include "manager/tables/cluster_view.h"
#include "manager/tables/dataset_cost.h"
#include "manager/tables/dataset_index.h"
#include "manager/tables/dataset_placement.h"
#include "manager/tables/dataset_spread.h"
#include "manager/tables/ended_jobs.h"
#include "manager/tables/job_table.h"
#include "manager/tables/leader.h"
#include "manager/tables/node_commands.h"
#include "manager/tables/node_revocation.h"
#include "manager/tables/node_table.h"
#include "manager/tables/weight_posts.h"

struct tables {
    struct store *store; /* borrowed */
    struct dlc_dur node_ttl, job_ttl;
    struct dlc_dur keep_ended, keep_accounting;
    struct dlc_mtx mtx;   /* rank LCK_tables; guards the parts, where they do not say otherwise */
    struct dlc_cond wake; /* of the manager's thread */
    struct dlc_mono
        slow_at; /* the thread's: when jobs, commands and placement are looked at next */
    struct leader leader;
    struct node_table nodes;
    struct node_revocations revocations;
    struct dataset_index datasets;
    struct job_table jobs;
    struct cluster_view view;
    struct node_commands commands;
    struct dataset_placement placement;
    struct dataset_spreads spreads;
    struct weight_posts weights;
    struct ended_jobs ended;
    struct accounting accounting;
    struct dataset_costs costs;
};

/* Borrows store. The times must be set before the first call. */
void tables_init(struct tables *t, struct store *store);
void tables_release(struct tables *t);
/* Thread: this manager starts to lead: read everything from the store. A leader_hooks.begin. */
int tables_load(struct tables *t, uint64_t fence, struct dlc_err *err);
/* Thread: one round of periodic work. Returns at once if this manager does not lead. */
void tables_tick(struct tables *t);

#endif
