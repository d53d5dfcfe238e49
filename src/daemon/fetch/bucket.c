// SPDX-License-Identifier: Apache-2.0
/*
 * The bucket as a source. It is the last one: its answer is final. A sample is one object, or is
 * assembled from pieces (assemble.c).
 *
 *     read --the object has changed--> stat, for the error message --> failed
 *       |--denied--> the manager may have other credentials --> read again, once
 */
#include "daemon/fetch/source.h"

#include "daemon/cluster_ops.h"
#include "daemon/dataset.h"
#include "daemon/fetch/assemble.h"
#include "daemon/prefetch/disk_hints.h"
#include "daemon/state.h"

struct bucket_state {
    struct fetch_attempt *a;
    struct bucket_read read;
    struct bucket_stat stat; /* of an object that has changed */
    struct credential_retry retry;
    unsigned keys_version; /* of the credentials that it was read with */
};

static struct bucket_state *bucket_state(struct fetch_attempt *a)
{
    return (struct bucket_state *)a->state;
}

/* ---- read ---- */

/* On a lane. */
static void bucket_read_done(struct bucket_read *r)
{
    struct fetch_attempt *a = r->priv;

    a->rc = r->rc;
    if (r->rc == 0)
        fetch_attempt_sum(a);
    else
        a->err = r->err;
    fetch_attempt_done(a);
}

static void bucket_assembled(void *arg, int rc, const struct dlc_err *err, bool from_disk,
                             const uint64_t *checksum)
{
    struct fetch_attempt *a = arg;

    a->rc = rc;
    a->err = *err;
    a->from = from_disk ? TIER_DISK : TIER_BUCKET;
    a->sum = checksum != NULL ? FETCH_SUM_KNOWN : FETCH_SUM_NONE;
    a->checksum = checksum != NULL ? *checksum : 0;
    fetch_attempt_ended(a);
}

static bool bucket_start(struct fetch_attempt *a)
{
    struct bucket_state *s = bucket_state(a);
    struct dataset *ds = a->ds;

    s->a = a;
    s->keys_version = ds->credentials.version;
    if (!catalog_is_whole(ds->catalog)) {
        assemble_read(ds, a->f->sample, fetch_read_class(a->f), a->dst, bucket_assembled, a);
        return true;
    }
    s->read = (struct bucket_read){
        .key = a->f->entry.key,
        .etag = a->f->entry.etag,
        .length = a->size,
        .whole = true,
        .dst = a->dst,
        .done = bucket_read_done,
        .priv = a,
    };
    bucket_read(ds->bucket, &s->read);
    return true;
}

/* ---- failures ---- */

/* On a lane. */
static void bucket_stat_done(struct bucket_stat *s)
{
    struct fetch_attempt *a = s->priv;
    const struct catalog_entry *e = &a->f->entry;

    if (s->rc == 0)
        dlc_err_set(&a->err, DLC_ECHANGED,
                    "%.200s of %.120s is no longer the object that was listed: its ETag was %s and "
                    "is now %s; list the bucket again (refresh, `dlcache ls --refresh`)",
                    e->key, a->ds->url.shown, e->etag, s->etag);
    fetch_attempt_done(a);
}

/* The bucket has another version than the catalog, and perhaps did not say which. */
static void bucket_ask_version(struct fetch_attempt *a)
{
    struct bucket_state *s = bucket_state(a);

    s->stat = (struct bucket_stat){.key = a->f->entry.key, .done = bucket_stat_done, .priv = a};
    bucket_stat(a->ds->bucket, &s->stat);
}

static void bucket_resolved(struct credential_retry *r, bool changed)
{
    fetch_attempt_repaired(dlc_container(r, struct bucket_state, retry)->a, changed);
}

/* A tenant may have set other credentials since. */
static void bucket_ask_credentials(struct fetch_attempt *a)
{
    struct bucket_state *s = bucket_state(a);

    s->retry.done = bucket_resolved;
    if (s->keys_version != a->ds->credentials.version)
        fetch_attempt_repaired(a, true);
    else
        a->ds->node->cluster_ops->renew_credentials(a->ds, &s->retry);
}

static bool bucket_repair(struct fetch_attempt *a)
{
    if (a->rc == DLC_EDENIED && a->ds->credentials.keys != NULL)
        bucket_ask_credentials(a);
    else if (a->rc == DLC_ECHANGED && catalog_is_whole(a->ds->catalog) && !a->ds->node->stopping)
        bucket_ask_version(a);
    else
        return false;
    return true;
}

static void bucket_finished(struct fetch_attempt *a, int rc)
{
    (void)rc;
    if (a->rc == 0 && a->from == TIER_BUCKET)
        dataset_fetched(a->ds, a->f->sample, a->took, a->size);
}

const struct fetch_source fetch_from_bucket = {
    .name = "bucket",
    .tier = TIER_BUCKET,
    .remote = true,
    .state_size = sizeof(struct bucket_state),
    .start = bucket_start,
    .repair = bucket_repair,
    .finished = bucket_finished,
};
