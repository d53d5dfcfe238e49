// SPDX-License-Identifier: Apache-2.0
/*
 * Work classes: the blocking work of the daemon, by who waits for it. Each class has its own queue
 * and threads, so that a class whose threads all hang stops no other: a reader's miss does not wait
 * for writes, for archives that are catalogued, or for a file system that is asked for its free
 * space. work.c has the table.
 */
#ifndef DLC_DAEMON_WORK_H
#define DLC_DAEMON_WORK_H

#include <jansson.h>

#include "base/thread_pool.h"

enum work_class {
    WORK_DEMAND,     /* disk reads that a reader waits for */
    WORK_PREFETCH,   /* disk reads ahead of readers */
    WORK_STORE,      /* disk writes */
    WORK_CATALOG,    /* making catalogs and unpacked copies: waits for buckets */
    WORK_COPY,       /* memory only: uploads of decoded samples, checksums */
    WORK_BACKGROUND, /* evictions, figures, chunks of an earlier daemon */
    WORK_CLOSE,      /* descriptors that clients chose: client_fds.h. It may never end: the process
                        does not wait for it */
};
#define N_WORK 7

struct work_queues;

struct work_queues *work_new(struct dlc_err *err);
void work_free(struct work_queues **wp); /* runs what is queued, then joins; see WORK_CLOSE */

/* X. False: the queue is full; the table says what its callers do then. bytes: memory that the work
 * holds while it waits. */
bool work_try(struct work_queues *q, enum work_class c, struct work *w, uint64_t bytes);
/* X: for work that each caller has at most one of, which bounds the queue. */
void work_run(struct work_queues *q, enum work_class c, struct work *w);
/* X: remove it from the queue; false: it has started. */
bool work_take_back(struct work_queues *q, enum work_class c, struct work *w);

uint64_t work_bytes(enum work_class c);                         /* the bound of its queue */
uint64_t work_queued(struct work_queues *q, enum work_class c); /* X: work that waits */

struct work_figures {
    const char *name;
    unsigned threads;
    uint64_t bound; /* of its queue; 0: none */
    struct pool_figures pool;
};
void work_figures(struct work_queues *q, struct work_figures out[static N_WORK]); /* X */
json_t *work_json(struct work_queues *w); /* {"CLASS": {"queued", ...}}. Gives */

#endif
