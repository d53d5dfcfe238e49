// SPDX-License-Identifier: Apache-2.0
#include "bucket/probe.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"

#define SERIAL       9 /* the first one opens a connection and does not count */
#define SERIAL_BYTES (16u << 10)
#define ROUND_FIRST  32
#define ROUND_LAST   512
#define RANGE_BYTES  (1u << 20) /* of one parallel read, at most */
#define ROUND_BYTES  (64u << 20)
#define ENOUGH       DLC_SEC(3)

/* So many reads at once; raises out->bytes_per_s to what they show. */
static int round_run(struct bucket *b, const struct probe_range *ranges, unsigned n, unsigned reads,
                     struct probe_result *out, struct dlc_err *err)
{
    struct bucket_read *all = mem_zero(reads * sizeof(*all));
    uint64_t bytes = 0;
    struct dlc_mono start;
    char *memory;
    double took;
    int rc;

    for (unsigned i = 0; i < reads; i++)
        bytes += DLC_MIN(ranges[(out->reads + i) % n].length, RANGE_BYTES);
    memory = mem_alloc(bytes);
    bytes = 0;
    for (unsigned i = 0; i < reads; i++) {
        const struct probe_range *p = &ranges[(out->reads + i) % n];
        uint64_t length = DLC_MIN(p->length, RANGE_BYTES);

        all[i] = (struct bucket_read){.key = p->key,
                                      .etag = p->etag,
                                      .offset = p->offset,
                                      .length = length,
                                      .dst = memory + bytes};
        bytes += length;
    }
    start = dlc_mono_now();
    rc = bucket_read_all_wait(b, all, reads, err);
    took = dlc_dur_seconds(dlc_mono_since(start));
    took -= DLC_MIN(out->latency_s, took * 0.9); /* the first byte's */
    out->bytes_per_s = DLC_MAX(out->bytes_per_s, (double)bytes / took);
    out->reads += reads;
    out->bytes += bytes;
    mem_free(&memory);
    mem_free(&all);
    return rc;
}

static int by_seconds(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int measure_latency(struct bucket *b, const struct probe_range *ranges, unsigned n,
                           struct probe_result *out, struct dlc_err *err)
{
    char *memory = mem_alloc(SERIAL_BYTES);
    double seconds[SERIAL];
    int rc = 0;

    for (unsigned i = 0; i < SERIAL && rc == 0; i++) {
        const struct probe_range *p = &ranges[i % n];
        uint64_t length = DLC_MIN(p->length, SERIAL_BYTES);
        struct dlc_mono start = dlc_mono_now();

        rc = bucket_read_wait(b, p->key, p->etag, p->offset, length, false, memory, err);
        seconds[i] = dlc_dur_seconds(dlc_mono_since(start));
        out->reads++;
        out->bytes += length;
    }
    mem_free(&memory);
    if (rc < 0)
        return rc;
    qsort(seconds + 1, SERIAL - 1, sizeof(*seconds), by_seconds);
    out->latency_s = (seconds[SERIAL / 2] + seconds[SERIAL / 2 + 1]) / 2;
    out->p99_s = seconds[SERIAL - 1];
    return 0;
}

int bucket_probe(struct bucket *b, const struct probe_range *ranges, unsigned n,
                 struct probe_result *out, struct dlc_err *err)
{
    struct dlc_mono start = dlc_mono_now();
    uint64_t all = 0;
    int rc;

    dlc_check(n > 0);
    *out = (struct probe_result){.reads = 0};
    for (unsigned i = 0; i < n; i++)
        all += DLC_MIN(ranges[i].length, RANGE_BYTES);
    bucket_hint_size(b, all / n);
    rc = measure_latency(b, ranges, n, out, err);
    for (unsigned reads = ROUND_FIRST; rc == 0 && reads <= ROUND_LAST; reads *= 2) {
        if (reads > ROUND_FIRST &&
            (reads * (all / n) > ROUND_BYTES || dlc_mono_since(start).ns > ENOUGH.ns))
            break;
        rc = round_run(b, ranges, n, reads, out, err);
    }
    return rc;
}
