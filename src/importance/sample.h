// SPDX-License-Identifier: Apache-2.0
/*
 * Weighted sampling: which samples a rank reads in an epoch (docs/design/0008).
 *
 *     shade      draws with replacement, by weight (never learnt: 1). Resident samples come first,
 *                each `replication` times, shuffled, then the others; truncated to the length.
 *                If that leaves space (replication 0.5), the others repeat, or if all are
 *                resident, those.
 *     coverage   without replacement. First the class of the epoch, one of `every` classes into
 *                which a fixed permutation divides the samples; then others by weight (never
 *                learnt: the mean of the known weights); all shuffled.
 *
 * (DRAW-2) In an epoch no sample is in the lists of two ranks (except for padding), and all ranks
 *          have the same number of positions, whatever their weights.
 * (DRAW-3) coverage: in any `every` consecutive epochs each sample is drawn at least once, on any
 *          number of ranks; within an epoch at most once (except for padding).
 * (DRAW-SPEC-1) The same spec, weights and residents give the same list. Weight and residence of
 *               each sample are read once, so that they may change meanwhile.
 *
 * Pure: no clock, no locks. Scratch: 12 bytes per sample, and 4 per position.
 */
#ifndef DLC_IMPORTANCE_SAMPLE_H
#define DLC_IMPORTANCE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define DRAW_REPLICATION_MAX 100
#define DRAW_PREFER_MAX      1000

enum draw_mode { DRAW_COVERAGE, DRAW_SHADE };

struct draw_spec {
    enum draw_mode mode;
    uint64_t n, first; /* samples [first, first + n); n < 2^32 */
    uint64_t length;   /* positions over all ranks; coverage: from n / every, rounded up, to n */
    uint64_t seed, epoch;
    uint32_t rank, world; /* world 0 counts as 1 */
    uint32_t every;       /* coverage: 1 or more */
    double replication;   /* shade: 0.5, 1, 1.5, ... 100 */
    double prefer;        /* coverage: 1 to 1000: the weight of residents is so many times */
    /* Of a sample, by its number. A value that is not positive and finite: never learnt. */
    float (*weight)(const void *arg, uint64_t sample);
    bool (*resident)(const void *arg, uint64_t sample); /* NULL: none is */
    const void *arg;
};

/* What came out, of this rank. */
struct draw_figures {
    uint64_t distinct; /* samples in the list */
    uint64_t forced;   /* coverage: positions that the class took */
    uint64_t resident; /* positions whose sample was resident */
    uint64_t part;     /* samples it could draw from */
    double effective;  /* (sum of w)^2 / sum of w^2 over the part: how many the draw is worth */
};

/* DLC_EINVAL with a text that says which member is wrong and what it may be. */
int draw_check(const struct draw_spec *s, struct dlc_err *err);
/* Positions of a rank: length / world, rounded up. */
uint64_t draw_length(const struct draw_spec *s);
/* list has room for draw_length(); out may be NULL. Returns: as draw_check(), or DLC_ENOMEM. */
int draw_epoch(const struct draw_spec *s, uint64_t *list, struct draw_figures *out,
               struct dlc_err *err);

#endif
