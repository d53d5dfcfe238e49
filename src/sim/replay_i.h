// SPDX-License-Identifier: Apache-2.0
#ifndef DLC_SIM_REPLAY_I_H
#define DLC_SIM_REPLAY_I_H

#include "sim/replay.h"

/* Count a read. */
void sim_count(const struct sim_trace *t, const struct sim_options *o, uint32_t chunk, bool hit,
               struct sim_result *r);

/*
 * What an oracle reaches that, whenever room is missing, gives up the least cost / (size x distance
 * to the next read), be it what has just come. It looks at everything it holds each time.
 */
void sim_bound(const struct sim_trace *t, const struct sim_options *o, struct sim_result *out);

/* Against the disk tier: o->tier is SIM_TIER_DISK. */
void sim_run_disk(const struct sim_trace *t, const struct sim_contender *c,
                  const struct sim_options *o, struct sim_result *out);

#endif
