// SPDX-License-Identifier: Apache-2.0
/*
 * What readers of the cluster's datasets used on this node, and what its bucket cost, for the
 * manager's accounts. Sent in batches with heartbeats: {"id": of this process, "seq", "rows":
 * {"TENANT/DATASET": {JOB: {COUNTER: N}}}}; JOB "": of no registered job.
 *
 * (USAGE-1) A batch does not change once it was sent, and is sent again until the manager has
 *           acknowledged it by id and seq. The manager takes each once. So nothing is lost or
 *           counted twice, whichever of both is restarted or away.
 * (USAGE-2) When the node ends in good order, batches that were not acknowledged are written to
 *           usage.json in its directory; the next process sends them first, under the old id.
 * (USAGE-3) A node that is killed loses what was not sent yet: that of BATCH_EVERY, and while the
 *           manager is away all since then.
 */
#ifndef DLC_CLUSTER_USAGE_H
#define DLC_CLUSTER_USAGE_H

#include <stdbool.h>

#include <jansson.h>

struct node;
struct node_events;

void usage_open(struct node *n); /* reads usage.json */
/* Collect the next batch, if it is due. False: call it again in another turn of the loop, there are
 * many datasets. */
bool usage_collect(struct node *n);
/* The batch to send now; NULL: none. Gives. */
json_t *usage_batch(struct node *n);
void usage_heard(struct node *n, const json_t *acknowledged); /* {"id", "seq"}; NULL: nothing */
/* The node ends: usage_collect() does not wait any more for a batch to fill. */
void usage_end(struct node *n);
void usage_close(struct node *n); /* writes usage.json */

extern const struct node_events usage_events;

#endif
