// SPDX-License-Identifier: Apache-2.0
/* Builds views (cluster_view.h) from the tables of nodes, datasets and jobs. Thread only. */
#ifndef DLC_MANAGER_TABLES_VIEW_BUILDER_H
#define DLC_MANAGER_TABLES_VIEW_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "manager/tables/node_table.h"

struct tables;

/* Makes a new view if something has changed; also continues moves and finds datasets whose nodes
 * are all gone. */
void view_tick(struct tables *t);

/* The pure parts, for tests. */
double view_weight(enum node_state state, uint64_t capacity, uint64_t memory);
json_t *view_nodes(const struct node_info *nodes, size_t n); /* gives */

#endif
