// SPDX-License-Identifier: Apache-2.0
/*
 * The disk tier as a source. Memory goal: a worker reads the chunk. Disk goal: the sample is in
 * place if its chunk is.
 *
 * A disk may hang, and a system call cannot be cancelled: cancel() succeeds only while the read
 * waits in its queue.
 */
#include "daemon/fetch/source.h"

#include "base/counters.h"
#include "base/log.h"
#include "daemon/dataset.h"
#include "daemon/state.h"

struct disk_state {
    struct work work;
    enum work_class class;
    struct chunk_id chunk;
};

static struct disk_state *disk_state(struct fetch_attempt *a)
{
    return (struct disk_state *)a->state;
}

/* As the table in memory says: for a sample that is not on disk no thread is needed. */
static bool disk_can_serve(struct fetch *f)
{
    struct disk *d = f->ds->node->disk;

    return d != NULL && disk_lookup(d, f->chunk) != DISK_ABSENT;
}

static void disk_on_worker(struct work *w)
{
    struct disk_state *s = dlc_container(w, struct disk_state, work);
    struct fetch_attempt *a = dlc_container((void *)s, struct fetch_attempt, state);
    struct disk *d = a->ds->node->disk;

    if (a->dst == NULL)
        a->rc = disk_has(d, s->chunk) ? 0 : DLC_EMISS;
    else
        a->rc = disk_read_sum(d, s->chunk, a->dst, a->size, &a->checksum, &a->err);
    a->sum = a->rc == 0 ? FETCH_SUM_KNOWN : FETCH_SUM_NONE;
    fetch_attempt_done(a);
}

static bool disk_start(struct fetch_attempt *a)
{
    struct disk_state *s = disk_state(a);

    s->work.run = disk_on_worker;
    s->class = fetch_read_class(a->f);
    s->chunk = a->f->chunk;
    return work_try(a->ds->node->work, s->class, &s->work, a->size);
}

static bool disk_cancel(struct fetch_attempt *a)
{
    struct disk_state *s = disk_state(a);

    return work_take_back(a->ds->node->work, s->class, &s->work);
}

static void disk_hurry(struct fetch_attempt *a)
{
    struct disk_state *s = disk_state(a);
    struct work_queues *q = a->ds->node->work;

    if (s->class != WORK_PREFETCH || !work_take_back(q, s->class, &s->work))
        return;
    s->class = WORK_DEMAND;
    work_run(q, s->class, &s->work);
}

static void disk_finished(struct fetch_attempt *a, int rc)
{
    if (rc < 0 && rc != DLC_EMISS)
        log_warn("disk tier: %s; reading it from the bucket", a->err.text);
}

const struct fetch_source fetch_from_disk = {
    .name = "disk",
    .tier = TIER_DISK,
    .state_size = sizeof(struct disk_state),
    .least = DLC_MS(250), /* a busy machine is not a slow disk */
    .most = DLC_SEC(2),
    .slowest = 20,
    .late = &counters.disk_hedges,
    .can_serve = disk_can_serve,
    .start = disk_start,
    .cancel = disk_cancel,
    .hurry = disk_hurry,
    .finished = disk_finished,
};
