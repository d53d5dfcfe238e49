// SPDX-License-Identifier: Apache-2.0
/*
 * bench-bucket-read URL [REPEAT [LANES]]: list a bucket, then read all its objects into memory at
 * full speed through the engine. Last line: JSON. Seconds count from the first read to the last
 * byte; CPU time is the whole process's during the reads.
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/counters.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "bucket/bucket.h"

struct bench {
    struct bucket_object *objects; /* with their own strings */
    size_t n, cap;
    uint64_t bytes, largest;
    struct bucket_read *reads;
    struct dlc_mtx mtx; /* rank LCK_sync */
    struct dlc_cond all;
    size_t left, failed; /* G: mtx */
    char error[500];     /* G: mtx */
};

static bool on_page(struct bucket_list *l, const struct bucket_object *objects, size_t n)
{
    struct bench *x = l->priv;

    for (size_t i = 0; i < n; i++) {
        mem_reserve(x->objects, x->n, x->cap);
        x->objects[x->n++] = (struct bucket_object){mem_str(objects[i].key), objects[i].size,
                                                    mem_str(objects[i].etag)};
        x->bytes += objects[i].size;
        x->largest = DLC_MAX(x->largest, objects[i].size);
    }
    return true;
}

static void on_read(struct bucket_read *r)
{
    struct bench *x = r->priv;

    dlc_mtx_lock(&x->mtx);
    if (r->rc < 0 && x->failed++ == 0)
        memcpy(x->error, r->err.text, sizeof(x->error));
    if (--x->left == 0)
        dlc_cond_signal(&x->all);
    dlc_mtx_unlock(&x->mtx);
}

static double cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* A ring of buffers larger than the reads in flight: what is in them is not looked at. */
static void read_all(struct bench *x, struct bucket *b, char *memory, size_t slots)
{
    x->left = x->n;
    for (size_t i = 0; i < x->n; i++) {
        x->reads[i] = (struct bucket_read){.key = x->objects[i].key,
                                           .etag = x->objects[i].etag,
                                           .length = x->objects[i].size,
                                           .whole = true,
                                           .dst = memory + i % slots * x->largest,
                                           .done = on_read,
                                           .priv = x};
        bucket_read(b, &x->reads[i]);
    }
    dlc_mtx_lock(&x->mtx);
    while (x->left > 0)
        dlc_cond_wait(&x->all, &x->mtx);
    dlc_mtx_unlock(&x->mtx);
}

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const struct dlc_dur *)a)->ns, y = ((const struct dlc_dur *)b)->ns;

    return (x > y) - (x < y);
}

static void report(struct bench *x, double seconds, double cpu)
{
    struct dlc_dur *took = mem_alloc(x->n * sizeof(*took));

    for (size_t i = 0; i < x->n; i++)
        took[i] = dlc_mono_sub((struct dlc_mono){x->reads[i].took.ns},
                               (struct dlc_mono){x->reads[i].waited.ns});
    qsort(took, x->n, sizeof(*took), by_time);
    printf("{\"objects\": %zu, \"bytes\": %" PRIu64 ", \"seconds\": %.3f, \"MBps\": %.1f, "
           "\"cpu_s\": %.3f, \"objects_per_cpu_s\": %.0f, \"p50_ms\": %.1f, \"p99_ms\": %.1f, "
           "\"retries\": %" PRIu64 ", \"hedges\": %" PRIu64 ", \"failed\": %zu}\n",
           x->n, x->bytes, seconds, (double)x->bytes / seconds / 1e6, cpu, (double)x->n / cpu,
           (double)took[x->n / 2].ns / 1e6, (double)took[x->n * 99 / 100].ns / 1e6,
           count_read(bucket_retries), count_read(bucket_hedges), x->failed);
    mem_free(&took);
}

static void run(struct bench *x, struct bucket *b)
{
    size_t slots = DLC_MIN(x->n, DLC_MAX((size_t)1, (size_t)(1ull << 30) / (x->largest + 1)));
    char *memory = mem_try_zero(slots * x->largest);
    struct bucket_figures f;
    struct dlc_mono start;
    double cpu;

    if (memory == NULL)
        errx(1, "no memory for %zu objects", slots);
    memset(memory, 1, slots * x->largest); /* touch the pages before the clock runs */
    x->reads = mem_alloc(x->n * sizeof(x->reads[0]));
    bucket_hint_size(b, x->bytes / x->n);
    start = dlc_mono_now();
    cpu = cpu_seconds();
    read_all(x, b, memory, slots);
    report(x, dlc_dur_seconds(dlc_mono_since(start)), cpu_seconds() - cpu);
    bucket_figures(b, &f);
    fprintf(stderr, "limit %u, p50 %.1f ms, p99 %.1f ms\n", f.limit, (double)f.p50.ns / 1e6,
            (double)f.p99.ns / 1e6);
    mem_free(&x->reads);
    mem_free(&memory);
}

int main(int argc, char **argv)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct bench x = {.n = 0};
    struct dlc_err e = DLC_ERR_INIT;
    struct bucket *b = NULL;
    struct url u = URL_INIT;

    if (argc < 2)
        errx(2, "usage: bench-bucket-read URL [REPEAT [LANES]]");
    if (argc > 3)
        config.lanes = (unsigned)atoi(argv[3]);
    dlc_mtx_init(&x.mtx, LCK_sync);
    dlc_cond_init(&x.all);
    if (url_parse(&u, argv[1], &e) < 0 || bucket_open(&u, &config, &b, &e) < 0 ||
        bucket_list_wait(b, NULL, on_page, &x, &e) < 0)
        errx(1, "%s", e.text);
    if (x.n == 0)
        errx(1, "%s holds no objects", u.text);
    for (int i = argc > 2 ? atoi(argv[2]) : 1; i > 0; i--)
        run(&x, b);
    if (x.failed > 0)
        warnx("%zu reads failed; the first: %s", x.failed, x.error);
    bucket_close(&b);
    url_release(&u);
    for (size_t i = 0; i < x.n; i++) {
        mem_free(&x.objects[i].key);
        mem_free(&x.objects[i].etag);
    }
    mem_free(&x.objects);
    dlc_cond_release(&x.all);
    dlc_mtx_release(&x.mtx);
    return x.failed > 0;
}
