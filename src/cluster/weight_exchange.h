// SPDX-License-Identifier: Apache-2.0
/*
 * Weights of a job that runs on several nodes, on their way through the manager (docs/design/0008).
 */
#ifndef DLC_CLUSTER_WEIGHT_EXCHANGE_H
#define DLC_CLUSTER_WEIGHT_EXCHANGE_H

#include <jansson.h>

struct node;
struct weighing;

void weighings_send(struct node *n);         /* now and then */
void weighing_send_soon(struct weighing *w); /* an epoch ends, or its ranks do; NULL is allowed */
void weighing_send_json(const struct weighing *w, json_t *to); /* adds how much it was */
void weighing_send_release(struct weighing *w);

#endif
