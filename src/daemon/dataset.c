// SPDX-License-Identifier: Apache-2.0
/*
 * Datasets: a catalog, a bucket and an index under one name, shared by all sessions.
 *
 *     (new) --stored catalog--> READY
 *     (new) --> LISTING --listed, written, mapped--> READY
 *                  |--> FAILED (told to all who waited, then forgotten)
 *
 * A dataset without sessions stays: its samples remain resident for the next run. A refresh makes a
 * new dataset beside the old one, whose sessions keep the old numbers until they close; when
 * nothing has changed, the old one goes on and the new one is forgotten. A reader that asks for an
 * older snapshot gets that one: from memory, from the stored catalogs, or from a peer
 * (docs/design/0010).
 */
#include "daemon/dataset.h"
#include "daemon/dataset_chunks.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "cluster/catalog_from_peer.h"
#include "cluster/cost.h"
#include "cluster/report.h"
#include "daemon/catalog_load.h"
#include "daemon/client_conn.h"
#include "daemon/decoded_cache.h"
#include "daemon/fetch/assemble.h"
#include "daemon/job_weights.h"
#include "daemon/listing.h"
#include "daemon/prefetch/disk_hints.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/session.h"
#include "daemon/snapshot.h"
#include "daemon/state.h"
#include "base/config.h"
#include "catalog/catalog.h"
#include "cluster/view.h"

#define DATASET_TAG DLC_TAG4('d', 's', 'e', 't')
#define IDLE_MAX    32   /* datasets without users that stay for the next run */
#define OPEN_MAX    8192 /* datasets in all: each has a thread and some descriptors */
#define MANY        32 /* datasets, from which on each has one thread for its bucket, not several */

/* ---- references ---- */

/* A bucket ends when its threads do, which may wait for a file system or a server, and what a
 * dataset of 10^8 samples has taken is not freed in no time: so a worker does both. */
struct closing {
    struct work work;
    struct task task;
    struct node *node;
    struct dataset *ds;
    struct bucket *bucket;
    bool whole; /* the dataset goes with it */
};

/* X: what belongs to nobody else any more. */
static void dataset_release(struct dataset *ds)
{
    catalog_close(&ds->catalog);
    url_release(&ds->url);
    map_release(&ds->fetching);
    mem_free(&ds->name);
    mem_free(&ds->given);
    mem_free(&ds->endpoint);
    mem_free(&ds->cid);
    mem_free(&ds->tenant);
    mem_free(&ds->shared_as);
    mem_free(&ds->region);
    bucket_keys_put(&ds->keys);
    mem_free(&ds->whose);
    mem_free(&ds->passing);
    mem_free(&ds->seen);
    report_free(&ds->report);
    mem_free(&ds->catalog_path);
    mem_free(&ds->backlog);
    mem_free(&ds->tally);
    ds->tag = 0;
    mem_free(&ds);
}

static void close_work(struct work *w)
{
    struct closing *c = dlc_container(w, struct closing, work);

    bucket_close(&c->bucket);
    if (c->whole)
        dataset_release(c->ds);
    loop_post(c->node->loop, &c->task);
}

static void closed(struct task *t)
{
    struct closing *c = dlc_container(t, struct closing, task);

    c->node->pending--;
    if (!c->whole)
        dataset_put(&c->ds);
    mem_free(&c);
}

static void dataset_close(struct dataset *ds, bool whole)
{
    struct closing *c = mem_new(struct closing);

    *c = (struct closing){.work.run = close_work,
                          .task.run = closed,
                          .node = ds->node,
                          .ds = ds,
                          .bucket = ds->bucket,
                          .whole = whole};
    ds->bucket = NULL;
    ds->refs += !whole;
    c->node->pending++;
    work_run(c->node->work, WORK_BACKGROUND, &c->work);
}

static void dataset_free(struct dataset *ds)
{
    dlc_check(dlc_list_empty(&ds->sessions) && dlc_list_empty(&ds->openers));
    dlc_check(dlc_list_empty(&ds->needers));
    dlc_check(ds->fetching.n == 0 && ds->listing == NULL);
    dlc_list_remove(&ds->link);
    dlc_list_remove(&ds->backlogs);
    cost_keep(ds);
    decoded_caches_free(ds);
    job_weights_all_free(ds);
    if (ds->index != NULL)
        mem_index_free(&ds->index);
    if (ds->bucket != NULL)
        dataset_close(ds, true);
    else
        dataset_release(ds); /* the daemon ends, or it never came to be */
}

void dataset_put(struct dataset **dp)
{
    struct dataset *ds = *dp;

    *dp = NULL;
    dlc_check(ds->tag == DATASET_TAG && ds->refs > 0);
    if (--ds->refs == 0 && ds->stale)
        dataset_free(ds);
}

/* ---- answering those who wait ---- */

static void answer_opener(struct conn *c, struct dataset *ds)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (ds->state == DATASET_FAILED)
        conn_fail_err(c, &ds->error);
    else if (snapshot_check(ds, c->snapshot, &err) < 0 || session_new(c, ds, &err) < 0)
        conn_fail_err(c, &err);
}

static void answer_openers(struct dataset *ds)
{
    struct dlc_list *n;

    while ((n = dlc_list_pop_head(&ds->needers)) != NULL) {
        struct dataset_waiter *d = dlc_container(n, struct dataset_waiter, link);
        struct dataset *ref = ds;

        d->ready(d, ds->state == DATASET_FAILED ? NULL : ds, &ds->error);
        dataset_put(&ref);
    }
    while ((n = dlc_list_pop_head(&ds->openers)) != NULL) {
        struct conn *c = dlc_container(n, struct conn, waiting);
        struct dataset *ref = c->opening;

        c->opening = NULL;
        answer_opener(c, ds);
        dataset_put(&ref);
    }
}

static void dataset_fail(struct dataset *ds, const struct dlc_err *err)
{
    struct dataset *ref = ds;

    ds->refs++;
    ds->state = DATASET_FAILED;
    ds->error = *err;
    ds->stale = true;
    log_warn("cannot open %s: %s", ds->url.shown, err->text);
    answer_openers(ds);
    dataset_put(&ref);
}

/* Its catalog was loaded: be open. */
static int dataset_ready(struct dataset *ds, struct dlc_err *err)
{
    uint64_t n;
    int rc;

    if (ds->catalog == NULL)
        return dlc_err_set(err, DLC_ENOTFOUND, "no catalog of %s is stored", ds->url.shown);
    if (strcmp(catalog_url(ds->catalog), ds->url.text) != 0) {
        catalog_close(&ds->catalog);
        return dlc_err_set(err, DLC_ENOTFOUND, "%s is the catalog of another dataset",
                           ds->catalog_path);
    }
    n = catalog_count(ds->catalog);
    rc = mem_index_new(ds->node->memory, n, catalog_snapshot(ds->catalog), &ds->index, err);
    if (rc < 0) {
        catalog_close(&ds->catalog);
        return rc;
    }
    next_use_changed(ds);
    if (n > 0)
        bucket_hint_size(ds->bucket, catalog_bytes(ds->catalog) / n);
    ds->state = DATASET_READY;
    log_info("%s: %llu samples", ds->url.shown, (unsigned long long)n);
    dataset_adopt(ds);
    return 0;
}

/* Those who wait for `ds` wait for `old` instead. */
static void move_openers(struct dataset *ds, struct dataset *old)
{
    struct dlc_list *n;

    while ((n = dlc_list_pop_head(&ds->openers)) != NULL) {
        struct conn *c = dlc_container(n, struct conn, waiting);
        struct dataset *ref = c->opening;

        dlc_list_push_tail(&old->openers, n);
        c->opening = old;
        old->refs++;
        dataset_put(&ref);
    }
    while ((n = dlc_list_pop_head(&ds->needers)) != NULL) {
        struct dataset *ref = ds;

        dlc_list_push_tail(&old->needers, n);
        old->refs++;
        dataset_put(&ref);
    }
    ds->stale = true;
}

/* The bucket is as it was: those who asked get the dataset that is there. */
static void keep_old(struct dataset *ds, struct dataset *old)
{
    log_info("%s: nothing has changed", ds->url.shown);
    move_openers(ds, old);
    answer_openers(old);
}

/* The one that a refresh is about to replace, or NULL. */
static struct dataset *old_of(const struct dataset *ds)
{
    dlc_list_each (l, &ds->node->datasets) {
        struct dataset *old = dlc_container(l, struct dataset, link);

        if (old != ds && !old->stale && old->state == DATASET_READY &&
            strcmp(old->name, ds->name) == 0)
            return old;
    }
    return NULL;
}

/* Another one that is ready with the same catalog, or NULL. */
static struct dataset *twin_of(const struct dataset *ds)
{
    dlc_list_each (l, &ds->node->datasets) {
        struct dataset *twin = dlc_container(l, struct dataset, link);

        if (twin != ds && twin->state == DATASET_READY && strcmp(twin->name, ds->name) == 0 &&
            catalog_same(twin->catalog, ds->catalog))
            return twin;
    }
    return NULL;
}

/* From now on it is the newest of its name. */
static void unpin(struct dataset *ds)
{
    ds->pinned = 0;
    ds->stale = false;
}

/* It is ready. What has its snapshot already stays in its place: one that was pinned while this one
 * was listed, too, since it has samples in memory. Else it takes the place of the newest. */
static void dataset_settled(struct dataset *ds)
{
    struct dataset *old = ds->pinned == 0 ? old_of(ds) : NULL, *twin = twin_of(ds);

    if (old != NULL && old != twin) { /* it stays for its sessions */
        old->stale = true;
        old->refs++;
        dataset_put(&old);
    }
    if (twin != NULL && ds->pinned == 0) {
        twin->instead_of = ds->instead_of;
        unpin(twin);
    }
    if (twin != NULL)
        keep_old(ds, twin);
    else
        answer_openers(ds);
}

/* A tenant's, to be read with credentials that it has not? Those of the node are its own: else a
 * tenant would read whatever the node may. What belongs to nobody an admin has registered. */
static bool lacks_credentials(const struct dataset *ds)
{
    return ds->cid != NULL && ds->tenant[0] != '\0' && ds->keys == NULL && !ds->anonymous &&
           !ds->node->config->lend_credentials;
}

void dataset_listed(struct dataset *ds, int rc, struct catalog **catalog, struct dlc_err *err)
{
    ds->catalog = *catalog;
    *catalog = NULL;
    if (rc == 0)
        rc = dataset_ready(ds, err);
    if (rc == DLC_EDENIED && ds->cid != NULL && ds->node->cluster != NULL)
        cluster_forget(ds->node->cluster, ds->cid); /* whoever tries again gets what is new */
    if (rc == DLC_EDENIED && lacks_credentials(ds))
        dlc_err_prefix(err,
                       "tenant %s has no credentials (give it some: `dlcache tenant credentials`)",
                       ds->tenant);
    if (rc < 0) {
        dataset_fail(ds, err);
    } else {
        snapshot_prune(ds);
        dataset_settled(ds);
    }
}

/* ---- finding and making ---- */

static const char *effective_endpoint(const struct dataset *ds)
{
    const char *env;

    if (ds->url.scheme != URL_S3 && ds->url.scheme != URL_GS)
        return "";
    if (ds->endpoint != NULL)
        return ds->endpoint;
    if (ds->node->config->endpoint[0] != '\0')
        return ds->node->config->endpoint;
    env = getenv("AWS_ENDPOINT_URL_S3");
    if (env == NULL)
        env = getenv("AWS_ENDPOINT_URL");
    return env != NULL ? env : "";
}

/* What a chunk's name is made of beside key and ETag: the place, not the prefix, so that datasets
 * that overlap share chunks; and the tenant, so that nobody finds what another one paid for with
 * credentials of its own (K2). */
static uint64_t disk_id_of(const struct dataset *ds)
{
    bool whole_keys = ds->url.scheme == URL_S3 || ds->url.scheme == URL_GS;
    char *place = mem_fmt("%d %s %s%s%s%s", (int)ds->url.scheme, effective_endpoint(ds),
                          ds->url.bucket, whole_keys ? "" : ds->url.prefix,
                          ds->cid != NULL ? "\n" : "", ds->cid != NULL ? ds->tenant : "");
    uint64_t id = hash64_str(place);

    mem_free(&place);
    return id;
}

struct bucket_config dataset_bucket_config(const struct dataset *ds)
{
    const struct config *c = ds->node->config;
    struct bucket_config bc = BUCKET_CONFIG_INIT;
    bool path_style;

    bc.endpoint = ds->endpoint != NULL ? ds->endpoint : c->endpoint[0] ? c->endpoint : NULL;
    bc.region = ds->region != NULL ? ds->region : c->region[0] ? c->region : NULL;
    bc.profile = c->profile[0] ? c->profile : NULL;
    bc.keys = ds->keys;
    bc.anonymous = ds->anonymous || (c->anonymous && ds->keys == NULL) || lacks_credentials(ds);
    bc.no_link_local = ds->cid != NULL && ds->tenant[0] != '\0';
    if (str_parse_bool(c->path_style, &path_style))
        bc.path_style = path_style;
    bc.lanes = (unsigned)c->lanes;
    bc.max_requests = (unsigned)c->max_requests;
    bc.retries = (unsigned)c->retries;
    bc.no_hedge = !c->hedge;
    bc.connect_timeout = c->connect_timeout;
    bc.stall_timeout = c->stall_timeout;
    bc.deadline = c->deadline;
    bc.price_get = c->price_get;
    bc.price_list = c->price_list;
    bc.price_gb = c->price_gb;
    bc.tally = ds->tally;
    return bc;
}

static int open_bucket(struct dataset *ds, struct dlc_err *err)
{
    struct bucket_config bc = dataset_bucket_config(ds);
    unsigned open = 0;

    dlc_list_each (l, &ds->node->datasets)
        open++;
    if (bc.lanes == 0 && open > MANY)
        bc.lanes = 1;
    return bucket_open(&ds->url, &bc, &ds->bucket, err);
}

/* Finds it again. Datasets of different tenants, and of different names, are never the same; nor is
 * one that is read with its tenant's credentials what it was before there were any. */
static char *dataset_name(const struct open_request *w)
{
    const struct grant *g = w->grant;

    return mem_fmt("%s\n%s\n%d%d\n%s\n%s", w->url, w->endpoint != NULL ? w->endpoint : "",
                   w->anonymous, g != NULL && g->access_key != NULL, g != NULL ? g->tenant : "",
                   g != NULL ? g->dataset : "");
}

void dataset_take_grant(struct dataset *ds, const struct grant *g)
{
    if (ds->cid == NULL) {
        ds->cid = mem_str(g->dataset);
        ds->tenant = mem_str(g->tenant);
        ds->shared_as = mem_fmt("%s/%s", g->tenant, g->dataset);
        ds->region = mem_str(g->region);
        ds->keys = g->access_key != NULL ? bucket_keys_new() : NULL;
    }
    if (ds->keys == NULL || g->access_key == NULL ||
        !bucket_keys_set(ds->keys, g->access_key, g->secret_key, g->session_token))
        return;
    ds->keys_version++;
    if (ds->bucket != NULL)
        log_info("%s: the credentials of %s have changed", ds->url.shown, ds->tenant);
}

static char *catalog_path_of(const struct dataset *ds)
{
    const char *endpoint = effective_endpoint(ds);
    char *whose = ds->cid != NULL ? mem_fmt("%s\n%s", endpoint, ds->tenant) : mem_str(endpoint);
    char *path = catalog_path(ds->node->config->dir, whose, ds->url.text);

    mem_free(&whose);
    return path;
}

/* Gives, with one reference. NULL: *err says why. */
static struct dataset *dataset_new(struct node *n, const struct open_request *w,
                                   struct dlc_err *err)
{
    struct dataset *ds = mem_new(struct dataset);

    ds->tag = DATASET_TAG;
    ds->node = n;
    ds->id = ++n->next_id;
    ds->refs = 1;
    ds->name = dataset_name(w);
    ds->given = mem_str(w->url);
    ds->endpoint = mem_str(w->endpoint);
    ds->anonymous = w->anonymous;
    ds->wanted = n->peers != NULL && w->grant != NULL ? w->grant->snapshot : 0;
    ds->instead_of = w->refresh ? ds->wanted : 0;
    ds->tally = mem_new(struct bucket_tally);
    ds->stale = true; /* until it is known to be good */
    hist_init(&ds->latency, 1024);
    dlc_list_init(&ds->sessions);
    dlc_list_init(&ds->decoded_caches);
    dlc_list_init(&ds->job_weights);
    dlc_list_init(&ds->openers);
    dlc_list_init(&ds->needers);
    dlc_list_init(&ds->backlogs);
    dlc_list_init(&ds->agains);
    dlc_list_push_tail(&n->datasets, &ds->link);
    if (w->grant != NULL)
        dataset_take_grant(ds, w->grant);
    if (url_parse(&ds->url, w->url, err) < 0 || open_bucket(ds, err) < 0) {
        dataset_put(&ds);
        return NULL;
    }
    ds->catalog_path = catalog_path_of(ds);
    ds->disk_id = disk_id_of(ds);
    dataset_enter_group(ds);
    ds->pinned = w->snapshot;
    ds->stale = ds->pinned != 0; /* until it is known to be the newest */
    return ds;
}

/* On its way, and newer than what is stored. */
static bool is_listing(const struct dataset *ds)
{
    return ds->state == DATASET_LISTING && !ds->loading;
}

/* A refresh wants the one that is being listed, if any, everybody else the one that is ready. */
static struct dataset *find_by_name(struct node *n, const char *name, bool refresh)
{
    struct dataset *found = NULL;

    dlc_list_each (l, &n->datasets) {
        struct dataset *ds = dlc_container(l, struct dataset, link);

        bool first = refresh ? is_listing(ds) : ds->state == DATASET_READY;

        if (!ds->stale && strcmp(ds->name, name) == 0 && (found == NULL || first))
            found = ds;
    }
    return found;
}

struct dataset *dataset_find(struct node *n, const char *url)
{
    struct url u = URL_INIT;
    struct dataset *found = NULL;

    if (url_parse(&u, url, NULL) == 0) {
        dlc_list_each (l, &n->datasets) {
            struct dataset *ds = dlc_container(l, struct dataset, link);

            if (!ds->stale && ds->state == DATASET_READY && strcmp(ds->url.text, u.text) == 0)
                found = ds;
        }
    }
    url_release(&u);
    return found;
}

/* Let go of the datasets that were not used for the longest time. false: too many are in use. */
static bool room_for_dataset(struct node *n)
{
    unsigned idle = 0, all = 0;

    dlc_list_each (l, &n->datasets) {
        idle += dlc_container(l, struct dataset, link)->refs == 0;
        all++;
    }
    dlc_list_each_safe (l, &n->datasets) {
        struct dataset *ds = dlc_container(l, struct dataset, link);

        if (ds->refs == 0 && (idle > IDLE_MAX || all >= OPEN_MAX)) {
            dataset_free(ds);
            idle--;
            all--;
        }
    }
    return all < OPEN_MAX;
}

struct dataset *dataset_of_cluster(struct node *n, const char *cid, const char *tenant,
                                   uint64_t snapshot)
{
    struct dataset *newest = NULL, *stale = NULL;

    dlc_list_each (l, &n->datasets) {
        struct dataset *ds = dlc_container(l, struct dataset, link);

        if (ds->cid == NULL || ds->state != DATASET_READY || strcmp(ds->cid, cid) != 0 ||
            (tenant != NULL && strcmp(ds->tenant, tenant) != 0) ||
            (snapshot != 0 && catalog_snapshot(ds->catalog) != snapshot))
            continue;
        if (ds->stale)
            stale = ds;
        else
            newest = ds;
    }
    if (newest != NULL || snapshot == 0)
        return newest;
    return stale; /* it was listed anew since: as long as somebody reads it */
}

/* Has the manager named another snapshot since? */
static bool is_current(const struct dataset *ds, const struct grant *g)
{
    return g == NULL || g->snapshot == 0 || ds->node->peers == NULL ||
           catalog_snapshot(ds->catalog) == g->snapshot || ds->instead_of == g->snapshot;
}

/* It is being loaded: will it be what the manager names? */
static bool will_be_current(const struct dataset *ds, const struct grant *g)
{
    return g == NULL || g->snapshot == 0 || ds->node->peers == NULL || ds->wanted == g->snapshot;
}

/* What is open or on its way and answers the question. NULL: nothing does. */
static struct dataset *find_wanted(struct node *n, const struct open_request *w)
{
    char *name = dataset_name(w);
    struct dataset *ds;
    bool good;

    if (w->snapshot != 0) {
        ds = snapshot_find(n, name, w->snapshot);
        good = ds != NULL;
    } else {
        ds = find_by_name(n, name, w->refresh);
        if (ds != NULL && ds->state == DATASET_READY && !is_current(ds, w->grant))
            ds = find_by_name(n, name, true); /* perhaps what counts is on its way */
        good = ds != NULL &&
               (is_listing(ds) || (!w->refresh && (ds->loading ? will_be_current(ds, w->grant)
                                                               : is_current(ds, w->grant))));
    }
    if (ds != NULL && w->grant != NULL)
        dataset_take_grant(ds, w->grant);
    mem_free(&name);
    return good ? ds : NULL;
}

/* The one that is there or is begun now, with a reference. NULL: *err says why not. */
static struct dataset *find_or_begin(struct node *n, const struct open_request *w, bool *begun,
                                     struct dlc_err *err)
{
    struct dataset *ds = find_wanted(n, w);

    *begun = false;
    if (ds != NULL) {
        ds->refs++;
        return ds;
    }
    if (!room_for_dataset(n)) {
        dlc_err_set(
            err, DLC_EBUSY,
            "%d datasets are open at this daemon, which is the most it can have: close some",
            OPEN_MAX);
        return NULL;
    }
    *begun = true;
    return dataset_new(n, w, err);
}

/* The snapshot that was asked for is stored. */
static bool begin_stored(struct dataset *ds)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct dataset *twin = ds->catalog != NULL ? twin_of(ds) : NULL;
    uint64_t pinned = ds->pinned;
    const struct dataset *newest;

    if (twin != NULL) { /* it has become ready while this one was loaded */
        move_openers(ds, twin);
        answer_openers(twin);
        return true;
    }
    if (dataset_ready(ds, &err) < 0)
        return false;
    newest = find_by_name(ds->node, ds->name, false); /* ready, if there is one */
    if ((newest == NULL || newest->state == DATASET_LISTING) && ds->stored == pinned)
        unpin(ds);
    answer_openers(ds);
    return true;
}

/* A peer that has it may give it. */
static bool begin_borrowing(struct dataset *ds)
{
    return ds->node->peers != NULL && ds->cid != NULL && catalog_from_peer(ds, ds->pinned);
}

static void list_or_borrow(struct dataset *ds)
{
    if (ds->wanted == 0 || !catalog_from_peer(ds, ds->wanted))
        listing_start(ds);
}

static void begin_pinned(struct dataset *ds)
{
    struct dataset *newest = find_by_name(ds->node, ds->name, true);
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t have;

    if (begin_stored(ds))
        return;
    if (newest != NULL && newest->state == DATASET_LISTING) {
        move_openers(ds, newest); /* it may turn out to be the one */
        return;
    }
    have = newest != NULL ? catalog_snapshot(newest->catalog) : ds->stored;
    if (have == 0 || ds->pinned == ds->wanted) {
        unpin(ds); /* nothing is known here: list, and compare */
        list_or_borrow(ds);
    } else if (!begin_borrowing(ds)) {
        snapshot_refuse(ds->url.shown, have, ds->pinned, &err);
        dataset_fail(ds, &err);
    }
}

static void begin_loaded(struct dataset *ds)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (ds->node->stopping) {
        dlc_err_set(&err, DLC_ECANCELED, "the daemon is stopping");
        dataset_fail(ds, &err);
    } else if (ds->pinned != 0) {
        begin_pinned(ds);
    } else if (dataset_ready(ds, &err) == 0) {
        dataset_settled(ds);
    } else {
        list_or_borrow(ds);
    }
}

/* Somebody waits for it by now. */
static void begin(struct dataset *ds, bool refresh)
{
    if (ds->pinned == 0 && refresh)
        listing_start(ds);
    else
        load_start(ds, begin_loaded);
}

static void reopened(struct dataset *ds)
{
    if (ds->catalog != NULL || !dlc_list_empty(&ds->openers) || !dlc_list_empty(&ds->needers))
        begin_loaded(ds);
    else
        ds->stale = true; /* nothing counts that is stored, and nobody waits */
}

void dataset_reopen(struct node *n, const struct open_request *w)
{
    struct dlc_err err = DLC_ERR_INIT;
    char *name = dataset_name(w);
    bool there = find_by_name(n, name, false) != NULL;
    struct dataset *ds;

    mem_free(&name);
    if (there || !room_for_dataset(n) || (ds = dataset_new(n, w, &err)) == NULL)
        return;
    load_start(ds, reopened);
    dataset_put(&ds);
}

void dataset_catalog_came(struct dataset *ds, int rc, struct catalog **catalog)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (ds->node->stopping) {
        dlc_err_set(&err, DLC_ECANCELED, "the daemon is stopping");
        dataset_fail(ds, &err);
    } else if (rc == 0) {
        dataset_listed(ds, 0, catalog, &err);
    } else if (ds->pinned != 0) {
        snapshot_refuse(ds->url.shown, ds->stored, ds->pinned, &err);
        dataset_fail(ds, &err);
    } else {
        ds->instead_of = ds->wanted; /* what we list now will do, until there is a newer one */
        listing_start(ds);
    }
}

/* What the client wants, or what the rest of its job reads. */
static struct open_request wanted_of(struct conn *c, const struct open_request *asked)
{
    struct open_request w = *asked;
    char *name = dataset_name(asked);

    if (w.snapshot == 0)
        w.snapshot = snapshot_of_job(c, name);
    if (w.snapshot != 0)
        w.refresh = false;
    c->snapshot = w.snapshot;
    mem_free(&name);
    return w;
}

void dataset_open(struct conn *c, const struct open_request *asked)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct open_request w = wanted_of(c, asked);
    bool begun;
    struct dataset *ds = find_or_begin(c->node, &w, &begun, &err);

    if (ds == NULL) {
        conn_fail_err(c, &err);
        return;
    }
    if (ds->state == DATASET_READY) {
        dlc_list_remove(&ds->link); /* the list is in order of use */
        dlc_list_push_tail(&c->node->datasets, &ds->link);
        answer_opener(c, ds);
    } else {
        c->opening = ds;
        ds->refs++;
        dlc_list_push_tail(&ds->openers, &c->waiting);
    }
    if (begun)
        begin(ds, w.refresh);
    dataset_put(&ds);
}

void dataset_need(struct node *n, const struct open_request *w, struct dataset_waiter *d)
{
    struct dlc_err err = DLC_ERR_INIT;
    bool begun;
    struct dataset *ds = find_or_begin(n, w, &begun, &err);

    dlc_list_init(&d->link);
    if (ds == NULL) {
        d->ready(d, NULL, &err);
        return;
    }
    if (ds->state == DATASET_READY) {
        d->ready(d, ds, &err);
    } else {
        ds->refs++;
        dlc_list_push_tail(&ds->needers, &d->link);
    }
    if (begun)
        begin(ds, w->refresh);
    dataset_put(&ds);
}

/* ---- the end ---- */

void dataset_shutdown(struct dataset *ds)
{
    struct dataset *ref = ds;

    ds->stale = true;
    ds->backlog_len = 0;
    dlc_list_remove(&ds->backlogs);
    listing_stop(ds);
    assemble_stop(ds);
    dataset_adopt_stop(ds);
    ds->refs++;
    if (ds->bucket != NULL)
        dataset_close(ds, false); /* every request under way posts its end */
    dataset_put(&ref);
}
