// SPDX-License-Identifier: Apache-2.0
/*
 * A file beside the socket, SOCKET.node, that says: a node of a cluster serves here. The node writes
 * it when it joins, and leaves it when it ends, crashes or is upgraded. So nobody starts a
 * stand-alone daemon in the node's place, with other settings and without the cluster's datasets:
 * programs wait for the node. Whoever takes the machine out of the cluster removes the file.
 */
#ifndef DLC_IPC_NODE_MARKER_H
#define DLC_IPC_NODE_MARKER_H

#include "base/err.h"

int node_marker_write(const char *socket, const char *name, const char *manager,
                      struct dlc_err *err);

/* 0: a stand-alone daemon may serve here. Else `code`, with whose place it is and what to do. */
int node_marker_refuse(const char *socket, int code, struct dlc_err *err);

/* "node NAME of MANAGER"; NULL: no node was ever here. Gives. */
char *node_marker_read(const char *socket);

#endif
