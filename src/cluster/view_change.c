// SPDX-License-Identifier: Apache-2.0
#include "cluster/view_change.h"

#include "cluster/peer/peer_client.h"
#include "cluster/peer/view.h"
#include "daemon/dataset.h"
#include "daemon/dataset_chunks.h"
#include "daemon/ownership.h"
#include "daemon/prefetch/cache_bypass.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/state.h"

/* The disk tier counts the cluster's readers as one job. */
static void follow_use(struct dataset *ds)
{
    bool read = dataset_read_elsewhere(ds);

    if (read && !ds->ownership.joined)
        dataset_join(ds);
    else if (!read && ds->ownership.joined)
        dataset_leave(ds);
    ds->ownership.joined = read;
}

void cluster_view_changed(struct node *n)
{
    struct cluster_peer peer;

    for (size_t i = 0; n->peers != NULL && cluster_new_peer(n->cluster, i, &peer); i++)
        peers_is_back(n->peers, peer.name);
    dlc_list_each (l, &n->datasets) {
        struct dataset *ds = dlc_container(l, struct dataset, link);
        bool before = ds->ownership.joined;

        if (ds->cid == NULL || ds->state != DATASET_READY)
            continue;
        ds->ownership.read_elsewhere = cluster_use(n->cluster, ds->cid).readers > 0;
        bypass_changed(ds);
        follow_use(ds);
        if (before != ds->ownership.joined ||
            ds->ownership.version != cluster_owners_version(n->cluster))
            next_use_changed(ds);
    }
}
