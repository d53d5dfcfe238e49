// SPDX-License-Identifier: Apache-2.0
#include "daemon/dataset_table.h"

#include <string.h>

#include "base/dataset_name.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/u64map.h"
#include "bucket/url.h"
#include "catalog/catalog.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/session.h"
#include "daemon/state.h"

#define TRIM_STEP 8u /* datasets closed in one turn of the loop */

/* ---- by name, by cluster id ---- */

/* Datasets whose text has the same hash; most often the same text. */
struct chain {
    struct dlc_list all;
};

static const struct dlc_list *chain_of(const struct map *m, const char *text)
{
    static const struct dlc_list none = {(struct dlc_list *)&none, (struct dlc_list *)&none};
    const struct chain *c = map_get(m, hash64_str(text));

    return c != NULL ? &c->all : &none;
}

static void chain_add(struct map *m, const char *text, struct dlc_list *node)
{
    struct chain *c = map_get(m, hash64_str(text));

    if (c == NULL) {
        c = mem_new(struct chain);
        dlc_list_init(&c->all);
        map_set(m, hash64_str(text), c);
    }
    dlc_list_push_tail(&c->all, node);
}

static void chain_remove(struct map *m, const char *text, struct dlc_list *node)
{
    struct chain *c = map_get(m, hash64_str(text));

    dlc_list_remove(node);
    if (c != NULL && dlc_list_empty(&c->all)) {
        map_remove(m, hash64_str(text));
        mem_free(&c);
    }
}

/* ---- by id ---- */

/* Where the first one is whose id is not less. */
static size_t id_place(const struct node *n, uint64_t id)
{
    size_t lo = 0, hi = n->n_datasets;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (n->by_id[mid]->id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void id_add(struct node *n, struct dataset *ds)
{
    size_t at = id_place(n, ds->id); /* the end, but in tests */

    mem_reserve(n->by_id, n->n_datasets, n->cap_datasets);
    memmove(&n->by_id[at + 1], &n->by_id[at], (n->n_datasets - at) * sizeof(n->by_id[0]));
    n->by_id[at] = ds;
    n->n_datasets++;
}

static void id_remove(struct node *n, const struct dataset *ds)
{
    size_t at = id_place(n, ds->id);

    dlc_check(at < n->n_datasets && n->by_id[at] == ds);
    n->n_datasets--;
    memmove(&n->by_id[at], &n->by_id[at + 1], (n->n_datasets - at) * sizeof(n->by_id[0]));
}

struct dataset *dataset_from(const struct node *n, uint64_t id)
{
    size_t at = id_place(n, id);

    return at < n->n_datasets ? n->by_id[at] : NULL;
}

struct dataset *dataset_step(const struct node *n, uint64_t *at)
{
    struct dataset *ds = dataset_from(n, *at);

    *at = ds != NULL ? ds->id + 1 : 0;
    return ds;
}

/* ---- the table ---- */

void dataset_table_add(struct dataset *ds)
{
    struct node *n = ds->node;

    dlc_list_push_tail(&n->datasets, &ds->link);
    id_add(n, ds);
    chain_add(&n->by_name, ds->asked.name, &ds->same_name);
    if (ds->url.text != NULL)
        chain_add(&n->by_url, ds->url.text, &ds->same_url);
    if (ds->cid != NULL)
        chain_add(&n->by_cid, ds->cid, &ds->same_cid);
}

void dataset_table_remove(struct dataset *ds)
{
    struct node *n = ds->node;

    dlc_list_remove(&ds->link);
    dataset_table_idle(ds, false);
    id_remove(n, ds);
    chain_remove(&n->by_name, ds->asked.name, &ds->same_name);
    if (ds->url.text != NULL)
        chain_remove(&n->by_url, ds->url.text, &ds->same_url);
    if (ds->cid != NULL)
        chain_remove(&n->by_cid, ds->cid, &ds->same_cid);
    if (dlc_list_empty(&n->datasets)) { /* the last of all leaves no table either */
        map_release(&n->by_name);
        map_release(&n->by_cid);
        map_release(&n->by_url);
        mem_free(&n->by_id);
        n->cap_datasets = 0;
    }
}

void dataset_table_idle(struct dataset *ds, bool idle)
{
    if (ds->is_idle == idle)
        return;
    ds->is_idle = idle;
    if (idle)
        dlc_list_push_tail(&ds->node->idle, &ds->idle);
    else
        dlc_list_remove(&ds->idle);
    ds->node->n_idle += idle ? 1u : -1u;
}

/* ---- lookups ---- */

bool dataset_is_listing(const struct dataset *ds)
{
    return ds->state == DATASET_LISTING && !ds->opening.loading;
}

struct dataset *dataset_by_name(struct node *n, const char *name, bool refresh)
{
    struct dataset *found = NULL;
    const struct dlc_list *same = chain_of(&n->by_name, name);

    dlc_list_each (l, same) {
        struct dataset *ds = dlc_container(l, struct dataset, same_name);

        bool first = refresh ? dataset_is_listing(ds) : ds->state == DATASET_READY;

        if (!ds->stale && strcmp(ds->asked.name, name) == 0 && (found == NULL || first))
            found = ds;
    }
    return found;
}

bool dataset_is_at(const struct dataset *ds, const char *url)
{
    struct url u = URL_INIT;
    bool same;

    if (str_starts(url, "dlcache://")) {
        url += strlen("dlcache://");
        return ds->cid != NULL && (strcmp(ds->cid, url) == 0 ||
                                   strcmp(ds->name, dataset_short_name(url, ds->tenant)) == 0);
    }
    same = url_parse(&u, url, NULL) == 0 && strcmp(ds->url.text, u.text) == 0;
    url_release(&u);
    return same;
}

const struct dlc_list *datasets_at(const struct node *n, const char *url)
{
    return chain_of(&n->by_url, url);
}

const struct dlc_list *datasets_of_cid(const struct node *n, const char *cid)
{
    return chain_of(&n->by_cid, cid);
}

struct dataset *dataset_find(struct node *n, const char *url)
{
    struct url u = URL_INIT;
    struct dataset *found = NULL;

    if (url_parse(&u, url, NULL) == 0) {
        const struct dlc_list *same = chain_of(&n->by_url, u.text);

        dlc_list_each (l, same) {
            struct dataset *ds = dlc_container(l, struct dataset, same_url);

            if (!ds->stale && ds->state == DATASET_READY && strcmp(ds->url.text, u.text) == 0)
                found = ds;
        }
    }
    url_release(&u);
    return found;
}

bool dataset_trim(struct node *n)
{
    for (unsigned i = 0; i < TRIM_STEP; i++) {
        if (n->n_idle == 0 || (n->n_idle <= IDLE_MAX && n->n_datasets < DATASETS_MAX))
            return false;
        dataset_forget(dlc_container(n->idle.next, struct dataset, idle));
    }
    return n->n_idle > IDLE_MAX;
}

bool dataset_room(struct node *n)
{
    dataset_trim(n);
    return n->n_datasets < DATASETS_MAX;
}

struct dataset *dataset_of_cluster(struct node *n, const char *cid, const char *tenant,
                                   uint64_t snapshot)
{
    struct dataset *newest = NULL, *stale = NULL;
    const struct dlc_list *same = chain_of(&n->by_cid, cid);

    dlc_list_each (l, same) {
        struct dataset *ds = dlc_container(l, struct dataset, same_cid);

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
    return stale; /* it was listed again since: as long as somebody reads it */
}

struct dataset *dataset_to_replace(const struct dataset *ds)
{
    const struct dlc_list *same = chain_of(&ds->node->by_name, ds->asked.name);

    dlc_list_each (l, same) {
        struct dataset *old = dlc_container(l, struct dataset, same_name);

        if (old != ds && !old->stale && old->state == DATASET_READY &&
            strcmp(old->asked.name, ds->asked.name) == 0)
            return old;
    }
    return NULL;
}

struct dataset *dataset_twin(const struct dataset *ds)
{
    const struct dlc_list *same = chain_of(&ds->node->by_name, ds->asked.name);

    dlc_list_each (l, same) {
        struct dataset *twin = dlc_container(l, struct dataset, same_name);

        if (twin != ds && twin->state == DATASET_READY &&
            strcmp(twin->asked.name, ds->asked.name) == 0 &&
            catalog_same(twin->catalog, ds->catalog))
            return twin;
    }
    return NULL;
}

/* ---- snapshots ---- */

struct dataset *dataset_of_snapshot(struct node *n, const char *name, uint64_t snapshot)
{
    struct dataset *found = NULL;
    const struct dlc_list *same = chain_of(&n->by_name, name);

    dlc_list_each (l, same) {
        struct dataset *ds = dlc_container(l, struct dataset, same_name);
        bool is = ds->state == DATASET_READY
                      ? catalog_snapshot(ds->catalog) == snapshot
                      : ds->state == DATASET_LISTING && ds->opening.pinned == snapshot;

        if (is && strcmp(ds->asked.name, name) == 0 && (found == NULL || !ds->stale))
            found = ds;
    }
    return found;
}

static bool is_of_job(const struct session *s, const struct conn *c)
{
    return s->conn != c && s->conn->job != NULL && strcmp(s->conn->job, c->job) == 0 &&
           memcmp(s->conn->owner, c->owner, sizeof(c->owner)) == 0;
}

uint64_t dataset_job_snapshot(const struct conn *c, const char *name)
{
    const struct dlc_list *same = chain_of(&c->node->by_name, name);

    if (c->job == NULL)
        return 0;
    dlc_list_each (l, same) {
        struct dataset *ds = dlc_container(l, struct dataset, same_name);

        if (ds->state != DATASET_READY || strcmp(ds->asked.name, name) != 0)
            continue;
        dlc_list_each (k, &ds->sessions)
            if (is_of_job(dlc_container(k, struct session, link), c))
                return catalog_snapshot(ds->catalog);
    }
    return 0;
}
