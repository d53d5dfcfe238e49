// SPDX-License-Identifier: Apache-2.0
/* Computes when a resident sample is read next, for the choice of victims. */
#ifndef DLC_DAEMON_PREFETCH_NEXT_USE_H
#define DLC_DAEMON_PREFETCH_NEXT_USE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct dataset;
struct node_events;

/* The clock of a dataset's next uses. */
struct use_clock {
    double progress;          /* average position of its cursors */
    double pace;              /* seconds per sample, to compare with other datasets, ... */
    double anchor;            /* ... from this progress on, which was reached ... */
    struct dlc_mono anchored; /* ... then */
};

void next_use_begin(struct dataset *ds); /* the first session follows an order in it */
/* Sessions, orders or owners have changed: earlier answers to the memory tier are wrong. O(1) */
void next_use_changed(struct dataset *ds);
bool next_use_known(struct dataset *ds, uint64_t sample); /* does any session need it? */
/* In how many epochs is it needed again, after the use that it is brought for? INFINITY: nobody knows.
 */
double next_use_after(const struct dataset *ds, uint64_t sample);
void next_use_heed_weights(struct dataset *ds); /* they may have changed */
/* Keep its clock near real time. Only needed to compare datasets: within one dataset the order of
 * next uses is right. */
void next_use_keep_time(struct dataset *ds);

extern const struct node_events next_use_events;

#endif
