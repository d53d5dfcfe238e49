// SPDX-License-Identifier: Apache-2.0
/*
 * Making views (cluster_view.h) of the tables of nodes, datasets and jobs. Thread only.
 */
#ifndef DLC_MANAGER_TABLES_VIEW_BUILDER_H
#define DLC_MANAGER_TABLES_VIEW_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "manager/tables/node_table.h"

struct tables;

/* Makes another view when something has changed; goes on with moves and finds datasets whose nodes
 * are all gone on the way. */
void view_tick(struct tables *t);

/* The pure parts, for tests. */
double view_weight(enum node_state state, uint64_t capacity, uint64_t memory);
json_t *view_nodes(const struct node_info *nodes, size_t n); /* gives */

#endif
