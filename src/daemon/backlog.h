// SPDX-License-Identifier: Apache-2.0
/* The queue of samples of a dataset that wait for their prefetch to start. */
#ifndef DLC_DAEMON_BACKLOG_H
#define DLC_DAEMON_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

struct dataset;
struct node_events;

void dataset_backlog_add(struct dataset *ds, uint64_t sample);
bool dataset_backlog_next(struct dataset *ds, uint64_t *sample);

extern const struct node_events backlog_events;

#endif
