// SPDX-License-Identifier: Apache-2.0
/* Counts how each read was served: reused, prefetched, or late (the reader waited). */
#ifndef DLC_DAEMON_PREFETCH_READ_OUTCOMES_H
#define DLC_DAEMON_PREFETCH_READ_OUTCOMES_H

#include <stdint.h>

#include <jansson.h>

struct dataset;
struct node_events;
struct session;

/* Outcomes of samples that cursors have passed: each counts in one of the three. */
struct outcomes_sum {
    uint64_t reuse;  /* in memory since an earlier use */
    uint64_t ahead;  /* fetched before it was asked for */
    uint64_t waited; /* the reader waited for it */
};

/* Of a dataset. */
struct outcomes {
    uint8_t *bits;             /* two bits per sample; NULL: no order was announced yet */
    struct outcomes_sum reads; /* of all cursors, past and present */
    uint64_t fetched;          /* samples that came from the bucket */
};

#define OUTCOMES_EPOCHS 4 /* are remembered of a session */

struct outcomes_epoch {
    uint64_t epoch;
    struct outcomes_sum sum;
};

void outcomes_begin(struct session *s); /* another order: earlier counts stay */
void outcomes_mark_late(struct session *s, uint64_t sample); /* a reader asks for it and waits */
json_t *outcomes_json(const struct outcomes_sum *sum);       /* Gives */
json_t *outcomes_epochs(const struct session *s);            /* the latest first. Gives */

extern const struct node_events outcomes_events;

#endif
