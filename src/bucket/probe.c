// SPDX-License-Identifier: Apache-2.0
#include "bucket/probe.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"

#define SERIAL       9 /* the first one opens a connection and does not count */
#define SERIAL_BYTES (16u << 10)
#define ROUND_FIRST  32
#define ROUND_LAST   512
#define RANGE_BYTES  (1u << 20) /* of one parallel read, at most */
#define ROUND_BYTES  (64u << 20)
#define ENOUGH       DLC_SEC(3)

struct round {
    struct dlc_mtx mtx; /* rank LCK_sync */
    struct dlc_cond cond;
    unsigned running;   /* G: mtx */
    int rc;             /* G: mtx; of the first that failed */
    struct dlc_err err; /* G: mtx */
    struct bucket_read *reads;
    char *memory;
};

/* On a lane. */
static void probe_done(struct bucket_read *r)
{
    struct round *q = r->priv;

    dlc_mtx_lock(&q->mtx);
    if (r->rc < 0 && q->rc == 0) {
        q->rc = r->rc;
        q->err = r->err;
    }
    if (--q->running == 0)
        dlc_cond_signal(&q->cond);
    dlc_mtx_unlock(&q->mtx);
}

static void round_submit(struct bucket *b, struct round *q, const struct probe_range *ranges,
                         unsigned n, unsigned reads, struct probe_result *out)
{
    uint64_t at = 0;

    for (unsigned i = 0; i < reads; i++) {
        const struct probe_range *p = &ranges[(out->reads + i) % n];
        uint64_t length = DLC_MIN(p->length, RANGE_BYTES);

        q->reads[i] = (struct bucket_read){.key = p->key,
                                           .etag = p->etag,
                                           .offset = p->offset,
                                           .length = length,
                                           .dst = q->memory + at,
                                           .done = probe_done,
                                           .priv = q};
        at += length;
    }
    out->bytes += at;
    out->reads += reads;
    for (unsigned i = 0; i < reads; i++)
        bucket_read(b, &q->reads[i]);
}

/* So many reads at once; raises out->bytes_per_s to what they show. */
static int round_run(struct bucket *b, const struct probe_range *ranges, unsigned n, unsigned reads,
                     struct probe_result *out, struct dlc_err *err)
{
    struct round q = {.running = reads, .reads = mem_zero(reads * sizeof(*q.reads))};
    uint64_t before = out->bytes, most = 0;
    struct dlc_mono start;
    double took;

    dlc_mtx_init(&q.mtx, LCK_sync);
    dlc_cond_init(&q.cond);
    for (unsigned i = 0; i < n; i++)
        most = DLC_MAX(most, DLC_MIN(ranges[i].length, RANGE_BYTES));
    q.memory = mem_alloc(reads * most + 1);
    start = dlc_mono_now();
    round_submit(b, &q, ranges, n, reads, out);
    dlc_mtx_lock(&q.mtx);
    while (q.running > 0)
        dlc_cond_wait(&q.cond, &q.mtx);
    dlc_mtx_unlock(&q.mtx);
    took = dlc_dur_seconds(dlc_mono_since(start));
    took -= DLC_MIN(out->latency_s, took * 0.9); /* the first byte's */
    out->bytes_per_s = DLC_MAX(out->bytes_per_s, (double)(out->bytes - before) / took);
    dlc_cond_release(&q.cond);
    dlc_mtx_release(&q.mtx);
    mem_free(&q.memory);
    mem_free(&q.reads);
    if (q.rc < 0)
        *err = q.err;
    return q.rc;
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
