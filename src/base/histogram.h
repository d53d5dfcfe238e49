// SPDX-License-Identifier: Apache-2.0
/*
 * Histogram of positive numbers in buckets of about 9 % width, for percentiles of latencies. Old
 * observations fade: when `limit` have been counted, all counts are halved. One thread at a time.
 */
#ifndef DLC_BASE_HISTOGRAM_H
#define DLC_BASE_HISTOGRAM_H

#include <stdint.h>

#define HIST_BUCKETS 512

struct hist {
    uint32_t count[HIST_BUCKETS];
    uint64_t total, limit;
};

void hist_init(struct hist *h, uint64_t limit);
void hist_add(struct hist *h, uint64_t value);
uint64_t hist_percentile(const struct hist *h, double p); /* p in (0, 1]; 0 when empty */

#endif
