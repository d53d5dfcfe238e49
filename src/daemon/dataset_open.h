// SPDX-License-Identifier: Apache-2.0
/*
 * Opens datasets: finds one that is open, or loads its stored catalog, copies the catalog from a
 * peer, or lists the bucket; then answers every client that waits for it.
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

/* State of opening a dataset, from the first request until it is READY or FAILED; later requests
 * compare with it. */
struct dataset_opening {
    uint64_t wanted;     /* the snapshot that the manager named when it was opened; 0: none */
    uint64_t instead_of; /* it was not available, or the client asked for a new listing */
    uint64_t pinned;     /* opened for readers that asked for this snapshot; 0: it is the newest */
    bool loading;        /* LISTING: looking for its stored catalog; no listing runs */
    uint64_t stored;     /* the newest stored snapshot, once known; 0: none */
    struct listing *listing;
    struct dlc_err error;    /* DATASET_FAILED */
    struct dlc_list openers; /* struct conn.waiting */
    struct dlc_list waiters; /* struct dataset_waiter.link */
};

/* Find or start; the connection is answered when the dataset is READY or FAILED. */
void dataset_open(struct conn *c, const struct open_request *w);
/* `ds` is READY, and the client is to read it. */
void dataset_answer(struct conn *c, struct dataset *ds);

/* A module of the daemon that needs a dataset. */
struct dataset_waiter {
    struct dlc_list link;
    /* Called once, possibly before dataset_need() returns. If ds is NULL, *err has the reason. */
    void (*ready)(struct dataset_waiter *d, struct dataset *ds, const struct dlc_err *err);
};
void dataset_need(struct node *n, const struct open_request *w, struct dataset_waiter *d);
/* Make it ready from its stored catalog, if the manager did not name another snapshot; otherwise do
 * nothing. */
void dataset_reopen(struct node *n, const struct open_request *w);

#endif
