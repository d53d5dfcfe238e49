// SPDX-License-Identifier: Apache-2.0
#include "cluster/agent_i.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "base/api_token.h"
#include "cache/memory/memory.h"
#include "manager/manager.h"
#include "net/manager_client.h"
#include "cluster/certificate.h"
#include "cluster/identity.h"
#include "cluster/node_credential.h"
#include "daemon/state.h"
#include "cluster/peer/view.h"
#include "daemon/daemon.h"
#include "ipc/frame.h"

const bool node_has_control = true;

#define INTERVAL     DLC_SEC(1)
#define INTERVAL_MIN 10
#define INTERVAL_MAX 60000
#define RETRY_FIRST  DLC_MS(100)
#define RETRY_MOST   2 /* heartbeats until it is tried again to find a manager */

/* A function that the agent has the loop run, between two requests to the manager. */
struct loop_call {
    struct task task;
    struct agent *agent;
    json_t *body; /* the loop's answer, or what it is told */
    const json_t *sent;
    struct cluster_view *view;
    bool joined, well, more;
    struct tls_identity *certified;
    int rc;
    struct dlc_err err;
    bool done; /* G: agent.mtx */
};

const char *agent_name(const struct agent *a)
{
    return a->name;
}

const char *agent_instance(const struct agent *a)
{
    return a->identity.instance;
}

bool agent_manager_away(const struct agent *a)
{
    return atomic_load_explicit(&a->away, memory_order_relaxed); /* with note() */
}

/* DLC_EBUSY: it answers, but does not take us in: another process has our name. */
static void note(struct agent *a, int rc, const struct dlc_err *err)
{
    bool away = rc < 0 && rc != DLC_EBUSY;
    int was;

    atomic_store_explicit(&a->away, away, memory_order_relaxed); /* with agent_manager_away() */
    dlc_mtx_lock(&a->mtx);
    was = a->trouble.code;
    a->trouble = rc < 0 ? *err : (struct dlc_err)DLC_ERR_INIT;
    dlc_cond_broadcast(&a->wake);
    dlc_mtx_unlock(&a->mtx);
    if (rc < 0 && was != rc)
        log_warn("manager: %s; going on without it", err->text);
    else if (rc == 0 && was != 0)
        log_info("the manager answers");
}

json_t *agent_figures(struct agent *a)
{
    json_t *o =
        json_pack("{s:o, s:o, s:b}", "name", msg_string(a->name), "manager",
                  msg_string(a->node->membership->inside ? "inside" : a->node->membership->manager),
                  "away", agent_manager_away(a));

    dlc_mtx_lock(&a->mtx);
    if (a->trouble.code != 0)
        json_object_set_new(o, "trouble", msg_string(a->trouble.text));
    dlc_mtx_unlock(&a->mtx);
    json_object_set_new(o, "view", json_integer((json_int_t)cluster_version(a->node->cluster)));
    json_object_set_new(o, "nodes", json_integer(cluster_live(a->node->cluster)));
    return o;
}

/* ---- between the beating thread and the loop ---- */

static void loop_call_done(struct loop_call *e)
{
    struct agent *a = e->agent;

    dlc_mtx_lock(&a->mtx);
    e->done = true;
    dlc_cond_broadcast(&a->answered);
    dlc_mtx_unlock(&a->mtx);
}

/* The loop runs for as long as we do. */
static void loop_call_run(struct loop_call *e, void (*run)(struct task *))
{
    struct agent *a = e->agent;

    e->task.run = run;
    loop_post(a->node->loop, &e->task);
    dlc_mtx_lock(&a->mtx);
    while (!e->done)
        dlc_cond_wait(&a->answered, &a->mtx);
    dlc_mtx_unlock(&a->mtx);
}

static void gather(struct task *t)
{
    struct loop_call *e = dlc_container(t, struct loop_call, task);

    e->body = e->agent->ops->gather(e->agent->node, &e->more);
    if (e->body == NULL) {
        loop_post(e->agent->node->loop, t);
        return;
    }
    json_object_set_new(e->body, "instance", json_string(e->agent->identity.instance));
    loop_call_done(e);
}

/* What the manager said, or that it did not hear us. */
static void digest(struct task *t)
{
    struct loop_call *e = dlc_container(t, struct loop_call, task);

    e->agent->ops->digest(e->agent->node, &(struct agent_news){.answer = e->body,
                                                               .sent = e->sent,
                                                               .view = e->view,
                                                               .joined = e->joined,
                                                               .well = e->well});
    loop_call_done(e);
}

static void certified(struct task *t)
{
    struct loop_call *e = dlc_container(t, struct loop_call, task);

    e->rc = e->agent->ops->certified(e->agent->node, e->certified, &e->err);
    loop_call_done(e);
}

/* ---- membership ---- */

static const char *or_null(const char *s)
{
    return s != NULL && s[0] != '\0' ? s : NULL;
}

/* The manager of this process: its API answers at SOCKET.api. */
static int open_inside(struct agent *a, struct dlc_err *err)
{
    const struct config *c = a->node->config;
    const struct node_cluster *m = a->node->membership;
    char *path = mem_fmt("%s.api", c->socket), *file = mem_fmt("%s/node.token", c->dir);
    const struct manager_config cc = {
        .dir = c->dir,
        .store = or_null(c->store),
        .listen = m->api,
        .unix_path = path,
        .tls_cert = or_null(c->tls_cert),
        .tls_key = or_null(c->tls_key),
        .advertise = or_null(c->advertise),
        .tenant_networks = c->tenant_networks,
        .audit_log = or_null(c->audit_log),
        .node_ttl = c->node_ttl,
        .rebalance_interval = c->rebalance_interval,
        .ticket_life = c->ticket_life,
        .job_ttl = c->job_ttl,
        .keep_ended = c->keep_ended,
        .keep_accounting = c->keep_accounting,
        .lock_ttl = c->lock_ttl,
        .certificate_life = c->certificate_life,
    };
    int rc = manager_open(&cc, &a->manager, err);

    if (rc == 0) {
        a->base = mem_fmt("unix:%s", path);
        rc = token_load_file(file, &a->node->token, err);
    }
    mem_free(&path);
    mem_free(&file);
    return rc;
}

static json_t *introduction(struct agent *a)
{
    const struct node_cluster *m = a->node->membership;
    uint64_t memory = a->node->memories.max; /* all else there is the loop's */
    const char *scheme = certificate_for_peers(a->certificate) ? "https" : "http";
    char *address = m->advertise != NULL ? mem_str(m->advertise)
                    : a->address != NULL ? mem_fmt("%s://%s", scheme, a->address)
                                         : mem_str("");
    json_t *o;

    o = json_pack("{s:o, s:I, s:I, s:i, s:s, s:s}", "address", msg_string(address), "capacity",
                  (json_int_t)m->capacity, "memory", (json_int_t)memory, "gpus", (int)m->gpus,
                  "instance", a->identity.instance, "directory", a->identity.directory);
    mem_free(&address);
    return o;
}

/* Here, not on the loop: it grows with the datasets of the cluster. */
static struct cluster_view *read_view(const json_t *view)
{
    struct cluster_view *v = NULL;
    struct dlc_err err = DLC_ERR_INIT;

    if (json_is_object(view) && cluster_read_view(view, &v, &err) < 0)
        log_warn("%s", err.text);
    return v;
}

/* Hand the answer to the loop. Takes answer. */
static void told(struct agent *a, json_t *answer, const json_t *sent, bool joined, bool well)
{
    struct loop_call e = {.agent = a, .body = answer, .sent = sent, .joined = joined, .well = well};

    e.view = read_view(json_object_get(answer, "view"));
    loop_call_run(&e, digest);
    cluster_view_free(&e.view);
    secret_json_wipe(json_object_get(answer, "credential"));
    json_decref(answer);
}

/* Peers and the manager see it from now on. Takes id. */
static int use_certificate(struct agent *a, struct manager_client *client, struct tls_identity *id,
                           struct dlc_err *err)
{
    struct loop_call e = {.agent = a, .certified = id};

    loop_call_run(&e, certified);
    tls_identity_put(&id);
    if (e.rc < 0) {
        *err = e.err;
        return e.rc;
    }
    agent_client_certify(a, client);
    return 0;
}

/* A failure leaves what there is: it is tried again with the next heartbeat. */
static int renew_certificate(struct agent *a, struct manager_client *client, const char *path,
                             struct dlc_err *err)
{
    struct tls_identity *id = NULL;
    int rc =
        certificate_renew(a->certificate, client, a->name, path, a->identity.instance, &id, err);

    return rc == 0 ? use_certificate(a, client, id, err) : rc;
}

static int join(struct agent *a, struct manager_client *client, const char *path, json_t *who,
                struct dlc_err *err)
{
    struct tls_identity *id = NULL;
    json_t *answer = NULL;
    int rc = a->certificate != NULL ? certificate_ask(a->certificate, a->name, who, err) : 0;

    if (rc == 0)
        rc = manager_client_call(client, "PUT", path, who, &answer, err);
    if (rc < 0 && manager_client_status(client) == 401)
        agent_client_denied(a);
    if (rc == 0)
        log_info("joined the manager at %s as %s", manager_client_address(client), a->name);
    if (rc == 0)
        agent_client_joined(a, client, answer);
    if (rc == 0 && a->certificate != NULL)
        rc = certificate_take(a->certificate, a->name, answer, &id, err);
    if (rc == 0 && a->certificate != NULL)
        rc = use_certificate(a, client, id, err);
    if (rc < 0) {
        json_decref(answer);
        return rc;
    }
    dlc_mtx_lock(&a->mtx);
    a->joined = true;
    dlc_cond_broadcast(&a->wake);
    dlc_mtx_unlock(&a->mtx);
    told(a, answer, NULL, true, false);
    return 0;
}

static struct dlc_dur interval_of(const json_t *answer)
{
    json_int_t ms = json_integer_value(json_object_get(answer, "interval_ms"));

    return ms > 0 ? DLC_MS(DLC_CLAMP(ms, INTERVAL_MIN, INTERVAL_MAX)) : INTERVAL;
}

/* The manager does not want what we tell it: it hears at least that we are there. Nothing counts as
 * told, and what we have done is told again. */
static int beat_bare(struct agent *a, struct manager_client *client, const char *path,
                     const json_t *told, json_t **answer, struct dlc_err *err)
{
    json_t *bare = json_pack("{s:O, s:O}", "view", json_object_get(told, "view"), "instance",
                             json_object_get(told, "instance"));
    int rc;

    if (!a->refused)
        log_warn("the manager refuses what it is told: %s", err->text);
    a->refused = true;
    *err = (struct dlc_err)DLC_ERR_INIT;
    rc = manager_client_call(client, "POST", path, bare, answer, err);
    json_decref(bare);
    return rc;
}

/* *again: how long until the next one. */
static int beat(struct agent *a, struct manager_client *client, const char *path,
                struct dlc_dur *again, struct dlc_err *err)
{
    struct loop_call e = {.agent = a};
    json_t *answer = NULL;
    bool well;
    int rc;

    loop_call_run(&e, gather);
    rc = manager_client_call(client, "POST", path, e.body, &answer, err);
    well = rc == 0;
    if (rc == DLC_EINVAL)
        rc = beat_bare(a, client, path, e.body, &answer, err);
    else if (well)
        a->refused = false;
    agent_client_joined(a, client, answer); /* another credential, now and then */
    *again = well && e.more ? DLC_MS(0) : interval_of(answer);
    told(a, answer, e.body, false, well);
    json_decref(e.body);
    return rc;
}

void agent_beat_now(struct agent *a)
{
    dlc_mtx_lock(&a->mtx);
    a->hurry = true;
    dlc_cond_broadcast(&a->wake);
    dlc_mtx_unlock(&a->mtx);
}

/* Wait so long. False: the agent ends. */
static bool pause_for(struct agent *a, struct dlc_dur d)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), d);
    bool ending;

    dlc_mtx_lock(&a->mtx);
    while (!a->ending && !a->hurry && !dlc_mono_passed(until, dlc_mono_now()))
        dlc_cond_wait_for(&a->wake, &a->mtx, dlc_mono_sub(until, dlc_mono_now()));
    a->hurry = false;
    ending = a->ending;
    dlc_mtx_unlock(&a->mtx);
    return !ending;
}

static void leave(struct agent *a, struct manager_client *client, const char *path)
{
    char *ours = mem_fmt("%s?instance=%s", path, a->identity.instance);
    struct dlc_err err = DLC_ERR_INIT;
    json_t *answer = NULL;

    if (manager_client_call(client, "DELETE", ours, NULL, &answer, &err) < 0)
        log_info("could not tell the manager that this node leaves: %s", err.text);
    json_decref(answer);
    mem_free(&ours);
}

/* What readers used up to now: the batch that is on its way, then the last one (usage.h). */
static void report_last(struct agent *a, struct manager_client *client, const char *heart)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct dlc_dur again;
    int rc = 0;

    for (int i = 0; i < 2 && rc == 0; i++)
        rc = beat(a, client, heart, &again, &err);
}

static void be_member(struct agent *a, struct manager_client *client)
{
    char *path = mem_fmt("/v1/nodes/%s", a->name), *heart = mem_fmt("%s/heartbeat", path);
    json_t *who = introduction(a);
    struct dlc_dur again = INTERVAL, usual = INTERVAL, patience = {0};
    bool joined = false;

    do {
        struct dlc_err err = DLC_ERR_INIT;
        int rc = 0;

        if (!joined)
            rc = join(a, client, path, who, &err);
        joined = joined || rc == 0;
        if (joined)
            rc = beat(a, client, heart, &again, &err);
        if (joined && rc == 0 && certificate_is_due(a->certificate, dlc_mono_now()))
            rc = renew_certificate(a, client, path, &err);
        if (rc == DLC_ENOTFOUND) {
            joined = false; /* a manager that does not know us */
            again = DLC_MS(0);
        } else if (rc < 0) {
            /* Our name may be another's by now, our certificate have expired, or we were revoked.
             * The credential is written by this thread alone. */
            joined = joined && rc != DLC_EBUSY &&
                     (rc != DLC_EDENIED || (a->certificate == NULL && a->credential == NULL));
            patience = backoff_next(patience, RETRY_FIRST, (struct dlc_dur){usual.ns * RETRY_MOST});
            again = patience;
        } else {
            patience = DLC_MS(0);
            usual = again.ns > 0 ? again : usual;
        }
        note(a, rc == DLC_ENOTFOUND ? 0 : rc, &err);
    } while (pause_for(a, again));
    if (joined && !agent_manager_away(a)) {
        report_last(a, client, heart);
        leave(a, client, path);
    }
    json_decref(who);
    mem_free(&heart);
    mem_free(&path);
}

static void *beating_main(void *arg)
{
    struct agent *a = agent_of(arg);
    struct manager_client *client = NULL;
    struct dlc_err err = DLC_ERR_INIT;
    int rc = 0;

    pthread_setname_np(pthread_self(), "dlc-agent");
    if (a->node->membership->inside)
        rc = open_inside(a, &err);
    if (rc == 0)
        rc = agent_client_open(a, &client, &err);
    if (rc < 0)
        dlc_err_prefix(&err, "no control plane");
    note(a, rc, &err);
    dlc_mtx_lock(&a->mtx);
    a->ready = rc == 0;
    if (rc < 0)
        a->broken = true;
    dlc_cond_broadcast(&a->wake);
    dlc_mtx_unlock(&a->mtx);
    if (rc == 0)
        be_member(a, client);
    manager_client_close(&client);
    return NULL;
}

/* ---- life ---- */

/* Signals are for other threads. */
static int start(pthread_t *t, void *(*f)(void *), struct agent *a, struct dlc_err *err)
{
    sigset_t all, old;
    int e;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    e = os_thread(t, f, a);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return e == 0 ? 0
                  : dlc_err_set(err, dlc_err_of_errno(e), "cannot start a thread: %s", strerror(e));
}

/* The host's name, as far as it can be one. */
static char *default_name(void)
{
    char host[64] = "";
    char *name, *to;

    if (gethostname(host, sizeof(host) - 1) < 0 || host[0] == '\0')
        return mem_str("node");
    name = to = mem_str(host);
    for (const char *s = host; *s != '\0'; s++) {
        char c = *s >= 'A' && *s <= 'Z' ? (char)(*s + ('a' - 'A')) : *s;

        *to++ = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
    }
    if (name[0] == '-')
        name[0] = 'n';
    return name;
}

int agent_open(struct node *n, const struct agent_ops *ops, const char *address,
               struct certificate *certificate, struct agent **out, struct dlc_err *err)
{
    struct agent *a = mem_new(struct agent);
    const struct node_cluster *m = n->membership;
    int rc;

    a->tag = AGENT_TAG;
    a->node = n;
    a->ops = ops;
    a->address = mem_str(address);
    a->certificate = certificate;
    a->name = m->name != NULL ? mem_str(m->name) : default_name();
    identity_open(&a->identity, n->config->dir);
    if (!m->inside)
        a->credential = node_credential_load(n->config->dir);
    a->base = mem_str(m->inside ? NULL : m->manager);
    dlc_mtx_init(&a->mtx, LCK_agent);
    dlc_cond_init(&a->wake);
    dlc_cond_init(&a->answered);
    dlc_list_init(&a->calls);
    dlc_list_init(&a->later);
    n->cluster = cluster_new(a->name);
    *out = a;
    rc = start(&a->beating, beating_main, a, err);
    a->has_beating = rc == 0;
    if (rc == 0)
        rc = start(&a->asking, agent_calls_main, a, err);
    a->has_asking = rc == 0 && a->has_beating;
    return rc;
}

void agent_leave(struct agent *a)
{
    struct dlc_err ending = DLC_ERR_INIT;

    dlc_err_set(&ending, DLC_ECANCELED, "the node is ending");
    dlc_mtx_lock(&a->mtx);
    a->ending = true;
    dlc_cond_broadcast(&a->wake);
    dlc_mtx_unlock(&a->mtx);
    if (a->has_beating)
        pthread_join(a->beating, NULL);
    if (a->has_asking)
        pthread_join(a->asking, NULL);
    a->has_beating = a->has_asking = false;
    agent_calls_fail(a, &ending);
}

void agent_close(struct agent **ap)
{
    struct agent *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    dlc_check(!a->has_beating && !a->has_asking);
    manager_close(&a->manager);
    dlc_cond_release(&a->wake);
    dlc_cond_release(&a->answered);
    dlc_mtx_release(&a->mtx);
    identity_close(&a->identity);
    secret_free(&a->credential);
    mem_free(&a->name);
    mem_free(&a->base);
    mem_free(&a->address);
    a->tag = 0;
    mem_free(&a);
}
