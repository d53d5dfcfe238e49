// SPDX-License-Identifier: Apache-2.0
/*
 * Replays a trace against one contender: a policy of src/cache/policy, driven as a tier drives it,
 * with more or less knowledge of the future; or a bound that no policy can reach.
 */
#ifndef DLC_SIM_REPLAY_H
#define DLC_SIM_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/trace.h"
#include "cache/policy/policy.h"

struct sim_contender {
    const char *name;
    const struct policy_ops *ops; /* NULL: the offline bound */
    const char *summary;          /* NULL: that of ops */
    bool admits;                  /* what the policy refuses is not kept; else whatever comes is */
    bool holds;                   /* what running jobs are still to read is held */
    bool declares; /* a dataset's number of runs is declared when its first run begins */
};

extern const struct sim_contender sim_contenders[]; /* ends with a NULL name */
const struct sim_contender *sim_contender_find(const char *name, size_t len);

/* What the policy's clock shows. */
enum sim_clock {
    SIM_CLOCK_COST, /* seconds spent on misses so far */
    SIM_CLOCK_JOB,  /* one second for each job */
    SIM_CLOCK_WORK, /* about what DLCache's simulation took for its own work: nothing decays */
};

enum sim_tier {
    SIM_TIER_NONE,   /* the policy alone: one order of all chunks */
    SIM_TIER_DISK,   /* the disk tier with that policy: replay_disk.c */
    SIM_TIER_MEMORY, /* the memory tier with it: replay_memory.c */
};

struct sim_options {
    uint64_t capacity; /* bytes */
    enum sim_tier tier;
    enum sim_clock clock;
    struct policy_options policy;
    struct policy_prices prices; /* for the money that is reported; costs are seconds */
};

struct sim_result {
    uint64_t reads, hits, refused, evictions;
    uint64_t hit_bytes, miss_bytes;
    double seconds; /* cost of all misses */
    double money;
};

void sim_run(const struct sim_trace *t, const struct sim_contender *c, const struct sim_options *o,
             struct sim_result *out);
/* Why the disk tier cannot have this contender, and which to choose instead; NULL: it can. */
const char *sim_disk_refusal(const struct sim_contender *c);
void sim_result_add(struct sim_result *sum, const struct sim_result *r);

#endif
