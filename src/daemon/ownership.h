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
#include "cluster/peer/view.h"

struct dataset;
struct node;
struct node_events;

/* Cached answers of a dataset. */
struct ownership {
    uint8_t *owners;           /* two bits per sample: enum owner; cleared with each view */
    uint64_t version;          /* cluster_owners_version() of them */
    uint64_t place;            /* hash of where its objects lie; 0: not computed yet */
    uint8_t *pending;          /* a bit per sample: to be handed over; NULL: none */
    bool read_elsewhere;       /* the view says that other nodes read it ... */
    bool joined;               /* ... and the disk tier counts those as a job */
    struct dlc_mono served_at; /* when a peer read it from this node last */
    unsigned taking;           /* copies that are being taken from former owners */
    unsigned evicting;         /* commands to evict it that are not done: nothing is handed over */
    uint64_t owned, share;     /* bytes, as they are counted in tenant_memory */
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
/* The peer that is next to own it, if the owner is away: it may have read it. False: none. */
bool dataset_other_peer(struct dataset *ds, uint64_t sample, struct cluster_peer *out);

struct owner_absence {
    struct dlc_mono since; /* since when this node knows of it */
    bool said_goodbye;     /* the view says so; else nobody listens at its address: */
    struct cluster_peer owner;
};
/* Is the node that owns the sample, or owned it until its goodbye, not there, and may it come back
 * with a copy on its disk? */
bool dataset_owner_is_absent(struct dataset *ds, uint64_t sample, struct owner_absence *out);
/* Did this node own the sample until owners changed, and has the new owner not got our copy yet? */
bool dataset_gave_away(struct dataset *ds, uint64_t sample);
/* There is a copy here for the new owner: keep it as if it were ours, until ... */
void dataset_hand_over(struct dataset *ds, uint64_t sample);
bool dataset_hands_over(struct dataset *ds, uint64_t sample);
/* ... the new owner has got it, or it is here no more. */
void dataset_handed_over(struct dataset *ds, uint64_t sample, bool got);
/* Is it this node's to keep, among several: owned, or to be handed over? */
bool dataset_is_kept(struct dataset *ds, uint64_t sample);
/* The healthy peer that drains, or that owned it last or before that, and may have a copy. False:
 * none. */
enum former_owner { FORMER_DRAINING, FORMER_LAST, FORMER_EARLIER };
bool dataset_former_owner(struct dataset *ds, uint64_t sample, enum former_owner which,
                          struct cluster_peer *out);
/* Does another node of the cluster read it? */
bool dataset_read_elsewhere(const struct dataset *ds);
/* About how many bytes this node should keep for the cluster; 0: no readers, or not shared. */
uint64_t dataset_owned_bytes(const struct dataset *ds);

/* The sums of both over the datasets in each memory are tenant_memory.owned and .share. Call it when
 * one of them has changed; time and views change them, too, so all are counted again in steps. */
void ownership_count(struct dataset *ds);
bool ownership_count_some(struct node *n); /* False: it was the end of a pass */

extern const struct node_events ownership_events;

#endif
