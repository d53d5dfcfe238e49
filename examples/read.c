// SPDX-License-Identifier: Apache-2.0
/*
 * Read a dataset once, in batches, with the next batches on their way while this one is used.
 *
 *     cc read.c $(pkg-config --cflags --libs dlcache) -o read
 *     ./read s3://my-bucket/train/
 */
#include <dlcache.h>

#include <stdio.h>

#define BATCH 32
#define AHEAD 4 /* batches */

static int fail(const char *what)
{
    fprintf(stderr, "read: %s: %s\n", what, dlc_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    struct dlc_dataset *ds;
    struct dlc_view views[BATCH];
    struct dlc_stats stats;
    uint64_t idx[BATCH * (AHEAD + 1)], sum = 0;
    size_t bad;

    if (argc != 2) {
        fprintf(stderr, "usage: read URL\n");
        return 2;
    }
    if (dlc_open(argv[1], NULL, &ds) < 0)
        return fail(argv[1]);
    for (uint64_t at = 0; at < dlc_count(ds); at += BATCH) {
        size_t left = (size_t)(dlc_count(ds) - at);
        size_t n = left < BATCH ? left : BATCH;
        size_t soon = left < BATCH * (AHEAD + 1) ? left : BATCH * (AHEAD + 1);

        for (size_t i = 0; i < soon; i++)
            idx[i] = at + i;
        if (dlc_prefetch(ds, idx, soon) < 0 || dlc_get_many(ds, idx, n, views, &bad) < 0)
            return fail("a batch");
        for (size_t i = 0; i < n; i++) {
            if (views[i].len > 0)
                sum += *(const unsigned char *)views[i].data; /* here a training loop would decode */
            dlc_put(ds, &views[i]);
        }
    }
    dlc_dataset_stats(ds, &stats);
    printf("%llu samples, %llu bytes, %llu hits, %.3f s stalled (first bytes add up to %llu)\n",
           (unsigned long long)dlc_count(ds), (unsigned long long)stats.bytes,
           (unsigned long long)stats.hits, (double)stats.stall_ns / 1e9, (unsigned long long)sum);
    dlc_close(&ds);
    return 0;
}
