// SPDX-License-Identifier: Apache-2.0
/* A warm-up walks over a dataset and fetches its samples into a tier. */
#ifndef DLC_DAEMON_PREFETCH_WARM_H
#define DLC_DAEMON_PREFETCH_WARM_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/list.h"
#include "daemon/fetch/fetch.h"

struct conn;
struct dataset;
struct node;

struct warm {
    uint32_t tag;
    struct fetch_listener listener;
    struct node *node;
    struct dlc_list link;
    uint64_t conn; /* id; if it closes, the walk continues to its end */
    struct dataset *ds;
    enum fetch_goal goal;
    uint64_t next, end; /* samples [next, end) are still to be started */
    uint64_t done, failed, bytes, running, total;
    uint64_t left; /* found no room */
    bool full;     /* start no more: count what is left */
    struct dlc_err first_error;
    void (*ended)(struct warm *w, void *arg); /* replaces the answer to a connection; or NULL */
    void *arg;
};

/* The connection is answered when the walk ends. False: too many are in progress. */
bool warm_start(struct conn *c, struct dataset *ds, enum fetch_goal goal);
/* The same for a command of the manager: those of samples [first, first + count) that this node
 * owns. */
bool warm_start_command(struct dataset *ds, enum fetch_goal goal, uint64_t first, uint64_t count,
                        void (*ended)(struct warm *w, void *arg), void *arg);
/* End commands that warm this dataset of the cluster: it is to be evicted. */
void warm_cut(struct node *n, const char *cid, const char *tenant);
/* 0: everything is cached. Else what is not and why, with what to do. */
int warm_shortfall(const struct warm *w, struct dlc_err *err);
json_t *warm_figures(const struct warm *w);
/* Start one more fetch; false: nothing left to start. */
bool warm_step(struct warm *w);
void warm_progress(struct warm *w);
void warm_free(struct warm **wp);

#endif
