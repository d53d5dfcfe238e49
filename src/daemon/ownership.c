// SPDX-License-Identifier: Apache-2.0
/*
 * Ownership: which samples this node reads from the bucket and keeps, on behalf of all nodes of the
 * cluster. It is asked for every sample that arrives or gets a next use, so answers are cached, two
 * bits each, until the view changes.
 */
#include "daemon/ownership.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/peer/peer_client.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/state.h"
#include "catalog/catalog.h"
#include "catalog/sample.h"
#include "cluster/peer/view.h"

#define SERVED_LATELY DLC_SEC(60)

enum owner { OWNER_UNKNOWN, OWNER_THIS_NODE, OWNER_PEER };

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

static enum owner find_owner(struct dataset *ds, uint64_t sample)
{
    struct catalog_entry object;
    struct cluster_peer peer;

    if (!object_of(ds, sample, &object))
        return OWNER_THIS_NODE; /* it needs no bucket, or the read will say what is wrong */
    return cluster_owns(ds->node->cluster, ds->cid, object.key, NULL, NULL, &peer) ? OWNER_THIS_NODE
                                                                                   : OWNER_PEER;
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

bool dataset_owns(struct dataset *ds, uint64_t sample)
{
    unsigned shift = (unsigned)(sample % 4) * 2;
    uint8_t *at;
    unsigned owner;

    if (!is_shared(ds))
        return true;
    at = cached_owners(ds) + sample / 4;
    owner = (*at >> shift) & 3u;
    if (owner == OWNER_UNKNOWN) {
        owner = find_owner(ds, sample);
        *at = (uint8_t)(*at | owner << shift);
    }
    return owner == OWNER_THIS_NODE;
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
           !cluster_owns(n->cluster, ds->cid, object.key, unusable, n->peers, out);
}

bool dataset_read_elsewhere(const struct dataset *ds)
{
    return is_shared(ds) && (ds->ownership.read_elsewhere ||
                             (ds->ownership.served_at.ns != 0 &&
                              dlc_mono_since(ds->ownership.served_at).ns < SERVED_LATELY.ns));
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

static void ownership_free(struct dataset *ds)
{
    mem_free(&ds->ownership.owners);
}

const struct node_events ownership_events = {.dataset_freed = ownership_free};
