// SPDX-License-Identifier: Apache-2.0
/* The manager: what it opens, its thread, and how it says that it is alive. */
#include "manager/manager_i.h"
#include "manager/tables/cluster_view_i.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"

#define TICK        DLC_MS(100)
#define JOBS_EVERY  DLC_SEC(1)
#define PURGE_EVERY DLC_SEC(3600)

static struct dlc_dur or_default(struct dlc_dur d, struct dlc_dur otherwise)
{
    return d.ns > 0 ? d : otherwise;
}

struct control *control_of(void *ctx)
{
    struct control *c = ctx;

    dlc_check(c != NULL && c->tag == CONTROL_TAG);
    return c;
}

const char *control_address(const struct control *c)
{
    return c->server != NULL ? http_server_address(c->server) : NULL;
}

/* ---- routes ---- */

static void health(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)r;
    (void)ctx;
    reply_doc(reply, 200, json_pack("{s:s}", "status", "ok"), 0);
}

static int add_count(struct control *c, json_t *counts, const char *name, enum store_kind kind,
                     const char *tenant, struct dlc_err *err)
{
    uint64_t n = 0;
    int rc = store_count(c->store, kind, tenant, &n, err);

    json_object_set_new(counts, name, json_integer((json_int_t)n));
    return rc;
}

/* A tenant's counts are of its own. */
static json_t *count_all(struct control *c, const struct caller *who, struct dlc_err *err)
{
    const char *tenant = who->role == ROLE_TENANT ? who->tenant : NULL;
    json_t *counts = json_object();
    int rc = add_count(c, counts, "datasets", STORE_DATASET, tenant, err);

    if (rc == 0)
        rc = add_count(c, counts, "jobs", STORE_JOB, tenant, err);
    if (rc == 0)
        rc = add_count(c, counts, "nodes", STORE_NODE, NULL, err);
    if (rc == 0 && tenant == NULL)
        rc = add_count(c, counts, "tenants", STORE_TENANT, NULL, err);
    if (rc < 0)
        json_object_clear(counts);
    return counts;
}

static void status(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
    struct dlc_err err = DLC_ERR_INIT;
    bool leads = control_leads(c);
    json_t *o = json_pack("{s:s, s:b, s:f}", "version", dlc_version(), "leads", leads, "uptime_s",
                          dlc_dur_seconds(dlc_mono_since(c->started)));
    json_t *counts = count_all(c, caller_of(r), &err);

    json_object_set_new(
        o, "store",
        json_pack("{s:s, s:b}", "kind", store_backend(c->store), "answers", err.code == 0));
    json_object_set_new(o, "counts", counts);
    dlc_mtx_lock(&c->mtx);
    json_object_set_new(o, "leader", c->leader != NULL ? json_string(c->leader) : json_null());
    json_object_set_new(o, "fence", json_integer((json_int_t)c->fence));
    json_object_set_new(o, "view", json_integer((json_int_t)c->view_version));
    dlc_mtx_unlock(&c->mtx);
    reply_doc(reply, 200, o, 0);
}

const struct http_route control_base_routes[] = {
    {"GET", "/v1/health", 0, health},
    {"GET", "/v1/status", ROLE_ANY, status},
    {NULL, NULL, 0, NULL},
};

static struct http_route *all_routes(void)
{
    static const struct http_route *const parts[] = {
        control_base_routes, control_tenant_routes, control_dataset_routes, control_job_routes,
        control_node_routes, control_event_routes,  control_resolve_routes,
    };
    struct http_route *all = NULL;
    size_t n = 0, cap = 0;

    for (size_t i = 0; i < DLC_COUNT(parts); i++)
        for (const struct http_route *r = parts[i]; r->method != NULL; r++) {
            mem_reserve(all, n, cap);
            all[n++] = *r;
        }
    mem_reserve(all, n, cap);
    all[n] = (struct http_route){NULL, NULL, 0, NULL};
    return all;
}

/* ---- the thread ---- */

static void tick(struct control *c, struct dlc_mono *jobs_at, struct dlc_mono *purge_at)
{
    struct dlc_mono now = dlc_mono_now();

    if (!leader_holds(c))
        return;
    nodes_tick(c, dlc_mono_now()); /* the lock may have taken time */
    if (now.ns >= jobs_at->ns && leader_holds(c)) {
        jobs_tick(c, now);
        commands_tick(c);
        datasets_tick(c, now);
        weights_tick(c, now);
        *jobs_at = dlc_mono_add(now, JOBS_EVERY);
    }
    if (now.ns >= purge_at->ns && leader_holds(c)) {
        idempotency_purge(c);
        *purge_at = dlc_mono_add(now, PURGE_EVERY);
    }
    if (leader_holds(c))
        view_tick(c);
}

static void *run(void *arg)
{
    struct control *c = control_of(arg);
    struct dlc_mono jobs_at = {0}, purge_at = {0};
    bool ending = false;

    while (!ending) {
        tick(c, &jobs_at, &purge_at);
        dlc_mtx_lock(&c->mtx);
        if (!c->ending)
            dlc_cond_wait_for(&c->wake, &c->mtx, TICK);
        ending = c->ending;
        dlc_mtx_unlock(&c->mtx);
    }
    return NULL;
}

static void end_thread(struct control *c)
{
    if (!c->has_thread)
        return;
    dlc_mtx_lock(&c->mtx);
    c->ending = true;
    dlc_cond_signal(&c->wake);
    dlc_mtx_unlock(&c->mtx);
    pthread_join(c->thread, NULL);
    c->has_thread = false;
}

/* ---- open and close ---- */

static int open_dir(struct control *c, const char *dir, struct dlc_err *err)
{
    if (os_mkdirs(dir, 0700) < 0)
        return dlc_err_sys(err, "cannot make %s", dir);
    c->dir = os_realpath(dir);
    return c->dir != NULL ? 0 : dlc_err_sys(err, "%s", dir);
}

static int open_store(struct control *c, const char *url, struct dlc_err *err)
{
    char *own = mem_fmt("sqlite:%s/manager.db", c->dir);
    int rc = store_open(url != NULL ? url : own, &c->store, err);

    mem_free(&own);
    return rc;
}

/* 0.0.0.0 means every address of this host: others know it by name. */
static char *reachable(const char *address, bool tls)
{
    const char *port = strrchr(address, ':'), *scheme = tls ? "https" : "http";
    char host[256] = "";

    if ((str_starts(address, "0.0.0.0:") || str_starts(address, "[::]:")) && port != NULL &&
        gethostname(host, sizeof(host) - 1) == 0)
        return mem_fmt("%s://%s%s", scheme, host, port);
    return mem_fmt("%s://%s", scheme, address);
}

static int open_server(struct control *c, const struct control_config *config, struct dlc_err *err)
{
    struct http_server_config h = {
        .address = config->listen,
        .unix_path = config->unix_path,
        .tls_cert = config->tls_cert,
        .tls_key = config->tls_key,
        .ctx = c,
        .check = control_check,
    };
    int rc;

    c->routes = all_routes();
    h.routes = c->routes;
    rc = http_server_open(&h, &c->server, err);
    if (rc < 0)
        return rc;
    dlc_mtx_lock(&c->mtx);
    if (config->advertise != NULL)
        c->advertise = mem_str(config->advertise);
    else if (control_address(c) != NULL)
        c->advertise = reachable(control_address(c), config->tls_cert != NULL);
    else
        c->advertise = mem_fmt("unix:%s", config->unix_path);
    dlc_mtx_unlock(&c->mtx);
    return 0;
}

static int open_all(struct control *c, const struct control_config *config, struct dlc_err *err)
{
    int rc = open_dir(c, config->dir, err);

    if (rc == 0)
        rc = leader_lock_dir(c, err);
    if (rc == 0)
        rc = auth_open(c, err);
    if (rc == 0)
        rc = seal_open(c->dir, &c->seal, err);
    if (rc == 0)
        rc = open_store(c, config->store, err);
    if (rc == 0)
        rc = fingerprints_agree(c, err);
    if (rc == 0)
        rc = leader_open(c, err);
    if (rc == 0)
        rc = open_server(c, config, err);
    if (rc < 0)
        return rc;
    leader_tick(c, dlc_mono_now()); /* who is alone leads before anybody can ask */
    if (os_thread(&c->thread, run, c) != 0)
        return dlc_err_set(err, DLC_ENOMEM, "cannot start the manager's thread");
    c->has_thread = true;
    return 0;
}

int control_open(const struct control_config *config, struct control **out, struct dlc_err *err)
{
    struct control *c = mem_new(struct control);
    int rc;

    dlc_check(config->dir != NULL && (config->listen != NULL || config->unix_path != NULL));
    c->tag = CONTROL_TAG;
    c->dir_lock = -1;
    c->started = dlc_mono_now();
    c->node_ttl = or_default(config->node_ttl, DLC_SEC(10));
    c->job_ttl = or_default(config->job_ttl, DLC_SEC(60));
    c->lock_ttl = or_default(config->lock_ttl, DLC_SEC(10));
    dlc_mtx_init(&c->mtx, LCK_control);
    dlc_mtx_init(&c->posting, LCK_posting);
    dlc_cond_init(&c->wake);
    dlc_cond_init(&c->view_new);
    dlc_list_init(&c->streams);
    rc = open_all(c, config, err);
    if (rc < 0)
        control_close(&c);
    *out = c;
    return rc;
}

void control_close(struct control **cp)
{
    struct control *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    end_thread(c);
    http_server_close(&c->server);
    leader_close(c);
    jobs_close(c);
    nodes_close(c);
    view_put(&c->view);
    datasets_index_release(&c->index);
    json_decref(c->orphans);
    json_decref(c->finishing);
    seal_close(&c->seal);
    store_close(&c->store);
    mem_free(&c->advertise);
    mem_free(&c->routes);
    free(c->dir);
    dlc_cond_release(&c->wake);
    dlc_cond_release(&c->view_new);
    dlc_mtx_release(&c->mtx);
    dlc_mtx_release(&c->posting);
    c->tag = 0;
    mem_free(&c);
}
