// SPDX-License-Identifier: Apache-2.0
/* The daemon of one node. */
#ifndef DLC_DAEMON_DAEMON_H
#define DLC_DAEMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/err.h"

struct cluster_ops;
struct node;

/* How a node is part of a cluster. Strings may be NULL. Borrowed while the daemon runs. */
struct node_cluster {
    bool inside;           /* the manager runs in this process: `manager` is not used */
    const char *manager;   /* addresses, as http_client_config.base */
    const char *name;      /* NULL: the host's */
    const char *listen;    /* HOST:PORT, of the peer server; NULL: none */
    const char *advertise; /* the address that peers connect to; NULL: that of listen */
    const char *api;       /* inside: HOST:PORT of the API; NULL: only the Unix socket */
    uint64_t capacity;     /* bytes for chunks; 0: the limits of memory and disk tier */
    unsigned gpus;
};

/* A server above the daemon (src/gateway). */
struct node_gateway {
    /* On the node's thread, before `ready`. Sets *state; release it also after a failure. */
    int (*open)(struct node *n, void **state, struct dlc_err *err);
    /* After the loop has ended, or before it began; NULL is allowed. */
    void (*close)(void **state);
};

struct node_start {
    /* Called once on the node's thread when the socket answers. Optional. */
    void (*ready)(void *arg);
    /* Called on the node's thread at SIGHUP, which does not end it. Optional. */
    void (*reload)(void *arg);
    void *arg;
    const struct node_cluster *cluster; /* NULL: none */
    const struct cluster_ops *ops;      /* with cluster: membership_ops of cluster/membership.h */
    const struct node_gateway *gateway; /* NULL: none */
};

/* Serve until SIGTERM, SIGINT, a `stop` message or the idle time. Blocks. Returns 0 or DLC_E*. */
int node_main(const struct config *c, const struct node_start *start, struct dlc_err *err);

#endif
