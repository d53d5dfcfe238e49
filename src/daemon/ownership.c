// SPDX-License-Identifier: Apache-2.0
/*
 * Ownership: which samples this node reads from the bucket and keeps, on behalf of all nodes of the
 * cluster. It is asked for every sample that arrives or gets a next use, so answers are cached, two
 * bits each, until the view changes.
 */
#include "daemon/ownership.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "cluster/peer/peer_client.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/state.h"
#include "catalog/catalog.h"
#include "catalog/sample.h"
#include "cluster/peer/view.h"

#define SERVED_LATELY DLC_SEC(60)
#define COUNTS        128u /* datasets counted in one turn of the loop */

enum owner {
    OWNER_UNKNOWN,
    OWNER_THIS_NODE,
    OWNER_PEER,
    OWNER_GOT_COPY, /* a peer that has been handed our copy */
};

static bool is_shared(const struct dataset *ds)
{
    return ds->cid != NULL && ds->node->cluster != NULL && cluster_live(ds->node->cluster) > 0;
}

/* The object that a sample is read from: the first, if they are several. */
static bool object_of(const struct dataset *ds, uint64_t sample, struct catalog_entry *out)
{
    struct catalog_sample s;
    int rc = DLC_ENOTFOUND;

    if (catalog_is_whole(ds->catalog))
        return catalog_get(ds->catalog, sample, out, NULL) == 0;
    if (catalog_sample(ds->catalog, sample, &s, NULL) == 0) {
        for (size_t i = 0; i < s.n_pieces && rc == DLC_ENOTFOUND; i++)
            if (s.pieces[i].kind != PIECE_INLINE)
                rc = catalog_object(ds->catalog, s.pieces[i].object, out, NULL);
    }
    catalog_sample_release(&s);
    return rc == 0;
}

/* Names an object on all nodes: where it lies, whatever dataset it is of, so that datasets that
 * overlap have their copies in common. Made of what the manager says of the dataset, not of this
 * node's settings. */
static uint64_t object_hash(struct dataset *ds, const struct catalog_entry *object)
{
    bool whole_keys = url_is_cloud(ds->url.scheme);
    uint64_t parts[2];

    if (ds->ownership.place == 0) {
        char *place = mem_fmt("%d\n%s\n%s\n%s", (int)ds->url.scheme,
                              ds->asked.endpoint != NULL ? ds->asked.endpoint : "",
                              ds->url.bucket != NULL ? ds->url.bucket : "",
                              whole_keys || ds->url.prefix == NULL ? "" : ds->url.prefix);

        ds->ownership.place = hash64_str(place) | 1;
        mem_free(&place);
    }
    parts[0] = ds->ownership.place;
    parts[1] = hash64_str(object->key);
    return hash64(parts, sizeof(parts));
}

/* To be handed over. It outlasts further changes of owners: the copy is still here. */
static bool is_pending(const struct dataset *ds, uint64_t sample)
{
    return ds->ownership.pending != NULL && (ds->ownership.pending[sample / 8] >> sample % 8 & 1);
}

static void set_pending(struct dataset *ds, uint64_t sample, bool pending)
{
    unsigned bit = 1u << sample % 8;
    uint8_t *at;

    if (ds->ownership.pending == NULL && !pending)
        return;
    if (ds->ownership.pending == NULL)
        ds->ownership.pending = mem_zero(catalog_count(ds->catalog) / 8 + 1);
    at = &ds->ownership.pending[sample / 8];
    *at = (uint8_t)(pending ? *at | bit : *at & ~bit);
}

static enum owner find_owner(struct dataset *ds, uint64_t sample)
{
    struct catalog_entry object;
    struct cluster_peer peer;

    if (!object_of(ds, sample, &object))
        return OWNER_THIS_NODE; /* it needs no bucket, or the read will say what is wrong */
    if (cluster_owns(ds->node->cluster, ds->cid, object_hash(ds, &object), NULL, NULL, &peer)) {
        set_pending(ds, sample, false);
        return OWNER_THIS_NODE;
    }
    return OWNER_PEER;
}

static uint8_t *cached_owners(struct dataset *ds)
{
    uint64_t version = cluster_owners_version(ds->node->cluster);
    size_t bytes = catalog_count(ds->catalog) / 4 + 1;

    if (ds->ownership.owners == NULL) {
        ds->ownership.owners = mem_zero(bytes);
        ds->ownership.version = version;
    } else if (ds->ownership.version != version) {
        memset(ds->ownership.owners, 0, bytes);
        ds->ownership.version = version;
    }
    return ds->ownership.owners;
}

static enum owner owner_of_sample(struct dataset *ds, uint64_t sample)
{
    unsigned shift = (unsigned)(sample % 4) * 2;
    uint8_t *at;
    unsigned owner;

    if (!is_shared(ds))
        return OWNER_THIS_NODE;
    at = cached_owners(ds) + sample / 4;
    owner = (*at >> shift) & 3u;
    if (owner == OWNER_UNKNOWN) {
        owner = find_owner(ds, sample);
        *at = (uint8_t)(*at | owner << shift);
    }
    return (enum owner)owner;
}

bool dataset_owns(struct dataset *ds, uint64_t sample)
{
    return owner_of_sample(ds, sample) == OWNER_THIS_NODE;
}

bool dataset_gave_away(struct dataset *ds, uint64_t sample)
{
    struct catalog_entry object;

    return owner_of_sample(ds, sample) == OWNER_PEER && object_of(ds, sample, &object) &&
           cluster_gave_away(ds->node->cluster, ds->cid, object_hash(ds, &object));
}

void dataset_hand_over(struct dataset *ds, uint64_t sample)
{
    set_pending(ds, sample, true);
}

bool dataset_hands_over(struct dataset *ds, uint64_t sample)
{
    return is_pending(ds, sample) && owner_of_sample(ds, sample) == OWNER_PEER;
}

bool dataset_is_kept(struct dataset *ds, uint64_t sample)
{
    return is_shared(ds) && cluster_live(ds->node->cluster) > 1 &&
           (dataset_owns(ds, sample) || dataset_hands_over(ds, sample));
}

void dataset_handed_over(struct dataset *ds, uint64_t sample, bool got)
{
    unsigned shift = (unsigned)(sample % 4) * 2;
    uint8_t *at;

    set_pending(ds, sample, false);
    if (!got || owner_of_sample(ds, sample) != OWNER_PEER)
        return;
    at = cached_owners(ds) + sample / 4;
    *at = (uint8_t)((*at & ~(3u << shift)) | (unsigned)OWNER_GOT_COPY << shift);
}

static bool unusable(const struct cluster_peer *peer, void *arg)
{
    return !peers_usable(arg, peer->name, peer->address);
}

bool dataset_peer(struct dataset *ds, uint64_t sample, struct cluster_peer *out)
{
    struct node *n = ds->node;
    struct catalog_entry object;

    return n->peers != NULL && !dataset_owns(ds, sample) && object_of(ds, sample, &object) &&
           !cluster_owns(n->cluster, ds->cid, object_hash(ds, &object), unusable, n->peers, out);
}

bool dataset_other_peer(struct dataset *ds, uint64_t sample, struct cluster_peer *out)
{
    struct node *n = ds->node;
    struct catalog_entry object;

    return n->peers != NULL && is_shared(ds) && object_of(ds, sample, &object) &&
           cluster_best_peer(n->cluster, ds->cid, object_hash(ds, &object), unusable, n->peers,
                             out);
}

bool dataset_owner_is_absent(struct dataset *ds, uint64_t sample, struct owner_absence *out)
{
    struct node *n = ds->node;
    struct catalog_entry object;
    uint64_t hash;

    if (n->peers == NULL || !is_shared(ds) || !object_of(ds, sample, &object))
        return false;
    hash = object_hash(ds, &object);
    out->said_goodbye = cluster_owner_is_away(n->cluster, ds->cid, hash, &out->since);
    return out->said_goodbye ||
           (!cluster_owns(n->cluster, ds->cid, hash, NULL, NULL, &out->owner) &&
            cluster_has_disk(n->cluster, out->owner.name) &&
            peers_left(n->peers, out->owner.name, out->owner.address, &out->since));
}

bool dataset_former_owner(struct dataset *ds, uint64_t sample, enum former_owner which,
                          struct cluster_peer *out)
{
    struct node *n = ds->node;
    struct catalog_entry object;
    uint64_t hash;

    if (n->peers == NULL || !is_shared(ds) || !object_of(ds, sample, &object))
        return false;
    hash = object_hash(ds, &object);
    return (which == FORMER_DRAINING ? cluster_draining_peer(n->cluster, ds->cid, hash, out)
                                     : cluster_previous_owner(n->cluster, ds->cid, hash,
                                                              which == FORMER_EARLIER, out)) &&
           peers_usable(n->peers, out->name, out->address);
}

bool dataset_read_elsewhere(const struct dataset *ds)
{
    return is_shared(ds) && (ds->ownership.read_elsewhere ||
                             (ds->ownership.served_at.ns != 0 &&
                              dlc_mono_since(ds->ownership.served_at).ns < SERVED_LATELY.ns));
}

/* The bytes of this node's share of it, read or not. */
static uint64_t dataset_share_bytes(const struct dataset *ds)
{
    double share = is_shared(ds) ? cluster_share(ds->node->cluster, ds->cid) : 1;

    return ds->state == DATASET_READY ? (uint64_t)(share * (double)catalog_bytes(ds->catalog)) : 0;
}

uint64_t dataset_owned_bytes(const struct dataset *ds)
{
    double share, n;

    if (!is_shared(ds) || ds->state != DATASET_READY ||
        (ds->prefetch.n_following == 0 && !dataset_read_elsewhere(ds)))
        return 0;
    share = cluster_share(ds->node->cluster, ds->cid);
    n = (double)DLC_MAX(catalog_objects(ds->catalog), 1u);
    if (share >= 1)
        return 0; /* nobody borrows: as without a cluster */
    share = fmin(share + 2 * sqrt(share * (1 - share) / n), 1); /* it is a matter of chance */
    return (uint64_t)(share * (double)catalog_bytes(ds->catalog));
}

static void count_as(struct dataset *ds, uint64_t owned, uint64_t share)
{
    struct tenant_memory *m = ds->tenant_memory;

    if (m == NULL)
        return;
    m->owned += owned - ds->ownership.owned;
    m->share += share - ds->ownership.share;
    ds->ownership.owned = owned;
    ds->ownership.share = share;
}

void ownership_count(struct dataset *ds)
{
    count_as(ds, dataset_owned_bytes(ds), ds->stale ? 0 : dataset_share_bytes(ds));
}

bool ownership_count_some(struct node *n)
{
    for (unsigned i = 0; i < COUNTS; i++) {
        struct dataset *ds = dataset_step(n, &n->owned_id);

        if (ds == NULL)
            return false;
        ownership_count(ds);
    }
    return true;
}

static void ownership_closing(struct dataset *ds)
{
    count_as(ds, 0, 0);
}

static void ownership_free(struct dataset *ds)
{
    mem_free(&ds->ownership.owners);
    mem_free(&ds->ownership.pending);
}

const struct node_events ownership_events = {.dataset_ready = ownership_count,
                                             .dataset_closing = ownership_closing,
                                             .dataset_freed = ownership_free};
