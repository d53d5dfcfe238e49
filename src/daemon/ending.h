// SPDX-License-Identifier: Apache-2.0
/* Ends the daemon, within two seconds of SIGTERM, whatever hangs. */
#ifndef DLC_DAEMON_ENDING_H
#define DLC_DAEMON_ENDING_H

struct node;

/* L: the daemon is to end: it leaves its cluster, then the tick winds it down. */
void node_stop(struct node *n);
void node_stop_now(struct node *n); /* L: the cluster is left */
void ending_over(struct node *n);   /* everything has ended */

#endif
