// SPDX-License-Identifier: Apache-2.0
/*
 * How long fetches took and how large they were, by the tier that had the bytes: for metrics.
 * Counts only grow, in buckets that Prometheus sums over nodes. L.
 */
#ifndef DLC_DAEMON_FETCH_HISTOGRAM_H
#define DLC_DAEMON_FETCH_HISTOGRAM_H

#include <stdint.h>

#include "base/clock.h"

#define FETCH_TIERS   5 /* enum fetch_tier */
#define FETCH_SECONDS 14
#define FETCH_BYTES   10

/* A bound as it is compared, and as it is written. */
struct fetch_bound {
    uint64_t at; /* ns, or bytes */
    const char *text;
};
extern const struct fetch_bound fetch_seconds[FETCH_SECONDS], fetch_bytes[FETCH_BYTES];
extern const char *const fetch_tier_names[FETCH_TIERS];

struct fetch_histogram {
    uint64_t seconds[FETCH_SECONDS + 1], bytes[FETCH_BYTES + 1]; /* the last: above all bounds */
    uint64_t ns_sum, bytes_sum;
};

void fetch_histogram_add(struct fetch_histogram *h, struct dlc_dur took, uint64_t bytes);

#endif
