// SPDX-License-Identifier: Apache-2.0
/*
 * Hedges of the fetch pipeline: finds the attempts that take longer than their source usually does,
 * so that the pipeline can ask the next source (source.h: least, most, slowest).
 *
 * All functions are L.
 */
#ifndef DLC_DAEMON_FETCH_HEDGE_H
#define DLC_DAEMON_FETCH_HEDGE_H

#include <stdbool.h>

struct fetch_attempt;
struct hedge;
struct node;

/* late(): the attempt is no longer watched. It may start and end others. */
struct hedge *hedge_new(struct node *n, unsigned n_sources, void (*late)(struct fetch_attempt *a));
void hedge_free(struct hedge **hp); /* nothing may be watched */

/* Watch an attempt of the source in this row, unless the source has deadlines of its own. patient:
 * no other source is left, so it has ten times as long. */
void hedge_watch(struct hedge *h, struct fetch_attempt *a, unsigned row, bool patient);
/* It has ended after a->took; the row learns from that. */
void hedge_ended(struct hedge *h, struct fetch_attempt *a, unsigned row);

#endif
