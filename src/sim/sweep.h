// SPDX-License-Identifier: Apache-2.0
/* A sweep: every contender at every capacity, over one trace or over all rows of a mix. */
#ifndef DLC_SIM_SWEEP_H
#define DLC_SIM_SWEEP_H

#include "sim/workload_mix.h"
#include "sim/replay.h"

#define STUDY_CONTENDERS 16
#define STUDY_CAPACITIES 64

struct study {
    const struct sim_contender *contenders[STUDY_CONTENDERS];
    unsigned n_contenders;
    uint64_t capacities[STUDY_CAPACITIES];
    unsigned n_capacities;
    struct sim_options options; /* capacity and seed are set for each run */
    uint64_t seed;

    struct sim_result results[STUDY_CAPACITIES][STUDY_CONTENDERS]; /* sums */
    uint64_t rows;                                                 /* that each is a sum of */
    struct buf *each; /* a line of seconds for each row, comma-separated; NULL: not wanted */

    void (*on_row)(uint64_t done, uint64_t total, void *priv); /* NULL: nobody looks */
    void *priv;
};

void study_trace(struct study *s, const struct sim_trace *t);
void study_mix(struct study *s, struct mix *m, uint32_t shuffles);

/* The mean over all capacities and rows, of sums: divide by s->rows * s->n_capacities. */
struct sim_result study_total(const struct study *s, unsigned contender);

#endif
