// SPDX-License-Identifier: Apache-2.0
/*
 * Other nodes as sources: the node that owns a sample (docs/design/0006), and, for its owner, the
 * node that owned it before and may have a copy (docs/design/0019). A peer is asked once per sample.
 * It has served when its bytes have the checksum that it named: only then its health improves.
 */
#include "daemon/fetch/source.h"

#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "cluster/peer/peer_client.h"
#include "cluster/peer/view.h"
#include "daemon/dataset.h"
#include "daemon/ownership.h"
#include "daemon/state.h"

struct peer_state {
    struct peer_read read;
    char *name, *address, *ticket;
};

static struct peer_state *peer_state(struct fetch_attempt *a)
{
    return (struct peer_state *)a->state;
}

static bool peer_can_serve(struct fetch *f)
{
    return f->ds->node->peers != NULL && f->ds->ticket.text != NULL && !f->for_peer && !f->bypass &&
           f->size > 0;
}

/* On a thread of the peers. */
static void peer_done(struct peer_read *r)
{
    struct fetch_attempt *a = r->priv;

    a->rc = r->rc;
    a->err = r->err;
    a->sum = r->verified ? FETCH_SUM_KNOWN : FETCH_SUM_CLAIMED;
    a->checksum = r->checksum;
    fetch_attempt_done(a);
}

static void peer_ask(struct fetch_attempt *a, const struct cluster_peer *peer, bool cached)
{
    struct peer_state *s = peer_state(a);
    struct dataset *ds = a->ds;

    s->name = mem_str(peer->name);
    s->address = mem_str(peer->address);
    s->ticket = mem_str(ds->ticket.text); /* it may be renewed meanwhile */
    s->read = (struct peer_read){
        .peer = s->name,
        .address = s->address,
        .token = s->ticket,
        .dataset = ds->cid,
        .tenant = ds->tenant,
        .snapshot = catalog_snapshot(ds->catalog),
        .sample = a->f->sample,
        .cached = cached,
        .dst = a->dst,
        .length = a->size,
        .done = peer_done,
        .priv = a,
    };
    peers_read(ds->node->peers, &s->read);
}

static bool peer_start(struct fetch_attempt *a)
{
    struct cluster_peer peer;
    bool cached = fetch_awaits_owner(a->f); /* until then nobody is to read the bucket for us */

    a->f->owner_passed = cached;
    if (!(cached ? dataset_other_peer : dataset_peer)(a->ds, a->f->sample, &peer))
        return false;
    peer_ask(a, &peer, cached);
    return true;
}

static void peer_served(struct fetch_attempt *a)
{
    const struct peer_state *s = peer_state(a);

    if (!s->read.verified)
        peers_verified(a->ds->node->peers, &s->read, true);
}

static void peer_failed(struct fetch_attempt *a)
{
    struct peer_state *s = peer_state(a);
    unsigned long long sample = a->f->sample;

    if (s->read.rc == DLC_EDENIED)
        dataset_ticket_refused(&a->ds->ticket);
    if (s->read.rc == 0)
        peers_verified(a->ds->node->peers, &s->read, false);
    if (s->read.rc == 0 || s->read.mismatch) {
        count(peer_corrupt);
        log_warn("sample %llu of %s: what came from peer %s (%s) does not have its checksum; it is "
                 "fetched elsewhere",
                 sample, a->ds->url.shown, s->name, s->address);
    } else {
        log_debug("sample %llu of %s: peer %s: %s; reading it elsewhere", sample, a->ds->url.shown,
                  s->name, a->err.text);
    }
}

static void peer_over(struct fetch_attempt *a, int rc)
{
    struct peer_state *s = peer_state(a);

    if (rc == 0)
        peer_served(a);
    else if (rc != DLC_EBYPASS)
        peer_failed(a);
    mem_free(&s->name);
    mem_free(&s->address);
    secret_free(&s->ticket);
}

static void peer_finished(struct fetch_attempt *a, int rc)
{
    if (rc == 0) {
        a->ds->peer.hits++;
        a->ds->peer.bytes += a->size;
        count_add(peer_bytes, a->size);
    } else if (rc != DLC_EBYPASS) {
        a->ds->peer.misses++;
    }
    peer_over(a, rc);
}

const struct fetch_source fetch_from_peer = {
    .name = "peer",
    .tier = TIER_PEER,
    .remote = true,
    .waits_for_owner = true,
    .state_size = sizeof(struct peer_state),
    .hits = &counters.peer_hits,
    .misses = &counters.peer_misses,
    .can_serve = peer_can_serve,
    .start = peer_start,
    .finished = peer_finished,
};

/* ---- the previous owner ---- */

/* Also for a peer that waits: who is asked for a copy gives what it has, and asks nobody. So a node
 * that is asked for a sample which it does not own, since views differ for a moment, asks the owner
 * of its own view before it reads the bucket. */
static bool previous_can_serve(struct fetch *f)
{
    return f->ds->node->peers != NULL && f->ds->ticket.text != NULL && !f->bypass && f->size > 0 &&
           (f->for_peer || dataset_owns(f->ds, f->sample));
}

static bool former_start(struct fetch_attempt *a, enum former_owner which)
{
    struct cluster_peer peer;

    if (!dataset_former_owner(a->ds, a->f->sample, which, &peer))
        return false;
    peer_ask(a, &peer, true);
    return true;
}

static bool previous_start(struct fetch_attempt *a)
{
    struct cluster_peer peer;
    const char *from = a->f->take_from;

    if (from == NULL && dataset_owns(a->ds, a->f->sample))
        return former_start(a, FORMER_LAST);
    if (from != NULL ? !cluster_peer_named(a->ds->node->cluster, from, &peer)
                     : !dataset_peer(a->ds, a->f->sample, &peer))
        return false;
    peer_ask(a, &peer, true);
    return true;
}

static bool draining_start(struct fetch_attempt *a)
{
    return former_start(a, FORMER_DRAINING);
}

static bool earlier_start(struct fetch_attempt *a)
{
    return former_start(a, dataset_owns(a->ds, a->f->sample) ? FORMER_EARLIER : FORMER_LAST);
}

static void previous_finished(struct fetch_attempt *a, int rc)
{
    if (rc == 0)
        count_add(handover_bytes, a->size);
    peer_over(a, rc);
}

const struct fetch_source fetch_from_draining_node = {
    .name = "draining node",
    .tier = TIER_PEER,
    .remote = true,
    .state_size = sizeof(struct peer_state),
    .hits = &counters.handover_hits,
    .misses = &counters.handover_misses,
    .can_serve = previous_can_serve,
    .start = draining_start,
    .finished = previous_finished,
};

const struct fetch_source fetch_from_previous_owner = {
    .name = "previous owner",
    .tier = TIER_PEER,
    .remote = true,
    .gives_copies = true,
    .state_size = sizeof(struct peer_state),
    .hits = &counters.handover_hits,
    .misses = &counters.handover_misses,
    .can_serve = previous_can_serve,
    .start = previous_start,
    .finished = previous_finished,
};

const struct fetch_source fetch_from_earlier_owner = {
    .name = "earlier owner",
    .tier = TIER_PEER,
    .remote = true,
    .state_size = sizeof(struct peer_state),
    .hits = &counters.handover_hits,
    .misses = &counters.handover_misses,
    .can_serve = previous_can_serve,
    .start = earlier_start,
    .finished = previous_finished,
};
