// SPDX-License-Identifier: Apache-2.0
/*
 * Which samples are this node's to read from the bucket and to keep, for all nodes of the cluster.
 * Only looks things up in the view; without a cluster all are ours.
 */
#ifndef DLC_DAEMON_OWNERSHIP_H
#define DLC_DAEMON_OWNERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct cluster_peer;
struct dataset;
struct node_events;

/* What is remembered of a dataset. */
struct ownership {
    uint8_t *whose;            /* two bits per sample: enum whose; forgotten with each view */
    uint64_t version;          /* cluster_owners_version() of them */
    bool read_elsewhere;       /* by others in the cluster, as the view says, ... */
    bool joined;               /* ... and the disk tier counts them as a job */
    struct dlc_mono served_at; /* when a peer read it from this node last */
};

/* What went between the nodes. */
struct peer_counts {
    uint64_t hits, misses, bytes;  /* read from peers */
    uint64_t served, served_bytes; /* to them */
};

/* Does this node read the sample's object for all? Also when there is no cluster. */
bool dataset_owns(struct dataset *ds, uint64_t sample);
/* The peer that does, and answers. False: none, so use the bucket. */
bool dataset_peer(struct dataset *ds, uint64_t sample, struct cluster_peer *out);
/* Does anybody in the cluster, besides our own sessions, read it? */
bool dataset_read_elsewhere(const struct dataset *ds);
/* About how many bytes this node should keep for all; 0: nobody reads it, or it is not shared. */
uint64_t dataset_owned_bytes(const struct dataset *ds);

extern const struct node_events ownership_events;

#endif
