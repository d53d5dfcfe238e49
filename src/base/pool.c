// SPDX-License-Identifier: Apache-2.0
#include "base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/mem.h"
#include "base/mtx.h"
#include "base/os.h"

struct pool {
    struct dlc_mtx mtx; /* rank LCK_pool */
    struct dlc_cond more;
    struct dlc_list queue; /* G: mtx */
    bool closing;          /* G: mtx */
    unsigned n;
    pthread_t threads[];
};

static void *worker(void *arg)
{
    struct pool *p = arg;
    struct dlc_list *n;

    dlc_mtx_lock(&p->mtx);
    for (;;) {
        n = dlc_list_pop_head(&p->queue);
        if (n != NULL) {
            struct job *j = dlc_container(n, struct job, link);

            dlc_mtx_unlock(&p->mtx);
            j->run(j);
            dlc_mtx_lock(&p->mtx);
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
    struct pool *p = mem_zero(sizeof(*p) + threads * sizeof(p->threads[0]));

    dlc_mtx_init(&p->mtx, LCK_pool);
    dlc_cond_init(&p->more);
    dlc_list_init(&p->queue);
    for (p->n = 0; p->n < threads; p->n++) {
        errno = os_thread(&p->threads[p->n], worker, p);
        if (errno != 0) {
            dlc_err_sys(err, "cannot start worker thread %u of %u", p->n + 1, threads);
            pool_free(&p);
            return NULL;
        }
        pthread_setname_np(p->threads[p->n], name);
    }
    return p;
}

void pool_run(struct pool *p, struct job *j)
{
    dlc_mtx_lock(&p->mtx);
    dlc_list_push_tail(&p->queue, &j->link);
    dlc_mtx_unlock(&p->mtx);
    dlc_cond_signal(&p->more);
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
        pthread_join(p->threads[i], NULL);
    dlc_mtx_release(&p->mtx);
    dlc_cond_release(&p->more);
    mem_free(&p);
}
