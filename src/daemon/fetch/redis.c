// SPDX-License-Identifier: Apache-2.0
/*
 * The Redis that nodes share, as a source. A node also stores there what it reads from the bucket.
 */
#include "daemon/fetch/source.h"

#include "base/counters.h"
#include "base/hash.h"
#include "cluster/peer/redis_tier.h"
#include "daemon/dataset.h"
#include "daemon/prefetch/sample_value.h"
#include "daemon/state.h"

static bool redis_can_serve(struct fetch *f)
{
    const struct dataset *ds = f->ds;

    return ds->node->shared != NULL && ds->cid != NULL && !f->bypass && f->size > 0 &&
           shared_takes(ds->node->shared, f->size);
}

/* On a thread of the tier. */
static void redis_done(struct shared_read *r)
{
    struct fetch_attempt *a = r->priv;

    a->rc = r->rc;
    a->sum = FETCH_SUM_KNOWN;
    a->checksum = r->checksum;
    fetch_attempt_done(a);
}

static bool redis_start(struct fetch_attempt *a)
{
    struct shared_read *r = (struct shared_read *)a->state;

    *r = (struct shared_read){
        .dataset = a->ds->shared_as,
        .snapshot = catalog_snapshot(a->ds->catalog),
        .sample = a->f->sample,
        .dst = a->dst,
        .length = a->size,
        .likely = sample_likely(a->ds, a->f->sample),
        .done = redis_done,
        .priv = a,
    };
    shared_read(a->ds->node->shared, r);
    return true;
}

static void redis_offer(struct fetch *f, const void *bytes)
{
    const struct dataset *ds = f->ds;
    uint64_t checksum = f->checksum;

    if (f->from != TIER_BUCKET || ds->node->shared == NULL || ds->cid == NULL || f->bypass)
        return;
    if (f->sum != FETCH_SUM_KNOWN && shared_takes(ds->node->shared, f->size))
        checksum = hash64(bytes, f->size); /* it is on its way to a file */
    if (f->file != NULL && disk_fill_failed(f->file))
        return; /* these are not the bytes that came */
    shared_put(ds->node->shared, ds->shared_as, catalog_snapshot(ds->catalog), f->sample, bytes,
               f->size, checksum, sample_likely(f->ds, f->sample));
}

const struct fetch_source fetch_from_redis = {
    .name = "redis",
    .tier = TIER_REDIS,
    .remote = true,
    .state_size = sizeof(struct shared_read),
    .hits = &counters.shared_hits,
    .misses = &counters.shared_misses,
    .can_serve = redis_can_serve,
    .start = redis_start,
    .offer = redis_offer,
};
