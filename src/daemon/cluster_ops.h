// SPDX-License-Identifier: Apache-2.0
/*
 * Operations that the daemon calls on its cluster: the only way from src/daemon to src/cluster,
 * which may call any function of the daemon. node.cluster_ops is set before the loop runs (struct
 * node_start) and does not change. NULL: this daemon is not in a cluster; then no dataset has a
 * tenant, a cluster name or credentials (dataset.cid, keys).
 *
 * All run on the node loop. Answers arrive on the loop, possibly before the call returns.
 */
#ifndef DLC_DAEMON_CLUSTER_OPS_H
#define DLC_DAEMON_CLUSTER_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/list.h"

struct catalog;
struct dataset;
struct dlc_err;
struct grant;
struct node;
struct node_events;

/* g: borrowed; NULL: *err has the reason. */
typedef void resolve_f(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg);

/* err: borrowed; NULL: it is one, or nobody can tell. snapshot: what its ranks read, on all nodes; 0:
 * none has opened the dataset yet, or nobody can tell. */
typedef void job_check_f(struct node *n, uint64_t snapshot, const struct dlc_err *err, void *arg);

/* The owner of a token, as the manager says. */
struct token_owner {
    bool admin;         /* it is a token of admins or of nodes */
    const char *tenant; /* "": none */
};
/* o: borrowed; NULL: *err has the reason. */
typedef void identify_f(struct node *n, const struct token_owner *o, const struct dlc_err *err,
                        void *arg);

/* A caller that waits until the manager was asked for new credentials. */
struct credential_retry {
    struct dlc_list link;
    void (*done)(struct credential_retry *a, bool changed);
};

/* Takes *catalog; it is NULL if no peer sent the catalog, and rc has the reason. */
typedef void borrowed_f(struct dataset *ds, int rc, struct catalog **catalog);

struct cluster_ops {
    /* Join the cluster as node.membership says; sets node.cluster, token, peers and shared. */
    int (*open)(struct node *n, struct dlc_err *err);
    /* The daemon is to end. True: the node leaves the cluster first, then node_stop_now() is
     * called. */
    bool (*leave)(struct node *n);
    void (*tick)(struct node *n);  /* several times a second */
    void (*close)(struct node *n); /* after the loop has ended; also when open() failed */
    void (*figures)(struct node *n, json_t *to); /* adds figures to the answer of `stat` */

    /* Which dataset is meant, and may the holder of the token (NULL: this node) read it? `what` is
     * its URL (dlcache://NAME, or that of its bucket). A cached answer younger than `life` is
     * accepted. */
    void (*resolve)(struct node *n, const char *token, const char *what, const char *endpoint,
                    struct dlc_dur life, resolve_f *done, void *arg);
    /* Is it a registered job that reads this dataset, and at which snapshot? opened: what a rank is
     * about to read, unless another rank was first; 0: not known yet. */
    void (*check_job)(struct node *n, const char *job, const char *tenant, const char *dataset,
                      uint64_t opened, job_check_f *done, void *arg);
    /* Whose is this token? The manager is asked each time, except for the node's own. */
    void (*identify)(struct node *n, const char *token, identify_f *done, void *arg);
    /* The bucket refuses the dataset's credentials: ask the manager for new ones. */
    void (*renew_credentials)(struct dataset *ds, struct credential_retry *a);
    /* Start to copy the catalog of this snapshot from a peer. False: there is no peer, and done()
     * is not called. */
    bool (*borrow_catalog)(struct dataset *ds, uint64_t snapshot, borrowed_f *done);

    const struct node_events *const *events; /* the cluster's event listeners; ends with NULL */
};

#endif
