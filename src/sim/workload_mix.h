// SPDX-License-Identifier: Apache-2.0
/*
 * The workload of DLCache's eviction experiment: four datasets, each with its own habit, and their
 * jobs in random order.
 *
 *     reused     read whole by `reuse` jobs
 *     shared     read whole by `share` jobs, each asking for each chunk `share` times in a row
 *     windows    read by one job for each window of last + 1 neighbouring files, in order
 *     once       read whole by one job
 *
 * One row is one order of the jobs. The grid: reuse 1, 3, 5; share 1, 3, 5, 7; last 1, 3, 5, 7; and
 * `shuffles` orders of each, all of that for each capacity. The generator goes on from row to row.
 */
#ifndef DLC_SIM_WORKLOAD_MIX_H
#define DLC_SIM_WORKLOAD_MIX_H

#include <stdbool.h>

#include "base/rng.h"
#include "sim/mt19937.h"
#include "sim/trace.h"

enum mix_habit { MIX_REUSED, MIX_SHARED, MIX_WINDOWS, MIX_ONCE, MIX_HABITS };

struct mix {
    struct sim_trace trace; /* the chunks, and the jobs of the present row */
    uint32_t *chunks[MIX_HABITS];
    uint32_t n[MIX_HABITS], cap[MIX_HABITS];
    bool numpy; /* which generator shuffles */
    struct mt19937 mt;
    struct rng rng;
};

#define MIX_INIT                                                                                   \
    {                                                                                              \
        .trace = SIM_TRACE_INIT                                                                    \
    }

struct mix_row {
    uint32_t reuse, share, last;
};

#define MIX_ROWS 48 /* of the grid, for each shuffle */
struct mix_row mix_row(uint32_t i);

/* Chunks of our own making, about like those that DLCache measured. */
void mix_make(struct mix *m, uint64_t seed);

/*
 * Chunks from a table with columns Cost, Key and Size; the first part of the key is the dataset,
 * and the datasets take the habits in the order above. Costs are divided by `parallel`.
 */
int mix_parse(struct mix *m, const char *name, const char *text, size_t len, double parallel,
              struct dlc_err *err);

void mix_seed(struct mix *m, uint64_t seed, bool numpy);
void mix_shuffle(struct mix *m, struct mix_row row); /* the next trace, indexed */
void mix_release(struct mix *m);

#endif
