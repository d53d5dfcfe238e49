// SPDX-License-Identifier: Apache-2.0
/*
 * Access control: which dataset a token may open. In a cluster with tenants the manager's answer
 * decides: which dataset it is, its owner, its location and its credentials. daemon/client_open.h
 * says when the manager is asked.
 *
 * A token that the manager did not vouch for opens nothing (CLUSTER-2). An answer is valid for a
 * minute at most; while the manager is unreachable, for manager-grace (REVOKE-2). A caller that asks
 * with a life of 0 gets the manager's current answer, or none.
 */
#include "cluster/access.h"

#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/api_token.h"
#include "cluster/agent.h"
#include "cluster/dataset_records.h"
#include "cluster/member.h"
#include "cluster/revocation.h"
#include "daemon/daemon.h"
#include "daemon/dataset.h"
#include "daemon/state.h"
#include "cluster/peer/view.h"
#include "ipc/frame.h"

#define QUESTIONS_MAX 256
#define UNKNOWN_MAX   192         /* of them, about tokens that were never granted anything here */
#define STRANGERS_MAX 16          /* of them, for clients of the peer server */
#define REFUSED_FOR   DLC_SEC(30) /* a token that is not known will not be known soon */
#define TOKEN_LEN     47          /* "dlc_" and 32 bytes in base64url */

/* A question to the manager, and who waits for its answer: the same is asked once at a time. */
struct resolve_call {
    struct agent_call call;
    struct dlc_list link; /* in member.resolves */
    struct node *node;
    char *token, *what;
    char *key; /* under which the answer is remembered: `what`, and the endpoint of a URL */
    struct dlc_dur life;
    bool stranger; /* asked for a client of the peer server */
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
    secret_free(&a->token);
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

/* ---- tokens that the manager does not know ---- */

static struct refused_token *refused_slot(struct node *n, const unsigned char digest[SHA256_LEN])
{
    return &n->member->refused_tokens[digest[0] % REFUSED_TOKENS];
}

static bool token_is_refused(struct node *n, const char *token)
{
    unsigned char digest[SHA256_LEN];
    const struct refused_token *r;

    sha256(token, strlen(token), digest);
    r = refused_slot(n, digest);
    return memcmp(r->digest, digest, SHA256_LEN) == 0 && !dlc_mono_passed(r->until, dlc_mono_now());
}

static void remember_refused(struct node *n, const char *token)
{
    unsigned char digest[SHA256_LEN];
    struct refused_token *r;

    sha256(token, strlen(token), digest);
    r = refused_slot(n, digest);
    memcpy(r->digest, digest, SHA256_LEN);
    r->until = dlc_mono_add(dlc_mono_now(), REFUSED_FOR);
}

/* ---- tokens that were granted something here ---- */

/* Tenants whose programs run here go before whoever sends tokens by the hundred. */
static unsigned char *known_slot(struct node *n, const unsigned char digest[SHA256_LEN])
{
    return n->member->known_tokens[(digest[0] << 8 | digest[1]) % KNOWN_TOKENS];
}

static void remember_known(struct node *n, const char *token)
{
    unsigned char digest[SHA256_LEN];

    if (token == NULL)
        return;
    sha256(token, strlen(token), digest);
    memcpy(known_slot(n, digest), digest, SHA256_LEN);
}

/* token NULL: the node itself asks. */
static bool token_is_known(struct node *n, const char *token)
{
    unsigned char digest[SHA256_LEN];

    if (token == NULL)
        return true;
    sha256(token, strlen(token), digest);
    return memcmp(known_slot(n, digest), digest, SHA256_LEN) == 0;
}

/* ---- questions ---- */

/* Tell all who wait. Nobody joins them any more. */
static void tell(struct resolve_call *a, bool granted, const struct dlc_err *err)
{
    struct node *n = a->node;
    struct dlc_list *l;

    dlc_list_remove(&a->link);
    n->member->n_resolves--;
    n->member->n_stranger_resolves -= a->stranger;
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

    if (err->code == DLC_EDENIED || err->code == DLC_ENOTFOUND || err->code == DLC_ECHANGED) {
        cluster_revoke(n->cluster, a->token, a->key);
        if (err->code == DLC_EDENIED && a->token != NULL)
            remember_refused(n, a->token);
    } else if (revocation_grace_over(n)) {
        dlc_err_prefix(err, "the manager is silent for longer than manager-grace, and what it said "
                            "before counts no more");
    } else if (a->life.ns > 0 && cluster_granted(n->cluster, a->token, a->key, dlc_mono_now(),
                                                 GRANT_LIFE, &g) != GRANT_NONE) {
        log_info("%s: the manager does not answer; what it said before counts", a->what);
    } else {
        dlc_err_prefix(err, "cannot ask the manager who may read %.200s", a->what);
    }
    tell(a, g != NULL, err);
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void answered(struct agent_call *call)
{
    struct resolve_call *a = dlc_container(call, struct resolve_call, call);
    struct cluster *c = a->node->cluster;
    struct dlc_err err = call->err;
    const struct grant *g = NULL;
    char *record;

    cluster_granted(c, a->token, a->key, dlc_mono_now(), GRANT_LIFE, &g);
    record = mem_str(g != NULL ? g->record : NULL);
    if (call->rc == 0 &&
        cluster_grant(c, a->token, a->key, call->answer, dlc_mono_now(), &err) == 0) {
        cluster_granted(c, a->token, a->key, dlc_mono_now(), GRANT_LIFE, &g);
        if (!same_text(g->record, record))
            dataset_record_keep(a->node, g);
        remember_known(a->node, a->token);
        tell(a, true, &err);
    } else {
        not_granted(a, &err);
    }
    mem_free(&record);
    asking_free(a);
}

struct question {
    const char *token, *what, *endpoint;
    struct dlc_dur life;
    bool stranger;
};

/* The same question, if it is under way. A caller that wants the word of now asks for itself, and a
 * program does not wait with a stranger, whose question is asked last. */
static struct resolve_call *asking_find(struct node *n, const struct question *q, const char *key)
{
    if (q->life.ns > 0)
        dlc_list_each (l, &n->member->resolves) {
            struct resolve_call *a = dlc_container(l, struct resolve_call, link);

            if (strcmp(a->key, key) == 0 && same_text(a->token, q->token) && a->life.ns > 0 &&
                (q->stranger || !a->stranger))
                return a;
        }
    return NULL;
}

/* The manager need not be asked about what cannot be. 0: it may. */
static int not_worth_asking(struct node *n, const char *token, bool stranger, struct dlc_err *err)
{
    if (token != NULL && (strlen(token) != TOKEN_LEN || !str_starts(token, "dlc_")))
        return dlc_err_set(
            err, DLC_EDENIED,
            "this is not a token: a token is dlc_ and %d more characters; was it copied whole?",
            TOKEN_LEN - 4);
    if (stranger && token != NULL && token_is_refused(n, token))
        return dlc_err_set(err, DLC_EDENIED, "the manager does not know this token");
    if (n->member->n_resolves >= (token_is_known(n, token) ? QUESTIONS_MAX : UNKNOWN_MAX) ||
        (stranger && n->member->n_stranger_resolves >= STRANGERS_MAX))
        return dlc_err_set(err, DLC_EBUSY,
                           "too many questions to the manager are under way; try again");
    return 0;
}

/* Who we are, and, where no program's token is sent, one by whose right a program has it open. */
static void introduce(struct node *n, const char *token, const char *name, json_t *body)
{
    const struct agent *a = n->member->agent;
    const unsigned char *session =
        token == NULL && name != NULL ? revocation_token_on(n, name) : NULL;
    char digest[2 * SHA256_LEN + 1];

    json_object_set_new(body, "node", msg_string(agent_name(a)));
    json_object_set_new(body, "instance", msg_string(agent_instance(a)));
    if (session != NULL) {
        str_hex(session, SHA256_LEN, digest);
        json_object_set_new(body, "session", json_string(digest));
    }
}

/* Takes key. */
static void ask(struct node *n, const struct question *q, char *key, resolve_f *done, void *arg)
{
    const char *name = name_in(q->what);
    struct resolve_call *a;
    json_t *body;

    body = json_pack("{s:o}", name != NULL ? "dataset" : "url",
                     msg_string(name != NULL ? name : q->what));
    if (q->token != NULL)
        json_object_set_new(body, "token", msg_string(q->token));
    if (q->endpoint != NULL && name == NULL)
        json_object_set_new(body, "endpoint", msg_string(q->endpoint));
    introduce(n, q->token, name, body);
    a = mem_new(struct resolve_call);
    a->node = n;
    a->token = mem_str(q->token);
    a->what = mem_str(q->what);
    a->key = key;
    a->life = q->life;
    a->stranger = q->stranger;
    dlc_list_init(&a->waiters);
    wait_for_it(a, done, arg);
    dlc_list_push_tail(&n->member->resolves, &a->link);
    n->member->n_resolves++;
    n->member->n_stranger_resolves += a->stranger;
    a->call = (struct agent_call){.method = "POST",
                                  .path = mem_str("/v1/resolve"),
                                  .body = body,
                                  .later = q->stranger || !token_is_known(n, q->token),
                                  .done = answered};
    agent_ask(n->member->agent, &a->call);
}

static void resolve_question(struct node *n, const struct question *q, resolve_f *done, void *arg)
{
    char *key = q->endpoint != NULL && name_in(q->what) == NULL
                    ? mem_fmt("%s\n%s", q->what, q->endpoint)
                    : mem_str(q->what);
    const struct grant *g = NULL;
    enum grant_age age = cluster_granted(n->cluster, q->token, key, dlc_mono_now(), q->life, &g);
    struct resolve_call *same = asking_find(n, q, key);
    struct dlc_err err = DLC_ERR_INIT;

    if (age == GRANT_FRESH || (age == GRANT_OLD && q->life.ns > 0 &&
                               agent_manager_away(n->member->agent) && !revocation_grace_over(n)))
        done(n, g, NULL, arg);
    else if (same != NULL)
        wait_for_it(same, done, arg);
    else if (not_worth_asking(n, q->token, q->stranger, &err) < 0)
        done(n, NULL, &err, arg);
    else
        ask(n, q, mem_str(key), done, arg);
    mem_free(&key);
}

void resolve(struct node *n, const char *token, const char *what, const char *endpoint,
             struct dlc_dur life, resolve_f *done, void *arg)
{
    resolve_question(n, &(struct question){token, what, endpoint, life, false}, done, arg);
}

void resolve_for_stranger(struct node *n, const char *token, const char *what, struct dlc_dur life,
                          resolve_f *done, void *arg)
{
    resolve_question(n, &(struct question){token, what, NULL, life, true}, done, arg);
}

/* ---- whose a token is ---- */

struct identify_call {
    struct agent_call call;
    struct node *node;
    identify_f *done;
    void *arg;
};

static void identified(struct agent_call *call)
{
    struct identify_call *a = dlc_container(call, struct identify_call, call);
    const char *role = json_string_value(json_object_get(call->answer, "role"));
    const char *tenant = json_string_value(json_object_get(call->answer, "tenant"));
    struct token_owner owner = {.tenant = tenant != NULL ? tenant : ""};
    struct dlc_err err = call->err;

    a->node->member->n_resolves--;
    if (call->rc == 0 && role == NULL)
        call->rc = dlc_err_set(&err, DLC_EPROTO, "the manager does not say whose the token is");
    else if (call->rc < 0 && call->rc != DLC_EDENIED)
        dlc_err_prefix(&err, "cannot ask the manager whose the token is");
    owner.admin = role != NULL && (strcmp(role, "admin") == 0 || strcmp(role, "node") == 0);
    a->done(a->node, call->rc == 0 ? &owner : NULL, &err, a->arg);
    agent_call_release(&a->call);
    mem_free(&a);
}

/* By digests: the time it takes does not tell how much of it was right. */
static bool is_own_token(const struct node *n, const char *token)
{
    unsigned char own[SHA256_LEN], given[SHA256_LEN];
    unsigned differ = 0;

    if (n->membership->inside || n->token == NULL)
        return false; /* inside, another thread sets it */
    sha256(n->token, strlen(n->token), own);
    sha256(token, strlen(token), given);
    for (size_t i = 0; i < SHA256_LEN; i++)
        differ |= (unsigned)(own[i] ^ given[i]);
    return differ == 0;
}

void identify(struct node *n, const char *token, identify_f *done, void *arg)
{
    const struct token_owner node_itself = {.admin = true, .tenant = ""};
    struct dlc_err err = DLC_ERR_INIT;
    struct identify_call *a;

    if (is_own_token(n, token)) {
        done(n, &node_itself, NULL, arg);
        return;
    }
    if (not_worth_asking(n, token, false, &err) < 0) {
        done(n, NULL, &err, arg);
        return;
    }
    a = mem_new(struct identify_call);
    a->node = n;
    a->done = done;
    a->arg = arg;
    a->call = (struct agent_call){.method = "POST",
                                  .path = mem_str("/v1/identify"),
                                  .body = json_pack("{s:o}", "token", msg_string(token)),
                                  .later = !token_is_known(n, token),
                                  .done = identified};
    n->member->n_resolves++;
    agent_ask(n->member->agent, &a->call);
}

/* ---- credentials that the bucket refuses ---- */

#define AGAIN_PAUSE DLC_SEC(1) /* the manager is not asked more often */

static void answer_agains(struct dataset *ds, bool changed)
{
    struct dlc_list waiting, *l;

    dlc_list_init(&waiting);
    while ((l = dlc_list_pop_head(&ds->credentials.retries)) != NULL)
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
    unsigned before = ds->credentials.version;

    (void)n;
    (void)err;
    ds->credentials.renewing = false;
    ds->credentials.renewed = dlc_mono_now();
    if (g != NULL)
        dataset_take_grant(ds, g);
    answer_agains(ds, ds->credentials.version != before);
    dataset_put(&ds);
}

void resolve_again(struct dataset *ds, struct credential_retry *a)
{
    struct node *n = ds->node;
    bool lately = ds->credentials.renewed.ns != 0 &&
                  dlc_mono_since(ds->credentials.renewed).ns < AGAIN_PAUSE.ns;
    char *url;

    if (n->stopping || ds->credentials.keys == NULL || (lately && !ds->credentials.renewing)) {
        a->done(a, false);
        return;
    }
    dlc_list_push_tail(&ds->credentials.retries, &a->link);
    if (ds->credentials.renewing)
        return;
    ds->credentials.renewing = true;
    dataset_ref(ds);
    url = mem_fmt("dlcache://%s", ds->cid);
    resolve(n, NULL, url, NULL, DLC_MS(0), schedule_again, ds);
    mem_free(&url);
}
