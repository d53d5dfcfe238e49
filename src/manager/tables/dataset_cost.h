// SPDX-License-Identifier: Apache-2.0
/*
 * The cost of a dataset so far: the sum over its nodes' last heartbeats. Each node counts since it
 * was started, by TENANT/NAME, so that a later owner of the name does not see what another tenant
 * has spent. Pure.
 */
#ifndef DLC_MANAGER_TABLES_DATASET_COST_H
#define DLC_MANAGER_TABLES_DATASET_COST_H

#include <stddef.h>

#include <jansson.h>

#include "manager/store/store.h"
#include "manager/tables/node_table.h"

/* {"money", "requests", "bytes"}: spent by all nodes. NULL: no node reports any. Gives. */
json_t *dataset_cost(const struct node_info *nodes, size_t n, const struct store_doc *d);

#endif
