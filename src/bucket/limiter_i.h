// SPDX-License-Identifier: Apache-2.0
/*
 * How many requests one lane keeps in flight. Pure arithmetic: no clock, no I/O, one thread.
 *
 *     BLIND --an answer begins--> START --goodput stops rising, or requests queue--> STEADY
 *                                 START <------- throttling drove it to the floor -------+
 *
 * BLIND   Nothing is known. Begin with 64; while no answer comes, the time that has passed is
 *         already a lower bound of the latency, so the limit rises by Little's law.
 * START   Little's law with the latency seen, a link of 1 GB/s and the mean size; then doubling as
 *         long as goodput rises with it.
 * STEADY  Hill climbing: now and then one step up or down, kept if goodput says so. Down when the
 *         median latency is well above the lowest, which means that requests wait in line.
 *
 * (LIMITER-1) The limit stays within [1, max].
 * (LIMITER-2) A decision compares goodput over windows that began one median latency after the
 *             limit changed, in which the lane always had more to ask than it was allowed to.
 * (LIMITER-3) Throttling cuts the limit at most once in two median latencies.
 */
#ifndef DLC_BUCKET_LIMITER_I_H
#define DLC_BUCKET_LIMITER_I_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/histogram.h"

enum limiter_phase { LIMITER_BLIND, LIMITER_START, LIMITER_STEADY };

struct limiter {
    enum limiter_phase phase;
    double limit;
    unsigned max, lanes; /* lanes: this one's share of the link is 1/lanes */
    uint64_t mean;       /* expected bytes per request; 0: unknown */
    struct dlc_mono first_sent;
    struct dlc_dur ttfb; /* lowest time to first byte; 0: none seen */

    /* latency of whole requests */
    struct dlc_dur median;         /* of the last window */
    struct dlc_dur low, low_newer; /* lowest lately: of this period and the one before */
    struct dlc_mono low_since;

    /* the window */
    struct dlc_mono from; /* it counts from then on; 0: from the first answer */
    uint64_t bytes;
    unsigned n;
    bool slack; /* the lane could not use the limit */
    struct hist latencies;

    /* hill climbing */
    double best;               /* goodput, fading */
    double base, base_goodput; /* before the step under trial */
    int step;                  /* -1, +1: under trial; 0: none */
    unsigned hold, held;       /* windows between steps; windows since the last */
    bool up_next;              /* the last step down was wrong */

    /* throttling, since the last window or cut */
    unsigned answers, throttled;
    struct dlc_mono no_cut_before;
};

void limiter_init(struct limiter *l, unsigned max, unsigned lanes);
void limiter_hint(struct limiter *l, uint64_t mean_bytes);

/* How many may be in flight now. */
unsigned limiter_allows(const struct limiter *l, struct dlc_mono now);

void limiter_sent(struct limiter *l, struct dlc_mono now);
void limiter_began(struct limiter *l, struct dlc_dur ttfb); /* the answer to any kind of request */
void limiter_answered(struct limiter *l, struct dlc_mono now, struct dlc_dur latency,
                      uint64_t bytes); /* a read succeeded */
void limiter_throttled(struct limiter *l, struct dlc_mono now);
void limiter_slack(struct limiter *l); /* nothing waits although more is allowed */

#endif
