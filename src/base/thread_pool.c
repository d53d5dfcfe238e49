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
    uint64_t n_queued, bytes; /* G: mtx: jobs in it, and their bytes */
    uint64_t max_jobs;        /* G: mtx; 0: no bound */
    uint64_t max_bytes;       /* G: mtx; 0: no bound */
    uint64_t refused;         /* G: mtx */
    struct dlc_dur longest;   /* G: mtx: wait so far */
    bool closing;             /* G: mtx */
    unsigned n;
    struct worker {
        pthread_t thread;
        struct pool *pool;
        struct dlc_mono began; /* G: pool->mtx: its job; 0: it has none */
    } workers[];
};

/* The next one, or NULL. */
static struct job *next_locked(struct pool *p, struct dlc_mono now)
{
    struct dlc_list *n = dlc_list_pop_head(&p->queue);
    struct job *j;

    if (n == NULL)
        return NULL;
    j = dlc_container(n, struct job, link);
    p->n_queued--;
    p->bytes -= j->bytes;
    p->longest.ns = DLC_MAX(p->longest.ns, dlc_mono_sub(now, j->queued).ns);
    return j;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;

    dlc_mtx_lock(&p->mtx);
    for (;;) {
        struct dlc_mono now = dlc_mono_now();
        struct job *j = next_locked(p, now);

        if (j != NULL) {
            w->began = now;
            dlc_mtx_unlock(&p->mtx);
            j->run(j);
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

void pool_set_bound(struct pool *p, uint64_t jobs, uint64_t bytes)
{
    dlc_mtx_lock(&p->mtx);
    p->max_jobs = jobs;
    p->max_bytes = bytes;
    dlc_mtx_unlock(&p->mtx);
}

static bool is_full_locked(const struct pool *p, uint64_t bytes)
{
    return p->n_queued > 0 && ((p->max_jobs > 0 && p->n_queued >= p->max_jobs) ||
                               (p->max_bytes > 0 && p->bytes + bytes > p->max_bytes));
}

static bool enqueue(struct pool *p, struct job *j, bool bounded)
{
    bool full;

    dlc_mtx_lock(&p->mtx);
    full = bounded && is_full_locked(p, j->bytes);
    if (full) {
        p->refused++;
    } else {
        j->queued = dlc_mono_now();
        dlc_list_push_tail(&p->queue, &j->link);
        p->n_queued++;
        p->bytes += j->bytes;
    }
    dlc_mtx_unlock(&p->mtx);
    if (!full)
        dlc_cond_signal(&p->more);
    return !full;
}

void pool_run(struct pool *p, struct job *j)
{
    enqueue(p, j, false);
}

bool pool_try_run(struct pool *p, struct job *j)
{
    return enqueue(p, j, true);
}

bool pool_take_back(struct pool *p, struct job *j)
{
    bool waits;

    dlc_mtx_lock(&p->mtx);
    waits = !dlc_list_empty(&j->link);
    if (waits) {
        dlc_list_remove(&j->link);
        p->n_queued--;
        p->bytes -= j->bytes;
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
        out->waiting = dlc_mono_sub(now, dlc_container(p->queue.next, struct job, link)->queued);
    out->longest.ns = DLC_MAX(p->longest.ns, out->waiting.ns);
    for (unsigned i = 0; i < p->n; i++) {
        if (p->workers[i].began.ns == 0)
            continue;
        out->running++;
        out->busiest.ns = DLC_MAX(out->busiest.ns, dlc_mono_sub(now, p->workers[i].began).ns);
    }
    dlc_mtx_unlock(&p->mtx);
}

void pool_free(struct pool **pp)
{
    struct pool *p = *pp;

    *pp = NULL;
    if (p == NULL)
        return;
    dlc_mtx_lock(&p->mtx);
    p->closing = true;
    dlc_mtx_unlock(&p->mtx);
    dlc_cond_broadcast(&p->more);
    for (unsigned i = 0; i < p->n; i++)
        pthread_join(p->workers[i].thread, NULL);
    dlc_mtx_release(&p->mtx);
    dlc_cond_release(&p->more);
    mem_free(&p);
}
