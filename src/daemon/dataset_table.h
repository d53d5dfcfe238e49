// SPDX-License-Identifier: Apache-2.0
/*
 * The table of datasets (node.datasets, in order of use): which of them answers a question, and how
 * many there may be. Only looks: no reference is taken, and nothing is begun.
 */
#ifndef DLC_DAEMON_DATASET_TABLE_H
#define DLC_DAEMON_DATASET_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct dataset;
struct node;

#define DATASETS_MAX 8192 /* each has a thread and some descriptors */

/* On its way, and newer than what is stored. */
bool dataset_is_listing(const struct dataset *ds);
/* Of this name (dataset_name()), not stale. A refresh wants the one that is being listed, if any,
 * everybody else the one that is ready. */
struct dataset *dataset_by_name(struct node *n, const char *name, bool refresh);
/* The newest ready one at this URL; NULL: none. */
struct dataset *dataset_find(struct node *n, const char *url);
/* The one of the cluster's that is ready; snapshot 0: the newest. tenant: NULL: whoever's it is: a
 * name that was freed may be another one's by now (K2). NULL: none. */
struct dataset *dataset_of_cluster(struct node *n, const char *cid, const char *tenant,
                                   uint64_t snapshot);
/* The open dataset of that name and snapshot, or the one that is being opened for it. NULL: none.
 */
struct dataset *dataset_of_snapshot(struct node *n, const char *name, uint64_t snapshot);
/* The snapshot that other sessions of the client's job read of that dataset; 0: there is none. */
uint64_t dataset_job_snapshot(const struct conn *c, const char *name);
/* The one that a refresh is about to replace, or NULL. */
struct dataset *dataset_to_replace(const struct dataset *ds);
/* Another one that is ready with the same catalog, or NULL. */
struct dataset *dataset_twin(const struct dataset *ds);
/* Let go of the datasets that were not used for the longest time. False: too many are in use. */
bool dataset_room(struct node *n);

#endif
