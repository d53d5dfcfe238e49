// SPDX-License-Identifier: Apache-2.0
/*
 * Hand-over: when owners change, this node gives the copies that it has of objects it owned before
 * to their new owners (docs/design/0019-handover.md). All L.
 */
#ifndef DLC_CLUSTER_HANDOVER_H
#define DLC_CLUSTER_HANDOVER_H

#include <stdint.h>

#include <jansson.h>

struct node;
struct node_events;

void handover_tick(struct node *n);
/* {"draining", "phase", "samples", "total", "bytes", "total_bytes", "no_room", "no_room_bytes",
 * "failed", "tries", "unpacked_bytes", "full", "error"}; NULL: nothing is to be said. Gives. */
json_t *handover_figures(const struct node *n);
/* Bytes that are kept for their new owners; all that there may be while that is not known. */
uint64_t handover_pending(const struct node *n);
/* No request is under way: the peer client has ended. */
void handover_close(struct node *n);

extern const struct node_events handover_events;

#endif
