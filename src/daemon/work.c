// SPDX-License-Identifier: Apache-2.0
#include "daemon/work.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"

#define MB            ((uint64_t)1 << 20)
#define CLOSING_LIMIT DLC_SEC(1) /* that the end of the process waits for WORK_CLOSE */

/*
 * Bounds of the queues. A store holds memory while it waits, so its queue is short: half a second
 * at 500 MB/s; samples that are not stored are still in the bucket. Cataloguing waits for distant
 * buckets and hardly computes, so it has many threads: otherwise eight slow buckets would block the
 * ninth dataset.
 */
static const struct class
{
    const char *name;
    unsigned threads;
    uint64_t queued, bytes; /* bounds of the queue; 0: none */
    const char *full;       /* what happens then */
} classes[N_WORK] = {
    [WORK_DEMAND] = {"demand", 8, 1024, 256 * MB, "the bucket is read"},
    [WORK_PREFETCH] = {"prefetch", 4, 8192, 256 * MB, "the bucket is read"}, /* > FETCHES_MAX */
    [WORK_STORE] = {"store", 4, 16384, 256 * MB, "the chunk is not stored"},
    [WORK_CATALOG] = {"catalog", 32, 1024, 0, "the request fails: DLC_EBUSY"},
    [WORK_COPY] = {"copy", 2, 1024, 0, "the decoded sample is not taken"},
    [WORK_BACKGROUND] = {"background", 2, 4096, 0, "the request fails: DLC_EBUSY"},
    [WORK_CLOSE] = {"close", 8, 0, 0, "never: all are closed"},
};

struct work_queues {
    struct pool *pools[N_WORK];
};

struct work_queues *work_new(struct dlc_err *err)
{
    struct work_queues *w = mem_new(struct work_queues);

    for (unsigned i = 0; i < N_WORK && w != NULL; i++) {
        char *name = mem_fmt("dlc-%s", classes[i].name);

        w->pools[i] = pool_new(name, classes[i].threads, err);
        mem_free(&name);
        if (w->pools[i] == NULL)
            work_free(&w);
        else
            pool_set_bound(w->pools[i], classes[i].queued, classes[i].bytes);
    }
    return w;
}

void work_free(struct work_queues **wp)
{
    struct work_queues *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    for (unsigned i = 0; i < N_WORK; i++)
        if (i != WORK_CLOSE)
            pool_free(&w->pools[i]);
    if (!pool_free_within(&w->pools[WORK_CLOSE], CLOSING_LIMIT))
        log_warn("a client's descriptors cannot be closed: the process ends without that");
    mem_free(&w);
}

bool work_try(struct work_queues *q, enum work_class c, struct work *w, uint64_t bytes)
{
    w->bytes = bytes;
    return pool_try_run(q->pools[c], w);
}

void work_run(struct work_queues *q, enum work_class c, struct work *w)
{
    w->bytes = 0;
    pool_run(q->pools[c], w);
}

uint64_t work_queued(struct work_queues *q, enum work_class c)
{
    struct pool_figures f;

    pool_figures(q->pools[c], &f);
    return f.queued;
}

bool work_take_back(struct work_queues *q, enum work_class c, struct work *w)
{
    return pool_take_back(q->pools[c], w);
}

uint64_t work_bytes(enum work_class c)
{
    return classes[c].bytes;
}

static double ms(struct dlc_dur d)
{
    return (double)d.ns / 1e6;
}

void work_figures(struct work_queues *q, struct work_figures out[static N_WORK])
{
    for (unsigned i = 0; i < N_WORK; i++) {
        out[i] = (struct work_figures){
            .name = classes[i].name, .threads = classes[i].threads, .bound = classes[i].queued};
        pool_figures(q->pools[i], &out[i].pool);
    }
}

json_t *work_json(struct work_queues *w)
{
    json_t *all = json_object();

    for (unsigned i = 0; i < N_WORK; i++) {
        struct pool_figures f;

        pool_figures(w->pools[i], &f);
        json_object_set_new(
            all, classes[i].name,
            json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:s}", "threads",
                      (int)classes[i].threads, "running", (json_int_t)f.running, "queued",
                      (json_int_t)f.queued, "queued_bytes", (json_int_t)f.queued_bytes, "bound",
                      (json_int_t)classes[i].queued, "refused", (json_int_t)f.refused, "waiting_ms",
                      ms(f.waiting), "longest_wait_ms", ms(f.longest), "running_ms", ms(f.busiest),
                      "when_full", classes[i].full));
    }
    return all;
}
