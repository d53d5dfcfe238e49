// SPDX-License-Identifier: Apache-2.0
/*
 * Weights of a job that runs on several nodes, on their way through the manager (docs/design/0008).
 */
#ifndef DLC_CLUSTER_WEIGHT_EXCHANGE_H
#define DLC_CLUSTER_WEIGHT_EXCHANGE_H

#include <jansson.h>

struct node;
struct job_weights;

void job_weights_all_send(struct node *n); /* now and then */
void job_weights_send_soon(
    struct job_weights *w); /* an epoch ends, or its ranks do; NULL is allowed */
void job_weights_send_json(const struct job_weights *w, json_t *to); /* adds how much it was */
void job_weights_send_release(struct job_weights *w);

#endif
