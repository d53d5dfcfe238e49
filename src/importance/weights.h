// SPDX-License-Identifier: Apache-2.0
/*
 * One float per sample, in memory that a daemon and the ranks of a job share (docs/design/0008).
 *
 *     [hdr 4096 | weights: n x 4 | marks of the keeper | marks of the sender]
 *     marks: a bit per sample, and behind them a bit per word of those
 *
 * Anybody stores; the daemon takes the marks.
 *
 * (WEIGHT-STORE-1) A store is seen by whoever takes its mark or a later one: the weight is stored
 *                  before the mark is set, and the mark is taken before the weight is loaded.
 * (WEIGHT-STORE-2) A value that is not a positive finite number reads as 0: never learnt.
 * (WEIGHT-STORE-3) A mark that is set is found by every later look from 0 on until it is taken,
 *                  wherever a look stops. Only the death of a process between the two bits of a
 *                  mark, or before it counts the store, hides it, until another sample of the same
 *                  64 is stored.
 *
 * X: any thread of any process, no locks; but a struct weights_scale is its owner's.
 */
#ifndef DLC_IMPORTANCE_WEIGHTS_H
#define DLC_IMPORTANCE_WEIGHTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define WEIGHTS_MAGIC   0x74675764u /* "dWgt" */
#define WEIGHTS_VERSION 1u
#define WEIGHTS_MAX     ((uint64_t)1 << 40) /* samples */

struct weights_hdr { /* the first 4096 bytes, the rest of them 0 */
    uint32_t magic, version;
    uint64_t n;
    uint64_t snapshot; /* of the catalog the numbers belong to */
    _Atomic uint64_t
        stored[2]; /* stores so far, for keeper and sender to see that there are some */
};

enum weights_who { WEIGHTS_KEEPER, WEIGHTS_SENDER };

/* A mapping. */
struct weights {
    struct weights_hdr *hdr;
    uint64_t n;             /* our own copy: the one in shared memory is not believed */
    _Atomic uint32_t *bits; /* of the floats */
    _Atomic uint64_t *marks[2], *words[2];
};

uint64_t weights_size(uint64_t n); /* bytes of the whole; a multiple of 4096 */
/* at: zeroed memory of that size, at the start of a page; 1 <= n <= WEIGHTS_MAX. */
void weights_format(void *at, uint64_t n, uint64_t snapshot);
/* DLC_EINVAL: not weights of n samples. Borrows: at, as long as *w is used. */
int weights_open(struct weights *w, void *at, size_t size, uint64_t n, struct dlc_err *err);

/* sample < n, here and below. */
float weights_get(const struct weights *w, uint64_t sample);
void weights_set(struct weights *w, uint64_t sample, float weight); /* and marks it for both */
/* As weights_set() but without a mark for the sender: it came from there. */
void weights_receive(struct weights *w, uint64_t sample, float weight);
/* How many stores there have been for `who`: as many as before, and there is nothing to take. */
uint64_t weights_stored(const struct weights *w, enum weights_who who);
bool weights_is_marked(const struct weights *w, enum weights_who who, uint64_t sample);
/*
 * Take the next mark: *place begins at 0. Each word that is looked at, and each mark, is a step; no
 * more than *steps are taken, whatever is marked, and *steps says what is left. False: that was
 * all, *place >= n; or the steps were used up: go on there.
 */
bool weights_take(struct weights *w, enum weights_who who, uint64_t *place, uint64_t *steps,
                  uint64_t *sample);

/* ---- rules (learn.c) ---- */

enum weights_rule { WEIGHTS_RANK, WEIGHTS_PLAIN };

/* What a rule remembers; zero-initialise. To save and resume: as it is. */
struct weights_scale {
    double first, mean; /* loss of the first epoch, and smoothed of those since; 0: none yet */
    double sum;         /* of this epoch */
    uint64_t count, epoch;
};

struct weights_learnt {
    uint64_t used, ignored; /* losses; ignored: no numbers */
    double mean;            /* of those used that are finite; 0: there are none */
};

/*
 * One batch: losses[i] is that of samples[i]; of a sample that is there twice the larger counts.
 *
 * rank    weight = log(scale * r + 10), r: how many losses of the batch are smaller; equal ones
 *         share their mean rank. scale: the mean loss now by that of the first epoch.
 * plain   weight = loss; 0 is the least positive weight (so that it was learnt), infinity the
 *         largest finite one.
 *
 * Returns: 0; DLC_EINVAL: a sample beyond n or (plain) a negative loss; DLC_ENOMEM, only for more
 * than 1,024 losses. On failure nothing has changed. scale may be NULL: 1. out may be NULL.
 */
int weights_learn(struct weights *w, enum weights_rule rule, struct weights_scale *scale,
                  uint64_t epoch, const uint64_t *samples, const float *losses, size_t n,
                  struct weights_learnt *out, struct dlc_err *err);

#endif
