// SPDX-License-Identifier: Apache-2.0
/*
 * The command `open`: which dataset a client wants, and whether the manager must be asked first.
 * The manager is not asked
 *
 *     without a cluster     for plain URLs; there are no names and no tokens
 *     inside `serve`        for plain URLs without a token, which belong to the daemon's own user
 *
 * A node of a cluster opens nothing without a token.
 *
 * Ranks of a registered job read one snapshot on all nodes (SNAP-5 of snapshot.c). The manager names
 * it when it is asked for the job. If no rank was there before, the node opens the newest, and asks
 * again with that one before the client is answered: of two nodes that do so at a time, one opens
 * what the other has opened.
 */
#ifndef DLC_DAEMON_CLIENT_OPEN_H
#define DLC_DAEMON_CLIENT_OPEN_H

#include <stdbool.h>

struct conn;
struct dataset;
struct msg;

void client_open(struct conn *c, struct msg *m);
/* `ds` is ready for the client. True: its job has yet to agree on the snapshot, and this module
 * answers the client. */
bool client_open_agree(struct conn *c, struct dataset *ds);
void client_open_forget(struct conn *c); /* the connection closes */

#endif
