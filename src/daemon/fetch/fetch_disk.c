// SPDX-License-Identifier: Apache-2.0
/*
 * A fetch's read of the disk tier, with a deadline. A disk may hang, and a system call cannot be
 * taken back: so the read has memory and a life of its own. When it is late, the fetch leaves it
 * behind, gets other memory and goes to the bucket; what was left behind goes when its thread comes
 * back, if ever. A read that no thread has begun is simply taken out of the queue.
 *
 * The deadline is four times the 99th percentile of reads lately, and a second more for each 20 MB.
 */
#include "daemon/fetch/fetch_i.h"

#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "cache/disk/disk.h"
#include "catalog/catalog.h"
#include "daemon/state.h"
#include "daemon/work.h"

#define LOOK_EVERY DLC_MS(25)
#define EARLIEST   DLC_MS(250) /* a busy machine is no slow disk */
#define LATEST     DLC_SEC(2)
#define SLOWEST    20 /* bytes per microsecond */

struct disk_reading {
    struct dlc_list link; /* in node.disk_reads while somebody waits for it */
    struct work work;
    struct task task;
    struct fetch *f; /* NULL: left behind */
    struct dataset *ds;
    struct mem_fill *fill; /* its own, once left behind */
    struct chunk_id chunk;
    uint64_t size;
    enum work_class class;
    struct dlc_mono began, due;
    uint64_t checksum;
    int rc;
    struct dlc_err err;
};

static void on_worker(struct work *w)
{
    struct disk_reading *r = dlc_container(w, struct disk_reading, work);

    r->rc = disk_read_sum(r->ds->node->disk, r->chunk, mem_fill_data(r->fill), r->size,
                          &r->checksum, &r->err);
    loop_post(r->ds->node->loop, &r->task);
}

static void reading_free(struct disk_reading *r)
{
    struct dataset *ds = r->ds;

    ds->node->pending--;
    dlc_list_remove(&r->link);
    mem_free(&r);
    dataset_put(&ds);
}

static void back_on_loop(struct task *t)
{
    struct disk_reading *r = dlc_container(t, struct disk_reading, task);
    struct node *n = r->ds->node;
    struct fetch *f = r->f;

    if (f == NULL) { /* the bucket has been asked long since */
        memory_abandon(n->memory, &r->fill);
        budget_give(r->ds, BUDGET_FILLING, r->size);
        reading_free(r);
        return;
    }
    hist_add(&n->disk_latency, (uint64_t)dlc_mono_since(r->began).ns / 1000);
    f->rc = r->rc;
    f->err = r->err;
    f->sum = r->rc == 0 ? FETCH_SUM_KNOWN : FETCH_SUM_NONE;
    f->checksum = r->checksum;
    f->reading = NULL;
    reading_free(r);
    fetch_read_disk(f);
}

static struct dlc_dur deadline(const struct node *n, uint64_t size)
{
    int64_t us = (int64_t)hist_percentile(&n->disk_latency, 0.99) * 4;

    us = DLC_CLAMP(us, EARLIEST.ns / 1000, LATEST.ns / 1000) + (int64_t)(size / SLOWEST);
    return (struct dlc_dur){us * 1000};
}

bool fetch_try_disk(struct fetch *f)
{
    struct node *n = f->ds->node;
    struct disk_reading *r = mem_new(struct disk_reading);

    *r = (struct disk_reading){
        .work.run = on_worker,
        .task.run = back_on_loop,
        .f = f,
        .ds = f->ds,
        .fill = f->fill,
        .chunk = f->chunk,
        .size = f->size,
        .class = fetch_reads(f),
        .began = dlc_mono_now(),
    };
    r->due = dlc_mono_add(r->began, deadline(n, f->size));
    if (!work_try(n->work, r->class, &r->work, f->size)) {
        mem_free(&r);
        return false;
    }
    f->reading = r;
    r->ds->refs++;
    n->pending++;
    if (dlc_list_empty(&n->disk_reads))
        loop_timer_set(n->loop, &n->disk_late, dlc_mono_add(loop_now(n->loop), LOOK_EVERY));
    dlc_list_push_tail(&n->disk_reads, &r->link);
    return true;
}

void fetch_hurry(struct fetch *f)
{
    struct disk_reading *r = f->reading;
    struct work_queues *w = f->ds->node->work;

    if (r == NULL || r->class != WORK_PREFETCH || !work_take_back(w, r->class, &r->work))
        return;
    r->class = WORK_DEMAND;
    work_run(w, r->class, &r->work);
}

/* To the bucket, with other memory where a thread may still write into this. */
static void leave_behind(struct disk_reading *r)
{
    struct node *n = r->ds->node;
    struct fetch *f = r->f;

    f->reading = NULL;
    count(disk_hedges);
    if (work_take_back(n->work, r->class, &r->work)) {
        reading_free(r);
        fetch_remote(f);
        return;
    }
    r->f = NULL;
    dlc_list_remove(&r->link);
    memory_detach(n->memory, f->fill);
    f->fill = NULL;
    f->rc = memory_reserve(n->memory, f->ds->index, f->sample, f->size, &f->fill);
    if (f->rc == 0) {
        budget_take(f->ds, BUDGET_FILLING, f->size);
        fetch_remote(f);
    } else {
        fetch_end(f, DLC_EBYPASS);
    }
}

void fetch_disk_late(struct timer *t)
{
    struct node *n = dlc_container(t, struct node, disk_late);
    struct dlc_list late;

    dlc_list_init(&late);
    dlc_list_each_safe (l, &n->disk_reads) {
        struct disk_reading *r = dlc_container(l, struct disk_reading, link);

        if (!dlc_mono_passed(r->due, loop_now(n->loop)))
            continue;
        dlc_list_remove(l);
        dlc_list_push_tail(&late, l);
    }
    while (!dlc_list_empty(&late)) {
        struct disk_reading *r = dlc_container(late.next, struct disk_reading, link);

        dlc_list_remove(&r->link);
        leave_behind(r);
    }
    if (!dlc_list_empty(&n->disk_reads))
        loop_timer_set(n->loop, t, dlc_mono_add(loop_now(n->loop), LOOK_EVERY));
}
