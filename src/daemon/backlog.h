// SPDX-License-Identifier: Apache-2.0
/* The queue of samples of a dataset that wait for their prefetch to start. */
#ifndef DLC_DAEMON_BACKLOG_H
#define DLC_DAEMON_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct dataset;
struct node_events;

/* A ring of sample numbers. */
struct backlog {
    uint64_t *samples;
    size_t head, len, cap; /* cap: a power of two, or 0 */
    struct dlc_list link;  /* in node.backlogs while there are any */
};

void dataset_backlog_add(struct dataset *ds, uint64_t sample);
bool dataset_backlog_next(struct dataset *ds, uint64_t *sample);

extern const struct node_events backlog_events;

#endif
