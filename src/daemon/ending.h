// SPDX-License-Identifier: Apache-2.0
/* Ends the daemon within two seconds of SIGTERM, whatever hangs. */
#ifndef DLC_DAEMON_ENDING_H
#define DLC_DAEMON_ENDING_H

struct node;

void ending_begin(struct node *n); /* from now on there is little time; again is a no-op */
void ending_over(struct node *n);  /* everything has ended */

#endif
