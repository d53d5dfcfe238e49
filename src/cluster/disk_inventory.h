// SPDX-License-Identifier: Apache-2.0
/* Keeps a record on disk of the cluster's datasets whose chunks this node holds, open or not. */
#ifndef DLC_CLUSTER_DISK_INVENTORY_H
#define DLC_CLUSTER_DISK_INVENTORY_H

#include <stdint.h>

struct dataset;
struct node;
struct node_events;

/* L: the newest that is open of those with this name in the cluster, of this tenant, at this URL
 * ("": at any). NULL: none. */
struct dataset *inventory_still_open(struct node *n, const char *name, const char *tenant,
                                     const char *url);
/* X, blocks: drop what the disk tier has of one that is not open. Bytes: 0 when nothing is known of
 * it. */
uint64_t inventory_drop(struct node *n, const char *name, const char *tenant, const char *url);
/* The manager took us in: open what an earlier daemon had open and the manager still knows. */
void inventory_open(struct node *n);

extern const struct node_events inventory_events;

#endif
