// SPDX-License-Identifier: Apache-2.0
#include "daemon/fetch/histogram.h"

/* A local disk answers within a millisecond, a bucket within 30 s or not at all. */
const struct fetch_bound fetch_seconds[FETCH_SECONDS] = {
    {1000000, "0.001"},    {2500000, "0.0025"},   {5000000, "0.005"},  {10000000, "0.01"},
    {25000000, "0.025"},   {50000000, "0.05"},    {100000000, "0.1"},  {250000000, "0.25"},
    {500000000, "0.5"},    {1000000000, "1.0"},   {2500000000, "2.5"}, {5000000000, "5.0"},
    {10000000000, "10.0"}, {30000000000, "30.0"},
};

/* Powers of four from a small record to a whole shard. */
const struct fetch_bound fetch_bytes[FETCH_BYTES] = {
    {4096, "4096.0"},           {16384, "16384.0"},
    {65536, "65536.0"},         {262144, "262144.0"},
    {1048576, "1048576.0"},     {4194304, "4194304.0"},
    {16777216, "16777216.0"},   {67108864, "67108864.0"},
    {268435456, "268435456.0"}, {1073741824, "1073741824.0"},
};

const char *const fetch_tier_names[FETCH_TIERS] = {"memory", "disk", "peer", "redis", "bucket"};

static unsigned bucket_of(const struct fetch_bound *bounds, unsigned n, uint64_t v)
{
    unsigned i = 0;

    while (i < n && v > bounds[i].at)
        i++;
    return i;
}

void fetch_histogram_add(struct fetch_histogram *h, struct dlc_dur took, uint64_t bytes)
{
    uint64_t ns = took.ns > 0 ? (uint64_t)took.ns : 0;

    h->seconds[bucket_of(fetch_seconds, FETCH_SECONDS, ns)]++;
    h->bytes[bucket_of(fetch_bytes, FETCH_BYTES, bytes)]++;
    h->ns_sum += ns;
    h->bytes_sum += bytes;
}
