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

/* ---- against a tier ---- */

enum sim_outcome { SIM_HIT, SIM_STORED, SIM_REFUSED };

/* A replay against a tier, as replay_tier.c drives it. */
struct tier_run {
    const struct sim_trace *t;
    const struct sim_contender *c;
    const struct sim_options *o;
    struct sim_result *r;
    uint64_t *begun; /* dataset -> passes of jobs that have begun */
    uint32_t *left;  /* of each job: reads still to come */
    double now;      /* seconds */
    void *tier;      /* what open() gave */
};

struct tier_ops {
    void *(*open)(struct tier_run *r);
    void (*close)(struct tier_run *r);
    /* A run of the dataset begins, after which so many are to come; POLICY_UNKNOWN: nobody said. */
    void (*job_begins)(struct tier_run *r, uint32_t dataset, int32_t runs);
    void (*job_ends)(struct tier_run *r, uint32_t dataset);
    enum sim_outcome (*read)(struct tier_run *r, const struct sim_read *read, uint32_t dataset);
    uint64_t (*resident)(const struct tier_run *r); /* chunks that it holds */
};

extern const struct tier_ops tier_disk, tier_memory;

void sim_run_tier(const struct tier_ops *ops, const struct sim_trace *t,
                  const struct sim_contender *c, const struct sim_options *o,
                  struct sim_result *out);

#endif
