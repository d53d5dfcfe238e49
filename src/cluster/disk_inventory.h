// SPDX-License-Identifier: Apache-2.0
/* Keeps a record on disk of the cluster's datasets whose chunks this node holds, open or not. */
#ifndef DLC_CLUSTER_DISK_INVENTORY_H
#define DLC_CLUSTER_DISK_INVENTORY_H

#include <stdbool.h>
#include <stdint.h>

#define INVENTORY_SUFFIX ".owner" /* of a record: DIR/catalogs/NAME@TENANT.owner */

struct dataset;
struct node;
struct node_events;

/* L: the newest open dataset with this name in the cluster, of this tenant, at this URL ("": at
 * any). NULL: none. */
struct dataset *inventory_still_open(struct node *n, const char *name, const char *tenant,
                                     const char *url);
/* X, blocks: drop the chunks of a dataset that is not open. Returns bytes; 0 if it is not recorded.
 * deleted: another dataset goes on to use those that it has in common with this one. */
uint64_t inventory_drop(struct node *n, const char *name, const char *tenant, const char *url,
                        bool deleted);
/* The same of one that is open. */
uint64_t inventory_drop_open(const struct dataset *ds, bool deleted);
/* The manager has accepted this node: open the datasets that an earlier daemon had open and the
 * manager still knows. */
void inventory_open(struct node *n);
/* Those are OPEN_FIRST at most. Begin again, and open none yet. */
void inventory_list(struct node *n);
/* Open some of the others, in place of idle ones. False: there are no
 * others. member.inventory_read says when they are being opened; member.not_seen counts those that
 * the manager could not be asked about. */
bool inventory_more(struct node *n);
void inventory_close(struct node *n);

extern const struct node_events inventory_events;

#endif
