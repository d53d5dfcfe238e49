// SPDX-License-Identifier: Apache-2.0
/*
 * Membership of the cluster: joins, reports this node's state to the manager, acts on its answers,
 * leaves. Creates the parts of src/cluster and is the daemon's only interface to them. Above all
 * other files here.
 */
#ifndef DLC_CLUSTER_MEMBERSHIP_H
#define DLC_CLUSTER_MEMBERSHIP_H

struct cluster_ops;

extern const struct cluster_ops membership_ops; /* for struct node_start */

#endif
