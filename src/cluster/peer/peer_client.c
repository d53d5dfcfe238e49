// SPDX-License-Identifier: Apache-2.0
/*
 * Threads of the peer client. Each peer belongs to one thread, which has a loop and an HTTP engine;
 * all requests to that peer are sent there. State that several threads use (health, figures, the
 * table of peers) is under one lock, which is never held across a wait or a callback.
 *
 *     peers_read --post--> WAITING --a connection is free--> FLYING --answer, deadline--> done
 *                          skipped ---------------------------------------------------> done
 *
 * A peer that is skipped gets a health check (GET /v1/health) when its pause is over, and requests
 * for samples only after it has answered: no sample waits for a peer that may still be dead.
 *
 * Deadline: a request is given up when nothing has been received for as long as the peer's patience
 * (peer_health.h); once the owner has said that it is at work (102) or has begun to answer, for
 * `most`. No request takes longer than TOTAL times `most`.
 */
#include "cluster/peer/peer_client_i.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/event_loop.h"
#include "base/secret.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/async_client.h"
#include "cluster/peer/peer_url.h"

#define ASK_TAG    DLC_TAG4('p', 'a', 's', 'k')
#define MANY_CORES 4    /* more of them: two threads */
#define TOTAL      30   /* times `most` */
#define IDLE_MAX   1024 /* connections kept */
#define PROBE_MAX  4096 /* bytes of an answer to how it is */

/* One question under way. */
struct peer_call {
    uint32_t tag;
    struct peer_read *read;
    struct peer *peer;
    struct task begin;
    struct timer deadline;
    struct engine_request *request; /* NULL: not flying */
    struct dlc_mono asked, sent, first_sign, heard;
    struct dlc_dur patience;
    uint64_t address; /* hash */
    bool left;        /* the peer ends, has cut the connection, or is not there */
    struct dlc_list link;
};

static struct peer_call *ask_of(void *priv)
{
    struct peer_call *a = priv;

    dlc_check(a != NULL && a->tag == ASK_TAG);
    return a;
}

static struct peer *peer_of(void *priv)
{
    struct peer *x = priv;

    dlc_check(x != NULL && x->tag == PEER_TAG);
    return x;
}

static enum call_class class_of(const struct peer_call *a)
{
    return a->read->cached || a->read->take_from != NULL ? CLASS_HANDOVER : CLASS_READ;
}

static struct peers *peers_of(const struct peer_call *a)
{
    return a->peer->lane->peers;
}

/* -------- the end of a question -------- */

/* An answer of a peer that is alive and well, whatever it says. */
static bool is_refusal(int rc)
{
    return rc == DLC_EDENIED || rc == DLC_ENOTFOUND || rc == DLC_ECHANGED || rc == DLC_ENOSPACE;
}

static void note_locked(struct peer_call *a, struct dlc_mono now)
{
    struct peer *x = a->peer;
    const struct peer_read *r = a->read;
    bool moved = a->address != x->address; /* a failure says nothing of where it is now */

    if (a->first_sign.ns != 0)
        health_sign(&x->health, dlc_mono_sub(a->first_sign, a->sent));
    else if (r->rc == DLC_ETIMEDOUT && a->sent.ns != 0 && !moved)
        health_sign(&x->health, dlc_mono_sub(now, a->sent));
    if (r->rc == DLC_EMISS) {
        x->skipped++;
    } else if (r->rc == 0 || is_refusal(r->rc)) {
        if (r->rc != 0 || r->verified)
            health_good(&x->health);
        x->reads += r->rc == 0;
        x->bytes += r->rc == 0 ? r->length : 0;
        x->failures += r->rc != 0;
        if (r->rc == 0)
            hist_add(&x->took, (uint64_t)DLC_MAX(r->took.ns, 1));
    } else if (r->rc != DLC_ECANCELED && r->rc != DLC_EINVAL) {
        x->failures++;
        if (!moved && a->left)
            health_left(&x->health, now);
        if (!moved && health_bad(&x->health, false, now))
            log_info("peer %s is left alone for %g s: %s", x->name,
                     dlc_dur_seconds(x->health.pause), r->err.text);
    }
}

static void pump(struct peer *x);

/* The question is over; rc and err are set. */
static void finish(struct peer_call *a)
{
    struct peers *p = peers_of(a);
    struct peer *x = a->peer;
    struct peer_read *r = a->read;
    struct dlc_mono now = dlc_mono_now();

    loop_timer_del(x->lane->thread.loop, &a->deadline);
    dlc_list_remove(&a->link);
    if (a->request != NULL)
        x->in_flight[class_of(a)]--;
    engine_put(&a->request);
    r->took = dlc_mono_sub(now, a->asked);
    dlc_mtx_lock(&p->mtx);
    note_locked(a, now);
    dlc_mtx_unlock(&p->mtx);
    r->engine = NULL;
    a->tag = 0;
    mem_free(&a);
    r->done(r);
}

__attribute__((format(printf, 3, 4))) static void fail(struct peer_call *a, int rc, const char *fmt,
                                                       ...)
{
    struct peer_read *r = a->read;
    char why[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    r->rc = dlc_err_set(&r->err, rc, "peer %s at %s: %s", r->peer, r->address, why);
    finish(a);
}

static int code_of(int status)
{
    switch (status) {
    case 401:
    case 403: return DLC_EDENIED;
    case 404: return DLC_ENOTFOUND;
    case 409: return DLC_ECHANGED;
    case 504: return DLC_ETIMEDOUT;
    case 507: return DLC_ENOSPACE;
    default: return DLC_EBUCKET;
    }
}

/* -------- one question -------- */

/* A whole sample has come: is it the one that was sent? */
static void take_sample(struct peer_call *a, const struct engine_answer *answer)
{
    struct peer_read *r = a->read;

    if (r->take_from != NULL) { /* the peer has its copy: there is nothing to compare */
        r->verified = true;
        finish(a);
        return;
    }
    r->checksum = answer->checksum;
    if (answer->has_checksum && r->length <= PEERS_SUM_MAX) {
        r->verified = hash64(r->dst, r->length) == r->checksum;
        r->mismatch = !r->verified;
    }
    if (!answer->has_checksum) {
        fail(a, DLC_EPROTO, "the sample came without a checksum");
    } else if (r->mismatch) {
        fail(a, DLC_ECORRUPT, "the sample does not have the checksum that came with it");
    } else {
        r->rc = 0;
        r->from_memory = strcmp(answer->from, "memory") == 0;
        finish(a);
    }
}

static void on_answer(struct engine_request *q)
{
    struct peer_call *a = ask_of(q->owner);
    struct peer *x = a->peer;

    a->left =
        q->rc < 0 ? q->nobody || q->cut : q->answer.status == 503 && q->answer.retry_after > 0;
    if (q->rc == DLC_ECHANGED) /* the engine's word for a wrong length */
        fail(a, DLC_EPROTO, "the sample has not %llu bytes there",
             (unsigned long long)a->read->length);
    else if (q->rc < 0)
        fail(a, q->rc == DLC_EDENIED ? DLC_EBUCKET : q->rc, "%s", q->why);
    else if (q->answer.status != 200)
        fail(a, code_of(q->answer.status), "HTTP status %d", q->answer.status);
    else
        take_sample(a, &q->answer);
    pump(x);
}

/* When it is to be given up if nothing more is heard. */
static struct dlc_mono limit_of(const struct peer_call *a)
{
    struct dlc_dur most = peers_of(a)->most;
    struct dlc_mono end = dlc_mono_add(a->sent, (struct dlc_dur){most.ns * TOTAL}), next;

    next = a->heard.ns == 0 ? dlc_mono_add(a->sent, a->patience) : dlc_mono_add(a->heard, most);
    return next.ns < end.ns ? next : end;
}

static void on_deadline(struct timer *t)
{
    struct peer_call *a = ask_of(dlc_container(t, struct peer_call, deadline));
    struct peer *x = a->peer;
    struct dlc_mono limit = limit_of(a);

    if (limit.ns > dlc_mono_now().ns) {
        loop_timer_set(x->lane->thread.loop, t, limit);
        return;
    }
    fail(a, DLC_ETIMEDOUT, "%s for %.3f s", a->heard.ns == 0 ? "no sign" : "no end",
         dlc_dur_seconds(dlc_mono_since(a->sent)));
    pump(x);
}

/* A request to a peer, with our newest identity. NULL: it cannot be asked at that address. */
static struct engine_request *request_to(struct peer *x, const char *address)
{
    struct peers *p = x->lane->peers;
    struct engine_request *q = engine_get(x->lane->engine);
    bool ready;

    dlc_mtx_lock(&p->mtx);
    engine_identity(x->lane->engine, p->identity);
    ready = !p->tls || p->identity != NULL;
    dlc_mtx_unlock(&p->mtx);
    if (!ready || !engine_address(q, address, p->tls ? x->name : NULL))
        engine_put(&q);
    return q;
}

static void fill(struct peer_call *a, struct engine_request *q)
{
    static char nothing;
    const struct peer_read *r = a->read;
    struct buf line = BUF_INIT;

    peer_url_add(r, &q->url);
    engine_header(q, "Dlcache-Processing: 1");
    if (r->token != NULL) {
        buf_addf(&line, "Authorization: Bearer %s", r->token);
        engine_header_lines(q, line.data, line.len);
        secret_buf_release(&line);
    }
    q->dst = r->length > 0 ? r->dst : &nothing;
    q->dst_len = r->length;
    q->first_byte = &a->first_sign;
    q->heard = &a->heard;
    q->done = on_answer;
    q->owner = a;
}

static void send_now(struct peer_call *a)
{
    struct peer *x = a->peer;
    struct peers *p = peers_of(a);

    a->request = request_to(x, a->read->address);
    if (a->request == NULL) {
        fail(a, DLC_EMISS, "not asked: this node speaks TLS with peers, and %s",
             strncmp(a->read->address, "https:", 6) == 0 ? "has no certificate yet"
                                                         : "that one does not");
        return;
    }
    fill(a, a->request);
    x->in_flight[class_of(a)]++;
    dlc_list_push_tail(&x->lane->flying, &a->link);
    a->sent = dlc_mono_now();
    dlc_mtx_lock(&p->mtx);
    a->patience = health_patience(&x->health);
    dlc_mtx_unlock(&p->mtx);
    a->deadline.fire = on_deadline;
    loop_timer_set(x->lane->thread.loop, &a->deadline, limit_of(a));
    engine_send(a->request);
}

/* -------- is it back? -------- */

static void probe_over(struct peer *x)
{
    loop_timer_del(x->lane->thread.loop, &x->probe_end);
    engine_put(&x->probe);
}

static void probed(struct peer *x, bool answers)
{
    struct peers *p = x->lane->peers;

    probe_over(x);
    dlc_mtx_lock(&p->mtx);
    if (x->probe_address == x->address) { /* else it was asked how it is where it is not */
        if (answers)
            health_answers(&x->health);
        else if (!x->looks)
            health_bad(&x->health, true, dlc_mono_now());
    }
    x->looked_for = false;
    dlc_mtx_unlock(&p->mtx);
    if (answers)
        log_info("peer %s answers again", x->name);
}

static void on_probed(struct engine_request *q)
{
    probed(peer_of(q->owner), q->rc == 0 && q->answer.status < 500);
}

static void on_probe_end(struct timer *t)
{
    probed(peer_of(dlc_container(t, struct peer, probe_end)), false);
}

static void probe(struct peer *x, const char *address, bool looks)
{
    struct loop *loop = x->lane->thread.loop;

    if (x->probe != NULL) /* at an address where it is not any more */
        probe_over(x);
    x->probe = request_to(x, address);
    if (x->probe == NULL) { /* the next sample tries again */
        dlc_mtx_lock(&x->lane->peers->mtx);
        x->looked_for = false;
        dlc_mtx_unlock(&x->lane->peers->mtx);
        return;
    }
    x->looks = looks;
    x->probe_address = hash64_str(address);
    buf_adds(&x->probe->url, "/v1/health");
    x->probe->body_max = PROBE_MAX;
    x->probe->done = on_probed;
    x->probe->owner = x;
    x->probe_end.fire = on_probe_end;
    loop_timer_set(loop, &x->probe_end, dlc_mono_add(dlc_mono_now(), x->lane->peers->most));
    engine_send(x->probe);
}

static enum health_verdict admit(struct peer *x)
{
    struct peers *p = x->lane->peers;
    enum health_verdict v;

    dlc_mtx_lock(&p->mtx);
    v = health_admit(&x->health, dlc_mono_now());
    dlc_mtx_unlock(&p->mtx);
    return v;
}

static void pump_class(struct peer *x, enum call_class k)
{
    unsigned most = x->lane->peers->connections;
    struct dlc_list *n;

    while (x->in_flight[k] < most && (n = dlc_list_pop_head(&x->waiting[k])) != NULL) {
        struct peer_call *a = dlc_container(n, struct peer_call, link);
        enum health_verdict v = admit(x);

        if (v == HEALTH_TRY)
            probe(x, a->read->address, false);
        if (v == HEALTH_ASK)
            send_now(a);
        else
            fail(a, DLC_EMISS, "not asked: it failed before");
    }
}

/* Send what waits, as far as connections allow; while the peer is skipped, turn it away. */
static void pump(struct peer *x)
{
    pump_class(x, CLASS_READ);
    pump_class(x, CLASS_HANDOVER);
}

static bool one_line(const char *s)
{
    return s == NULL || strpbrk(s, "\r\n") == NULL;
}

static void on_begin(struct task *t)
{
    struct peer_call *a = ask_of(dlc_container(t, struct peer_call, begin));
    struct peer *x = a->peer;

    if (x->lane->engine == NULL) {
        fail(a, DLC_ECANCELED, "we are ending");
        return;
    }
    if (!one_line(a->read->token) || !one_line(a->read->address)) {
        fail(a, DLC_EINVAL, "its address or token has more than one line");
        return;
    }
    dlc_list_push_tail(&x->waiting[class_of(a)], &a->link);
    pump(x);
}

void peers_read(struct peers *p, struct peer_read *r)
{
    struct peer_call *a = mem_new(struct peer_call);

    dlc_check(p->tag == PEERS_TAG);
    a->tag = ASK_TAG;
    a->read = r;
    a->asked = dlc_mono_now();
    a->begin.run = on_begin;
    dlc_list_init(&a->link);
    r->engine = a;
    r->rc = 0;
    r->err = (struct dlc_err)DLC_ERR_INIT;
    r->from_memory = r->verified = r->mismatch = false;
    r->checksum = 0;
    dlc_mtx_lock(&p->mtx);
    a->peer = peer_find_locked(p, r->peer, true);
    a->address = hash64_str(r->address);
    peer_moved_locked(p, a->peer, a->address);
    dlc_mtx_unlock(&p->mtx);
    if (p->closing) /* asked by a done() of the end: no turn is left */
        fail(a, DLC_ECANCELED, "we are ending");
    else
        loop_post(a->peer->lane->thread.loop, &a->begin);
}

/* -------- a peer that is waited for -------- */

struct probe_request {
    struct task task;
    struct peer *peer;
    char *address;
};

static void on_probe_request(struct task *t)
{
    struct probe_request *l = dlc_container(t, struct probe_request, task);
    struct peer *x = l->peer;

    if (x->lane->engine != NULL && x->probe == NULL)
        probe(x, l->address, true);
    mem_free(&l->address);
    mem_free(&l);
}

void peers_look(struct peers *p, const char *peer, const char *address)
{
    struct peer *x;
    bool look;

    dlc_check(p->tag == PEERS_TAG);
    dlc_mtx_lock(&p->mtx);
    x = peer_find_locked(p, peer, false);
    look = x != NULL && x->address == hash64_str(address) && x->health.left.ns != 0 &&
           !x->looked_for && !p->closing;
    if (look)
        x->looked_for = true;
    dlc_mtx_unlock(&p->mtx);
    if (look) {
        struct probe_request *l = mem_new(struct probe_request);

        l->task.run = on_probe_request;
        l->peer = x;
        l->address = mem_str(address);
        loop_post(x->lane->thread.loop, &l->task);
    }
}

/* -------- life -------- */
/* One of the questions to the lane's peers that wait, or NULL. */
static struct dlc_list *next_waiting(struct lane *l)
{
    struct dlc_list *found = NULL;

    dlc_mtx_lock(&l->peers->mtx);
    map_each(e, &l->peers->table)
    {
        struct peer *x = e->value;

        for (int i = 0; x->lane == l && i < CLASSES && found == NULL; i++)
            found = dlc_list_empty(&x->waiting[i]) ? NULL : x->waiting[i].next;
    }
    dlc_mtx_unlock(&l->peers->mtx);
    return found;
}

/* The lane's last task: everything under way ends now. */
static void on_close(struct task *t)
{
    struct lane *l = dlc_container(t, struct lane, close);
    struct dlc_list *n;

    while (!dlc_list_empty(&l->flying))
        fail(dlc_container(l->flying.next, struct peer_call, link), DLC_ECANCELED, "we are ending");
    while ((n = next_waiting(l)) != NULL)
        fail(dlc_container(n, struct peer_call, link), DLC_ECANCELED, "we are ending");
    dlc_mtx_lock(&l->peers->mtx);
    map_each(e, &l->peers->table)
    {
        struct peer *x = e->value;

        if (x->lane == l && x->probe != NULL)
            probe_over(x);
    }
    dlc_mtx_unlock(&l->peers->mtx);
    engine_free(&l->engine);
}

static int lane_open(struct peers *p, struct lane *l, struct dlc_err *err)
{
    struct engine_config c = {.connections = IDLE_MAX, /* shared by all peers */
                              .connect_timeout = p->most,
                              .ca = p->ca,
                              .direct = true};
    int rc = loop_thread_start(&l->thread, "dlc-peers", err);

    l->peers = p;
    l->close.run = on_close;
    dlc_list_init(&l->flying);
    if (rc < 0)
        return rc;
    p->n_lanes++;
    return engine_new(l->thread.loop, &c, &l->engine, err);
}

struct peers *peers_new(const struct peers_config *c, struct dlc_err *err)
{
    struct peers *p = mem_new(struct peers);
    unsigned n = sysconf(_SC_NPROCESSORS_ONLN) > MANY_CORES ? THREADS_MAX : 1;
    int rc = 0;

    p->tag = PEERS_TAG;
    p->connections = c->connections != 0 ? c->connections : 16;
    p->least = c->least.ns != 0 ? c->least : DLC_MS(250);
    p->most = c->most.ns != 0 ? c->most : DLC_SEC(2);
    p->ca = mem_str(c->ca);
    p->tls = c->tls;
    dlc_mtx_init(&p->mtx, LCK_peers);
    for (unsigned i = 0; i < n && rc == 0; i++)
        rc = lane_open(p, &p->lanes[i], err);
    if (rc < 0)
        peers_free(&p);
    return p;
}

void peers_identity(struct peers *p, struct tls_identity *id)
{
    struct tls_identity *old;

    dlc_check(p->tag == PEERS_TAG && p->tls);
    dlc_mtx_lock(&p->mtx);
    old = p->identity;
    p->identity = tls_identity_get(id);
    dlc_mtx_unlock(&p->mtx);
    tls_identity_put(&old);
}

void peers_free(struct peers **pp)
{
    struct peers *p = *pp;

    *pp = NULL;
    if (p == NULL)
        return;
    dlc_check(p->tag == PEERS_TAG);
    p->closing = true;
    for (unsigned i = 0; i < p->n_lanes; i++) {
        loop_post(p->lanes[i].thread.loop, &p->lanes[i].close);
        loop_thread_stop(&p->lanes[i].thread);
    }
    map_each(e, &p->table)
    {
        struct peer *x = e->value;

        mem_free(&x->name);
        mem_free(&x);
    }
    map_release(&p->table);
    dlc_mtx_release(&p->mtx);
    tls_identity_put(&p->identity);
    mem_free(&p->ca);
    p->tag = 0;
    mem_free(&p);
}
