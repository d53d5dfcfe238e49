// SPDX-License-Identifier: Apache-2.0
#include "cluster/view_change.h"

#include "cluster/member.h"
#include "cluster/peer/peer_client.h"
#include "cluster/peer/view.h"
#include "daemon/dataset.h"
#include "daemon/dataset_chunks.h"
#include "daemon/ownership.h"
#include "daemon/prefetch/cache_bypass.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/state.h"

#define DATASETS 128u /* that heed a new view in one turn of the loop */

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

static void heed_view(struct dataset *ds)
{
    struct node *n = ds->node;
    bool before = ds->ownership.joined;

    if (ds->cid == NULL || ds->state != DATASET_READY)
        return;
    ds->ownership.read_elsewhere = cluster_use(n->cluster, ds->cid).readers > 0;
    ownership_count(ds);
    bypass_changed(ds);
    follow_use(ds);
    if (before != ds->ownership.joined ||
        ds->ownership.version != cluster_owners_version(n->cluster))
        next_use_changed(ds);
}

static void heed_some(struct timer *t)
{
    struct member *m = dlc_container(t, struct member, view_timer);
    struct dataset *ds;

    for (unsigned i = 0; i < DATASETS; i++) {
        ds = dataset_step(m->node, &m->view_at);
        if (ds == NULL)
            return;
        heed_view(ds);
    }
    loop_timer_set(m->node->loop, t, loop_now(m->node->loop)); /* the next turn */
}

void cluster_view_changed(struct node *n)
{
    struct cluster_peer peer;

    for (size_t i = 0; n->peers != NULL && cluster_new_peer(n->cluster, i, &peer); i++)
        peers_is_back(n->peers, peer.name);
    n->member->view_at = 0; /* from the first one on, also if a pass is under way */
    n->member->view_timer.fire = heed_some;
    heed_some(&n->member->view_timer);
}

void view_change_close(struct node *n)
{
    loop_timer_del(n->loop, &n->member->view_timer);
}
