// SPDX-License-Identifier: Apache-2.0
/* Shuts the daemon down within two seconds of SIGTERM, even if something hangs. */
#ifndef DLC_DAEMON_ENDING_H
#define DLC_DAEMON_ENDING_H

struct node;

/* L: start the shutdown: the node leaves its cluster, then the tick winds the daemon down. */
void node_stop(struct node *n);
void node_stop_now(struct node *n); /* L: the node has left its cluster */
void ending_over(struct node *n);   /* everything has ended */

#endif
