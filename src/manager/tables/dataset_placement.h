// SPDX-License-Identifier: Apache-2.0
/*
 * Placement of a dataset that wants `node_count` nodes.
 *
 *     (none) --first job or warm-up: dataset_place()--> CHOSEN
 *     CHOSEN --none of them there for node_ttl: datasets_tick()--> CHOSEN
 *
 * (PLACE-1) Chosen nodes stay chosen for as long as one of them is present: those that remain read
 *           the parts of the others again, until these come back. A node that is late, or restarts,
 *           moves nothing.
 * (PLACE-2) Nodes that a user has named are never changed here. Until they are back all nodes stand
 *           in for them (cluster_owns()).
 */
#ifndef DLC_MANAGER_TABLES_DATASET_PLACEMENT_H
#define DLC_MANAGER_TABLES_DATASET_PLACEMENT_H

#include <stdbool.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "manager/tables/dataset_index.h"

struct tables;

struct dataset_placement {
    json_t *orphans; /* the thread's: {DATASET: since when none of its nodes is there, ns} */
};

/* Names of nodes by DLCache's rule. NULL: they cannot hold it. Gives. */
json_t *dataset_choose(struct tables *t, const char *name, const json_t *body, unsigned gpus,
                       unsigned count);
/* Choose nodes for a dataset that wants `node_count` of them and has none yet. Returns 0 or an
 * error. */
int dataset_place(struct tables *t, const char *name, unsigned gpus, struct dlc_err *err);

/* Datasets whose nodes are all gone, found while a view is made: begin, each, end. Thread. */
struct orphans_search {
    json_t *found, *known; /* known: names of the nodes that are not gone */
};
void orphans_begin(struct tables *t, struct orphans_search *s);
void orphans_look(struct tables *t, struct orphans_search *s, const struct dataset_entry *e);
/* whole false: not all datasets were looked at, so earlier findings stay. */
void orphans_end(struct tables *t, struct orphans_search *s, bool whole);
/* Thread, only while leading, about once a second: places them again. */
void datasets_tick(struct tables *t, struct dlc_mono now);

#endif
