// SPDX-License-Identifier: Apache-2.0
/*
 * Listings: make a catalog on disk from a bucket.
 *
 *     pages of the bucket, on lanes --> layout, archives, writing: on a worker --> done()
 *          |--nothing below the prefix: is it one object?--|
 */
#include "daemon/listing.h"

#include <stdatomic.h>
#include <string.h>

#include "base/config.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/listing/cataloguer.h"
#include "daemon/catalog_load.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/prefetch/disk_hints.h"
#include "daemon/snapshot.h"
#include "daemon/state.h"
#include "base/thread_pool.h"
#include "daemon/work.h"

#define CATALOG_LEAST ((uint64_t)256 << 20) /* bytes that a catalog may have on any machine */

struct listing {
    struct dataset *ds;
    struct catalog_builder *builder; /* the lane's until done, then the worker's */
    struct cataloguer cataloguer;
    struct catalog *catalog; /* the worker's, then the dataset's */
    char *prefix;            /* what is asked for; NULL: the URL's own */
    size_t listed;           /* listings that have ended, of list_count() */
    struct bucket_list list;
    struct bucket_stat stat;
    _Atomic uint64_t seen; /* W lane, R loop, relaxed: progress only */
    struct task task;
    struct work work;
    void (*next)(struct listing *l);
    listing_done_f *done;
    int rc;
    struct dlc_err err;
};

/* What it took to make unpacked copies, where they are. */
static void count_derived(const struct listing *l)
{
    const struct cataloguer *c = &l->cataloguer;
    struct catalog_entry e;

    for (size_t i = 0; i < c->n_derived; i++)
        if (catalog_object(l->ds->catalog, c->derived[i].object, &e, NULL) == 0)
            dataset_derived(l->ds, c->derived[i].object, c->derived[i].took, e.size);
}

/* A bucket that lists for ever, or much more than this daemon has memory for. */
static void listing_refused(struct listing *l)
{
    count(quota_refusals);
    dlc_err_prefix(&l->err, "%s", l->ds->url.shown);
    log_warn("%s", l->err.text);
}

static void listing_end(struct listing *l)
{
    struct dataset *ds = l->ds;

    if (catalog_builder_is_full(l->builder))
        listing_refused(l);
    ds->opening.listing = NULL;
    l->done(ds, l->rc, &l->catalog, &l->err);
    if (ds->state == DATASET_READY)
        count_derived(l);
    catalog_builder_free(&l->builder);
    cataloguer_release(&l->cataloguer);
    mem_free(&l->prefix);
    mem_free(&l);
    dataset_put(&ds);
}

static void listing_on_loop(struct task *t)
{
    struct listing *l = dlc_container(t, struct listing, task);
    struct node *n = l->ds->node;

    n->pending--;
    if (n->stopping) { /* the bucket may be closed already */
        l->rc = dlc_err_set(&l->err, DLC_ECANCELED, "the daemon is stopping");
        listing_end(l);
        return;
    }
    l->next(l);
}

/* ---- from objects to samples ---- */

static void catalogue_on_worker(struct work *w)
{
    struct listing *l = dlc_container(w, struct listing, work);
    char *file = mem_fmt("%s.%llu.tmp", l->ds->catalog_path, (unsigned long long)l->ds->id);

    l->rc = cataloguer_run(&l->cataloguer, file, &l->err);
    if (l->rc == 0)
        l->rc = snapshot_install(l->ds, file, &l->err);
    if (l->rc == 0)
        l->rc = load_catalog(l->ds, l->ds->opening.pinned, &l->catalog, &l->err);
    mem_free(&file);
    loop_post(l->ds->node->loop, &l->task);
}

static void listing_catalogue(struct listing *l)
{
    struct dataset *ds = l->ds;

    l->cataloguer.url = &ds->url;
    l->cataloguer.config = dataset_bucket_config(ds);
    l->cataloguer.builder = l->builder;
    l->cataloguer.disk = ds->node->disk;
    l->cataloguer.disk_id = ds->disk.id;
    l->cataloguer.group = ds->disk.group;
    l->next = listing_end;
    l->work.run = catalogue_on_worker;
    ds->node->pending++;
    work_run(ds->node->work, WORK_CATALOG, &l->work);
}

/* ---- from the bucket to objects ---- */

static bool on_page(struct bucket_list *bl, const struct bucket_object *objects, size_t n)
{
    struct listing *l = bl->priv;

    for (size_t i = 0; i < n; i++) {
        const struct bucket_object *o = &objects[i];

        if (o->size == 0 && str_ends(o->key, "/"))
            continue; /* the mark that consoles leave for an empty folder */
        if (!list_takes(&l->ds->url, o->key))
            continue;
        l->rc = catalog_builder_add(l->builder, o->key, strlen(o->key), o->size, o->etag, &l->err);
        if (l->rc < 0)
            return false;
    }
    atomic_store_explicit(&l->seen, catalog_builder_count(l->builder), memory_order_relaxed);
    return true;
}

static void listing_nothing(struct listing *l)
{
    l->rc = dlc_err_set(&l->err, DLC_ENOTFOUND,
                        "%s holds no objects: check the spelling of the prefix, and the endpoint "
                        "(list it with `dlcache ls`)",
                        l->ds->url.shown);
    listing_end(l);
}

static void stat_next(struct listing *l)
{
    if (l->stat.rc == DLC_ENOTFOUND) {
        listing_nothing(l);
        return;
    }
    l->rc = l->stat.rc;
    l->err = l->stat.err;
    if (l->rc == 0)
        l->rc = catalog_builder_add(l->builder, l->stat.key, strlen(l->stat.key), l->stat.size,
                                    l->stat.etag, &l->err);
    if (l->rc < 0)
        listing_end(l);
    else
        listing_catalogue(l);
}

static void on_stat(struct bucket_stat *s)
{
    struct listing *l = s->priv;

    loop_post(l->ds->node->loop, &l->task);
}

static void on_listed(struct bucket_list *bl)
{
    struct listing *l = bl->priv;

    loop_post(l->ds->node->loop, &l->task);
}

/* One of the listings. */
static void list_part(struct listing *l)
{
    mem_free(&l->prefix);
    l->prefix = list_prefix_at(&l->ds->url, l->listed);
    l->list =
        (struct bucket_list){.prefix = l->prefix, .page = on_page, .done = on_listed, .priv = l};
    l->ds->node->pending++;
    bucket_list(l->ds->bucket, &l->list);
}

static void list_next(struct listing *l)
{
    struct dataset *ds = l->ds;

    if (l->rc == 0 && l->list.rc < 0) {
        l->rc = l->list.rc;
        l->err = l->list.err;
    }
    if (l->rc < 0) {
        listing_end(l);
    } else if (++l->listed < list_count(&ds->url)) {
        list_part(l);
    } else if (catalog_builder_count(l->builder) > 0) {
        listing_catalogue(l);
    } else if (l->prefix != NULL && !str_ends(ds->url.prefix, "*")) {
        /* Not a folder: perhaps the URL names one object. */
        l->stat = (struct bucket_stat){.key = ds->url.prefix, .done = on_stat, .priv = l};
        l->next = stat_next;
        ds->node->pending++;
        bucket_stat(ds->bucket, &l->stat);
    } else {
        listing_nothing(l);
    }
}

/* Catalogs lie in memory that no tier accounts for, while they are made and while they are open. */
static uint64_t most_catalog_bytes(const struct node *n)
{
    uint64_t allowed = DLC_MIN(n->machine.total, n->machine.cgroup_max);

    if (n->config->max_catalog != CONFIG_AUTO)
        return n->config->max_catalog;
    return DLC_MAX(allowed / 4, CATALOG_LEAST);
}

void listing_start(struct dataset *ds, listing_done_f *done)
{
    struct listing *l = mem_new(struct listing);

    l->ds = ds;
    l->done = done;
    l->builder = catalog_builder_new();
    catalog_builder_limit(l->builder, ds->node->config->max_objects, most_catalog_bytes(ds->node));
    cataloguer_init(&l->cataloguer);
    l->task.run = listing_on_loop;
    l->next = list_next;
    ds->opening.listing = l;
    dataset_ref(ds);
    list_part(l);
}

/* It ends soon. */
static void listing_stop(struct dataset *ds)
{
    if (ds->opening.listing != NULL)
        cataloguer_stop(&ds->opening.listing->cataloguer);
}

/* relaxed: progress only */
static json_t *progress_of(struct listing *l)
{
    struct cataloguer *c = &l->cataloguer;
    const char *phase = atomic_load_explicit(&c->phase, memory_order_relaxed);
    uint64_t seen = atomic_load_explicit(&l->seen, memory_order_relaxed);

    if (phase == NULL)
        return json_pack("{s:s, s:I}", "phase", "listing", "objects", (json_int_t)seen);
    return json_pack("{s:s, s:I, s:I, s:I}", "phase", phase, "objects", (json_int_t)seen, "done",
                     (json_int_t)atomic_load_explicit(&c->done, memory_order_relaxed), "total",
                     (json_int_t)atomic_load_explicit(&c->total, memory_order_relaxed));
}

json_t *listing_progress(const struct dataset *ds)
{
    return progress_of(ds->opening.listing);
}

void dataset_progress(struct dataset *ds)
{
    if (ds->opening.listing == NULL)
        return;
    dlc_list_each (n, &ds->opening.openers)
        conn_progress(dlc_container(n, struct conn, waiting), progress_of(ds->opening.listing));
}

const struct node_events listing_events = {.dataset_stopping = listing_stop};
