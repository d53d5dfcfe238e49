// SPDX-License-Identifier: Apache-2.0
/* Tells the disk tier what a dataset's chunks cost and which jobs need them. */
#ifndef DLC_DAEMON_PREFETCH_DISK_HINTS_H
#define DLC_DAEMON_PREFETCH_DISK_HINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct dataset;
struct node_events;

/* What it cost to bring so many bytes, in the unit of policy_cost(). billed: the bucket's prices
 * apply. */
double dataset_get_cost(const struct dataset *ds, struct dlc_dur took, uint64_t bytes, bool billed);

/* Hints about one dataset. All are no-ops without a disk tier. */
/* A sample of that many bytes came from the bucket. */
void dataset_fetched(struct dataset *ds, uint64_t sample, struct dlc_dur took, uint64_t bytes);
/* An object of that many bytes was downloaded and its unpacked copy made. */
void dataset_derived(struct dataset *ds, uint64_t object, struct dlc_dur took, uint64_t bytes);
void dataset_expect(struct dataset *ds); /* how often it will still be read; called periodically */
/* A session has opened it. runs: those of the dataset that come after its job; -1: it did not say.
 * They stay known when it ends; each run after it is one of them. */
void dataset_run_begins(struct dataset *ds, int32_t runs);

extern const struct node_events disk_hints_events;

#endif
