// SPDX-License-Identifier: Apache-2.0
/*
 * The command `open`: what a client wants to open, and whether the manager must be asked first. It
 * need not
 *
 *     no cluster            for plain URLs; there are no names and no tokens
 *     inside `serve`        for plain URLs without a token, which are the daemon's own user's
 *
 * and a node of a cluster opens nothing without a token.
 */
#ifndef DLC_DAEMON_CLIENT_OPEN_H
#define DLC_DAEMON_CLIENT_OPEN_H

struct conn;
struct msg;

void client_open(struct conn *c, struct msg *m);

#endif
