// SPDX-License-Identifier: Apache-2.0
/* The daemon of one node. */
#ifndef DLC_NODE_NODE_H
#define DLC_NODE_NODE_H

#include "base/config.h"
#include "base/err.h"

struct node_start {
    /* Called once on the node's thread when the socket answers. Optional. */
    void (*ready)(void *arg);
    void *arg;
};

/* Serve until SIGTERM, SIGINT, a `stop` message or the idle time. Blocks. Returns 0 or DLC_E*. */
int node_main(const struct config *c, const struct node_start *start, struct dlc_err *err);

#endif
