// SPDX-License-Identifier: Apache-2.0
/* Starts queued prefetches and warm-ups while there is room for more fetches. */
#ifndef DLC_DAEMON_PREFETCH_PUMP_H
#define DLC_DAEMON_PREFETCH_PUMP_H

struct node;
struct timer;

void prefetch_pump(struct node *n);        /* at most one turn of work; the timer continues */
void prefetch_pump_again(struct timer *t); /* node.pump fires */

#endif
