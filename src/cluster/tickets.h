// SPDX-License-Identifier: Apache-2.0
/*
 * Keeps the tickets of open datasets fresh: by them this node asks its peers for samples and
 * catalogs. The first one comes with the grant that opens a dataset. From half of its life on, or
 * when a peer refused it, the manager is asked for the next one, as a node (access.h). While there
 * is none the bucket is read.
 */
#ifndef DLC_CLUSTER_TICKETS_H
#define DLC_CLUSTER_TICKETS_H

struct node;

void tickets_tick(struct node *n); /* L */

#endif
