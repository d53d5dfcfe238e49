// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.h"

#include <math.h>
#include <string.h>

/* Eight buckets per power of two: 3 bits after the leading one. */
static unsigned bucket_of(uint64_t v)
{
    unsigned top;

    if (v < 8)
        return (unsigned)v;
    top = 63u - (unsigned)__builtin_clzll(v);
    return (top - 2) * 8 + (unsigned)(v >> (top - 3) & 7);
}

/* The middle of a bucket. */
static uint64_t value_of(unsigned b)
{
    unsigned top;

    if (b < 8)
        return b;
    top = b / 8 + 2;
    return ((8 + (uint64_t)b % 8) << (top - 3)) + ((1ull << (top - 3)) >> 1);
}

void hist_init(struct hist *h, uint64_t limit)
{
    memset(h, 0, sizeof(*h));
    h->limit = limit;
}

void hist_add(struct hist *h, uint64_t value)
{
    h->count[bucket_of(value)]++;
    if (++h->total < h->limit)
        return;
    h->total = 0;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        h->count[i] /= 2;
        h->total += h->count[i];
    }
}

uint64_t hist_percentile(const struct hist *h, double p)
{
    uint64_t want = (uint64_t)ceil(p * (double)h->total), seen = 0;

    if (h->total == 0)
        return 0;
    if (want == 0)
        want = 1;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        seen += h->count[i];
        if (seen >= want)
            return value_of(i);
    }
    return value_of(HIST_BUCKETS - 1);
}
