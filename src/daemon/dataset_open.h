// SPDX-License-Identifier: Apache-2.0
/*
 * Opens datasets: finds the one that is open, or loads its stored catalog, takes it from a peer, or
 * lists its bucket; then answers all who wait for it.
 */
#ifndef DLC_DAEMON_DATASET_OPEN_H
#define DLC_DAEMON_DATASET_OPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

struct conn;
struct dataset;
struct listing;
struct node;
struct open_request;

/* What becomes of a dataset: from its first question until it is READY or FAILED, and what later
 * questions compare with. */
struct dataset_opening {
    uint64_t wanted;     /* the snapshot that the manager named when it was opened; 0: none */
    uint64_t instead_of; /* it could not be had, or the client wanted it listed anew */
    uint64_t pinned;     /* opened for readers that asked for this snapshot; 0: it is the newest */
    bool loading;        /* LISTING: its stored catalog is looked for; nobody lists */
    uint64_t stored;     /* the newest stored snapshot, when that was done; 0: none */
    struct listing *listing;
    struct dlc_err error;    /* DATASET_FAILED */
    struct dlc_list openers; /* struct conn.waiting */
    struct dlc_list needers; /* struct dataset_waiter.link */
};

/* Find or start; the connection is answered when the dataset is READY or FAILED. */
void dataset_open(struct conn *c, const struct open_request *w);

/* One of the daemon itself that needs a dataset. */
struct dataset_waiter {
    struct dlc_list link;
    /* Once, perhaps before dataset_need() returns. ds is NULL when *err says why. */
    void (*ready)(struct dataset_waiter *d, struct dataset *ds, const struct dlc_err *err);
};
void dataset_need(struct node *n, const struct open_request *w, struct dataset_waiter *d);
/* Have it ready by the catalog that is stored here, if that one counts; else nothing happens. */
void dataset_reopen(struct node *n, const struct open_request *w);

#endif
