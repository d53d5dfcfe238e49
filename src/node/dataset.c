// SPDX-License-Identifier: Apache-2.0
/*
 * Datasets: a catalog, a bucket and an index under one name, shared by all sessions.
 *
 *     (new) --stored catalog--> READY
 *     (new) --> LISTING --listed, written, mapped--> READY
 *                  |--> FAILED (told to all who waited, then forgotten)
 *
 * A dataset without sessions stays: its samples remain resident for the next run. A refresh makes a
 * new dataset beside the old one, whose sessions keep the old numbers until they close.
 */
#include "node/node_i.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/str.h"

#define DATASET_TAG DLC_TAG4('d', 's', 'e', 't')
#define BACKLOG_MAX (1u << 22)
#define IDLE_MAX    32  /* datasets without users that stay for the next run */
#define OPEN_MAX    256 /* datasets in all: each has threads and descriptors */

/* A listing under way: bucket pages on a lane, then sorting and writing on a worker. */
struct listing {
    struct dataset *ds;
    struct catalog_builder *builder; /* the lane's until done, then the worker's */
    char *prefix;                    /* what is asked for; NULL: the URL's own */
    struct bucket_list list;
    struct bucket_stat stat;
    _Atomic uint64_t seen; /* W lane, R loop, relaxed: progress only */
    struct task task;
    struct job job;
    void (*next)(struct listing *l);
    int rc;
    struct dlc_err err;
};

/* ---- references ---- */

static void dataset_free(struct dataset *ds)
{
    dlc_check(dlc_list_empty(&ds->sessions) && dlc_list_empty(&ds->openers));
    dlc_check(ds->fetching.n == 0 && ds->listing == NULL);
    dlc_list_remove(&ds->link);
    bucket_close(&ds->bucket);
    if (ds->index != NULL)
        mem_index_free(&ds->index);
    catalog_close(&ds->catalog);
    url_release(&ds->url);
    map_release(&ds->fetching);
    mem_free(&ds->name);
    mem_free(&ds->endpoint);
    mem_free(&ds->catalog_path);
    mem_free(&ds->backlog);
    ds->tag = 0;
    mem_free(&ds);
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

static void answer_openers(struct dataset *ds)
{
    struct dlc_list *n;
    struct dlc_err err;

    while ((n = dlc_list_pop_head(&ds->openers)) != NULL) {
        struct conn *c = dlc_container(n, struct conn, waiting);
        struct dataset *ref = c->opening;

        c->opening = NULL;
        if (ds->state == DATASET_FAILED)
            conn_fail_err(c, &ds->error);
        else if (session_new(c, ds, &err) < 0)
            conn_fail_err(c, &err);
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

/* The catalog is on disk: map it and be open. */
static int dataset_ready(struct dataset *ds, struct dlc_err *err)
{
    int rc = catalog_open(ds->catalog_path, &ds->catalog, err);
    uint64_t n;

    if (rc < 0)
        return rc;
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
    if (n > 0)
        bucket_hint_size(ds->bucket, catalog_bytes(ds->catalog) / n);
    ds->state = DATASET_READY;
    log_info("%s: %llu samples", ds->url.shown, (unsigned long long)n);
    return 0;
}

/* ---- listing ---- */

static void listing_free(struct listing **lp)
{
    struct listing *l = *lp;

    *lp = NULL;
    catalog_builder_free(&l->builder);
    mem_free(&l->prefix);
    mem_free(&l);
}

static void listing_end(struct listing *l)
{
    struct dataset *ds = l->ds;

    ds->listing = NULL;
    if (l->rc == 0)
        l->rc = dataset_ready(ds, &l->err);
    if (l->rc < 0)
        dataset_fail(ds, &l->err);
    else
        answer_openers(ds);
    listing_free(&l);
    dataset_put(&ds);
}

static void listing_on_loop(struct task *t)
{
    struct listing *l = dlc_container(t, struct listing, task);
    struct node *n = l->ds->node;

    n->jobs--;
    if (n->stopping) { /* the bucket may be closed already */
        l->rc = dlc_err_set(&l->err, DLC_ECANCELED, "the daemon is stopping");
        listing_end(l);
        return;
    }
    l->next(l);
}

static void write_on_worker(struct job *j)
{
    struct listing *l = dlc_container(j, struct listing, job);

    l->rc = catalog_builder_finish(l->builder, l->ds->catalog_path, l->ds->url.text, &l->err);
    loop_post(l->ds->node->loop, &l->task);
}

static void listing_write(struct listing *l)
{
    l->next = listing_end;
    l->job.run = write_on_worker;
    l->ds->node->jobs++;
    pool_run(l->ds->node->workers, &l->job);
}

static bool on_page(struct bucket_list *bl, const struct bucket_object *objects, size_t n)
{
    struct listing *l = bl->priv;

    for (size_t i = 0; i < n; i++) {
        const struct bucket_object *o = &objects[i];

        if (o->size == 0 && str_ends(o->key, "/"))
            continue; /* the mark that consoles leave for an empty folder */
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
        listing_write(l);
}

static void on_stat(struct bucket_stat *s)
{
    struct listing *l = s->priv;

    loop_post(l->ds->node->loop, &l->task);
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
    } else if (catalog_builder_count(l->builder) > 0) {
        listing_write(l);
    } else if (l->prefix != NULL && !str_ends(ds->url.prefix, "*")) {
        /* Not a folder: perhaps the URL names one object. */
        l->stat = (struct bucket_stat){.key = ds->url.prefix, .done = on_stat, .priv = l};
        l->next = stat_next;
        ds->node->jobs++;
        bucket_stat(ds->bucket, &l->stat);
    } else {
        listing_nothing(l);
    }
}

static void on_listed(struct bucket_list *bl)
{
    struct listing *l = bl->priv;

    loop_post(l->ds->node->loop, &l->task);
}

/*
 * A prefix names a folder: `s3://b/train` is what lies below `train/`, not `training/...` too. A
 * star at the end makes it a plain prefix: `s3://b/part-*`.
 */
static char *list_prefix(const struct url *u)
{
    size_t n = strlen(u->prefix);

    if (u->scheme != URL_S3 && u->scheme != URL_GS)
        return NULL;
    if (n > 0 && u->prefix[n - 1] == '*')
        return mem_strn(u->prefix, n - 1);
    return n == 0 || u->prefix[n - 1] == '/' ? NULL : mem_fmt("%s/", u->prefix);
}

static void listing_start(struct dataset *ds)
{
    struct listing *l = mem_new(struct listing);

    l->ds = ds;
    l->builder = catalog_builder_new();
    l->prefix = list_prefix(&ds->url);
    l->task.run = listing_on_loop;
    l->next = list_next;
    l->list =
        (struct bucket_list){.prefix = l->prefix, .page = on_page, .done = on_listed, .priv = l};
    ds->listing = l;
    ds->refs++;
    ds->node->jobs++;
    bucket_list(ds->bucket, &l->list);
}

void dataset_progress(struct dataset *ds)
{
    uint64_t seen;

    if (ds->listing == NULL)
        return;
    seen = atomic_load_explicit(&ds->listing->seen, memory_order_relaxed);
    dlc_list_each (n, &ds->openers) {
        conn_progress(dlc_container(n, struct conn, waiting),
                      json_pack("{s:s, s:I}", "phase", "listing", "objects", (json_int_t)seen));
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
 * that overlap share chunks. */
static uint64_t disk_id_of(const struct dataset *ds)
{
    bool whole_keys = ds->url.scheme == URL_S3 || ds->url.scheme == URL_GS;
    char *place = mem_fmt("%d %s %s", (int)ds->url.scheme, effective_endpoint(ds),
                          whole_keys ? ds->url.bucket : ds->url.text);
    uint64_t id = hash64_str(place);

    mem_free(&place);
    return id;
}

static int open_bucket(struct dataset *ds, struct dlc_err *err)
{
    const struct config *c = ds->node->config;
    struct bucket_config bc = BUCKET_CONFIG_INIT;
    bool path_style;

    bc.endpoint = ds->endpoint != NULL ? ds->endpoint : c->endpoint[0] ? c->endpoint : NULL;
    bc.region = c->region[0] ? c->region : NULL;
    bc.profile = c->profile[0] ? c->profile : NULL;
    bc.anonymous = ds->anonymous || c->anonymous;
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
    return bucket_open(&ds->url, &bc, &ds->bucket, err);
}

static char *dataset_name(const char *url, const char *endpoint, bool anonymous)
{
    return mem_fmt("%s\n%s\n%d", url, endpoint != NULL ? endpoint : "", anonymous);
}

/* Gives, with one reference. NULL: *err says why. */
static struct dataset *dataset_new(struct node *n, const char *url, const char *endpoint,
                                   bool anonymous, struct dlc_err *err)
{
    struct dataset *ds = mem_new(struct dataset);

    ds->tag = DATASET_TAG;
    ds->node = n;
    ds->id = ++n->next_id;
    ds->refs = 1;
    ds->name = dataset_name(url, endpoint, anonymous);
    ds->endpoint = mem_str(endpoint);
    ds->anonymous = anonymous;
    ds->stale = true; /* until it is known to be good */
    hist_init(&ds->latency, 1024);
    dlc_list_init(&ds->sessions);
    dlc_list_init(&ds->openers);
    dlc_list_push_tail(&n->datasets, &ds->link);
    if (url_parse(&ds->url, url, err) < 0 || open_bucket(ds, err) < 0) {
        dataset_put(&ds);
        return NULL;
    }
    ds->catalog_path = catalog_path(n->config->dir, effective_endpoint(ds), ds->url.text);
    ds->disk_id = disk_id_of(ds);
    ds->stale = false;
    return ds;
}

static struct dataset *find_by_name(struct node *n, const char *name)
{
    dlc_list_each (l, &n->datasets) {
        struct dataset *ds = dlc_container(l, struct dataset, link);

        if (!ds->stale && strcmp(ds->name, name) == 0)
            return ds;
    }
    return NULL;
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

static void wait_for(struct conn *c, struct dataset *ds)
{
    c->opening = ds;
    ds->refs++;
    dlc_list_push_tail(&ds->openers, &c->waiting);
}

void dataset_open(struct conn *c, const char *url, const char *endpoint, bool anonymous,
                  bool refresh)
{
    char *name = dataset_name(url, endpoint, anonymous);
    struct dataset *ds = find_by_name(c->node, name);
    struct dlc_err err;

    mem_free(&name);
    if (ds != NULL && ds->state == DATASET_READY && !refresh) {
        dlc_list_remove(&ds->link); /* the list is in order of use */
        dlc_list_push_tail(&c->node->datasets, &ds->link);
        if (session_new(c, ds, &err) < 0)
            conn_fail_err(c, &err);
        return;
    }
    if (ds != NULL && ds->state == DATASET_LISTING) {
        wait_for(c, ds);
        return;
    }
    if (ds != NULL) {
        ds->stale = true; /* refresh: the old one stays for its sessions */
        ds->refs++;
        dataset_put(&ds);
    }
    if (!room_for_dataset(c->node)) {
        conn_fail(c, DLC_EBUSY, "too many datasets are open at this daemon: close some");
        return;
    }
    ds = dataset_new(c->node, url, endpoint, anonymous, &err);
    if (ds == NULL) {
        conn_fail_err(c, &err);
        return;
    }
    wait_for(c, ds);
    if (!refresh && dataset_ready(ds, &err) == 0)
        answer_openers(ds);
    else
        listing_start(ds);
    dataset_put(&ds);
}

/* ---- the queue of prefetches ---- */

void dataset_backlog_add(struct dataset *ds, uint64_t sample)
{
    if (ds->backlog_len == BACKLOG_MAX)
        return; /* it was only a hint */
    if (ds->backlog_len == ds->backlog_cap) {
        size_t cap = ds->backlog_cap == 0 ? 1024 : ds->backlog_cap * 2;
        uint64_t *q = mem_alloc(cap * sizeof(*q));

        for (size_t i = 0; i < ds->backlog_len; i++)
            q[i] = ds->backlog[(ds->backlog_head + i) & (ds->backlog_cap - 1)];
        mem_free(&ds->backlog);
        ds->backlog = q;
        ds->backlog_cap = cap;
        ds->backlog_head = 0;
    }
    ds->backlog[(ds->backlog_head + ds->backlog_len++) & (ds->backlog_cap - 1)] = sample;
}

bool dataset_backlog_next(struct dataset *ds, uint64_t *sample)
{
    while (ds->backlog_len > 0) {
        *sample = ds->backlog[ds->backlog_head];
        ds->backlog_head = (ds->backlog_head + 1) & (ds->backlog_cap - 1);
        ds->backlog_len--;
        if (!mem_index_ready(ds->index, *sample) && map_get(&ds->fetching, *sample) == NULL)
            return true;
    }
    return false;
}

/* ---- the end ---- */

void dataset_shutdown(struct dataset *ds)
{
    struct dataset *ref = ds;

    ds->stale = true;
    ds->backlog_len = 0;
    bucket_close(&ds->bucket); /* every request under way posts its end */
    ds->refs++;
    dataset_put(&ref);
}
