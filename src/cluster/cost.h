// SPDX-License-Identifier: Apache-2.0
/* Bucket traffic of this node for each dataset of the cluster, and its estimated price. */
#ifndef DLC_CLUSTER_COST_H
#define DLC_CLUSTER_COST_H

#include <jansson.h>

struct dataset;
struct node;
struct node_events;

/* A dataset is freed: keep its counts. */
void cost_keep(struct dataset *ds);
/* {"TENANT/NAME": {"money_nano", "requests", "bytes"}}, since the node was started: of datasets that
 * have been freed. The pass for a heartbeat (struct figures) adds the open ones by rising id. Gives */
json_t *cost_begin(const struct node *n);
void cost_add(json_t *all, const struct dataset *ds);
void cost_close(struct node *n);

extern const struct node_events cost_events;

#endif
