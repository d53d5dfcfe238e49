// SPDX-License-Identifier: Apache-2.0
/*
 * Exchange of the importance weights of a job that runs on several nodes, through the manager
 * (docs/design/0008).
 */
#ifndef DLC_CLUSTER_WEIGHT_EXCHANGE_H
#define DLC_CLUSTER_WEIGHT_EXCHANGE_H

struct node;

void job_weights_all_send(struct node *n); /* called periodically */

#endif
