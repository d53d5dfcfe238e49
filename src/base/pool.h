// SPDX-License-Identifier: Apache-2.0
/* Worker threads for blocking jobs. A job runs exactly once; its result usually travels by
 * loop_post. */
#ifndef DLC_BASE_POOL_H
#define DLC_BASE_POOL_H

#include "base/err.h"
#include "base/list.h"

struct pool;

struct job {
    void (*run)(struct job *j); /* on a worker thread; may free j */
    struct dlc_list link;       /* G: the pool's lock */
};

struct pool *pool_new(const char *name, unsigned threads, struct dlc_err *err);
void pool_run(struct pool *p, struct job *j); /* X */
void pool_free(struct pool **pp);             /* runs all queued jobs, then joins */

#endif
