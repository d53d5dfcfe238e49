// SPDX-License-Identifier: Apache-2.0
/* A new view has come: what the daemon remembers of the old one is put right. */
#ifndef DLC_CLUSTER_VIEW_CHANGE_H
#define DLC_CLUSTER_VIEW_CHANGE_H

struct node;

void cluster_view_changed(struct node *n);

#endif
