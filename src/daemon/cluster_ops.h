// SPDX-License-Identifier: Apache-2.0
/*
 * What the daemon asks of its cluster: the only way from here to src/cluster, which calls the
 * daemon's functions as it likes. node.cluster_ops is set before the loop runs (struct node_start)
 * and does not change. NULL: this daemon is not of a cluster; then nobody has set a tenant, a
 * cluster's name or credentials on a dataset either (dataset.cid, keys).
 *
 * All on the node loop. Answers come on the loop, perhaps before the call returns.
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

/* g: borrowed; NULL: *err says why not. */
typedef void resolve_f(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg);

/* One who waits until the manager was asked for other credentials. */
struct credential_retry {
    struct dlc_list link;
    void (*done)(struct credential_retry *a, bool changed);
};

/* Takes *catalog, NULL when rc says that no peer has given it. */
typedef void borrowed_f(struct dataset *ds, int rc, struct catalog **catalog);

struct cluster_ops {
    /* Become a member, by node.membership; sets node.cluster, token, peers and shared. */
    int (*open)(struct node *n, struct dlc_err *err);
    /* The daemon is to end. True: first the cluster is left; then node_stop_now() is called. */
    bool (*leave)(struct node *n);
    void (*tick)(struct node *n);  /* several times a second */
    void (*close)(struct node *n); /* after the loop has ended; also when open() failed */
    void (*figures)(struct node *n, json_t *to); /* adds them to the answer of `stat` */

    /* Which dataset is it, and may the holder of the token (NULL: we ourselves) read it? `what`:
     * its URL (dlcache://NAME, or that of its bucket). An answer younger than `life` will do. */
    void (*resolve)(struct node *n, const char *token, const char *what, const char *endpoint,
                    struct dlc_dur life, resolve_f *done, void *arg);
    /* The bucket refuses what the dataset is read with: perhaps the manager has other credentials
     * by now. */
    void (*renew_credentials)(struct dataset *ds, struct credential_retry *a);
    /* Begin to take the catalog of this snapshot from a peer. False: there is no peer, and done()
     * is not called. */
    bool (*borrow_catalog)(struct dataset *ds, uint64_t snapshot, borrowed_f *done);

    const struct node_events *const *events; /* what the cluster hears of; NULL at the end */
};

#endif
