// SPDX-License-Identifier: Apache-2.0
#include "daemon/client_open.h"

#include <string.h>
#include <unistd.h>

#include "base/job_id.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "cluster/peer/view.h"
#include "daemon/client_audit.h"
#include "daemon/client_conn.h"
#include "daemon/cluster_ops.h"
#include "daemon/daemon.h"
#include "daemon/dataset.h"
#include "daemon/dataset_open.h"
#include "daemon/decoded_cache.h"
#include "daemon/other_users.h"
#include "daemon/state.h"

/* Programs open rarely, often many at once: a second is enough. A revocation or a new listing counts
 * from then on. */
#define OPEN_LIFE DLC_SEC(1)

struct opening {
    uint64_t conn;
    bool refresh;
    bool job_checked;
    bool names_snapshot;          /* the client does: it gets that one */
    char *url, *token, *endpoint; /* as the client asked; token and endpoint may be NULL */
};

static void opening_free(struct opening **op)
{
    struct opening *o = *op;

    *op = NULL;
    secret_free(&o->token);
    mem_free(&o->endpoint);
    mem_free(&o->url);
    mem_free(&o);
}

/* Of the daemon's user, or root, who may read all that the daemon may. */
static bool is_own(const struct conn *c)
{
    return c->uid == geteuid() || c->uid == 0;
}

/* Whoever is refused learns by whom: it may not be the daemon that was meant. */
static void refuse_open(struct conn *c, const char *url, const struct dlc_err *err)
{
    char *who = conn_server(c->node);
    char *text = mem_fmt("%s (%s, at %s)", err->text, who, c->node->config->socket);

    client_audit(c, "open", url, err->code == DLC_EDENIED ? AUDIT_REFUSED : AUDIT_FAILED,
                 err->text);
    conn_fail(c, err->code, text);
    mem_free(&text);
    mem_free(&who);
}

static void open_granted(struct node *n, const struct grant *g, const struct dlc_err *err,
                         void *arg);

/* The answer of the manager about the grant is still fresh, or is asked for again. */
static void resolve(struct node *n, struct opening *o)
{
    n->cluster_ops->resolve(n, o->token, o->url, o->endpoint, OPEN_LIFE, open_granted, o);
}

static void take_snapshot_of_job(struct conn *c, uint64_t snapshot)
{
    if (c->snapshot != 0 || snapshot == 0)
        return;
    c->snapshot = snapshot;
    c->snapshot_of_job = true;
}

static void open_job_checked(struct node *n, uint64_t snapshot, const struct dlc_err *err,
                             void *arg)
{
    struct opening *o = arg;
    struct conn *c = conn_by_id(n, o->conn);

    if (c != NULL && err == NULL) {
        o->job_checked = true;
        take_snapshot_of_job(c, snapshot);
        resolve(n, o);
        return;
    }
    if (c != NULL) {
        c->asking = false;
        refuse_open(c, o->url, err);
    }
    opening_free(&o);
}

/* The manager was told what is open here. The connection holds it meanwhile. */
static void open_agreed(struct node *n, uint64_t snapshot, const struct dlc_err *err, void *arg)
{
    struct opening *o = arg;
    struct conn *c = conn_by_id(n, o->conn);
    struct dataset *ds;

    if (c == NULL) {
        opening_free(&o);
        return;
    }
    ds = c->opening;
    c->opening = NULL;
    if (err == NULL && snapshot != 0 && snapshot != catalog_snapshot(ds->catalog) &&
        !o->names_snapshot) {
        c->snapshot = 0;
        take_snapshot_of_job(c, snapshot); /* another rank was first */
        resolve(n, o);
    } else {
        c->asking = false;
        if (err != NULL)
            refuse_open(c, o->url, err);
        else
            dataset_answer(c, ds);
        opening_free(&o);
    }
    dataset_put(&ds);
}

bool client_open_agree(struct conn *c, struct dataset *ds)
{
    struct opening *o = c->of_job;

    if (o == NULL)
        return false;
    c->of_job = NULL;
    c->asking = true;
    c->opening = ds;
    dataset_ref(ds);
    c->node->cluster_ops->check_job(c->node, c->job, ds->tenant, ds->cid,
                                    catalog_snapshot(ds->catalog), open_agreed, o);
    return true;
}

void client_open_forget(struct conn *c)
{
    if (c->of_job != NULL)
        opening_free(&c->of_job);
}

static void open_granted(struct node *n, const struct grant *g, const struct dlc_err *err,
                         void *arg)
{
    struct opening *o = arg;
    struct conn *c = conn_by_id(n, o->conn);
    bool of_job = c != NULL && c->job != NULL && job_id_is_registered(c->job);

    if (of_job && g != NULL && !o->job_checked) {
        n->cluster_ops->check_job(n, c->job, g->tenant, g->dataset, 0, open_job_checked, o);
        return;
    }
    if (c != NULL)
        c->asking = false;
    if (c != NULL && g == NULL) {
        refuse_open(c, o->url, err);
    } else if (c != NULL) {
        struct open_request w = {.url = g->url,
                                 .endpoint = g->endpoint,
                                 .anonymous = g->anonymous,
                                 .refresh = o->refresh,
                                 .uid = c->uid,
                                 .foreign = !is_own(c),
                                 .snapshot = c->snapshot,
                                 .grant = g};

        if (of_job && !c->snapshot_of_job) {
            c->of_job = o;
            o = NULL;
        }
        dataset_open(c, &w);
    }
    if (o != NULL)
        opening_free(&o);
}

/* Does the client say enough for the manager to be asked? */
static bool may_ask(struct conn *c, const char *url, const char *token, bool named)
{
    if (c->node->cluster_ops == NULL) {
        conn_fail(
            c, DLC_EINVAL,
            "dlcache:// names are known to a manager, and this daemon has none: start it with "
            "`dlcache serve` or `dlcache node`, built with the control plane");
        return false;
    }
    if (token == NULL && !(named && is_own(c) && c->node->membership->inside)) {
        client_audit(c, "open", url, AUDIT_REFUSED, "no token");
        conn_fail(c, DLC_EDENIED,
                  "this node belongs to a cluster and needs a token to open anything: set "
                  "DLCACHE_TOKEN or --token-file to the one of your tenant");
        return false;
    }
    return true;
}

/* No manager vouches for the user: the daemon's own settings decide. */
static void open_for_user(struct conn *c, const struct open_request *w)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (w->foreign && other_user_may_open(c->node->config, w, &err) < 0)
        refuse_open(c, w->url, &err);
    else
        dataset_open(c, w);
}

#define RUNS_MAX 1000000

static bool read_runs(struct conn *c, const char *text)
{
    uint64_t runs = 0;

    c->runs = -1;
    if (text == NULL)
        return true;
    if (!str_parse_u64(text, &runs) || runs > RUNS_MAX) {
        conn_fail(c, DLC_EINVAL,
                  "the runs of a dataset after this one are a number from 0 to 1000000; check "
                  "DLCACHE_RUNS");
        return false;
    }
    c->runs = (int32_t)runs;
    return true;
}

static void open_url(struct conn *c, const json_t *body)
{
    const char *url = json_string_value(json_object_get(body, "url"));
    const char *token = json_string_value(json_object_get(body, "token"));
    const char *endpoint = json_string_value(json_object_get(body, "endpoint"));
    const char *job = json_string_value(json_object_get(body, "job"));
    const char *runs = json_string_value(json_object_get(body, "runs"));
    const char *policy = json_string_value(json_object_get(body, "decoded"));
    const json_t *snapshot = json_object_get(body, "snapshot");
    bool refresh = json_is_true(json_object_get(body, "refresh"));
    bool named = str_starts(url, "dlcache://");
    struct opening *o;

    c->snapshot = 0;
    c->snapshot_of_job = false;
    client_open_forget(c); /* of an open that failed */
    if (snapshot != NULL && (!str_parse_hex64(json_string_value(snapshot), &c->snapshot) ||
                             c->snapshot == 0 || refresh)) {
        conn_fail(
            c, DLC_EINVAL,
            "a snapshot is named by 16 hexadecimal digits, as `dlcache ls` and `dlcache stat` "
            "show it, and without refresh, which makes another one");
        return;
    }

    if (token != NULL && token[0] == '\0')
        token = NULL;
    if (job != NULL && !str_is_name(job)) { /* it goes into every heartbeat */
        conn_fail(c, DLC_EINVAL,
                  "the job is named by " STR_NAME_RULE ", as the manager names it; check "
                  "DLCACHE_JOB");
        return;
    }
    if (!read_runs(c, runs))
        return;
    mem_free(&c->job);
    c->job = mem_str(job);
    c->by_token = token != NULL;
    if (c->by_token)
        sha256(token, strlen(token), c->token);
    decoded_key(c->owner, c->uid, token, "");
    c->wants_decoded = policy != NULL;
    if (c->wants_decoded)
        decoded_key(c->decoded_key, c->uid, token, policy);
    if (!named &&
        (c->node->cluster_ops == NULL || (token == NULL && c->node->membership->inside))) {
        open_for_user(
            c, &(struct open_request){.url = url,
                                      .endpoint = endpoint,
                                      .anonymous = json_is_true(json_object_get(body, "anonymous")),
                                      .refresh = refresh,
                                      .uid = c->uid,
                                      .foreign = !is_own(c),
                                      .snapshot = c->snapshot});
        return;
    }
    if (!may_ask(c, url, token, named))
        return;
    o = mem_new(struct opening);
    *o = (struct opening){.conn = c->id,
                          .refresh = refresh,
                          .names_snapshot = c->snapshot != 0,
                          .url = mem_str(url),
                          .token = mem_str(token),
                          .endpoint = mem_str(endpoint)};
    c->asking = true;
    resolve(c->node, o);
}

void client_open(struct conn *c, struct msg *m)
{
    struct dlc_err err;

    if (c->session != NULL || c->opening != NULL || c->asking)
        conn_fail(c, DLC_EINVAL, "open: this connection has a dataset already");
    else if (!json_is_string(json_object_get(m->body, "url")))
        conn_fail(c, DLC_EINVAL, "open: a url is needed");
    else if (conn_may_open(c, &err) < 0)
        conn_fail_err(c, &err);
    else
        open_url(c, m->body);
}
