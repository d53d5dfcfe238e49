// SPDX-License-Identifier: Apache-2.0
/* Updates the daemon's state after a new view has arrived. */
#ifndef DLC_CLUSTER_VIEW_CHANGE_H
#define DLC_CLUSTER_VIEW_CHANGE_H

struct node;

/* Datasets heed it in steps, the first ones at once. */
void cluster_view_changed(struct node *n);
void view_change_close(struct node *n);

#endif
