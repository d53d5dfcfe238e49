// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "base/syscalls.h"

struct pool {
    struct dlc_mtx mtx; /* rank LCK_pool */
    struct dlc_cond more;
    struct dlc_list queue;    /* G: mtx */
    uint64_t n_queued, bytes; /* G: mtx: work in it, and its bytes */
    uint64_t max_queued;      /* G: mtx; 0: no bound */
    uint64_t max_bytes;       /* G: mtx; 0: no bound */
    uint64_t refused;         /* G: mtx */
    struct dlc_dur longest;   /* G: mtx: wait so far */
    bool closing;             /* G: mtx */
    unsigned n;
    struct worker {
        pthread_t thread;
        struct pool *pool;
        struct dlc_mono began; /* G: pool->mtx: its work; 0: it has none */
        bool joined;           /* by pool_free_within() */
    } workers[];
};

/* The next one, or NULL. */
static struct work *next_locked(struct pool *p, struct dlc_mono now)
{
    struct dlc_list *n = dlc_list_pop_head(&p->queue);
    struct work *w;

    if (n == NULL)
        return NULL;
    w = dlc_container(n, struct work, link);
    p->n_queued--;
    p->bytes -= w->bytes;
    p->longest.ns = DLC_MAX(p->longest.ns, dlc_mono_sub(now, w->queued).ns);
    return w;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;

    dlc_mtx_lock(&p->mtx);
    for (;;) {
        struct dlc_mono now = dlc_mono_now();
        struct work *work = next_locked(p, now);

        if (work != NULL) {
            w->began = now;
            dlc_mtx_unlock(&p->mtx);
            work->run(work);
            dlc_mtx_lock(&p->mtx);
            w->began.ns = 0;
        } else if (p->closing) {
            break;
        } else {
            dlc_cond_wait(&p->more, &p->mtx);
        }
    }
    dlc_mtx_unlock(&p->mtx);
    return NULL;
}

struct pool *pool_new(const char *name, unsigned threads, struct dlc_err *err)
{
    struct pool *p = mem_zero(sizeof(*p) + threads * sizeof(p->workers[0]));

    dlc_mtx_init(&p->mtx, LCK_pool);
    dlc_cond_init(&p->more);
    dlc_list_init(&p->queue);
    for (p->n = 0; p->n < threads; p->n++) {
        struct worker *w = &p->workers[p->n];

        w->pool = p;
        errno = os_thread(&w->thread, worker_main, w);
        if (errno != 0) {
            dlc_err_sys(err, "cannot start worker thread %u of %u", p->n + 1, threads);
            pool_free(&p);
            return NULL;
        }
        pthread_setname_np(w->thread, name);
    }
    return p;
}

void pool_set_bound(struct pool *p, uint64_t queued, uint64_t bytes)
{
    dlc_mtx_lock(&p->mtx);
    p->max_queued = queued;
    p->max_bytes = bytes;
    dlc_mtx_unlock(&p->mtx);
}

static bool is_full_locked(const struct pool *p, uint64_t bytes)
{
    return p->n_queued > 0 && ((p->max_queued > 0 && p->n_queued >= p->max_queued) ||
                               (p->max_bytes > 0 && p->bytes + bytes > p->max_bytes));
}

static bool enqueue(struct pool *p, struct work *w, bool bounded)
{
    bool full;

    dlc_mtx_lock(&p->mtx);
    full = bounded && is_full_locked(p, w->bytes);
    if (full) {
        p->refused++;
    } else {
        w->queued = dlc_mono_now();
        dlc_list_push_tail(&p->queue, &w->link);
        p->n_queued++;
        p->bytes += w->bytes;
    }
    dlc_mtx_unlock(&p->mtx);
    if (!full)
        dlc_cond_signal(&p->more);
    return !full;
}

void pool_run(struct pool *p, struct work *w)
{
    enqueue(p, w, false);
}

bool pool_try_run(struct pool *p, struct work *w)
{
    return enqueue(p, w, true);
}

bool pool_take_back(struct pool *p, struct work *w)
{
    bool waits;

    dlc_mtx_lock(&p->mtx);
    waits = !dlc_list_empty(&w->link);
    if (waits) {
        dlc_list_remove(&w->link);
        p->n_queued--;
        p->bytes -= w->bytes;
    }
    dlc_mtx_unlock(&p->mtx);
    return waits;
}

void pool_figures(struct pool *p, struct pool_figures *out)
{
    struct dlc_mono now = dlc_mono_now();

    *out = (struct pool_figures){0};
    dlc_mtx_lock(&p->mtx);
    out->queued = p->n_queued;
    out->queued_bytes = p->bytes;
    out->refused = p->refused;
    if (!dlc_list_empty(&p->queue)) /* the first came first */
        out->waiting = dlc_mono_sub(now, dlc_container(p->queue.next, struct work, link)->queued);
    out->longest.ns = DLC_MAX(p->longest.ns, out->waiting.ns);
    for (unsigned i = 0; i < p->n; i++) {
        if (p->workers[i].began.ns == 0)
            continue;
        out->running++;
        out->busiest.ns = DLC_MAX(out->busiest.ns, dlc_mono_sub(now, p->workers[i].began).ns);
    }
    dlc_mtx_unlock(&p->mtx);
}

/* Let its threads end. */
static void end_threads(struct pool *p)
{
    dlc_mtx_lock(&p->mtx);
    p->closing = true;
    dlc_mtx_unlock(&p->mtx);
    dlc_cond_broadcast(&p->more);
}

/* Its threads have ended. */
static void release(struct pool **pp)
{
    dlc_mtx_release(&(*pp)->mtx);
    dlc_cond_release(&(*pp)->more);
    mem_free(pp);
}

void pool_free(struct pool **pp)
{
    struct pool *p = *pp;

    *pp = NULL;
    if (p == NULL)
        return;
    end_threads(p);
    for (unsigned i = 0; i < p->n; i++)
        pthread_join(p->workers[i].thread, NULL);
    release(&p);
}

bool pool_free_within(struct pool **pp, struct dlc_dur limit)
{
    struct timespec until;
    struct pool *p = *pp;
    unsigned left = 0;

    if (p == NULL)
        return true;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += limit.ns / DLC_SEC(1).ns + 1;
    end_threads(p);
    for (unsigned i = 0; i < p->n; i++) {
        struct worker *w = &p->workers[i];

        w->joined = w->joined || pthread_timedjoin_np(w->thread, NULL, &until) == 0;
        left += !w->joined;
    }
    if (left == 0)
        release(pp);
    return left == 0;
}
