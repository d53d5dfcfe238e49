// SPDX-License-Identifier: Apache-2.0
/*
 * The arithmetic of admission. Bytes on a node's disk belong to datasets that running jobs read, or
 * may be evicted. Promised bytes are counted by dataset, since two jobs that read the same bytes
 * need them once; a dataset that lies only in part on the nodes in question counts for that part.
 * Pure, over copies.
 */
#ifndef DLC_MANAGER_TABLES_CAPACITY_H
#define DLC_MANAGER_TABLES_CAPACITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "manager/tables/admission.h"
#include "manager/tables/job_doc.h"
#include "manager/tables/node_table.h"
#include "manager/tables/placement.h"

/* May the job run? `j` itself may be among jobs and does not count there. *known is false if its
 * dataset was not listed yet, so that the answer is unknown. */
void capacity_admit(const struct node_info *nodes, size_t n, const struct job *jobs, size_t n_jobs,
                    const struct job *j, struct admission *out, bool *known);
/*
 * Nodes for a dataset or a job by DLCache's rule: an array of {"node", "weight"}, best first; NULL:
 * they cannot hold it. only: an array of the permitted nodes; NULL: all.
 */
json_t *capacity_place(const struct node_info *nodes, size_t n, const struct job *jobs,
                       size_t n_jobs, const char *dataset, const json_t *only,
                       const struct place_ask *ask);
/* Bytes for chunks on a node, and how many of them a dataset could have: its own, the free ones, and
 * those of datasets that no job runs on. */
uint64_t capacity_space(const struct node_info *n);
uint64_t capacity_room(const struct node_info *n, const struct job *jobs, size_t n_jobs,
                       const char *dataset);

#endif
