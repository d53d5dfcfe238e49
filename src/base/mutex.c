// SPDX-License-Identifier: Apache-2.0
#include "base/mutex.h"

#include <errno.h>
#include <time.h>

#include "base/check.h"

#ifdef DLC_DEBUG
static _Thread_local unsigned held_ranks[16];
static _Thread_local unsigned n_held;

static void push_rank(enum lock_rank rank)
{
    dlc_check(n_held == 0 || held_ranks[n_held - 1] < (unsigned)rank);
    dlc_check(n_held < DLC_COUNT(held_ranks));
    held_ranks[n_held++] = (unsigned)rank;
}

static void pop_rank(enum lock_rank rank)
{
    dlc_check(n_held > 0 && held_ranks[n_held - 1] == (unsigned)rank);
    n_held--;
}

#define release_check(cond) dlc_check(cond)
#else
static void push_rank(enum lock_rank rank)
{
    (void)rank;
}
static void pop_rank(enum lock_rank rank)
{
    (void)rank;
}

/* In a forked child a thread of the parent may seem to hold it; that is no reason to end a
 * training process. */
#define release_check(cond) ((void)(cond))
#endif

void dlc_mtx_init(struct dlc_mtx *m, enum lock_rank rank)
{
    pthread_mutex_init(&m->m, NULL);
    m->rank = rank;
    m->held = 0;
}

void dlc_mtx_release(struct dlc_mtx *m)
{
    int rc = pthread_mutex_destroy(&m->m);

    release_check(rc == 0);
}

void dlc_mtx_lock(struct dlc_mtx *m)
{
    push_rank(m->rank);
    dlc_check(pthread_mutex_lock(&m->m) == 0);
    m->held = 1;
}

bool dlc_mtx_trylock(struct dlc_mtx *m)
{
    int rc = pthread_mutex_trylock(&m->m);

    dlc_check(rc == 0 || rc == EBUSY);
    if (rc != 0)
        return false;
    push_rank(m->rank);
    m->held = 1;
    return true;
}

void dlc_mtx_unlock(struct dlc_mtx *m)
{
    enum lock_rank rank = m->rank; /* once unlocked, *m may be gone */

    dlc_check(m->held);
    m->held = 0;
    dlc_check(pthread_mutex_unlock(&m->m) == 0);
    pop_rank(rank);
}

void dlc_mtx_assert_held(const struct dlc_mtx *m)
{
    dlc_check(m->held);
}

void dlc_cond_init(struct dlc_cond *c)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->c, &attr);
    pthread_condattr_destroy(&attr);
}

void dlc_cond_release(struct dlc_cond *c)
{
    pthread_cond_destroy(&c->c);
}

void dlc_cond_wait(struct dlc_cond *c, struct dlc_mtx *m)
{
    dlc_check(m->held);
    m->held = 0;
    dlc_check(pthread_cond_wait(&c->c, &m->m) == 0);
    m->held = 1;
}

int dlc_cond_wait_for(struct dlc_cond *c, struct dlc_mtx *m, struct dlc_dur d)
{
    struct timespec ts;
    int64_t ns;
    int rc;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    ns = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec + d.ns;
    ts.tv_sec = (time_t)(ns / 1000000000);
    ts.tv_nsec = (long)(ns % 1000000000);
    dlc_check(m->held);
    m->held = 0;
    rc = pthread_cond_timedwait(&c->c, &m->m, &ts);
    m->held = 1;
    dlc_check(rc == 0 || rc == ETIMEDOUT);
    return rc;
}

void dlc_cond_signal(struct dlc_cond *c)
{
    pthread_cond_signal(&c->c);
}

void dlc_cond_broadcast(struct dlc_cond *c)
{
    pthread_cond_broadcast(&c->c);
}
