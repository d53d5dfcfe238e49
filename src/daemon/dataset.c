// SPDX-License-Identifier: Apache-2.0
#include "daemon/dataset.h"

#include <string.h>

#include "base/config.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "bucket/azure_account.h"
#include "catalog/catalog.h"
#include "cluster/peer/view.h"
#include "daemon/credentials.h"
#include "daemon/dataset_chunks.h"
#include "daemon/dataset_table.h"
#include "daemon/events.h"
#include "daemon/other_users.h"
#include "daemon/state.h"
#include "daemon/work.h"

#define DATASET_TAG  DLC_TAG4('d', 's', 'e', 't')
#define OF_ALL_USERS "*" /* no tenant has such a name */
#define MANY         32 /* datasets, from which on each has one thread for its bucket, not several */

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
    events_raise(ds->node, dataset_freed, ds);
    catalog_close(&ds->catalog);
    url_release(&ds->url);
    map_release(&ds->fetching);
    mem_free(&ds->asked.name);
    mem_free(&ds->asked.url);
    mem_free(&ds->asked.endpoint);
    mem_free(&ds->asked.below);
    mem_free(&ds->cid);
    mem_free(&ds->tenant);
    mem_free(&ds->name);
    mem_free(&ds->shared_as);
    mem_free(&ds->asked.region);
    dataset_credentials_release(&ds->credentials);
    dataset_ticket_release(&ds->ticket);
    mem_free(&ds->catalog_path);
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
    dlc_check(dlc_list_empty(&ds->sessions) && dlc_list_empty(&ds->opening.openers));
    dlc_check(dlc_list_empty(&ds->opening.waiters));
    dlc_check(ds->fetching.n == 0 && ds->opening.listing == NULL);
    dataset_table_remove(ds);
    dlc_list_remove(&ds->backlog.link);
    events_raise(ds->node, dataset_closing, ds);
    if (ds->index != NULL)
        mem_index_free(&ds->index);
    tenant_memory_put(&ds->tenant_memory);
    if (ds->bucket != NULL)
        dataset_close(ds, true);
    else
        dataset_release(ds); /* the daemon ends, or it never came to be */
}

void dataset_expect_bytes(struct dataset *ds)
{
    if (ds->index != NULL)
        mem_index_expect(ds->index, ds->refs > 0 ? catalog_bytes(ds->catalog) : 0);
}

void dataset_put(struct dataset **dp)
{
    struct dataset *ds = *dp;

    *dp = NULL;
    dlc_check(ds->tag == DATASET_TAG && ds->refs > 0);
    if (--ds->refs > 0)
        return;
    dataset_expect_bytes(ds);
    if (ds->stale)
        dataset_free(ds);
    else
        dataset_table_idle(ds, true);
}

/* ---- making ---- */

/* Gives. */
static char *effective_endpoint(const struct dataset *ds)
{
    const char *env;

    if (!url_is_cloud(ds->url.scheme))
        return mem_str("");
    if (ds->asked.endpoint != NULL)
        return mem_str(ds->asked.endpoint);
    if (ds->node->config->endpoint[0] != '\0')
        return mem_str(ds->node->config->endpoint);
    if (ds->url.scheme == URL_AZ)
        return azure_endpoint(&ds->url);
    env = getenv("AWS_ENDPOINT_URL_S3");
    if (env == NULL)
        env = getenv("AWS_ENDPOINT_URL");
    return mem_str(env != NULL ? env : "");
}

/* What a chunk's name is made of beside key and ETag: the place, not the prefix, so that datasets
 * that overlap share chunks; and the tenant, so that nobody finds what another one paid for with
 * credentials of its own (CLUSTER-2). */
static struct name_hash disk_id_of(const struct dataset *ds)
{
    bool whole_keys = url_is_cloud(ds->url.scheme);
    char scheme[16], *endpoint = effective_endpoint(ds);
    const char *const parts[] = {"dlcache place",
                                 scheme,
                                 endpoint,
                                 ds->url.bucket,
                                 whole_keys ? "" : ds->url.prefix,
                                 ds->cid != NULL ? "tenant" : "",
                                 ds->cid != NULL ? ds->tenant : "",
                                 ds->cid == NULL && ds->asked.confined ? "confined" : ""};

    struct name_hash id;

    snprintf(scheme, sizeof(scheme), "%d", (int)ds->url.scheme);
    id = name_hash_of(parts, DLC_COUNT(parts));
    mem_free(&endpoint);
    return id;
}

/* Addresses of clouds and those in the daemon's own settings are its operator's choice. */
static bool tenant_chose_address(const struct dataset *ds)
{
    bool web = ds->url.scheme == URL_HTTP || ds->url.scheme == URL_HTTPS;

    return ds->cid != NULL && ds->tenant[0] != '\0' && (web || ds->asked.endpoint != NULL);
}

struct bucket_config dataset_bucket_config(const struct dataset *ds)
{
    const struct config *c = ds->node->config;
    struct bucket_config bc = BUCKET_CONFIG_INIT;
    bool path_style;

    bc.endpoint = ds->asked.endpoint != NULL ? ds->asked.endpoint
                  : c->endpoint[0]           ? c->endpoint
                                             : NULL;
    bc.foreign_endpoint = ds->asked.endpoint != NULL && (ds->asked.foreign || ds->cid != NULL);
    bc.region = ds->asked.region != NULL ? ds->asked.region : c->region[0] ? c->region : NULL;
    bc.profile = c->profile[0] ? c->profile : NULL;
    bc.keys = ds->credentials.keys;
    bc.anonymous = ds->asked.anonymous || (c->anonymous && ds->credentials.keys == NULL) ||
                   dataset_lacks_credentials(ds);
    bc.confined = ds->asked.confined;
    bc.below = ds->asked.below;
    if (tenant_chose_address(ds)) {
        bc.address_rules = &ds->node->tenant_networks;
        bc.proxy = c->tenant_proxy[0] != '\0' ? c->tenant_proxy : NULL;
    }
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
    struct bucket_config bc;

    if (ds->asked.foreign && ds->cid == NULL && ds->url.scheme == URL_FILE) {
        ds->asked.below = allowed_path_of(ds->node->config, ds->url.prefix);
        dlc_check(ds->asked.below != NULL); /* other_user_may_open() */
    }
    bc = dataset_bucket_config(ds);
    if (bc.lanes == 0 && ds->node->n_datasets > MANY)
        bc.lanes = 1;
    return bucket_open(&ds->url, &bc, &ds->bucket, err);
}

/* What the daemon may read and who asks may not: a link must not lead there. */
static bool is_confined(const struct open_request *w)
{
    struct dlc_err err;
    struct url u = URL_INIT;
    bool file;

    if (!w->foreign && (w->grant == NULL || w->grant->tenant[0] == '\0'))
        return false;
    file = url_parse(&u, w->url, &err) == 0 && u.scheme == URL_FILE;
    url_release(&u);
    return file;
}

char *dataset_name(const struct open_request *w)
{
    const struct grant *g = w->grant;

    return mem_fmt("%s\n%s\n%d%d%d%d\n%s\n%s", w->url, w->endpoint != NULL ? w->endpoint : "",
                   w->anonymous, w->endpoint != NULL && w->foreign && g == NULL,
                   g != NULL && g->access_key != NULL, is_confined(w), g != NULL ? g->tenant : "",
                   g != NULL ? g->dataset : "");
}

void dataset_take_grant(struct dataset *ds, const struct grant *g)
{
    if (strcmp(g->dataset, ds->cid) != 0 || strcmp(g->tenant, ds->tenant) != 0)
        return; /* ours was deleted, and its id means another one now */
    dataset_ticket_take(&ds->ticket, g);
    if (dataset_credentials_take(&ds->credentials, g) && ds->bucket != NULL)
        log_info("%s: the credentials of %s have changed", ds->url.shown, ds->tenant);
}

/* Whose it is, from its first grant on. */
static void set_owner(struct dataset *ds, const struct grant *g)
{
    dataset_credentials_init(&ds->credentials, g);
    if (g == NULL)
        return;
    ds->cid = mem_str(g->dataset);
    ds->tenant = mem_str(g->tenant);
    ds->name = mem_str(g->name);
    ds->shared_as = mem_fmt("%s/%s", g->tenant, g->dataset);
    ds->asked.region = mem_str(g->region);
    dataset_take_grant(ds, g);
}

static char *catalog_path_of(const struct dataset *ds)
{
    char *endpoint = effective_endpoint(ds), *path;
    const char *const parts[] = {"dlcache catalog",
                                 endpoint,
                                 ds->cid != NULL ? "tenant" : "",
                                 ds->cid != NULL ? ds->tenant : "",
                                 ds->asked.confined ? "confined" : "", /* another listing */
                                 ds->url.text};

    path = catalog_path(ds->node->config->dir, parts, DLC_COUNT(parts));
    mem_free(&endpoint);
    return path;
}

/* The memory in which its samples lie: that of its tenant. Without one, what the daemon's user alone
 * may open lies apart from what users of --allow-uid may open, too: they have one for all of them,
 * since they share such datasets. Datasets of the same name have the same memory. */
static const char *memory_name(const struct dataset *ds)
{
    bool own = ds->cid == NULL && !ds->asked.foreign &&
               (ds->url.scheme == URL_FILE || ds->asked.endpoint != NULL);

    if (ds->tenant != NULL && ds->tenant[0] != '\0')
        return ds->tenant;
    return own || ds->node->config->allow_uid[0] == '\0' ? "" : OF_ALL_USERS;
}

struct dataset *dataset_new(struct node *n, const struct open_request *w, struct dlc_err *err)
{
    struct dataset *ds = mem_new(struct dataset);
    int rc;

    ds->tag = DATASET_TAG;
    ds->runs = ds->runs_after = POLICY_UNKNOWN;
    ds->node = n;
    ds->id = ++n->next_id;
    ds->refs = 1;
    ds->asked.name = dataset_name(w);
    ds->asked.url = mem_str(w->url);
    ds->asked.endpoint = mem_str(w->endpoint);
    ds->asked.anonymous = w->anonymous;
    ds->asked.foreign = w->foreign;
    ds->asked.confined = is_confined(w);
    ds->opening.wanted = n->peers != NULL && w->grant != NULL ? w->grant->snapshot : 0;
    ds->opening.instead_of = w->refresh ? ds->opening.wanted : 0;
    ds->tally = mem_new(struct bucket_tally);
    ds->stale = true; /* until it is known to be good */
    hist_init(&ds->prefetch.latency, 1024);
    dlc_list_init(&ds->sessions);
    dlc_list_init(&ds->decoded_caches);
    dlc_list_init(&ds->job_weights);
    dlc_list_init(&ds->opening.openers);
    dlc_list_init(&ds->opening.waiters);
    dlc_list_init(&ds->backlog.link);
    set_owner(ds, w->grant);
    rc = url_parse(&ds->url, w->url, err);
    dataset_table_add(ds);
    if (rc < 0 || tenant_memory_get(&n->memories, memory_name(ds), &ds->tenant_memory, err) < 0 ||
        open_bucket(ds, err) < 0) {
        dataset_put(&ds);
        return NULL;
    }
    ds->catalog_path = catalog_path_of(ds);
    ds->disk.id = disk_id_of(ds);
    dataset_enter_group(ds);
    ds->opening.pinned = w->snapshot;
    ds->stale = ds->opening.pinned != 0; /* until it is known to be the newest */
    return ds;
}

/* ---- the end ---- */

void dataset_forget(struct dataset *ds)
{
    ds->stale = true;
    dataset_ref(ds);
    dataset_put(&ds);
}

void dataset_shutdown(struct dataset *ds)
{
    struct dataset *ref = ds;

    ds->stale = true;
    dataset_ref(ds);
    events_raise(ds->node, dataset_stopping, ds);
    if (ds->bucket != NULL)
        dataset_close(ds, false); /* every request under way posts its end */
    dataset_put(&ref);
}
