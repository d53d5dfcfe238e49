// SPDX-License-Identifier: Apache-2.0
/*
 * file://: a directory as a bucket. File systems block, so the work is done by a pool of threads
 * and its result posted back to the lane. What the work is: file_io.c, file_list.c.
 *
 *     call: WAITING --worker--> RUNNING --worker--> BACK --lane--> done(), freed
 *           WAITING --cancel--> DROPPED --worker--> freed
 *           RUNNING --cancel--> (waits for BACK), done(ECANCELED); freed when its task runs
 *
 * (FILE-ORIGIN-1) The state changes under the origin's lock. A worker writes into attempt and dst
 *                 only while RUNNING, except `received` and `first_byte`, which are the lane's.
 * (FILE-ORIGIN-2) When cancel returns, the call's task is in the lane's inbox or will never be
 *                 posted, so a lane can stop after its last attempt.
 * (FILE-ORIGIN-3) A cancel waits for at most one slice of a read. On a file system that hangs for
 *                 good (a dead NFS server) it hangs too, and with it this bucket's lane, but nobody
 *                 else's.
 */
#include <sys/types.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread_pool.h"
#include "bucket/origins/file_i.h"

#define CALL_TAG DLC_TAG4('f', 'c', 'a', 'l')
#define THREADS  16

enum call_state { CALL_WAITING, CALL_RUNNING, CALL_BACK, CALL_DROPPED };

struct file_origin {
    struct origin o;
    char *root, *below; /* below: or NULL */
    bool confined;
    struct pool *pool;
    struct dlc_mtx mtx;   /* rank LCK_origin */
    struct dlc_cond back; /* a call that somebody cancels has come back */
    struct loop *loops[];
};

struct file_call {
    uint32_t tag;
    struct file_origin *f;
    struct work work;
    struct task task;
    enum call_state state; /* G: f->mtx */
    _Atomic bool stop;     /* W lane, R worker, relaxed: a late look only delays the end */
    struct file_work io;   /* io.a is NULL once cancelled */
    struct loop *loop;
};

static struct file_origin *file_of(struct origin *o)
{
    return dlc_container(o, struct file_origin, o);
}

static struct file_call *call_of(struct attempt *a)
{
    struct file_call *c = a->priv;

    dlc_check(c != NULL && c->tag == CALL_TAG);
    return c;
}

static void call_free(struct file_call *c)
{
    c->tag = 0;
    mem_free(&c);
}

static void do_work(struct file_work *w)
{
    switch (w->a->op) {
    case ATTEMPT_GET: file_get(w); break;
    case ATTEMPT_STAT: file_stat(w); break;
    case ATTEMPT_LIST: file_list(w); break;
    }
}

static void on_worker(struct work *w)
{
    struct file_call *c = dlc_container(w, struct file_call, work);
    struct file_origin *f = c->f;
    bool dropped;

    dlc_mtx_lock(&f->mtx);
    dropped = c->state == CALL_DROPPED;
    if (!dropped)
        c->state = CALL_RUNNING;
    dlc_mtx_unlock(&f->mtx);
    if (dropped) {
        call_free(c);
        return;
    }
    do_work(&c->io);
    dlc_mtx_lock(&f->mtx);
    c->state = CALL_BACK;
    if (atomic_load_explicit(&c->stop, memory_order_relaxed)) /* set before the wait, under mtx */
        dlc_cond_broadcast(&f->back);
    loop_post(c->loop, &c->task);
    dlc_mtx_unlock(&f->mtx);
}

static void on_back(struct task *t)
{
    struct file_call *c = dlc_container(t, struct file_call, task);
    struct attempt *a = c->io.a;

    if (a != NULL) {
        a->received = atomic_load_explicit(&c->io.progress, memory_order_relaxed); /* by mtx */
        a->first_byte = dlc_mono_now();
        a->priv = NULL;
    }
    call_free(c);
    if (a != NULL)
        a->done(a);
}

static void file_start(struct origin *o, struct attempt *a)
{
    struct file_origin *f = file_of(o);
    struct file_call *c = mem_new(struct file_call);

    c->tag = CALL_TAG;
    c->f = f;
    c->work.run = on_worker;
    c->task.run = on_back;
    c->loop = f->loops[a->lane];
    c->io.a = a;
    c->io.root = f->root;
    c->io.below = f->below;
    c->io.confined = f->confined;
    c->io.stop = &c->stop;
    a->rc = 0;
    a->priv = c;
    pool_run(f->pool, &c->work);
}

static void file_cancel(struct origin *o, struct attempt *a)
{
    struct file_origin *f = file_of(o);
    struct file_call *c = call_of(a);

    dlc_mtx_lock(&f->mtx);
    atomic_store_explicit(&c->stop, true, memory_order_relaxed); /* also read under mtx */
    if (c->state == CALL_WAITING)
        c->state = CALL_DROPPED;
    while (c->state == CALL_RUNNING)
        dlc_cond_wait(&f->back, &f->mtx);
    c->io.a = NULL;
    dlc_mtx_unlock(&f->mtx);
    a->priv = NULL;
    a->rc = dlc_err_set(&a->err, DLC_ECANCELED, "cancelled");
    a->done(a);
}

static void file_progress(struct origin *o, struct attempt *a)
{
    (void)o;
    a->received = atomic_load_explicit(&call_of(a)->io.progress, memory_order_relaxed); /* a hint */
}

static int file_lane_open(struct origin *o, unsigned lane, struct loop *loop, struct dlc_err *err)
{
    (void)err;
    file_of(o)->loops[lane] = loop;
    return 0;
}

static void file_free(struct origin *o)
{
    struct file_origin *f = file_of(o);

    pool_free(&f->pool);
    dlc_cond_release(&f->back);
    dlc_mtx_release(&f->mtx);
    mem_free(&f->root);
    mem_free(&f->below);
    mem_free(&f);
}

static const struct origin_ops file_ops = {
    .name = "file",
    .lane_open = file_lane_open,
    .start = file_start,
    .cancel = file_cancel,
    .progress = file_progress,
    .free = file_free,
    .folders = true,
    .folders_free = true,
};

int origin_file_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                    struct origin **out, struct dlc_err *err)
{
    struct file_origin *f = mem_zero(sizeof(*f) + lanes * sizeof(f->loops[0]));
    int rc = 0;

    f->o.ops = &file_ops;
    f->o.lanes = lanes;
    f->root = mem_str(u->prefix);
    f->below = mem_str(c->below);
    f->confined = c->confined;
    dlc_mtx_init(&f->mtx, LCK_origin);
    dlc_cond_init(&f->back);
    f->pool = pool_new("file", THREADS, err);
    if (f->pool == NULL) {
        rc = err == NULL ? DLC_EIO : err->code;
        file_free(&f->o);
        f = NULL;
    }
    *out = f == NULL ? NULL : &f->o;
    return rc;
}
