// SPDX-License-Identifier: Apache-2.0
/*
 * The spread of a dataset that lies on all nodes: its homes, and each node's share of it
 * (docs/design/0023-locality.md). In its document: "spread": {"homes": [NODE, ...], "weights": {NODE:
 * its share}, "bytes": of the dataset; 0: not listed yet}; absent: all nodes by their space. The view names the nodes with their weights.
 *
 *     (none) --a rank of a job opens it: spread_reader()--> HOMES --a rank elsewhere--> more HOMES
 *     HOMES --its jobs read on fewer nodes for SPREAD_SETTLE: spreads_tick()--> fewer HOMES
 *     any --shares find no room where they are, and would elsewhere, for `interval`--> other shares
 *
 * (SPREAD-1) Nodes that a user has named, or that were chosen for a node_count, are never changed.
 * (SPREAD-2) The end of a job changes nothing: the next one may run where the data is.
 * (SPREAD-3) Shares change for room at most once in `interval`, one dataset at a time.
 */
#ifndef DLC_MANAGER_TABLES_DATASET_SPREAD_H
#define DLC_MANAGER_TABLES_DATASET_SPREAD_H

#include <jansson.h>

#include "base/clock.h"

struct tables;

#define SPREAD_SETTLE DLC_SEC(60)

struct dataset_spreads {
    struct dlc_dur interval; /* of changes for room; 0: none */
    struct dlc_mono changed; /* the thread's: the last of them */
    json_t
        *due; /* the thread's: {DATASET: {"homes": those it reads on, "fewer_ns", "room_ns": since
                  * when; 0: not so}} */
};

/* X, not the thread: a rank of a running job has opened the dataset on this node. When it returns
 * the view names the node as an owner, if it is to be one. */
void spread_reader(struct tables *t, const char *dataset, const char *node);
/* Thread, only while leading, about once a second. */
void spreads_tick(struct tables *t, struct dlc_mono now);

#endif
