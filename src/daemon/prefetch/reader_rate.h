// SPDX-License-Identifier: Apache-2.0
/*
 * Reader rate: how fast a reader would read if it never had to wait. Measured from periodic looks
 * at its position.
 *
 * A reader may move all the time, or by a whole batch every few seconds. So time is cut into
 * *steps* that end with a move and last at least RATE_SPAN: many moves of the former, one of the
 * latter. The rate is the samples of the last steps divided by their seconds without the waits;
 * older steps count less and less. Samples and seconds are summed separately, so that a batch which
 * two looks see in halves counts once.
 *
 * (READER-RATE-1) Between two moves the rate does not change, until the pause is longer than the
 *                 earlier steps suggest; then it falls. After such a pause its length is unknown:
 *                 it counts as RATE_PAUSE steps at most.
 * (READER-RATE-2) Nothing before the first move counts: it is unknown when the reader began to
 *                 read.
 *
 * Pure: no clock, no locks.
 */
#ifndef DLC_DAEMON_PREFETCH_READER_RATE_H
#define DLC_DAEMON_PREFETCH_READER_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define RATE_SPAN  DLC_MS(20)
#define RATE_PAUSE 4

struct rate {                       /* zero-initialised */
    double per_s;                   /* samples; 0: not known yet */
    double burst;                   /* samples that are read at once, lately */
    double samples, seconds, steps; /* of the steps before: decaying sums */
    bool moved_once;
    struct dlc_mono since; /* this step: its beginning, */
    uint64_t moved;        /* its samples */
    struct dlc_dur waited; /* and how long the reader waited in it */
};

/* The reader has jumped: keep the measured rate, discard the current step. */
void rate_restart(struct rate *r);

/* The reader waited this long for samples, in this step. */
void rate_waited(struct rate *r, struct dlc_dur d);

/* The reader read this many samples since the last look, possibly none. waits: it waits just now,
 * so that it cannot move. */
void rate_update(struct rate *r, uint64_t moved, bool waits, struct dlc_mono now);

#endif
