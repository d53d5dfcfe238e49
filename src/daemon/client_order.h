// SPDX-License-Identifier: Apache-2.0
/*
 * The command `order` of a client (docs/format/protocol.md): a session announces what it will read.
 *
 *     sequential, shuffled   computed here from a few numbers; with swaps, if the client made some
 *     explicit               a list of sample numbers in sealed memory; later one list more
 *
 * Lists and swaps are long, so a worker thread reads them; the loop then hands the schedule to
 * prefetch, which follows it.
 */
#ifndef DLC_DAEMON_CLIENT_ORDER_H
#define DLC_DAEMON_CLIENT_ORDER_H

struct conn;
struct msg;

void client_order(struct conn *c, struct msg *m); /* L: answers now or later */

#endif
