// SPDX-License-Identifier: Apache-2.0
/*
 * Waits until the nodes of a cluster have executed a command, with one progress bar for all.
 *
 * Events say which nodes have finished; the dataset's document says how far the others are. A node
 * that leaves or is declared dead counts as failed. The manager then gives a listing to another
 * node, which an event reports; if there is none, the listing has failed.
 */
#ifndef DLC_CLI_WAIT_NODES_H
#define DLC_CLI_WAIT_NODES_H

#include <stdint.h>

#include "cli/manager_commands.h"
#include "cli/progress.h"

struct node_progress {
    char *name, *error; /* error: NULL while it goes well */
    bool over;
    uint64_t done, total, bytes;
};

struct wait_nodes {
    struct api *api;
    char *dataset;
    const char *op; /* "warm", "evict", "snapshot" */
    uint64_t after; /* the last event seen */
    uint64_t total; /* of samples, when it is known; 0 */
    struct node_progress *nodes;
    size_t n;
    bool over;       /* snapshot: it is listed */
    char *error;     /* snapshot: why not */
    unsigned missed; /* snapshot: checks at which the node that lists was not there */
};

/* Before the command is sent: earlier events do not count. Gives *w; return it with
 * wait_nodes_release(). */
int wait_nodes_begin(struct wait_nodes *w, struct api *api, const char *dataset, const char *op,
                     struct dlc_err *err);
/* What the manager calls it in events, if it was asked for by another name. "": the same. */
void wait_nodes_set_dataset(struct wait_nodes *w, const char *name);
/* Until all `nodes` (names; borrowed) are done. How it went for each is in w->nodes. */
int wait_nodes_run(struct wait_nodes *w, const json_t *nodes, struct progress *bar,
                   struct dlc_err *err);
/* DLC_EBUCKET when some failed, with the first reason. */
int wait_nodes_result(const struct wait_nodes *w, struct dlc_err *err);
void wait_nodes_release(struct wait_nodes *w);

#endif
