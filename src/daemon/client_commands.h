// SPDX-License-Identifier: Apache-2.0
/* Commands of clients over the daemon's socket; docs/format/protocol.md lists them. */
#ifndef DLC_DAEMON_CLIENT_COMMANDS_H
#define DLC_DAEMON_CLIENT_COMMANDS_H

struct conn;
struct msg;

/* Handle one message of a greeted connection. */
void client_command(struct conn *c, struct msg *m);

#endif
