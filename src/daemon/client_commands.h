// SPDX-License-Identifier: Apache-2.0
/* Commands of clients over the daemon's socket; docs/format/protocol.md lists them. */
#ifndef DLC_DAEMON_CLIENT_COMMANDS_H
#define DLC_DAEMON_CLIENT_COMMANDS_H

struct client_ops;

/* For server_open(). Each message is a command; a connection has a session or waits for a dataset.
 */
extern const struct client_ops client_command_ops;

#endif
