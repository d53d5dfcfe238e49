// SPDX-License-Identifier: Apache-2.0
/* Updates the daemon's state after a new view has arrived. */
#ifndef DLC_CLUSTER_VIEW_CHANGE_H
#define DLC_CLUSTER_VIEW_CHANGE_H

struct node;

void cluster_view_changed(struct node *n);

#endif
