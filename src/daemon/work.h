// SPDX-License-Identifier: Apache-2.0
/*
 * Work classes: the blocking work of the daemon, by what hangs on it. Each class has a queue and
 * threads of its own, so that a class whose threads all hang stops nobody else: a reader's miss
 * does not wait for writes, for archives that are catalogued, or for a file system that is asked
 * for its free space. work.c has the table.
 */
#ifndef DLC_DAEMON_WORK_H
#define DLC_DAEMON_WORK_H

#include <jansson.h>

#include "base/thread_pool.h"

enum work_class {
    WORK_DEMAND,     /* disk reads that a reader waits for */
    WORK_PREFETCH,   /* disk reads ahead of readers */
    WORK_STORE,      /* disk writes */
    WORK_CATALOG,    /* catalogs and derived forms are made: waits for buckets */
    WORK_COPY,       /* memory only: decoded samples that clients hand over, checksums */
    WORK_BACKGROUND, /* evictions, figures, what an earlier daemon has left */
};
#define N_WORK 6

struct work_queues;

struct work_queues *work_new(struct dlc_err *err);
void work_free(struct work_queues **wp); /* runs what is queued, then joins */

/* X: false: the queue is full; the table says what its callers do then. bytes: that the work holds
 * while it waits. */
bool work_try(struct work_queues *q, enum work_class c, struct work *w, uint64_t bytes);
/* X: for work of which each caller has one at a time, which bounds the queue. */
void work_run(struct work_queues *q, enum work_class c, struct work *w);
/* X: out of the queue again; false: it has begun. */
bool work_take_back(struct work_queues *q, enum work_class c, struct work *w);

uint64_t work_bytes(enum work_class c);   /* the bound of its queue */
json_t *work_json(struct work_queues *w); /* {"CLASS": {"queued", ...}}. Gives */

#endif
