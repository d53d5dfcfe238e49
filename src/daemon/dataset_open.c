// SPDX-License-Identifier: Apache-2.0
/*
 * How a dataset is opened.
 *
 *     (new) --stored catalog--> READY
 *     (new) --> LISTING --listed, written, mapped--> READY
 *                  |--> FAILED (reported to all that waited, then forgotten)
 *
 * A dataset without sessions stays open: its samples remain resident for the next run. A refresh
 * creates a new dataset beside the old one; sessions of the old one keep its sample numbers until
 * they close. If nothing has changed, the old dataset is kept and the new one is forgotten. A
 * reader that asks for an older snapshot gets it from memory, from the stored catalogs, or from a
 * peer (docs/design/0010).
 */
#include "daemon/dataset_open.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "catalog/catalog.h"
#include "cluster/peer/view.h"
#include "daemon/catalog_load.h"
#include "daemon/client_conn.h"
#include "daemon/client_open.h"
#include "daemon/client_quota.h"
#include "daemon/cluster_ops.h"
#include "daemon/dataset.h"
#include "daemon/dataset_table.h"
#include "daemon/events.h"
#include "daemon/listing.h"
#include "daemon/session.h"
#include "daemon/snapshot.h"
#include "daemon/state.h"

/* ---- answering those who wait ---- */

/* The newest snapshot of its name that is known here; 0: none. */
static uint64_t newest_known(const struct dataset *ds)
{
    const struct dataset *newest = dataset_by_name(ds->node, ds->asked.name, true);

    if (ds->catalog != NULL)
        return catalog_snapshot(ds->catalog);
    return newest != NULL && newest->catalog != NULL ? catalog_snapshot(newest->catalog)
                                                     : ds->opening.stored;
}

void dataset_answer(struct conn *c, struct dataset *ds)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (session_new(c, ds, &err) < 0)
        conn_fail_err(c, &err);
}

static void answer_opener(struct conn *c, struct dataset *ds)
{
    struct dlc_err err = ds->opening.error;

    if (ds->state == DATASET_FAILED || snapshot_check(ds, c->snapshot, &err) < 0) {
        if (err.code == DLC_ECHANGED && c->snapshot_of_job)
            snapshot_refuse_job(ds->url.shown, newest_known(ds), c->snapshot, c->job, &err);
        conn_fail_err(c, &err);
    } else if (!client_open_agree(c, ds)) {
        dataset_answer(c, ds);
    }
}

static void answer_openers(struct dataset *ds)
{
    struct dlc_list *n;

    while ((n = dlc_list_pop_head(&ds->opening.waiters)) != NULL) {
        struct dataset_waiter *d = dlc_container(n, struct dataset_waiter, link);
        struct dataset *ref = ds;

        d->ready(d, ds->state == DATASET_FAILED ? NULL : ds, &ds->opening.error);
        dataset_put(&ref);
    }
    while ((n = dlc_list_pop_head(&ds->opening.openers)) != NULL) {
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

    dataset_ref(ds);
    ds->state = DATASET_FAILED;
    ds->opening.error = *err;
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
    rc = mem_index_new(dataset_memory(ds), n, catalog_snapshot(ds->catalog), &ds->index, err);
    if (rc < 0) {
        catalog_close(&ds->catalog);
        return rc;
    }
    if (n > 0)
        bucket_hint_size(ds->bucket, catalog_bytes(ds->catalog) / n);
    ds->state = DATASET_READY;
    log_info("%s: %llu samples", ds->url.shown, (unsigned long long)n);
    dataset_expect_bytes(ds);
    if (ds->node->memories.n > 1) /* its tenant may need more now */
        tenant_memories_divide(&ds->node->memories);
    events_raise(ds->node, dataset_ready, ds);
    return 0;
}

/* Those who wait for `ds` wait for `old` instead. */
static void move_openers(struct dataset *ds, struct dataset *old)
{
    struct dlc_list *n;

    while ((n = dlc_list_pop_head(&ds->opening.openers)) != NULL) {
        struct conn *c = dlc_container(n, struct conn, waiting);
        struct dataset *ref = c->opening;

        dlc_list_push_tail(&old->opening.openers, n);
        c->opening = old;
        dataset_ref(old);
        dataset_put(&ref);
    }
    while ((n = dlc_list_pop_head(&ds->opening.waiters)) != NULL) {
        struct dataset *ref = ds;

        dlc_list_push_tail(&old->opening.waiters, n);
        dataset_ref(old);
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

/* From now on it is the newest of its name. */
static void unpin(struct dataset *ds)
{
    ds->opening.pinned = 0;
    ds->stale = false;
}

/* A snapshot was asked for by number. Is it the newest that anybody knows of? Then it stays open for
 * the next one who asks, and is handed over, as any other dataset. */
static bool is_newest_known(const struct dataset *ds)
{
    const struct dataset *newest = dataset_by_name(ds->node, ds->asked.name, false);

    return ds->opening.pinned != 0 && (newest == NULL || newest->state == DATASET_LISTING) &&
           (ds->opening.wanted == 0 || ds->opening.wanted == ds->opening.pinned);
}

/* It is ready. What has its snapshot already stays in its place: one that was pinned while this one
 * was listed, too, since it has samples in memory. Else it takes the place of the newest. */
static void dataset_settled(struct dataset *ds)
{
    struct dataset *old = ds->opening.pinned == 0 ? dataset_to_replace(ds) : NULL,
                   *twin = dataset_twin(ds);

    if (old != NULL && old != twin) { /* it stays for its sessions */
        dataset_forget(old);
    }
    if (twin != NULL && ds->opening.pinned == 0) {
        twin->opening.instead_of = ds->opening.instead_of;
        unpin(twin);
    }
    if (twin == NULL && is_newest_known(ds))
        unpin(ds);
    if (twin != NULL)
        keep_old(ds, twin);
    else
        answer_openers(ds);
}

static void dataset_listed(struct dataset *ds, int rc, struct catalog **catalog,
                           struct dlc_err *err)
{
    ds->catalog = *catalog;
    *catalog = NULL;
    if (rc == 0)
        rc = dataset_ready(ds, err);
    if (rc == DLC_EDENIED && ds->cid != NULL && ds->node->cluster != NULL)
        cluster_forget(ds->node->cluster, ds->cid); /* whoever tries again gets what is new */
    if (rc == DLC_EDENIED && dataset_lacks_credentials(ds))
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

/* Has the manager named another snapshot since? */
static bool is_current(const struct dataset *ds, const struct grant *g)
{
    return g == NULL || g->snapshot == 0 || ds->node->peers == NULL ||
           catalog_snapshot(ds->catalog) == g->snapshot || ds->opening.instead_of == g->snapshot;
}

/* It is being loaded: will it be what the manager names? */
static bool will_be_current(const struct dataset *ds, const struct grant *g)
{
    return g == NULL || g->snapshot == 0 || ds->node->peers == NULL ||
           ds->opening.wanted == g->snapshot;
}

/* What is open or on its way and answers the question. NULL: nothing does. */
static struct dataset *find_wanted(struct node *n, const struct open_request *w)
{
    char *name = dataset_name(w);
    struct dataset *ds;
    bool good;

    if (w->snapshot != 0) {
        ds = dataset_of_snapshot(n, name, w->snapshot);
        good = ds != NULL;
    } else {
        ds = dataset_by_name(n, name, w->refresh);
        if (ds != NULL && ds->state == DATASET_READY && !is_current(ds, w->grant))
            ds = dataset_by_name(n, name, true); /* perhaps what counts is on its way */
        good = ds != NULL && (dataset_is_listing(ds) ||
                              (!w->refresh && (ds->opening.loading ? will_be_current(ds, w->grant)
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
    if (quota_dataset(n, w, ds, err) < 0)
        return NULL;
    if (ds != NULL) {
        dataset_ref(ds);
        return ds;
    }
    if (!dataset_room(n)) {
        dlc_err_set(
            err, DLC_EBUSY,
            "%d datasets are open at this daemon, which is the most it can have: close some",
            DATASETS_MAX);
        return NULL;
    }
    *begun = true;
    return dataset_new(n, w, err);
}

/* The snapshot that was asked for is stored. */
static bool begin_stored(struct dataset *ds)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct dataset *twin = ds->catalog != NULL ? dataset_twin(ds) : NULL;
    uint64_t pinned = ds->opening.pinned;
    const struct dataset *newest;

    if (twin != NULL) { /* it has become ready while this one was loaded */
        move_openers(ds, twin);
        answer_openers(twin);
        return true;
    }
    if (dataset_ready(ds, &err) < 0)
        return false;
    newest = dataset_by_name(ds->node, ds->asked.name, false); /* ready, if there is one */
    if ((newest == NULL || newest->state == DATASET_LISTING) && ds->opening.stored == pinned)
        unpin(ds);
    answer_openers(ds);
    return true;
}

static void list_or_borrow(struct dataset *ds);

/* No peer has the snapshot that was asked for, or it is the newest. If nothing is known here: list,
 * and compare. */
static void list_pinned(struct dataset *ds)
{
    struct dataset *newest = dataset_by_name(ds->node, ds->asked.name, true);
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t have = newest_known(ds);

    if (newest != NULL && newest->state == DATASET_LISTING) {
        move_openers(ds, newest); /* it may turn out to be the one */
    } else if (have == 0 || ds->opening.pinned == ds->opening.wanted) {
        unpin(ds);
        list_or_borrow(ds);
    } else {
        snapshot_refuse(ds->url.shown, have, ds->opening.pinned, &err);
        dataset_fail(ds, &err);
    }
}

/* A peer has given its catalog, or none has it. */
static void catalog_came(struct dataset *ds, int rc, struct catalog **catalog)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (ds->node->stopping) {
        dlc_err_set(&err, DLC_ECANCELED, "the daemon is stopping");
        dataset_fail(ds, &err);
    } else if (rc == 0) {
        dataset_listed(ds, 0, catalog, &err);
    } else if (ds->opening.pinned != 0) {
        list_pinned(ds);
    } else {
        ds->opening.instead_of =
            ds->opening.wanted; /* what we list now will do, until there is a newer one */
        listing_start(ds, dataset_listed);
    }
}

/* A peer that has it may give it. */
static bool begin_borrowing(struct dataset *ds, uint64_t snapshot)
{
    struct node *n = ds->node;

    return n->peers != NULL && ds->cid != NULL &&
           n->cluster_ops->borrow_catalog(ds, snapshot, catalog_came);
}

static void list_or_borrow(struct dataset *ds)
{
    if (ds->opening.wanted == 0 || !begin_borrowing(ds, ds->opening.wanted))
        listing_start(ds, dataset_listed);
}

static void begin_pinned(struct dataset *ds)
{
    const struct dataset *newest = dataset_by_name(ds->node, ds->asked.name, true);
    bool lists = newest != NULL && newest->state == DATASET_LISTING; /* perhaps another one */

    if (begin_stored(ds))
        return;
    if ((ds->opening.pinned == ds->opening.wanted && !lists) ||
        !begin_borrowing(ds, ds->opening.pinned))
        list_pinned(ds);
}

static void begin_loaded(struct dataset *ds)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (ds->node->stopping) {
        dlc_err_set(&err, DLC_ECANCELED, "the daemon is stopping");
        dataset_fail(ds, &err);
    } else if (ds->opening.pinned != 0) {
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
    if (ds->opening.pinned == 0 && refresh)
        listing_start(ds, dataset_listed);
    else
        load_start(ds, begin_loaded);
}

static void reopened(struct dataset *ds)
{
    if (ds->catalog != NULL || !dlc_list_empty(&ds->opening.openers) ||
        !dlc_list_empty(&ds->opening.waiters))
        begin_loaded(ds);
    else
        ds->stale = true; /* nothing counts that is stored, and nobody waits */
}

void dataset_reopen(struct node *n, const struct open_request *w)
{
    struct dlc_err err = DLC_ERR_INIT;
    char *name = dataset_name(w);
    bool there = dataset_by_name(n, name, false) != NULL;
    struct dataset *ds;

    mem_free(&name);
    if (there || !dataset_room(n) || (ds = dataset_new(n, w, &err)) == NULL)
        return;
    load_start(ds, reopened);
    dataset_put(&ds);
}

/* What the client wants, or what the rest of its job reads. */
static struct open_request wanted_of(struct conn *c, const struct open_request *asked)
{
    struct open_request w = *asked;
    char *name = dataset_name(asked);

    if (w.snapshot == 0)
        w.snapshot = dataset_job_snapshot(c, name);
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
    struct dataset *ds = NULL;
    bool begun = false;

    if (quota_session(c, &w, &err) == 0)
        ds = find_or_begin(c->node, &w, &begun, &err);
    if (ds == NULL) {
        conn_fail_err(c, &err);
        return;
    }
    if (ds->state == DATASET_READY) {
        answer_opener(c, ds);
    } else {
        c->opening = ds;
        dataset_ref(ds);
        dlc_list_push_tail(&ds->opening.openers, &c->waiting);
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
        dataset_ref(ds);
        dlc_list_push_tail(&ds->opening.waiters, &d->link);
    }
    if (begun)
        begin(ds, w->refresh);
    dataset_put(&ds);
}
