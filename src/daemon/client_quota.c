// SPDX-License-Identifier: Apache-2.0
#include "daemon/client_quota.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/counters.h"
#include "base/log.h"
#include "cluster/peer/view.h"
#include "daemon/client_conn.h"
#include "daemon/daemon.h"
#include "daemon/dataset.h"
#include "daemon/session.h"
#include "daemon/state.h"

/* Whose a session or dataset is: the tenant's or, where tenant is "", the user's. */
struct quota_owner {
    const char *tenant;
    uid_t uid;
};

static bool has_quota(const struct open_request *w, struct quota_owner *o)
{
    o->tenant = w->grant != NULL ? w->grant->tenant : "";
    o->uid = w->uid;
    return o->tenant[0] != '\0' || w->foreign;
}

static bool owns(const struct quota_owner *o, const char *tenant, uid_t uid)
{
    if (tenant == NULL)
        tenant = "";
    return strcmp(o->tenant, tenant) == 0 && (tenant[0] != '\0' || o->uid == uid);
}

static int refuse(struct dlc_err *err, const struct quota_owner *o, uint64_t most, const char *what,
                  const char *setting)
{
    static struct log_limit limit; /* L */
    char who[320];

    if (o->tenant[0] != '\0')
        snprintf(who, sizeof(who), "tenant %.255s", o->tenant);
    else
        snprintf(who, sizeof(who), "user %d", (int)o->uid);
    count(quota_refusals);
    dlc_err_set(err, DLC_EBUSY,
                "%s has %llu %s at this daemon, the most for one (%s): close some, or ask the "
                "daemon's administrator for more",
                who, (unsigned long long)most, what, setting);
    if (log_limit_allows(&limit))
        log_warn("refused: %s (%u such warnings were left out before)", err->text,
                 log_limit_left_out(&limit));
    return DLC_EBUSY;
}

/* Programs of all tenants may be of one user at a node of a cluster. */
static bool users_are_shared(const struct node *n)
{
    return n->membership != NULL && !n->membership->inside;
}

static bool has_dataset(const struct conn *c)
{
    return c->session != NULL || c->opening != NULL;
}

/* It has shown no token that counts, and nothing is done for it. */
static bool is_idle(const struct conn *c)
{
    return !has_dataset(c) && !c->asking && c->writer.n == 0;
}

int quota_connection(const struct node *n, uid_t uid, struct dlc_err *err)
{
    const struct quota_owner o = {"", uid};
    uint64_t most = n->config->max_connections, have = 0;
    bool shared = users_are_shared(n);
    struct conn *oldest = NULL;

    dlc_list_each (l, &n->conns) {
        struct conn *c = dlc_container(l, struct conn, link);

        if (c->uid != uid || c->closing || (shared && has_dataset(c)))
            continue;
        have++;
        if (shared && oldest == NULL && is_idle(c))
            oldest = c;
    }
    if (have < most || most == 0)
        return 0;
    if (oldest == NULL)
        return refuse(err, &o, most, "connections", "max-connections");
    count(quota_refusals);
    conn_end_soon(oldest, "it has no dataset open, and others of its user need its place");
    return 0;
}

/* Sessions, and connections that wait for one. */
static uint64_t sessions_in(const struct dlc_list *conns, const struct quota_owner *o)
{
    uint64_t have = 0;

    dlc_list_each (l, conns) {
        const struct conn *c = dlc_container(l, struct conn, link);
        const struct dataset *ds = c->session != NULL ? c->session->ds : c->opening;

        have += ds != NULL && owns(o, ds->tenant, c->uid);
    }
    return have;
}

int quota_session(const struct conn *c, const struct open_request *w, struct dlc_err *err)
{
    uint64_t most = c->node->config->max_sessions;
    struct quota_owner o;

    if (!has_quota(w, &o) || most == 0)
        return 0;
    if (sessions_in(&c->node->conns, &o) + sessions_in(&c->node->zombies, &o) < most)
        return 0;
    return refuse(err, &o, most, "sessions", "max-sessions");
}

/* Users share datasets of no tenant: each uses those that it has sessions on, or waits for. */
static bool uses(const struct quota_owner *o, const struct dataset *ds)
{
    if (o->tenant[0] != '\0')
        return ds->refs > 0 && ds->tenant != NULL && strcmp(ds->tenant, o->tenant) == 0;
    dlc_list_each (l, &ds->sessions) {
        if (dlc_container(l, struct session, link)->conn->uid == o->uid)
            return true;
    }
    dlc_list_each (l, &ds->opening.openers) {
        if (dlc_container(l, struct conn, waiting)->uid == o->uid)
            return true;
    }
    return false;
}

int quota_dataset(const struct node *n, const struct open_request *w, const struct dataset *ds,
                  struct dlc_err *err)
{
    uint64_t most = n->config->max_datasets, have = 0;
    struct quota_owner o;

    if (!has_quota(w, &o) || most == 0 || (ds != NULL && uses(&o, ds)))
        return 0;
    dlc_list_each (l, &n->datasets)
        have += uses(&o, dlc_container(l, struct dataset, link));
    return have < most ? 0 : refuse(err, &o, most, "datasets", "max-datasets");
}
