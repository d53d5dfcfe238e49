// SPDX-License-Identifier: Apache-2.0
/*
 * Measures a bucket with a few reads: latency by small ones one after the other, bandwidth by
 * rounds of parallel ones, each twice as many as the last. Blocks; for programs.
 */
#ifndef DLC_BUCKET_PROBE_H
#define DLC_BUCKET_PROBE_H

#include "bucket/bucket.h"

struct probe_range {
    char *key, *etag; /* borrowed */
    uint64_t offset, length;
};

struct probe_result {
    double latency_s, p99_s; /* median; the latest of those few */
    double bytes_per_s;      /* all requests together */
    unsigned reads;
    uint64_t bytes;
};

/* Read from these n ranges, again and again if they are few. */
int bucket_probe(struct bucket *b, const struct probe_range *ranges, unsigned n,
                 struct probe_result *out, struct dlc_err *err);

#endif
