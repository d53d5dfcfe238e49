// SPDX-License-Identifier: Apache-2.0
/*
 * Inside a node's knowledge of its cluster (view.h).
 *
 *     view.c      the view: who owns what
 *     grants.c    the datasets that the manager has resolved
 */
#ifndef DLC_CLUSTER_PEER_VIEW_I_H
#define DLC_CLUSTER_PEER_VIEW_I_H

#include "base/clock.h"
#include "base/hash.h"
#include "base/rendezvous.h"
#include "cluster/peer/view.h"

struct member {
    char *name, *address;
    double weight;
    bool live;                  /* owns */
    bool answers;               /* also while it drains */
    bool away;                  /* it said goodbye, and may come back with its copies */
    bool disk;                  /* it has copies on a disk */
    bool new;                   /* it did not answer in the view before */
    struct dlc_mono away_since; /* when this node heard of it */
};

/* Nodes that may own chunks of a dataset. */
struct owners {
    struct owner_node *nodes;
    unsigned *member; /* of the view, for each */
    size_t n;
};

struct placed {
    char *id;
    struct owners owners;   /* n 0: all */
    struct owners draining; /* these and those that drain; n 0: all of them */
    struct owners away;     /* these and those that are away; n 0: all of them */
    struct cluster_use use;
};

/* Who owned what before owners changed. n_members 0: not known. */
#define OLD_VIEWS 3
struct old_owners {
    struct member *members;
    size_t n_members;
    struct owners all;
    struct placed *placed;
    size_t n_placed;
};

struct keepless { /* a job that keeps nothing */
    char *id, *dataset;
    uint64_t part;
};

struct known {
    unsigned char key[SHA256_LEN]; /* of token and what was asked */
    struct grant grant;
    struct dlc_mono given;
};

struct cluster {
    char *name;
    uint64_t version, owners_version;
    uint64_t owners_hash;   /* of all owners and their weights */
    struct member *members; /* sorted by name */
    size_t n_members;
    struct owners all;
    struct owners draining; /* all, and those that drain */
    struct owners leaving;  /* those that drain alone */
    struct owners away;     /* all, and those that are away */
    struct placed *placed;  /* sorted by id */
    size_t n_placed;
    struct old_owners old[OLD_VIEWS]; /* the newest first */
    struct dlc_mono since;            /* the first view; 0: none yet */
    struct keepless *jobs;            /* sorted by id and dataset */
    size_t n_jobs;
    struct known *known;
    size_t n_known, cap_known;
};

void grants_release(struct cluster *c); /* all of them */

#endif
