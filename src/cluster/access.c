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
 * lasts. Who asks with a life of 0 gets the manager's word of now, or none.
 */
#include "cluster/access.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/api_token.h"
#include "cluster/agent.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/dataset_open.h"
#include "daemon/decoded_cache.h"
#include "daemon/state.h"
#include "cluster/view.h"
#include "daemon/daemon.h"

#define QUESTIONS_MAX 256
#define TOKEN_LEN     47 /* "dlc_" and 32 bytes in base64url */

/* A question to the manager, and who waits for its answer: the same is asked once at a time. */
struct resolve_call {
    struct agent_call call;
    struct dlc_list link; /* in node.askings */
    struct node *node;
    char *token, *what;
    char *key; /* under which the answer is remembered: `what`, and the endpoint of a URL */
    struct dlc_dur life;
    struct dlc_list waiters;
};

struct waiter_of_grant {
    struct dlc_list link;
    resolve_f *done;
    void *arg;
};

static const char *name_in(const char *url)
{
    return str_starts(url, "dlcache://") ? url + strlen("dlcache://") : NULL;
}

static void asking_free(struct resolve_call *a)
{
    agent_call_release(&a->call);
    token_free(&a->token);
    mem_free(&a->what);
    mem_free(&a->key);
    mem_free(&a);
}

static void wait_for_it(struct resolve_call *a, resolve_f *done, void *arg)
{
    struct waiter_of_grant *w = mem_new(struct waiter_of_grant);

    w->done = done;
    w->arg = arg;
    dlc_list_push_tail(&a->waiters, &w->link);
}

/* Tell all who wait. Nobody joins them any more. */
static void tell(struct resolve_call *a, bool granted, const struct dlc_err *err)
{
    struct node *n = a->node;
    struct dlc_list *l;

    dlc_list_remove(&a->link);
    n->n_askings--;
    while ((l = dlc_list_pop_head(&a->waiters)) != NULL) {
        struct waiter_of_grant *w = dlc_container(l, struct waiter_of_grant, link);
        const struct grant *g = NULL;

        if (granted)
            cluster_granted(n->cluster, a->token, a->key, dlc_mono_now(), GRANT_LIFE, &g);
        w->done(n, g, err, w->arg);
        mem_free(&w);
    }
}

/* The manager said no, or nothing. */
static void not_granted(struct resolve_call *a, struct dlc_err *err)
{
    const struct grant *g = NULL;
    struct node *n = a->node;

    if (err->code == DLC_EDENIED || err->code == DLC_ENOTFOUND) {
        cluster_revoke(n->cluster, a->token, a->key);
    } else if (a->life.ns > 0 && cluster_granted(n->cluster, a->token, a->key, dlc_mono_now(),
                                                 GRANT_LIFE, &g) != GRANT_NONE) {
        log_info("%s: the manager does not answer; what it said before counts", a->what);
    } else {
        dlc_err_prefix(err, "cannot ask the manager who may read %.200s", a->what);
    }
    tell(a, g != NULL, err);
}

static void answered(struct agent_call *call)
{
    struct resolve_call *a = dlc_container(call, struct resolve_call, call);
    struct cluster *c = a->node->cluster;
    struct dlc_err err = call->err;

    if (call->rc == 0 &&
        cluster_grant(c, a->token, a->key, call->answer, dlc_mono_now(), &err) == 0)
        tell(a, true, &err);
    else
        not_granted(a, &err);
    asking_free(a);
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* The same question, if it is under way. Whoever wants the word of now asks for itself. */
static struct resolve_call *asking_find(struct node *n, const char *token, const char *key,
                                        struct dlc_dur life)
{
    if (life.ns > 0)
        dlc_list_each (l, &n->askings) {
            struct resolve_call *a = dlc_container(l, struct resolve_call, link);

            if (strcmp(a->key, key) == 0 && same_text(a->token, token) && a->life.ns > 0)
                return a;
        }
    return NULL;
}

/* The manager need not be asked about what cannot be. 0: it may. */
static int not_worth_asking(const struct node *n, const char *token, struct dlc_err *err)
{
    if (token != NULL && (strlen(token) != TOKEN_LEN || !str_starts(token, "dlc_")))
        return dlc_err_set(err, DLC_EDENIED, "this is no token: they begin with dlc_");
    if (n->n_askings >= QUESTIONS_MAX)
        return dlc_err_set(err, DLC_EBUSY,
                           "too many questions to the manager are under way; try again");
    return 0;
}

/* Takes key. */
static void ask(struct node *n, const char *token, const char *what, const char *endpoint,
                char *key, struct dlc_dur life, resolve_f *done, void *arg)
{
    const char *name = name_in(what);
    struct resolve_call *a;
    json_t *body;

    body = json_pack("{s:o}", name != NULL ? "dataset" : "url",
                     msg_string(name != NULL ? name : what));
    if (token != NULL)
        json_object_set_new(body, "token", msg_string(token));
    if (endpoint != NULL && name == NULL)
        json_object_set_new(body, "endpoint", msg_string(endpoint));
    a = mem_new(struct resolve_call);
    a->node = n;
    a->token = mem_str(token);
    a->what = mem_str(what);
    a->key = key;
    a->life = life;
    dlc_list_init(&a->waiters);
    wait_for_it(a, done, arg);
    dlc_list_push_tail(&n->askings, &a->link);
    n->n_askings++;
    a->call = (struct agent_call){
        .method = "POST", .path = mem_str("/v1/resolve"), .body = body, .done = answered};
    agent_ask(n->agent, &a->call);
}

void resolve(struct node *n, const char *token, const char *what, const char *endpoint,
             struct dlc_dur life, resolve_f *done, void *arg)
{
    char *key = endpoint != NULL && name_in(what) == NULL ? mem_fmt("%s\n%s", what, endpoint)
                                                          : mem_str(what);
    const struct grant *g = NULL;
    enum grant_age age = cluster_granted(n->cluster, token, key, dlc_mono_now(), life, &g);
    struct resolve_call *same = asking_find(n, token, key, life);
    struct dlc_err err = DLC_ERR_INIT;

    if (age == GRANT_FRESH || (age == GRANT_OLD && life.ns > 0 && agent_manager_away(n->agent)))
        done(n, g, NULL, arg);
    else if (same != NULL)
        wait_for_it(same, done, arg);
    else if (not_worth_asking(n, token, &err) < 0)
        done(n, NULL, &err, arg);
    else
        ask(n, token, what, endpoint, mem_str(key), life, done, arg);
    mem_free(&key);
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
        struct credential_retry *a = dlc_container(l, struct credential_retry, link);

        a->done(a, changed);
    }
}

static void schedule_again(struct node *n, const struct grant *g, const struct dlc_err *err,
                           void *arg)
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

void resolve_again(struct dataset *ds, struct credential_retry *a)
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
    resolve(n, NULL, url, NULL, DLC_MS(0), schedule_again, ds);
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
        dataset_open(c, &(struct open_request){.url = g->url,
                                               .endpoint = g->endpoint,
                                               .anonymous = g->anonymous,
                                               .refresh = o->refresh,
                                               .snapshot = c->snapshot,
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
    const char *policy = json_string_value(json_object_get(body, "decoded"));
    const json_t *snapshot = json_object_get(body, "snapshot");
    bool refresh = json_is_true(json_object_get(body, "refresh"));
    bool named = name_in(url) != NULL;
    struct opening *o;

    c->snapshot = 0;
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
    if (job != NULL && !str_is_name(job)) { /* it goes into every heart-beat */
        conn_fail(c, DLC_EINVAL,
                  "the job is named by " STR_NAME_RULE ", as the manager names it; check "
                  "DLCACHE_JOB");
        return;
    }
    mem_free(&c->job);
    c->job = mem_str(job);
    decoded_key(c->owner, c->uid, token, "");
    c->wants_decoded = policy != NULL;
    if (c->wants_decoded)
        decoded_key(c->decoded_key, c->uid, token, policy);
    if (!named && (c->node->agent == NULL || (token == NULL && c->node->membership->inside))) {
        dataset_open(
            c, &(struct open_request){.url = url,
                                      .endpoint = endpoint,
                                      .anonymous = json_is_true(json_object_get(body, "anonymous")),
                                      .refresh = refresh,
                                      .snapshot = c->snapshot});
        return;
    }
    if (!may_ask(c, token, named))
        return;
    o = mem_new(struct opening);
    *o = (struct opening){c->id, refresh};
    c->asking = true;
    resolve(c->node, token, url, endpoint, OPEN_LIFE, open_granted, o);
}
