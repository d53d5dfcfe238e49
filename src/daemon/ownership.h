// SPDX-License-Identifier: Apache-2.0
/*
 * Ownership: which samples this node reads from the bucket and keeps, on behalf of all nodes of the
 * cluster. Only reads the view; without a cluster this node owns all samples.
 */
#ifndef DLC_DAEMON_OWNERSHIP_H
#define DLC_DAEMON_OWNERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct cluster_peer;
struct dataset;
struct node_events;

/* Cached answers of a dataset. */
struct ownership {
    uint8_t *owners;           /* two bits per sample: enum owner; cleared with each view */
    uint64_t version;          /* cluster_owners_version() of them */
    bool read_elsewhere;       /* the view says that other nodes read it ... */
    bool joined;               /* ... and the disk tier counts those as a job */
    struct dlc_mono served_at; /* when a peer read it from this node last */
};

/* Traffic between nodes. */
struct peer_counts {
    uint64_t hits, misses, bytes;  /* read from peers */
    uint64_t served, served_bytes; /* to them */
};

/* Does this node read the sample's object on behalf of all? True without a cluster. */
bool dataset_owns(struct dataset *ds, uint64_t sample);
/* The peer that owns it and is healthy. False: none, so use the bucket. */
bool dataset_peer(struct dataset *ds, uint64_t sample, struct cluster_peer *out);
/* Does another node of the cluster read it? */
bool dataset_read_elsewhere(const struct dataset *ds);
/* About how many bytes this node should keep for the cluster; 0: no readers, or not shared. */
uint64_t dataset_owned_bytes(const struct dataset *ds);

extern const struct node_events ownership_events;

#endif
