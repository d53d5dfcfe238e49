// SPDX-License-Identifier: Apache-2.0
/*
 * What a dataset has cost so far: the sum of what its nodes said in their last heart-beats. Each
 * counts since it was started; what one says is of TENANT/NAME, so that whoever gets a name later does
 * not see what another tenant has spent. Pure.
 */
#ifndef DLC_MANAGER_TABLES_DATASET_COST_H
#define DLC_MANAGER_TABLES_DATASET_COST_H

#include <stddef.h>

#include <jansson.h>

#include "manager/store/store.h"
#include "manager/tables/node_table.h"

/* {"money", "requests", "bytes"}: what nodes have spent on it. NULL: none says so. Gives. */
json_t *dataset_cost(const struct node_info *nodes, size_t n, const struct store_doc *d);

#endif
