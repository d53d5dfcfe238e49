// SPDX-License-Identifier: Apache-2.0
/*
 * How many threads: as many as keep the consumer from waiting, and no more. Pure: told what was
 * measured for each batch, it answers with a number.
 *
 *     need = time that threads took to make a batch / time the consumer takes for one (smoothed)
 *
 * It begins with all, so that the first batch comes soon. Whenever the consumer waited, one more,
 * or at once as many as are needed; when batches were ready for long, down towards the need, half
 * of the way at a time.
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
