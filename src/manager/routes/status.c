// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/status.h"

#include "base/check.h"
#include "dlcache.h"
#include "manager/routes/api.h"
#include "manager/routes/route_util.h"
#include "manager/tables/cluster_view.h"
#include "manager/tables/leader.h"

void route_health(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)r;
    (void)ctx;
    reply_doc(reply, 200, json_pack("{s:s}", "status", "ok"), 0);
}

static int add_count(struct api *api, json_t *counts, const char *name, enum store_kind kind,
                     const char *tenant, struct dlc_err *err)
{
    uint64_t n = 0;
    int rc = store_count(api->tables->store, kind, tenant, &n, err);

    json_object_set_new(counts, name, json_integer((json_int_t)n));
    return rc;
}

/* A tenant's counts are of its own. */
static json_t *count_all(struct api *api, const struct caller *who, struct dlc_err *err)
{
    const char *tenant = who->role == ROLE_TENANT ? who->tenant : NULL;
    json_t *counts = json_object();
    int rc = add_count(api, counts, "datasets", STORE_DATASET, tenant, err);

    if (rc == 0)
        rc = add_count(api, counts, "jobs", STORE_JOB, tenant, err);
    if (rc == 0)
        rc = add_count(api, counts, "nodes", STORE_NODE, NULL, err);
    if (rc == 0 && tenant == NULL)
        rc = add_count(api, counts, "tenants", STORE_TENANT, NULL, err);
    if (rc < 0)
        json_object_clear(counts);
    return counts;
}

void route_status(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct dlc_err err = DLC_ERR_INIT;
    const struct leader *leader = &api->tables->leader;
    bool leads = leader_leads(api->tables);
    json_t *o = json_pack("{s:s, s:b, s:f, s:I}", "version", dlc_version(), "leads", leads,
                          "uptime_s", dlc_dur_seconds(dlc_mono_since(api->started)), "audit_lost",
                          (json_int_t)audit_log_lost(api->audit));
    json_t *counts = count_all(api, caller_of(r), &err);

    json_object_set_new(o, "store",
                        json_pack("{s:s, s:b}", "kind", store_backend(api->tables->store),
                                  "answers", err.code == 0));
    json_object_set_new(o, "counts", counts);
    dlc_mtx_lock(&api->tables->mtx);
    json_object_set_new(o, "leader",
                        leader->address != NULL ? json_string(leader->address) : json_null());
    json_object_set_new(o, "fence", json_integer((json_int_t)leader->fence));
    dlc_mtx_unlock(&api->tables->mtx);
    json_object_set_new(o, "view", json_integer((json_int_t)view_version(api->tables)));
    reply_doc(reply, 200, o, 0);
}
