// SPDX-License-Identifier: Apache-2.0
/*
 * A thread pool: a queue of work, first in first out, and threads that run it. Each struct work
 * runs exactly once unless it is taken back before it begins; its result usually travels by
 * loop_post.
 *
 * A queue may have a bound in length and in bytes, so that it cannot grow without end:
 * pool_try_run() checks it. Work that finds the queue empty always gets in, whatever its size.
 */
#ifndef DLC_BASE_THREAD_POOL_H
#define DLC_BASE_THREAD_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"

struct pool;

struct work {
    void (*run)(struct work *w); /* on a worker thread; may free w */
    struct dlc_list link;        /* G: the pool's lock */
    uint64_t bytes;              /* counts against the queue's bound; 0: does not */
    struct dlc_mono queued;      /* G: the pool's lock */
};

struct pool_figures {
    uint64_t queued, queued_bytes, running;
    uint64_t refused;       /* how often it was full, so far */
    struct dlc_dur waiting; /* the work that waits longest now; 0: none waits */
    struct dlc_dur longest; /* the longest that any has waited so far */
    struct dlc_dur busiest; /* the work that runs longest now; 0: none runs */
};

struct pool *pool_new(const char *name, unsigned threads, struct dlc_err *err);
void pool_set_bound(struct pool *p, uint64_t queued, uint64_t bytes); /* 0: none */
void pool_run(struct pool *p, struct work *w);                        /* X: whatever the bound */
bool pool_try_run(struct pool *p, struct work *w); /* X: false: full, and nothing happened */
/* X: take work out of the queue that it was put into; false: it has begun, or has ended. */
bool pool_take_back(struct pool *p, struct work *w);
void pool_figures(struct pool *p, struct pool_figures *out); /* X */
void pool_free(struct pool **pp);                            /* runs all queued work, then joins */
/* The same, if that takes hardly longer. False: *pp stays as it is, for another call or for the end
 * of the process. */
bool pool_free_within(struct pool **pp, struct dlc_dur limit);

#endif
