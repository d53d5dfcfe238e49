// SPDX-License-Identifier: Apache-2.0
/*
 * The command `open`: which dataset a client wants, and whether the manager must be asked first.
 * The manager is not asked
 *
 *     without a cluster     for plain URLs; there are no names and no tokens
 *     inside `serve`        for plain URLs without a token, which belong to the daemon's own user
 *
 * A node of a cluster opens nothing without a token.
 */
#ifndef DLC_DAEMON_CLIENT_OPEN_H
#define DLC_DAEMON_CLIENT_OPEN_H

struct conn;
struct msg;

void client_open(struct conn *c, struct msg *m);

#endif
