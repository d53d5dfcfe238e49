// SPDX-License-Identifier: Apache-2.0
/*
 * A work queue: jobs in the order they came, and threads that run them. A job runs exactly once
 * unless it is taken back before it begins; its result usually travels by loop_post.
 *
 * A queue may have a bound in jobs and in bytes, so that what waits in it cannot grow without end:
 * pool_try_run() asks for it. A job that finds the queue empty always gets in, whatever its size.
 */
#ifndef DLC_BASE_THREAD_POOL_H
#define DLC_BASE_THREAD_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"

struct pool;

struct job {
    void (*run)(struct job *j); /* on a worker thread; may free j */
    struct dlc_list link;       /* G: the pool's lock */
    uint64_t bytes;             /* counts against the queue's bound; 0: does not */
    struct dlc_mono queued;     /* G: the pool's lock */
};

struct pool_figures {
    uint64_t queued, queued_bytes, running;
    uint64_t refused;       /* jobs that found it full, so far */
    struct dlc_dur waiting; /* the job that waits longest now; 0: none waits */
    struct dlc_dur longest; /* the longest that any has waited so far */
    struct dlc_dur busiest; /* the job that runs longest now; 0: none runs */
};

struct pool *pool_new(const char *name, unsigned threads, struct dlc_err *err);
void pool_set_bound(struct pool *p, uint64_t jobs, uint64_t bytes); /* 0: none */
void pool_run(struct pool *p, struct job *j);                       /* X: whatever the bound */
bool pool_try_run(struct pool *p, struct job *j); /* X: false: full, and nothing happened */
/* X: take a job out of the queue that it was put into; false: it has begun, or has ended. */
bool pool_take_back(struct pool *p, struct job *j);
void pool_figures(struct pool *p, struct pool_figures *out); /* X */
void pool_free(struct pool **pp);                            /* runs all queued jobs, then joins */

#endif
