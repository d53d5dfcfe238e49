// SPDX-License-Identifier: Apache-2.0
/*
 * Blocking requests: the request, and the condition that wakes the caller, are on the caller's
 * stack.
 */
#include <string.h>

#include "base/check.h"
#include "base/cancel.h"
#include "bucket/bucket_i.h"

struct waiter {
    struct dlc_mtx mtx; /* rank LCK_sync */
    struct dlc_cond cond;
    bool done; /* G: mtx */
};

struct read_wait {
    struct bucket_read r;
    struct waiter w;
};

struct stat_wait {
    struct bucket_stat s;
    struct waiter w;
};

struct list_wait {
    struct bucket_list l;
    struct waiter w;
};

static void waiter_init(struct waiter *w, const struct bucket *b)
{
    for (unsigned i = 0; i < b->n_lanes; i++) /* a lane that waits for itself never wakes */
        dlc_check(!pthread_equal(b->lanes[i].thread, pthread_self()));
    dlc_mtx_init(&w->mtx, LCK_sync);
    dlc_cond_init(&w->cond);
    w->done = false;
}

/* The waiter may be gone as soon as the lock is free. */
static void waiter_wake(struct waiter *w)
{
    dlc_mtx_lock(&w->mtx);
    w->done = true;
    dlc_cond_signal(&w->cond);
    dlc_mtx_unlock(&w->mtx);
}

/* For a moment; is it done? */
static bool waiter_look(struct waiter *w)
{
    bool done;

    dlc_mtx_lock(&w->mtx);
    if (!w->done)
        dlc_cond_wait_for(&w->cond, &w->mtx, INTERRUPT_EVERY);
    done = w->done;
    dlc_mtx_unlock(&w->mtx);
    return done;
}

static void waiter_wait(struct waiter *w)
{
    dlc_mtx_lock(&w->mtx);
    while (!w->done)
        dlc_cond_wait(&w->cond, &w->mtx);
    dlc_mtx_unlock(&w->mtx);
    dlc_cond_release(&w->cond);
    dlc_mtx_release(&w->mtx);
}

static int outcome(int rc, const struct dlc_err *from, struct dlc_err *err)
{
    if (err != NULL)
        *err = *from;
    return rc;
}

static void read_done(struct bucket_read *r)
{
    waiter_wake(&dlc_container(r, struct read_wait, r)->w);
}

static void cancel(struct bucket *b, struct read_wait *x)
{
    dlc_mtx_lock(&x->w.mtx); /* done() has not returned while it is held */
    if (!x->w.done)
        bucket_read_cancel(b, &x->r);
    dlc_mtx_unlock(&x->w.mtx);
}

int bucket_read_wait(struct bucket *b, const char *key, const char *etag, uint64_t offset,
                     uint64_t length, bool whole, void *dst, struct dlc_err *err)
{
    struct read_wait x = {.r = {.key = key,
                                .etag = etag,
                                .offset = offset,
                                .length = length,
                                .whole = whole,
                                .dst = dst,
                                .done = read_done}};

    waiter_init(&x.w, b);
    bucket_read(b, &x.r);
    while (interrupt_may_come() && !waiter_look(&x.w)) {
        if (interrupted()) {
            cancel(b, &x);
            break;
        }
    }
    waiter_wait(&x.w);
    return outcome(x.r.rc, &x.r.err, err);
}

struct reads_wait {
    struct waiter w;
    size_t left; /* G: w.mtx */
};

static void one_done(struct bucket_read *r)
{
    struct reads_wait *x = r->priv;

    dlc_mtx_lock(&x->w.mtx);
    x->w.done = --x->left == 0;
    dlc_cond_signal(&x->w.cond);
    dlc_mtx_unlock(&x->w.mtx);
}

int bucket_read_all_wait(struct bucket *b, struct bucket_read *reads, size_t n, struct dlc_err *err)
{
    struct reads_wait x = {.left = n};

    if (n == 0)
        return 0;
    waiter_init(&x.w, b);
    for (size_t i = 0; i < n; i++) {
        reads[i].done = one_done;
        reads[i].priv = &x;
        bucket_read(b, &reads[i]);
    }
    waiter_wait(&x.w);
    for (size_t i = 0; i < n; i++)
        if (reads[i].rc < 0)
            return outcome(reads[i].rc, &reads[i].err, err);
    return 0;
}

static void stat_done(struct bucket_stat *s)
{
    waiter_wake(&dlc_container(s, struct stat_wait, s)->w);
}

int bucket_stat_wait(struct bucket *b, const char *key, struct bucket_stat *out,
                     struct dlc_err *err)
{
    struct stat_wait x = {.s = {.key = key, .done = stat_done}};

    waiter_init(&x.w, b);
    bucket_stat(b, &x.s);
    waiter_wait(&x.w);
    *out = x.s;
    return outcome(x.s.rc, &x.s.err, err);
}

static void list_done(struct bucket_list *l)
{
    waiter_wake(&dlc_container(l, struct list_wait, l)->w);
}

int bucket_list_wait(struct bucket *b, const char *prefix,
                     bool (*page)(struct bucket_list *, const struct bucket_object *, size_t),
                     void *priv, struct dlc_err *err)
{
    struct list_wait x = {.l = {.prefix = prefix, .page = page, .done = list_done, .priv = priv}};

    waiter_init(&x.w, b);
    bucket_list(b, &x.l);
    waiter_wait(&x.w);
    return outcome(x.l.rc, &x.l.err, err);
}
