// SPDX-License-Identifier: Apache-2.0
/*
 * Thread autotuning: as many threads as keep the consumer from waiting, and no more. Pure: it gets
 * the measurements of each batch and returns a number.
 *
 *     need = time that threads took to make a batch / time the consumer takes for one (smoothed)
 *
 * It begins with all threads, so that the first batch comes soon. When the consumer waited, one
 * more thread, or at once as many as needed; when batches were ready for long, fewer, half of the
 * distance to the need at a time.
 */
#ifndef DLC_LOADER_AUTOTUNE_H
#define DLC_LOADER_AUTOTUNE_H

struct pace {
    unsigned most, now;
    unsigned patience;     /* batches in a row that found the ring full */
    double make_s, step_s; /* smoothed; negative: nothing measured yet */
};

struct pace_batch {
    double waited_s;      /* the consumer, for this batch */
    double step_s;        /* between the batch before and asking for this one */
    double make_s;        /* all threads together, for its samples */
    unsigned ready, ring; /* batches that were ready when it asked, of so many */
};

void pace_init(struct pace *p, unsigned most);
unsigned pace_step(struct pace *p, const struct pace_batch *b);

#endif
