// SPDX-License-Identifier: Apache-2.0
/*
 * A fetch of what this node does not have.
 *
 *     AFAR --ours, or nobody's--> SHARED, where nodes share a Redis --absent--> BUCKET
 *       |--another node owns it (docs/design/0006)--> PEER --failed, late--> SHARED
 *
 * What the bucket gave goes into SHARED too, for the others. Each runs on threads of its own and
 * posts back to the node loop.
 */
#include "daemon/fetch/fetch_i.h"

#include "base/counters.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/ownership.h"
#include "cluster/peer/view.h"
#include "daemon/fetch/assemble.h"
#include "daemon/prefetch/disk_hints.h"
#include "daemon/state.h"

static void fetch_bucket(struct fetch *f);

/* ---- an object that is another than was listed ---- */

static void changed_next(struct fetch *f)
{
    f->rc = DLC_ECHANGED;
    f->err = f->read.err;
    if (f->stat.rc == 0)
        dlc_err_set(&f->err, f->rc,
                    "%.200s of %.120s is no longer the object that was listed: its ETag was %s and "
                    "is now %s; list the bucket anew (refresh, `dlcache ls --refresh`)",
                    f->entry.key, f->ds->url.shown, f->entry.etag, f->stat.etag);
    fetch_give_up(f);
}

/* On a lane. */
static void on_changed(struct bucket_stat *s)
{
    struct fetch *f = s->priv;

    loop_post(f->ds->node->loop, &f->task);
}

/* The bucket has another version than the catalog, and perhaps did not say which: ask. */
static void fetch_changed(struct fetch *f)
{
    f->stat = (struct bucket_stat){.key = f->entry.key, .done = on_changed, .priv = f};
    fetch_await(f, changed_next);
    bucket_stat(f->ds->bucket, &f->stat);
}

/* ---- what the bucket gave ---- */

/* Goes where the others find it, too. */
void fetch_share(struct fetch *f)
{
    const struct dataset *ds = f->ds;
    uint64_t checksum = f->checksum;

    if (!f->from_bucket || ds->node->shared == NULL || ds->cid == NULL || f->past)
        return;
    if (f->sum != FETCH_SUM_KNOWN && shared_takes(ds->node->shared, f->size))
        checksum = hash64(fetch_destination(f), f->size); /* it is on its way to a file */
    if (f->to_disk && disk_fill_failed(f->file))
        return; /* these are not the bytes that came */
    shared_put(ds->node->shared, ds->shared_as, catalog_snapshot(ds->catalog), f->sample,
               fetch_destination(f), f->size, checksum);
}

static void bucket_gave(struct fetch *f)
{
    f->from_bucket = true;
    dataset_fetched(f->ds, f->sample, dlc_mono_since(f->asked), f->size);
    fetch_arrived(f);
}

static void asked_again(struct credential_retry *a, bool changed)
{
    struct fetch *f = dlc_container(a, struct fetch, again);

    if (changed)
        fetch_bucket(f);
    else
        fetch_give_up(f);
}

/* f->rc and f->err say why. A tenant may have set other credentials since. */
static void failed(struct fetch *f)
{
    struct dataset *ds = f->ds;

    if (f->rc != DLC_EDENIED || ds->credentials.keys == NULL || f->tried_again) {
        fetch_give_up(f);
        return;
    }
    f->tried_again = true;
    f->again.done = asked_again;
    if (f->keys_version != ds->credentials.version)
        fetch_bucket(f);
    else
        ds->node->cluster_ops->renew_credentials(ds, &f->again);
}

static void bucket_next(struct fetch *f)
{
    f->rc = f->read.rc;
    if (f->rc == DLC_ECHANGED && !f->ds->node->stopping) {
        fetch_changed(f);
    } else if (f->rc < 0) {
        f->err = f->read.err;
        if (f->to_disk && disk_fill_failed(f->file)) /* the bucket's bytes are not to blame */
            f->rc = DLC_EBYPASS;
        failed(f);
    } else {
        bucket_gave(f);
    }
}

/* On a lane. */
static void on_read(struct bucket_read *r)
{
    struct fetch *f = r->priv;

    if (r->rc == 0)
        fetch_sum_small(f);
    loop_post(f->ds->node->loop, &f->task);
}

/* A sample that is more, or less, than one object. */
static void parts_next(void *arg, int rc, const struct dlc_err *err, bool from_disk,
                       const uint64_t *checksum)
{
    struct fetch *f = arg;

    f->sum = checksum != NULL ? FETCH_SUM_KNOWN : FETCH_SUM_NONE;
    f->checksum = checksum != NULL ? *checksum : 0;
    f->rc = rc;
    f->from_disk = from_disk;
    f->err = *err;
    if (rc < 0)
        failed(f);
    else if (from_disk)
        fetch_arrived(f);
    else
        bucket_gave(f);
}

/* ---- the memory that nodes share ---- */

static void shared_next(struct fetch *f)
{
    if (f->look.rc < 0) {
        count(shared_misses);
        fetch_bucket(f);
        return;
    }
    count(shared_hits);
    f->sum = FETCH_SUM_KNOWN;
    f->checksum = f->look.checksum;
    fetch_arrived(f);
}

/* On a thread of the tier. */
static void on_shared(struct shared_read *r)
{
    struct fetch *f = r->priv;

    loop_post(f->ds->node->loop, &f->task);
}

static bool fetch_shared(struct fetch *f)
{
    struct dataset *ds = f->ds;

    if (ds->node->shared == NULL || ds->cid == NULL || f->tried_shared || f->past || f->size == 0 ||
        !shared_takes(ds->node->shared, f->size))
        return false;
    f->tried_shared = true;
    f->look = (struct shared_read){
        .dataset = ds->shared_as,
        .snapshot = catalog_snapshot(ds->catalog),
        .sample = f->sample,
        .dst = fetch_destination(f),
        .length = f->size,
        .done = on_shared,
        .priv = f,
    };
    fetch_await(f, shared_next);
    shared_read(ds->node->shared, &f->look);
    return true;
}

/* ---- the bucket ---- */

static void fetch_bucket(struct fetch *f)
{
    struct node *n = f->ds->node;
    void *dst = fetch_destination(f);

    if (n->stopping) {
        f->rc = dlc_err_set(&f->err, DLC_ECANCELED, "the daemon is stopping");
        fetch_give_up(f);
        return;
    }
    if (fetch_shared(f))
        return;
    f->asked = dlc_mono_now();
    f->keys_version = f->ds->credentials.version;
    if (!catalog_is_whole(f->ds->catalog)) {
        assemble_read(f->ds, f->sample, fetch_reads(f), dst, parts_next, f);
        return;
    }
    f->read = (struct bucket_read){
        .key = f->entry.key,
        .etag = f->entry.etag,
        .length = f->size,
        .whole = true,
        .dst = dst,
        .done = on_read,
        .priv = f,
    };
    fetch_await(f, bucket_next);
    bucket_read(f->ds->bucket, &f->read);
}

/* ---- peer ---- */

static void note_corrupt(struct fetch *f)
{
    count(peer_corrupt);
    log_warn("sample %llu of %s: what came from peer %s (%s) does not have its checksum; it is "
             "fetched elsewhere",
             (unsigned long long)f->sample, f->ds->url.shown, f->peer, f->address);
}

void fetch_peer_corrupt(struct fetch *f)
{
    f->sum = FETCH_SUM_NONE;
    f->ds->peer.misses++;
    count(peer_misses);
    peers_verified(f->ds->node->peers, &f->ask, false);
    note_corrupt(f);
}

void fetch_peer_came(struct fetch *f)
{
    if (!f->ask.verified)
        peers_verified(f->ds->node->peers, &f->ask, true);
    f->sum = FETCH_SUM_KNOWN;
    f->ds->peer.hits++;
    f->ds->peer.bytes += f->size;
    count(peer_hits);
    count_add(peer_bytes, f->size);
}

static void peer_next(struct fetch *f)
{
    struct dataset *ds = f->ds;

    f->at_peer = false;
    if (f->ask.rc == 0) {
        f->sum = FETCH_SUM_SAID;
        f->checksum = f->ask.checksum;
        if (f->ask.verified)
            fetch_peer_came(f);
        fetch_arrived(f);
        return;
    }
    ds->peer.misses++;
    count(peer_misses);
    if (f->ask.mismatch)
        note_corrupt(f);
    else
        log_debug("sample %llu of %s: peer %s: %s; reading it from the bucket",
                  (unsigned long long)f->sample, ds->url.shown, f->peer, f->ask.err.text);
    fetch_bucket(f);
}

/* On a thread of the peers. */
static void on_peer(struct peer_read *r)
{
    struct fetch *f = r->priv;

    loop_post(f->ds->node->loop, &f->task);
}

static void fetch_peer(struct fetch *f, const struct cluster_peer *peer)
{
    struct node *n = f->ds->node;

    f->peer = mem_str(peer->name);
    f->address = mem_str(peer->address);
    f->ask = (struct peer_read){
        .peer = f->peer,
        .address = f->address,
        .token = n->token,
        .dataset = f->ds->cid,
        .tenant = f->ds->tenant,
        .snapshot = catalog_snapshot(f->ds->catalog),
        .sample = f->sample,
        .dst = fetch_destination(f),
        .length = f->size,
        .done = on_peer,
        .priv = f,
    };
    f->at_peer = f->tried_peer = true;
    fetch_await(f, peer_next);
    peers_read(n->peers, &f->ask);
}

/* It is not here: from the node that owns it, or from the bucket. */
void fetch_remote(struct fetch *f)
{
    struct cluster_peer peer;

    if (!f->ds->node->stopping && !f->for_peer && !f->past && !f->tried_peer && f->size > 0 &&
        dataset_peer(f->ds, f->sample, &peer))
        fetch_peer(f, &peer);
    else
        fetch_bucket(f);
}
