// SPDX-License-Identifier: Apache-2.0
#include "operator/operator.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/api_token.h"
#include "operator/install_secret.h"
#include "operator/housekeeping.h"
#include "operator/kube/kube_watch.h"
#include "operator/reconcile/pass.h"
#include "operator/reconcile/enqueue.h"

#define WORKERS_MAX 64
#define ARENAS      2            /* of malloc(): what one thread frees another can have */
#define STUCK       DLC_SEC(300) /* at one object: no request takes so long */
#define LINGER      DLC_SEC(3)   /* the webhook is answered, after the end began */
#define AWAY_LEAST  DLC_MS(200)  /* after 429, unless the server says more */
#define AWAY_SPREAD DLC_SEC(2)
#define NOT_YET     DLC_SEC(1) /* not every kind is listed */

/* What is followed. Of what we make only that with our label. */
static const struct {
    enum kube_kind kind;
    const char *labels;
} followed[] = {
    {KUBE_DLTPOD, NULL},
    {KUBE_DATASET, NULL},
    {KUBE_NODE, NULL},
    {KUBE_POD, LABEL_MANAGED "=" MANAGED_BY},
    {KUBE_CONFIGMAP, LABEL_MANAGED "=" MANAGED_BY},
    {KUBE_SERVICE, LABEL_MANAGED "=" MANAGED_BY},
};
#define FOLLOWED DLC_COUNT(followed)

struct worker {
    struct dlc_operator *of;
    struct reconciler reconciler;
    pthread_t thread;
    /* When its pass began; 0: none. W the worker, R any, relaxed: a figure. */
    _Atomic int64_t since;
};

struct dlc_operator {
    struct operator_config config;
    struct metrics metrics;
    struct objects *objects;
    struct users *users;
    struct fetched *fetched;
    struct queue *queue;
    struct enqueuer enqueuer;
    struct kube_watch *watches[FOLLOWED];
    struct lease *lease;
    struct serve *serve;
    struct housekeeping *housekeeping;
    _Atomic int64_t certificate_end; /* W the housekeeping thread, R any; relaxed: a figure */
    struct dlc_mtx tenants;
    char *webhook_host; /* NULL: anywhere */
    struct dlc_mtx token;
    struct kube *asker;   /* G: token; asked for the token of the installation */
    _Atomic bool ending;  /* W main, R any; relaxed: a word for /readyz */
    _Atomic bool started; /* W main, R any: acquire pairs with its release; all above is there */
    struct worker workers[WORKERS_MAX];
    unsigned n_workers; /* running */
};

/* ---- who we are to the manager ---- */

/* The token of settings, or that of the installation's Secret. Gives. */
static int find_token(void *arg, char **out, struct dlc_err *err)
{
    struct dlc_operator *o = arg;
    json_t *secret = NULL;
    int rc = token_load(o->config.config, NULL, out, err);

    if (rc < 0 || *out != NULL)
        return rc;
    dlc_mtx_lock(&o->token);
    rc = housekeeping_control_secret(o->asker, o->config.ns, &secret, err);
    dlc_mtx_unlock(&o->token);
    if (rc == 0)
        *out = bootstrap_text(secret, "admin.token");
    json_decref(secret);
    if (rc == 0 && *out == NULL)
        rc = dlc_err_set(err, DLC_EDENIED, "Secret %s/%s has no admin.token", o->config.ns,
                         MANAGER_SECRET);
    return rc;
}

/* The authority of managers in the installation's Secret, unless --manager-ca names one. Gives. */
static int find_ca(void *arg, char **out, struct dlc_err *err)
{
    struct dlc_operator *o = arg;
    json_t *secret = NULL;
    int rc;

    *out = NULL;
    if (o->config.config->manager_ca[0] != '\0' ||
        strstr(o->config.config->manager, "https://") == NULL)
        return 0;
    dlc_mtx_lock(&o->token);
    rc = housekeeping_control_secret(o->asker, o->config.ns, &secret, err);
    dlc_mtx_unlock(&o->token);
    if (rc == 0)
        *out = bootstrap_text(secret, "ca.crt");
    json_decref(secret);
    return rc;
}

/* ---- workers ---- */

static bool all_listed(const struct dlc_operator *o)
{
    for (size_t i = 0; i < FOLLOWED; i++)
        if (!objects_synced(o->objects, followed[i].kind))
            return false;
    return true;
}

/* A server that turns requests away says when to come again; then all come at different times. That
 * is no failure of this key's, for which it would have to wait longer and longer. */
static struct dlc_dur turned_away(struct dlc_dur retry_after)
{
    int64_t ns = DLC_MAX(retry_after.ns, AWAY_LEAST.ns);

    return (struct dlc_dur){ns + dlc_mono_now().ns % AWAY_SPREAD.ns};
}

static void take_turn(struct worker *w, char **key)
{
    struct dlc_operator *o = w->of;
    struct dlc_mono start = dlc_mono_now();
    struct dlc_err err = DLC_ERR_INIT;
    struct dlc_dur after;
    struct object_key k;
    enum metrics_result r;
    int rc;

    dlc_check(object_key_parse(*key, &k));
    atomic_store_explicit(&w->since, start.ns, memory_order_relaxed);
    rc = pass_run(&w->reconciler, &k, &after, &err);
    atomic_store_explicit(&w->since, 0, memory_order_relaxed);
    r = rc < 0 ? METRICS_FAILED : after.ns >= 0 ? METRICS_AGAIN : METRICS_DONE;
    metrics_round(&o->metrics, k.kind == KUBE_DATASET, r, dlc_mono_since(start));
    if (rc == DLC_ECANCELED) {
        queue_done(o->queue, key); /* who leads now looks at it */
        return;
    }
    if (rc < 0 && kube_status(w->reconciler.kube) == 429) {
        log_debug("%s: %s", *key, err.text);
        queue_again(o->queue, key, turned_away(after));
    } else if (rc < 0) {
        log_at(rc == DLC_ECHANGED ? LOG_DEBUG : LOG_WARN, "%s: %s", *key, err.text);
        queue_failed(o->queue, key, after);
    } else if (after.ns >= 0) {
        queue_again(o->queue, key, after);
    } else {
        queue_done(o->queue, key);
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct dlc_operator *o = w->of;
    char *key;

    while ((key = queue_take(o->queue, (struct dlc_dur){-1})) != NULL) {
        if (!lease_held(o->lease))
            queue_done(o->queue, &key);
        else if (!all_listed(o))
            queue_again(o->queue, &key, NOT_YET);
        else
            take_turn(w, &key);
    }
    return NULL;
}

static struct kube_options kube_options(struct dlc_operator *o)
{
    return (struct kube_options){.config = o->config.kube,
                                 .metrics = &o->metrics,
                                 .timeout = lease_timeout(o->config.lease)};
}

static struct kube_options leader_options(struct dlc_operator *o)
{
    struct kube_options k = kube_options(o);

    k.may_write = lease_may_write;
    k.arg = o->lease;
    return k;
}

static struct manager_client_config manager_config(struct dlc_operator *o)
{
    const char *ca = o->config.config->manager_ca;

    return (struct manager_client_config){.http.base = o->config.config->manager,
                                          .http.ca = ca[0] != '\0' ? ca : NULL,
                                          .http.timeout = lease_timeout(o->config.lease),
                                          .find_token = find_token,
                                          .find_ca = find_ca,
                                          .arg = o};
}

static int start_worker(struct dlc_operator *o, struct dlc_err *err)
{
    struct worker *w = &o->workers[o->n_workers];
    struct kube_options k = leader_options(o);
    struct manager_client_config m = manager_config(o);
    int rc;

    w->of = o;
    w->reconciler = (struct reconciler){o->objects, o->fetched, o->users, &o->tenants, NULL, NULL};
    rc = kube_open(&k, &w->reconciler.kube, err);
    if (rc == 0)
        rc = manager_client_open(&m, &w->reconciler.manager, err);
    if (rc == 0 && os_thread(&w->thread, work, w) != 0)
        rc = dlc_err_set(err, DLC_ENOMEM, "no thread for a worker");
    if (rc < 0) {
        kube_close(&w->reconciler.kube);
        manager_client_close(&w->reconciler.manager);
        return rc;
    }
    o->n_workers++;
    return 0;
}

static void stop_workers(struct dlc_operator *o)
{
    if (o->queue != NULL)
        queue_close(o->queue);
    for (unsigned i = 0; i < o->n_workers; i++)
        kube_interrupt(o->workers[i].reconciler.kube);
    for (unsigned i = 0; i < o->n_workers; i++) {
        struct worker *w = &o->workers[i];

        pthread_join(w->thread, NULL);
        kube_close(&w->reconciler.kube);
        manager_client_close(&w->reconciler.manager);
    }
    o->n_workers = 0;
}

/* ---- the present ---- */

static const char *sickness(struct dlc_operator *o)
{
    for (unsigned i = 0; i < o->config.workers; i++) {
        int64_t since = atomic_load_explicit(&o->workers[i].since, memory_order_relaxed);

        if (since > 0 && dlc_mono_now().ns - since > STUCK.ns)
            return "a worker has been at one object for five minutes";
    }
    return NULL;
}

static void state_of(struct serve_state *out, void *arg)
{
    struct dlc_operator *o = arg;
    struct metrics_now *now = &out->now;
    struct queue_figures q;

    memset(out, 0, sizeof(*out));
    if (!atomic_load_explicit(&o->started, memory_order_acquire)) {
        now->watches[now->n_watches++].kind = kube_kinds[followed[0].kind].kind; /* not listed */
        return;
    }
    out->sick = sickness(o);
    out->ending = atomic_load_explicit(&o->ending, memory_order_relaxed);
    now->leader = lease_held(o->lease);
    now->transitions = lease_transitions(o->lease);
    queue_figures(o->queue, &q);
    now->due = q.due;
    now->waiting = q.waiting;
    now->working = q.working;
    now->oldest = q.oldest;
    for (size_t i = 0; i < FOLLOWED; i++) {
        struct kube_watch_figures f;

        kube_watch_figures(o->watches[i], &f);
        now->watches[now->n_watches++] = (struct metrics_watch){
            kube_kinds[followed[i].kind].kind,          f.synced, f.lists, f.watches, f.failures,
            objects_count(o->objects, followed[i].kind)};
    }
    now->certificate_end = atomic_load_explicit(&o->certificate_end, memory_order_relaxed);
}

/* ---- begin ---- */

static void lease_changed(bool held, void *arg)
{
    struct dlc_operator *o = arg;

    log_info("%s", held ? "this replica leads" : "this replica does not lead any more");
    if (held)
        enqueue_all(&o->enqueuer);
}

static int start_watches(struct dlc_operator *o, struct dlc_err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < FOLLOWED; i++) {
        struct kube_watch_config c = {.kube = kube_options(o),
                                      .kind = followed[i].kind,
                                      .query = {.labels = followed[i].labels},
                                      .into = o->objects};

        c.kube.timeout = DLC_SEC(0);
        rc = kube_watch_start(&c, &o->watches[i], err);
    }
    return rc;
}

static int start_serving(struct dlc_operator *o, struct dlc_err *err)
{
    struct serve_config c = {o->config.listen, o->config.webhook, &o->metrics, state_of, o};

    return serve_open(&c, &o->serve, err);
}

static int start_lease(struct dlc_operator *o, struct dlc_err *err)
{
    struct lease_config c = {.kube = kube_options(o),
                             .ns = o->config.ns,
                             .name = OPERATOR_LEASE,
                             .who = o->config.name,
                             .duration = o->config.lease,
                             .changed = lease_changed,
                             .arg = o};

    return lease_start(&c, &o->lease, err);
}

static int start_housekeeping(struct dlc_operator *o, struct dlc_err *err)
{
    struct housekeeping_config c = {.ns = o->config.ns,
                                    .host = o->webhook_host,
                                    .kube = leader_options(o),
                                    .objects = o->objects,
                                    .lease = o->lease,
                                    .serve = o->config.webhook != NULL ? o->serve : NULL,
                                    .manager = manager_config(o),
                                    .certificate_end = &o->certificate_end};

    return housekeeping_start(&c, &o->housekeeping, err);
}

/* Of "HOST:PORT" the host that a certificate can be for; NULL: all of them are meant. Gives. */
static char *host_of(const char *address)
{
    size_t n = address != NULL && strrchr(address, ':') != NULL
                   ? (size_t)(strrchr(address, ':') - address)
                   : 0;
    char *host = mem_strn(n > 0 ? address : "", n);

    if (host[0] == '\0' || host[0] == '[' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "*") == 0)
        mem_free(&host);
    return host;
}

static int start(struct dlc_operator *o, struct dlc_err *err)
{
    struct kube_options k = kube_options(o);
    json_t *secret = NULL;
    int rc = kube_open(&k, &o->asker, err);

    if (rc == 0) /* nodes and managers wait for it; that there is none yet stops nobody */
        (void)housekeeping_control_secret(o->asker, o->config.ns, &secret, NULL);
    json_decref(secret);
    rc = rc == 0 ? start_serving(o, err) : rc;
    rc = rc == 0 ? start_watches(o, err) : rc;
    rc = rc == 0 ? start_lease(o, err) : rc;
    rc = rc == 0 ? start_housekeeping(o, err) : rc;
    for (unsigned i = 0; rc == 0 && i < o->config.workers; i++)
        rc = start_worker(o, err);
    atomic_store_explicit(&o->started, rc == 0, memory_order_release);
    return rc;
}

int operator_start(const struct operator_config *c, struct dlc_operator **out, struct dlc_err *err)
{
    struct dlc_operator *o = mem_new(struct dlc_operator);
    struct objects_config oc = {enqueue_changed, enqueue_trim, &o->enqueuer};
    struct queue_config qc = {{0}, {0}};
    int rc;

    *out = NULL;
    mallopt(M_ARENA_MAX, ARENAS);
    o->config = *c;
    o->config.workers = DLC_CLAMP(c->workers, 1u, (unsigned)WORKERS_MAX);
    dlc_mtx_init(&o->tenants, LCK_tenants);
    dlc_mtx_init(&o->token, LCK_token);
    o->webhook_host = host_of(c->webhook);
    o->objects = objects_new(&oc);
    o->users = users_new(o->objects);
    o->fetched = fetched_new();
    o->queue = queue_new(&qc);
    o->enqueuer = (struct enqueuer){o->objects, o->users, o->queue};
    rc = start(o, err);
    if (rc < 0)
        operator_stop(&o);
    *out = o;
    return rc;
}

/* Who was told of us still asks for a while: the other replicas are told about later. */
static void linger(void)
{
    dlc_sleep(LINGER);
}

void operator_stop(struct dlc_operator **op)
{
    struct dlc_operator *o = *op;

    *op = NULL;
    if (o == NULL)
        return;
    atomic_store_explicit(&o->ending, true, memory_order_relaxed);
    stop_workers(o);
    housekeeping_stop(&o->housekeeping);
    if (o->lease != NULL)
        lease_give_up(o->lease);
    if (o->serve != NULL && serve_webhook(o->serve) != NULL)
        linger();
    serve_close(&o->serve); /* from now on nobody asks for the state */
    lease_stop(&o->lease);
    for (size_t i = 0; i < FOLLOWED; i++)
        kube_watch_stop(&o->watches[i]);
    kube_close(&o->asker);
    queue_free(&o->queue);
    fetched_free(&o->fetched);
    users_free(&o->users);
    objects_free(&o->objects);
    dlc_mtx_release(&o->tenants);
    dlc_mtx_release(&o->token);
    mem_free(&o->webhook_host);
    mem_free(&o);
}

const char *operator_address(const struct dlc_operator *o)
{
    return serve_address(o->serve);
}
