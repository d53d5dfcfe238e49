// SPDX-License-Identifier: Apache-2.0
/*
 * Wait until the nodes of a cluster have done what they were told, with one bar for all of them.
 *
 * Who is done is said by events; how far the others are by the dataset's document. A node that
 * leaves, or is not heard of any more, is not waited for: it counts as failed. A listing the
 * manager gives to another node then, which an event says; when none comes, it has failed.
 */
#ifndef DLC_CLI_WAIT_NODES_H
#define DLC_CLI_WAIT_NODES_H

#include <stdint.h>

#include "cli/manager_client.h"
#include "cli/progress.h"

struct follow_node {
    char *name, *error; /* error: NULL while it goes well */
    bool over;
    uint64_t done, total, bytes;
};

struct follow {
    struct api *api;
    char *dataset;
    const char *op; /* "warm", "evict", "snapshot" */
    uint64_t after; /* the last event seen */
    uint64_t total; /* of samples, when it is known; 0 */
    struct follow_node *nodes;
    size_t n;
    bool over;       /* snapshot: it is listed */
    char *error;     /* snapshot: why not */
    unsigned missed; /* snapshot: looks at which the node that lists was not there */
};

/* Before the order is given: events up to now are of no interest. Gives *f; return it with
 * follow_release(). */
int follow_begin(struct follow *f, struct api *api, const char *dataset, const char *op,
                 struct dlc_err *err);
/* Until all `nodes` (names; borrowed) are done. How it went for each is in f->nodes. */
int follow_wait(struct follow *f, const json_t *nodes, struct progress *bar, struct dlc_err *err);
/* DLC_EBUCKET when some failed, with the first reason. */
int follow_result(const struct follow *f, struct dlc_err *err);
void follow_release(struct follow *f);

#endif
