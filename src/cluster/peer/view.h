// SPDX-License-Identifier: Apache-2.0
/*
 * A node's knowledge of its cluster: the view (live nodes, owners, readers) and the datasets that
 * its manager has resolved. It only stores; the agent asks. L: the node loop's.
 *
 * (CLUSTER-VIEW-1) With one view, cluster_owns() gives the same answer on all nodes.
 * (CLUSTER-VIEW-2) A grant is used for GRANT_LIFE after the manager gave it, and longer only while
 *                  the manager cannot be asked.
 * (CLUSTER-VIEW-3) A grant is found only by the token it was given for, which is kept as its
 *                  SHA-256.
 */
#ifndef DLC_CLUSTER_PEER_VIEW_H
#define DLC_CLUSTER_PEER_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"

struct cluster;

/* name: of this node. */
struct cluster *cluster_new(const char *name);
void cluster_free(struct cluster **cp);

/* ---- the view ---- */

/* Replace the view, unless the new one is older. Borrows. DLC_EPROTO: it is not a view. */
int cluster_take_view(struct cluster *c, const json_t *view, struct dlc_err *err);
/* The same in steps, since a view has a row for each dataset of the cluster: X: read it, ... */
struct cluster_view;
int cluster_read_view(const json_t *view, struct cluster_view **out, struct dlc_err *err);
/* ... L: use it, which takes time for each node only, ... */
void cluster_use_view(struct cluster *c, struct cluster_view *v);
/* ... and X: free what is left of it and of the view before. */
void cluster_view_free(struct cluster_view **vp);
/* A manager has accepted this node, possibly one that has lost its store: accept its next view
 * whatever its version. */
void cluster_joined(struct cluster *c);
uint64_t cluster_version(const struct cluster *c); /* 0: none yet */
unsigned cluster_live(const struct cluster *c);    /* nodes that own samples */
/* Grows when owners may have changed. */
uint64_t cluster_owners_version(const struct cluster *c);

struct cluster_peer {
    const char *name, *address; /* borrowed until the next view */
};

/*
 * Which node should read this object from the bucket? `object` is a hash that names it; the dataset
 * says on which nodes it may be. True: this one (also if unknown). False:
 * *peer. A peer for which skip() is true is passed over for the next best. skip may be NULL.
 */
bool cluster_owns(const struct cluster *c, const char *dataset, uint64_t object,
                  bool (*skip)(const struct cluster_peer *peer, void *arg), void *arg,
                  struct cluster_peer *peer);

/* Of the peers that own chunks the one that is next to own this object, if it does not own it now.
 * False: there is none. */
bool cluster_best_peer(const struct cluster *c, const char *dataset, uint64_t object,
                       bool (*skip)(const struct cluster_peer *peer, void *arg), void *arg,
                       struct cluster_peer *peer);
/* Would a node that said goodbye lately own the object, and has it on its disk perhaps? *since: when
 * this node heard of the goodbye. */
bool cluster_owner_is_away(const struct cluster *c, const char *dataset, uint64_t object,
                           struct dlc_mono *since);
bool cluster_has_disk(const struct cluster *c, const char *name);
/* The nodes that answer since this view, by number from 0. False: no more. */
bool cluster_new_peer(const struct cluster *c, size_t i, struct cluster_peer *out);

/* A peer that owned this object before owners changed: it may have a copy. By number: the last one is
 * 0. A node that has joined lately takes the one that would own it without this node for the last.
 * False: there is none, or it does not answer. */
bool cluster_previous_owner(const struct cluster *c, const char *dataset, uint64_t object,
                            unsigned nth, struct cluster_peer *out);
/* The same of the nodes that drain: the one that would own it if they were alone. */
bool cluster_draining_peer(const struct cluster *c, const char *dataset, uint64_t object,
                           struct cluster_peer *out);
/* Did this node own the object until owners changed last, or until it began to drain? Another one
 * owns it now. */
bool cluster_gave_away(const struct cluster *c, const char *dataset, uint64_t object);
bool cluster_is_draining(const struct cluster *c); /* this node */
/* Another node that answers. */
bool cluster_peer_named(const struct cluster *c, const char *name, struct cluster_peer *out);

/* The approximate share of the dataset that this node owns. */
double cluster_share(const struct cluster *c, const char *dataset);

/* The other nodes that answer, by number from 0. False: no more. */
bool cluster_peer_at(const struct cluster *c, size_t i, struct cluster_peer *out);

struct cluster_use {
    uint64_t readers; /* jobs and sessions in the whole cluster */
    int64_t runs;     /* how often it will still be read; -1: not known */
};
/* Zeros when the view does not mention it. */
struct cluster_use cluster_use(const struct cluster *c, const char *dataset);

struct cluster_job {
    bool bypasses_cache; /* it bypasses the cache */
    uint64_t part;       /* bytes at a time on a node; 0: no limit */
};
/* Zeros when the view does not mention it, or not with this dataset. */
struct cluster_job cluster_job(const struct cluster *c, const char *id, const char *dataset);

/* ---- datasets and who may read them ---- */

struct grant {
    char *dataset, *tenant; /* dataset: its id (base/dataset_name.h) */
    char *name;             /* what the tenant calls it */
    char *url;
    char *endpoint, *region; /* or NULL */
    bool anonymous;
    uint64_t snapshot;                             /* the current one; 0: none yet */
    char *access_key, *secret_key, *session_token; /* NULL: none were given */
    char *ticket;                 /* for peers (base/ticket.h); NULL: this node has yet to join */
    struct dlc_mono ticket_renew; /* when to ask for the next one */
    char *record; /* how it is registered, sealed by the manager; NULL: it did not say */
};

#define GRANT_LIFE DLC_SEC(60)

enum grant_age { GRANT_FRESH, GRANT_OLD, GRANT_NONE };
/* token NULL: the node itself asks. what: a name or URL. A grant younger than `life` is fresh.
 * Borrowed until the next change of grants. */
enum grant_age cluster_granted(const struct cluster *c, const char *token, const char *what,
                               struct dlc_mono now, struct dlc_dur life, const struct grant **out);
/* The manager's answer. DLC_EPROTO: it lacks something. */
int cluster_grant(struct cluster *c, const char *token, const char *what, const json_t *answer,
                  struct dlc_mono now, struct dlc_err *err);
void cluster_forget(struct cluster *c, const char *dataset); /* marks all its grants as old */
void cluster_revoke(struct cluster *c, const char *token, const char *what);

#endif
