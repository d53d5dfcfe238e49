// SPDX-License-Identifier: Apache-2.0
/*
 * A file beside the socket, SOCKET.node, that says: a node of a cluster serves here. The node writes
 * it when it joins, and leaves it when it ends, crashes or is upgraded. So nobody starts a
 * stand-alone daemon in the node's place, with other settings and without the cluster's datasets:
 * programs wait for the node. Whoever takes the machine out of the cluster removes the file.
 */
#ifndef DLC_IPC_NODE_MARKER_H
#define DLC_IPC_NODE_MARKER_H

#include "base/config.h"
#include "base/err.h"

struct node_marker {
    char *name, *manager;
    char *ca; /* PEM file with the manager's authority; "": none */
};
#define NODE_MARKER_INIT                                                                           \
    {                                                                                              \
        NULL, NULL, NULL                                                                           \
    }

/* ca: NULL: none. */
int node_marker_write(const char *socket, const char *name, const char *manager, const char *ca,
                      struct dlc_err *err);

/*
 * The node of c->socket, for who shows a token to its manager. False: there is no marker, or a user
 * wrote it whose daemon would not be trusted either. Gives *out; node_marker_release().
 */
bool node_marker_load(const struct config *c, struct node_marker *out);
void node_marker_release(struct node_marker *m);

/* 0: a stand-alone daemon may serve here. Else `code`, with whose place it is and what to do. */
int node_marker_refuse(const char *socket, int code, struct dlc_err *err);

/* "node NAME of MANAGER"; NULL: no node was ever here. Gives. */
char *node_marker_read(const char *socket);

#endif
