// SPDX-License-Identifier: Apache-2.0
/*
 * The work queue: keys, each once.
 *
 *     (absent) --add--> DUE at a time --take--> WORKED ON --done--> (absent)
 *                                               WORKED ON --again, failed--> DUE later
 *                        WORKED ON --add--> WORKED ON + wanted --done, failed--> DUE at once, later
 *
 * (WORK-QUEUE-1) A key is worked on by one thread at a time. (WORK-QUEUE-2) A key added while it is
 * worked on comes again. (WORK-QUEUE-3) After the nth failure in a row a key waits first * 2^(n-1),
 * at most `most`, less up to a tenth of it by chance; success forgets. (WORK-QUEUE-4) An add makes
 * a waiting key due at once; one that failed, not before its back-off or a second is over,
 * whichever is shorter, nor before the time that the server asked for (at_least): its own writes
 * must not wake it in circles. Equal times: first come, first served.
 */
#ifndef DLC_OPERATOR_KUBE_WORK_QUEUE_H
#define DLC_OPERATOR_KUBE_WORK_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct queue;

struct queue_config {
    struct dlc_dur first, most; /* 0: 10 ms, 5 min */
};

struct queue *queue_new(const struct queue_config *c);
void queue_free(struct queue **qp); /* closed, and no key is worked on */

/* Any thread. */
void queue_add(struct queue *q, const char *key);
void queue_add_after(struct queue *q, const char *key, struct dlc_dur after); /* then or sooner */

/* Wait for a key that is due, at most so long (ns < 0: for ever). Gives it to this worker, or NULL:
 * the time is over, or the queue is closed. Every key taken goes back by one of the three below,
 * which take it. */
char *queue_take(struct queue *q, struct dlc_dur wait);
void queue_done(struct queue *q, char **key);                        /* well done */
void queue_again(struct queue *q, char **key, struct dlc_dur after); /* well, but look again */
void queue_failed(struct queue *q, char **key, struct dlc_dur at_least);

void queue_close(struct queue *q); /* takers get NULL; adding does nothing from now on */

struct queue_figures {
    size_t due, waiting, working;    /* now */
    uint64_t added, taken, failures; /* so far */
    struct dlc_dur oldest;           /* how late the first key that is due is */
};
void queue_figures(struct queue *q, struct queue_figures *out);

#endif
