// SPDX-License-Identifier: Apache-2.0
/*
 * Who may open what. Where tenants are, a dataset is opened by the answer of the manager: which it
 * is, whose, where it lies and what it is read with.
 *
 *     no cluster            plain URLs, no tokens
 *     inside `serve`        plain URLs without a token are the daemon's own user's, as before;
 *                           names and tokens are asked about
 *     `dlcache node`        everything is asked about, and a token is needed
 *
 * (K2) of docs/design/0006: a token that the manager did not vouch for opens nothing. What it
 * vouched for stays known for a minute at most; while it cannot be asked, for as long as that
 * lasts.
 */
#include "node/node_i.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/token.h"
#include "node/agent.h"

struct asking {
    struct agent_call call;
    struct node *node;
    char *token, *what;
    resolve_f *done;
    void *arg;
};

static const char *name_in(const char *url)
{
    return str_starts(url, "dlcache://") ? url + strlen("dlcache://") : NULL;
}

static void asking_free(struct asking *a)
{
    agent_call_release(&a->call);
    token_free(&a->token);
    mem_free(&a->what);
    mem_free(&a);
}

/* The manager said no, or nothing. */
static void not_granted(struct asking *a, struct dlc_err *err)
{
    const struct grant *g = NULL;
    struct node *n = a->node;

    if (err->code == DLC_EDENIED || err->code == DLC_ENOTFOUND) {
        cluster_revoke(n->cluster, a->token, a->what);
    } else if (cluster_granted(n->cluster, a->token, a->what, dlc_mono_now(), GRANT_LIFE, &g) !=
               GRANT_NONE) {
        log_info("%s: the manager does not answer; what it said before counts", a->what);
    } else {
        dlc_err_prefix(err, "cannot ask the manager who may read %.200s", a->what);
    }
    a->done(n, g, err, a->arg);
}

static void answered(struct agent_call *call)
{
    struct asking *a = dlc_container(call, struct asking, call);
    struct cluster *c = a->node->cluster;
    struct dlc_mono now = dlc_mono_now();
    const struct grant *g = NULL;
    struct dlc_err err = call->err;

    if (call->rc == 0 && cluster_grant(c, a->token, a->what, call->answer, now, &err) == 0) {
        cluster_granted(c, a->token, a->what, now, GRANT_LIFE, &g);
        a->done(a->node, g, &err, a->arg);
    } else {
        not_granted(a, &err);
    }
    asking_free(a);
}

void resolve(struct node *n, const char *token, const char *what, const char *endpoint,
             struct dlc_dur life, resolve_f *done, void *arg)
{
    const struct grant *g = NULL;
    enum grant_age age = cluster_granted(n->cluster, token, what, dlc_mono_now(), life, &g);
    const char *name = name_in(what);
    struct asking *a;
    json_t *body;

    if (age == GRANT_FRESH || (age == GRANT_OLD && agent_manager_away(n->agent))) {
        done(n, g, NULL, arg);
        return;
    }
    body = json_pack("{s:o}", name != NULL ? "dataset" : "url",
                     msg_string(name != NULL ? name : what));
    if (token != NULL)
        json_object_set_new(body, "token", msg_string(token));
    if (endpoint != NULL && name == NULL)
        json_object_set_new(body, "endpoint", msg_string(endpoint));
    a = mem_new(struct asking);
    a->node = n;
    a->token = mem_str(token);
    a->what = mem_str(what);
    a->done = done;
    a->arg = arg;
    a->call = (struct agent_call){
        .method = "POST", .path = mem_str("/v1/resolve"), .body = body, .done = answered};
    agent_ask(n->agent, &a->call);
}

/* ---- credentials that the bucket refuses ---- */

#define AGAIN_PAUSE DLC_SEC(1) /* the manager is not asked more often */

static void answer_agains(struct dataset *ds, bool changed)
{
    struct dlc_list waiting, *l;

    dlc_list_init(&waiting);
    while ((l = dlc_list_pop_head(&ds->agains)) != NULL)
        dlc_list_push_tail(&waiting, l);
    while ((l = dlc_list_pop_head(&waiting)) != NULL) {
        struct again *a = dlc_container(l, struct again, link);

        a->done(a, changed);
    }
}

static void told_again(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg)
{
    struct dataset *ds = arg;
    unsigned before = ds->keys_version;

    (void)n;
    (void)err;
    ds->asking_again = false;
    ds->asked_again = dlc_mono_now();
    if (g != NULL)
        dataset_take_grant(ds, g);
    answer_agains(ds, ds->keys_version != before);
    dataset_put(&ds);
}

void resolve_again(struct dataset *ds, struct again *a)
{
    struct node *n = ds->node;
    bool lately = ds->asked_again.ns != 0 && dlc_mono_since(ds->asked_again).ns < AGAIN_PAUSE.ns;
    char *url;

    if (n->agent == NULL || n->stopping || ds->keys == NULL || (lately && !ds->asking_again)) {
        a->done(a, false);
        return;
    }
    dlc_list_push_tail(&ds->agains, &a->link);
    if (ds->asking_again)
        return;
    ds->asking_again = true;
    ds->refs++;
    url = mem_fmt("dlcache://%s", ds->cid);
    resolve(n, NULL, url, NULL, DLC_MS(0), told_again, ds);
    mem_free(&url);
}

/* ---- clients ---- */

/* Programs open rarely, often many at once: a second is enough, and what was revoked or listed anew
 * counts from then on. */
#define OPEN_LIFE DLC_SEC(1)

struct opening {
    uint64_t conn;
    bool refresh;
};

static void open_granted(struct node *n, const struct grant *g, const struct dlc_err *err,
                         void *arg)
{
    struct opening *o = arg;
    struct conn *c = conn_by_id(n, o->conn);

    if (c != NULL)
        c->asking = false;
    if (c != NULL && g == NULL)
        conn_fail_err(c, err);
    else if (c != NULL)
        dataset_open(c, &(struct wanted){.url = g->url,
                                         .endpoint = g->endpoint,
                                         .anonymous = g->anonymous,
                                         .refresh = o->refresh,
                                         .grant = g});
    mem_free(&o);
}

/* Does the client say enough for the manager to be asked? */
static bool may_ask(struct conn *c, const char *token, bool named)
{
    bool own = c->uid == geteuid() || c->uid == 0;

    if (c->node->agent == NULL) {
        conn_fail(
            c, DLC_EINVAL,
            "dlcache:// names are known to a manager, and this daemon has none: start it with "
            "`dlcache serve` or `dlcache node`, built with the control plane");
        return false;
    }
    if (token == NULL && !(named && own && c->node->membership->inside)) {
        conn_fail(c, DLC_EDENIED,
                  "this node belongs to a cluster and needs a token to open anything: set "
                  "DLCACHE_TOKEN or --token-file to the one of your tenant");
        return false;
    }
    return true;
}

void resolve_open(struct conn *c, const json_t *body)
{
    const char *url = json_string_value(json_object_get(body, "url"));
    const char *token = json_string_value(json_object_get(body, "token"));
    const char *endpoint = json_string_value(json_object_get(body, "endpoint"));
    const char *job = json_string_value(json_object_get(body, "job"));
    const char *form = json_string_value(json_object_get(body, "form"));
    bool refresh = json_is_true(json_object_get(body, "refresh"));
    bool named = name_in(url) != NULL;
    struct opening *o;

    if (token != NULL && token[0] == '\0')
        token = NULL;
    mem_free(&c->job);
    c->job = mem_str(job);
    c->wants_shelf = form != NULL;
    if (c->wants_shelf)
        shelf_key(c->shelf_key, c->uid, token, form);
    if (!named && (c->node->agent == NULL || (token == NULL && c->node->membership->inside))) {
        dataset_open(c,
                     &(struct wanted){.url = url,
                                      .endpoint = endpoint,
                                      .anonymous = json_is_true(json_object_get(body, "anonymous")),
                                      .refresh = refresh});
        return;
    }
    if (!may_ask(c, token, named))
        return;
    o = mem_new(struct opening);
    *o = (struct opening){c->id, refresh};
    c->asking = true;
    resolve(c->node, token, url, endpoint, OPEN_LIFE, open_granted, o);
}
