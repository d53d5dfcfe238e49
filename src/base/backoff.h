// SPDX-License-Identifier: Apache-2.0
/* Exponential back-off: how long to wait after a failure before the next attempt. */
#ifndef DLC_BASE_BACKOFF_H
#define DLC_BASE_BACKOFF_H

#include "base/check.h"
#include "base/clock.h"
#include "base/rng.h"

/* After the nth failure in a row (from 1): `first`, doubled for each one more, `most` at most. */
static inline struct dlc_dur backoff_after(unsigned failures, struct dlc_dur first,
                                           struct dlc_dur most)
{
    int64_t ns = first.ns;

    for (unsigned i = 1; i < failures && ns < most.ns; i++)
        ns = ns > INT64_MAX / 2 ? most.ns : ns * 2;
    return (struct dlc_dur){DLC_MIN(ns, most.ns)};
}

/* The wait that follows the wait `last`; `first` when that is 0. */
static inline struct dlc_dur backoff_next(struct dlc_dur last, struct dlc_dur first,
                                          struct dlc_dur most)
{
    return last.ns == 0 ? first : (struct dlc_dur){DLC_MIN(last.ns * 2, most.ns)};
}

/* Uniform in ((1 - share) * d, d], so that those who failed together do not return together. */
static inline struct dlc_dur backoff_jitter(struct dlc_dur d, double share, struct rng *r)
{
    return (struct dlc_dur){d.ns - (int64_t)(rng_unit(r) * share * (double)d.ns)};
}

#endif
