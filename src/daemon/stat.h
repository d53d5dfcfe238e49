// SPDX-License-Identifier: Apache-2.0
/* Answers `dlcache stat`: figures of the daemon and its datasets. */
#ifndef DLC_DAEMON_STAT_H
#define DLC_DAEMON_STAT_H

struct conn;
struct msg;

void stat_handle(struct conn *c, struct msg *m); /* the message `stat` */

#endif
