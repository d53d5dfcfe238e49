// SPDX-License-Identifier: Apache-2.0
/*
 * The workload of training: epochs over samples of one size, by one job or by several in step, each
 * with orders of its own. The first epoch warms the cache and is not counted.
 *
 * Draws by importance are those of SHADE: an epoch draws as many samples as there are, with
 * replacement, in proportion to log(rank + 10), where rank is that of the sample's loss in the
 * batch in which it was last seen. Losses here are a difficulty of the sample's own and as much
 * noise.
 */
#ifndef DLC_SIM_WORKLOAD_EPOCHS_H
#define DLC_SIM_WORKLOAD_EPOCHS_H

#include <stdbool.h>

#include "sim/trace.h"

struct epochs {
    uint32_t samples, epochs, jobs;
    bool importance;
    uint64_t seed;
    uint64_t size; /* of a sample */
    double cost;
};

/* Fill an empty trace and index it. Returns the coverage: the mean share of the samples that one
 * job sees in one counted epoch. */
double epochs_make(struct sim_trace *t, const struct epochs *e);

#endif
