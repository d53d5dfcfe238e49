// SPDX-License-Identifier: Apache-2.0
/*
 * Puts the parts of src/cluster together, and is what the daemon knows of them: joins, tells the
 * manager how this node is, acts on its answers, leaves. Above all other files here.
 */
#ifndef DLC_CLUSTER_MEMBERSHIP_H
#define DLC_CLUSTER_MEMBERSHIP_H

struct cluster_ops;

extern const struct cluster_ops membership_ops; /* for struct node_start */

#endif
