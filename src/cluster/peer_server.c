// SPDX-License-Identifier: Apache-2.0
/*
 * The peer server: other nodes ask it for a catalog, or for a sample of a chunk that this node owns
 * or is believed to own. The node loop treats the request as a read of its own, but never asks
 * another peer. The bytes are sent from the segment without a copy, or piece by piece from the file
 * of a large sample, together with the checksum that they had when they arrived, for the peer to
 * compare.
 *
 *     server loop: parse --post--> node loop: token, dataset, snapshot --> fetch --> hold
 *     node loop: answer --> server loop: send --> sent --post--> node loop: unhold
 *     large sample, catalog: node loop --> worker: open or read --post--> node loop: answer
 *
 * A few loops (net/async_server.h) serve all peers; a connection costs no thread. The server's
 * handler creates a peer_request, which belongs to the node loop once it is posted. It is answered
 * once (`call` is NULL then) and freed when nothing refers to it: the fetch or the worker that it
 * waits for, and the reply whose bytes it holds.
 *
 * (PEER-SERVER-1) Bytes are sent only for a ticket of the manager (ticket_table.h), or for a token
 *                 that the manager vouches for (CLUSTER-2), and only those of the dataset and tenant
 *                 that either names. Where the connection has a client certificate, the ticket is
 *                 of the node that it names. A name alone proves nothing: it may have been freed and taken
 *                 by another tenant. The token of nodes opens nothing here. To ask the manager about
 *                 tokens of strangers is bounded apart: resolve_for_stranger().
 * (PEER-SERVER-2) A sample that this node is asking a peer for is refused: that peer may be waiting
 *                 for us.
 * (PEER-SERVER-3) Replies hold at most HELD_SHARE of the memory tier, and one sample more: peers
 *                 that do not read cannot take the memory from this node's readers. Beyond that a
 *                 peer is told to read the bucket.
 */
#include "cluster/peer_server_i.h"

#include <string.h>

#include "base/audit_log.h"
#include "base/counters.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "base/config.h"
#include "base/ticket.h"
#include "net/async_server.h"
#include "cluster/access.h"
#include "cluster/ticket_table.h"
#include "daemon/ownership.h"
#include "cluster/member.h"
#include "daemon/dataset.h"
#include "daemon/dataset_open.h"
#include "daemon/dataset_table.h"
#include "daemon/dataset_chunks.h"
#include "daemon/fetch/fetch.h"
#include "daemon/job_weights.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/session.h"
#include "daemon/state.h"
#include "catalog/catalog.h"
#include "cluster/peer/view.h"
#include "daemon/work.h"

#define HELD_SHARE  2 /* half of the memory tier */
#define REFUSED_FOR DLC_SEC(1)

static void request_free(struct peer_request *a)
{
    dlc_check(a->call == NULL && a->ds == NULL);
    secret_free(&a->token);
    mem_free(&a->from);
    mem_free(&a->evicted);
    mem_free(&a->cid);
    mem_free(&a->tenant);
    mem_free(&a->client);
    a->tag = 0;
    mem_free(&a);
}

/* ---- on the loop ---- */

void peer_request_answer(struct peer_request *a, struct http_reply *reply)
{
    dlc_list_remove(&a->link);
    async_answer(a->call, reply);
    a->call = NULL;
}

static void refuse(struct http_reply *reply, int rc, const char *text)
{
    if (rc != DLC_EMISS) /* whoever asks if there is a copy is not refused by a no */
        count(peer_refused);
    if (text == NULL || text[0] == '\0')
        text = dlc_strerror(rc);
    switch (rc) {
    case DLC_ECHANGED: http_problem(reply, 409, "Another snapshot", "%s", text); break;
    case DLC_EBUSY: http_problem(reply, 409, "Busy", "%s; read the bucket", text); break;
    case DLC_EDENIED: http_problem(reply, 403, "Not yours", "%s", text); break;
    case DLC_EMISS:
    case DLC_ENOTFOUND: http_problem(reply, 404, "Not found", "%s", text); break;
    case DLC_EBYPASS:
    case DLC_ENOSPACE:
    case DLC_ENOMEM: http_problem(reply, 507, "No room", "%s; read the bucket", text); break;
    default: http_problem(reply, 503, "Not now", "%s; read the bucket", text); break;
    }
    if (rc == DLC_ECANCELED) /* peers wait for a node that is restarted: peers_left() */
        http_reply_header(reply, "Retry-After", "1");
}

/* X. The audit log bounds refusals: strangers can cause them at will (AUDIT-4). */
static void audit_refusal(struct peer_server *d, const struct audit_event *what)
{
    struct audit_event e = *what;

    e.role = e.name != NULL ? "node" : "unknown";
    e.outcome = AUDIT_REFUSED;
    audit_log_write(d->node->audit, &e);
}

void peer_request_end(struct peer_request *a)
{
    struct node *n = a->peer_server->node;

    if (a->ds != NULL)
        dataset_put(&a->ds);
    n->pending--;
    request_free(a);
}

void peer_request_fail(struct peer_request *a, int rc, const char *text)
{
    struct http_reply reply = {0};

    if (a->call != NULL) {
        refuse(&reply, rc, text);
        if (rc == DLC_EDENIED)
            audit_refusal(a->peer_server, &(struct audit_event){.address = a->client,
                                                                .action = "peer.read",
                                                                .object = a->cid,
                                                                .status = reply.status,
                                                                .reason = text});
        peer_request_answer(a, &reply);
    }
    peer_request_end(a);
}

/* ---- samples from memory ---- */

static void release_held(struct task *t)
{
    struct peer_request *a = peer_request_of(dlc_container(t, struct peer_request, task));

    memory_unhold(dataset_memory(a->ds), a->ds->index, a->sample);
    a->peer_server->held -= a->len;
    peer_request_end(a);
}

/* On a loop of the server: the bytes are out, or the peer has gone. */
static void on_sent(void *arg)
{
    struct peer_request *a = peer_request_of(arg);

    loop_post(a->peer_server->node->loop, &a->task);
}

static void count_served(const struct peer_request *a)
{
    struct dataset *ds = a->ds;

    if (a->question == PEER_CACHED) {
        count(handover_served);
        count_add(handover_served_bytes, a->len);
        return;
    }
    ds->peer.served++;
    ds->peer.served_bytes += a->len;
    count(peer_served);
    count_add(peer_served_bytes, a->len);
}

void peer_request_send(struct peer_request *a)
{
    struct dataset *ds = a->ds;
    struct peer_server *d = a->peer_server;
    struct http_reply reply = {.type = "application/octet-stream", .done = on_sent, .arg = a};

    reply.data = memory_hold(dataset_memory(ds), ds->index, a->sample, &a->len);
    if (reply.data == NULL) {
        peer_request_fail(a, DLC_EBUSY, "the sample left memory as it came");
        return;
    }
    if (d->held > memory_ceiling(dataset_memory(ds)) / HELD_SHARE) {
        memory_unhold(dataset_memory(ds), ds->index, a->sample);
        peer_request_fail(a, DLC_ENOSPACE, "too much memory is held for peers that do not read");
        return;
    }
    a->checksum = mem_index_checksum(ds->index, a->sample);
    reply.data_len = a->len;
    d->held += a->len;
    memory_touch(dataset_memory(ds), ds->index, a->sample);
    count_served(a);
    http_reply_header(&reply, "Dlcache-From", "%s", a->resident ? "memory" : "bucket");
    http_reply_header(&reply, "Dlcache-Checksum", "%016llx", (unsigned long long)a->checksum);
    a->task.run = release_held;
    peer_request_answer(a, &reply);
}

/* ---- a question about a sample ---- */

static void on_fetched(struct waiter *w, int rc, const char *text)
{
    struct peer_request *a = peer_request_of(dlc_container(w, struct peer_request, waiter));
    struct catalog_entry e;

    if (a->call == NULL) /* cancelled: nobody waits for it any more */
        peer_request_end(a);
    else if (rc == 0)
        peer_request_send(a);
    else if (rc == DLC_ELARGE && catalog_get(a->ds->catalog, a->sample, &e, NULL) == 0)
        peer_request_open_large(a, &e);
    else
        peer_request_fail(a, rc, text);
}

static void read_sample(struct peer_request *a, struct dataset *ds)
{
    bool before = dataset_read_elsewhere(ds);

    a->ds = ds;
    dataset_ref(ds);
    if (catalog_snapshot(ds->catalog) != a->snapshot) {
        peer_request_fail(a, DLC_ECHANGED, "this node has another snapshot of the dataset");
        return;
    }
    if (a->sample >= catalog_count(ds->catalog)) {
        peer_request_fail(a, DLC_ENOTFOUND, "there is no sample of that number");
        return;
    }
    if (a->question == PEER_CACHED || a->question == PEER_TAKE) {
        a->question == PEER_CACHED ? handover_give(a) : handover_take(a);
        return;
    }
    ds->ownership.served_at = ds->last_used = loop_now(ds->node->loop);
    if (!before && dataset_read_elsewhere(ds)) {
        ownership_count(ds);
        next_use_changed(ds);
    }
    a->resident = mem_index_ready(ds->index, a->sample);
    a->waiter.done = on_fetched;
    a->waiter.asked = dlc_mono_now();
    dlc_list_init(&a->waiter.of_fetch);
    dlc_list_init(&a->waiter.of_session);
    if (!fetch_for_peer(ds, a->sample, &a->waiter))
        peer_request_fail(a, DLC_EBUSY, "this node is asking another one for that sample");
}

/* Of the dataset and snapshot that is asked for. */
static uint64_t hash_of(const struct peer_request *a)
{
    return (hash64_str(a->cid) * 31 + hash64_str(a->tenant)) * 31 + a->snapshot;
}

/* Where it is remembered that this dataset was refused. */
static struct refusal *refusal_of(const struct peer_request *a)
{
    return &a->peer_server->refusals[hash_of(a) % REFUSALS];
}

static bool is_refused(const struct peer_request *a)
{
    const struct refusal *r = refusal_of(a);

    return r->hash == hash_of(a) && !dlc_mono_passed(r->until, dlc_mono_now());
}

static void on_dataset(struct dataset_waiter *d, struct dataset *ds, const struct dlc_err *err)
{
    struct peer_request *a = peer_request_of(dlc_container(d, struct peer_request, dataset_waiter));

    if (ds == NULL) {
        *refusal_of(a) =
            (struct refusal){hash_of(a), dlc_mono_add(dlc_mono_now(), REFUSED_FOR), *err};
        peer_request_fail(a, err->code, err->text);
    } else if (a->peer_server->cancelled) {
        peer_request_fail(a, DLC_ECANCELED, "the node is ending");
    } else {
        read_sample(a, ds);
    }
}

static void on_granted(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg);

static void ask_manager(struct peer_request *a, struct dlc_dur life)
{
    char *url = mem_fmt("dlcache://%s", a->cid);

    if (a->token != NULL)
        resolve_for_stranger(a->peer_server->node, a->token, url, life, on_granted, a);
    else
        resolve(a->peer_server->node, NULL, url, NULL, life, on_granted, a);
    mem_free(&url);
}

static void on_granted(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg)
{
    struct peer_request *a = peer_request_of(arg);
    struct dataset *ds;

    if (g != NULL && a->token != NULL && a->tenant == NULL) { /* a name that the tenant says */
        a->tenant = mem_str(g->tenant);
        mem_free(&a->cid);
        a->cid = mem_str(g->dataset);
    }
    if (g != NULL && strcmp(g->tenant, a->tenant) != 0 && !a->anew && !a->peer_server->cancelled) {
        a->anew = true;
        ask_manager(a, DLC_MS(0));
        return;
    }
    if (g == NULL || strcmp(g->dataset, a->cid) != 0 || strcmp(g->tenant, a->tenant) != 0 ||
        a->peer_server->cancelled) {
        peer_request_fail(a, g == NULL ? err->code : DLC_EDENIED,
                          g == NULL ? err->text : "the dataset is not that tenant's");
        return;
    }
    ds = dataset_of_cluster(n, a->cid, a->tenant, a->snapshot);
    if (ds != NULL)
        read_sample(a, ds);
    else if (is_refused(a))
        peer_request_fail(a, refusal_of(a)->err.code, refusal_of(a)->err.text);
    else
        dataset_need(n,
                     &(struct open_request){.url = g->url,
                                            .endpoint = g->endpoint,
                                            .anonymous = g->anonymous,
                                            .snapshot = a->snapshot,
                                            .grant = g},
                     &a->dataset_waiter);
}

static void on_ask(struct task *t)
{
    struct peer_request *a = peer_request_of(dlc_container(t, struct peer_request, task));
    struct node *n = a->peer_server->node;
    struct dataset *ds =
        a->token == NULL ? dataset_of_cluster(n, a->cid, a->tenant, a->snapshot) : NULL;

    n->pending++;
    dlc_list_push_tail(&n->member->requests, &a->link);
    a->dataset_waiter.ready = on_dataset;
    if (a->peer_server->cancelled || n->stopping) {
        peer_request_fail(a, DLC_ECANCELED, "the node is ending");
    } else if (a->question == PEER_CATALOG) {
        peer_request_give_catalog(a, ds);
    } else if (a->question == PEER_CACHED && ds == NULL) {
        peer_request_fail(a, DLC_EMISS, "this node has no copy of it");
    } else if (ds != NULL) {
        read_sample(a, ds);
    } else {
        ask_manager(a, GRANT_LIFE);
    }
}

void peer_server_cancel(struct peer_server *d)
{
    d->cancelled = true;
    dlc_list_each_safe (l, &d->node->member->requests) {
        struct http_reply reply = {0};

        refuse(&reply, DLC_ECANCELED, "the node is ending");
        peer_request_answer(dlc_container(l, struct peer_request, link),
                            &reply); /* what it waits for ends it later */
    }
}

/* ---- on a loop of the server: nothing here blocks ---- */

static void audit_access(struct peer_server *d, const struct http_request *r, const char *text,
                         const struct http_reply *reply)
{
    audit_refusal(d, &(struct audit_event){.name = r->node,
                                           .address = r->address,
                                           .action = "peer.read",
                                           .object = r->params[0],
                                           .status = reply->status,
                                           .reason = text});
}

/* Was the node of this connection revoked? Then the reply says so. */
static int check_node(struct peer_server *d, const struct http_request *r, struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc = ticket_table_check_node(d->tickets, r->node, r->node_generation, &err);

    if (rc < 0) {
        refuse(reply, rc, err.text);
        audit_access(d, r, err.text, reply);
    }
    return rc;
}

/* Of a peer: 0 and its ticket, which is for this dataset. Else the reply says why not. */
static int check_ticket(struct peer_server *d, const struct http_request *r, struct ticket *out,
                        struct http_reply *reply)
{
    const struct ticket_use use = {r->params[0], http_query(r, "tenant"), r->node};
    struct dlc_err err = DLC_ERR_INIT;
    int rc = ticket_table_check(d->tickets, r->token, &use, out, &err);

    if (rc == DLC_EPROTO)
        rc = DLC_EDENIED;
    if (rc == DLC_EBUSY && !ticket_table_ready(d->tickets))
        rc = DLC_ECANCELED; /* it has just been started: who waits for it waits on */
    if (rc < 0)
        refuse(reply, rc, err.text);
    if (rc == DLC_EDENIED)
        audit_access(d, r, err.text, reply);
    return rc;
}

/* A connection without a certificate of the cluster. */
static void on_stranger(const char *from, void *ctx)
{
    audit_refusal(ctx, &(struct audit_event){.address = from,
                                             .action = "peer.connect",
                                             .reason = "no valid certificate of this cluster"});
}

static void ask_node(struct peer_server *d, struct async_call *call, const struct http_request *r,
                     const char *number, enum peer_question question)
{
    bool peer = r->token != NULL && str_starts(r->token, TICKET_PREFIX);
    struct http_reply reply = {0};
    uint64_t snapshot, sample;
    struct peer_request *a;
    struct ticket ticket;

    dlc_check(d->tag == PEER_SERVER_TAG);
    if (r->token == NULL) {
        count(peer_refused);
        http_problem(&reply, 401, "No token",
                     "send a node's ticket or the token of the dataset's tenant: Authorization: "
                     "Bearer ...");
        audit_access(d, r, "no token", &reply);
        async_answer(call, &reply);
        return;
    }
    if (check_node(d, r, &reply) < 0 || (peer && check_ticket(d, r, &ticket, &reply) < 0)) {
        async_answer(call, &reply);
        return;
    }
    if (!str_parse_hex64(r->params[1], &snapshot) || !str_parse_u64(number, &sample)) {
        http_problem(&reply, 400, "Bad path",
                     "a snapshot is 16 hexadecimal digits, a sample and an offset are numbers");
        async_answer(call, &reply);
        return;
    }
    a = mem_new(struct peer_request);
    a->tag = PEER_REQUEST_TAG;
    a->peer_server = d;
    a->call = call;
    a->snapshot = snapshot;
    a->sample = sample;
    a->question = question;
    a->from = mem_str(http_query(r, "from"));
    a->evicted = mem_str(http_query(r, "evicted"));
    a->on_disk = http_query(r, "tier") != NULL && strcmp(http_query(r, "tier"), "disk") == 0;
    a->token = peer ? NULL : mem_str(r->token);
    a->client = peer ? NULL : mem_str(r->address);
    a->cid = mem_str(r->params[0]);
    if (peer)
        a->tenant = mem_str(ticket.tenant);
    a->task.run = on_ask;
    dlc_list_init(&a->link);
    loop_post(d->node->loop, &a->task);
}

static void get_sample(struct async_call *call, const struct http_request *r, void *ctx)
{
    const char *cached = http_query(r, "cached");
    bool only = cached != NULL && strcmp(cached, "1") == 0;

    ask_node(ctx, call, r, r->params[2], only ? PEER_CACHED : PEER_SAMPLE);
}

/* Only a node may ask for that: with a ticket. */
static void take_sample(struct async_call *call, const struct http_request *r, void *ctx)
{
    struct http_reply reply = {0};

    if (r->token != NULL && str_starts(r->token, TICKET_PREFIX) && http_query(r, "from") != NULL) {
        ask_node(ctx, call, r, r->params[2], PEER_TAKE);
        return;
    }
    refuse(&reply, DLC_EDENIED, "only nodes hand copies over: show a ticket, and say from=NODE");
    async_answer(call, &reply);
}

static void get_catalog(struct async_call *call, const struct http_request *r, void *ctx)
{
    const char *offset = http_query(r, "offset");

    ask_node(ctx, call, r, offset != NULL ? offset : "0", PEER_CATALOG);
}

static void get_health(struct async_call *call, const struct http_request *r, void *ctx)
{
    struct peer_server *d = ctx;
    struct http_reply reply = {0};

    (void)r;
    if (ticket_table_ready(d->tickets) && !d->cancelled)
        reply.body = json_pack("{s:s}", "status", "ok");
    else
        refuse(&reply, DLC_ECANCELED, "this node begins, or ends");
    async_answer(call, &reply);
}

static bool run_read(struct work *w, uint64_t bytes, void *ctx)
{
    struct peer_server *d = ctx;

    return work_try(d->node->work, WORK_DEMAND, w, bytes);
}

static const struct async_route routes[] = {
    {"/v1/peer/{dataset}/{snapshot}/samples/{sample}", get_sample},
    {"/v1/peer/{dataset}/{snapshot}/samples/{sample}/take", take_sample},
    {"/v1/peer/{dataset}/{snapshot}/catalog", get_catalog},
    {"/v1/health", get_health},
    {NULL, NULL},
};

/* ---- life ---- */

int peer_server_open(struct node *n, const char *listen, bool tls, struct peer_server **out,
                     struct dlc_err *err)
{
    struct peer_server *d = mem_new(struct peer_server);
    const struct async_server_config c = {.address = listen,
                                          .routes = routes,
                                          .ctx = d,
                                          .run = run_read,
                                          .tls = tls,
                                          .stranger = on_stranger};
    int rc;

    d->tag = PEER_SERVER_TAG;
    d->node = n;
    d->tickets = ticket_table_new(n->config->manager_grace);
    rc = async_server_open(&c, &d->server, err);
    *out = NULL;
    if (rc < 0) {
        ticket_table_free(&d->tickets);
        mem_free(&d);
        return rc;
    }
    d->address = mem_str(async_server_address(d->server));
    log_info("peers are served at %s%s", d->address, tls ? " with TLS" : "");
    *out = d;
    return 0;
}

void peer_server_heard(struct peer_server *d, const json_t *tickets)
{
    ticket_table_heard(d->tickets, tickets);
}

void peer_server_revoked(struct peer_server *d, const json_t *revoked)
{
    ticket_table_revoked(d->tickets, revoked);
}

int peer_server_identity(struct peer_server *d, const struct tls_identity *id, struct dlc_err *err)
{
    return async_server_identity(d->server, id, err);
}

const char *peer_server_address(const struct peer_server *d)
{
    return d->address;
}

json_t *peer_server_json(const struct peer_server *d)
{
    struct async_figures f;

    async_figures(d->server, &f);
    return json_pack("{s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "loops", (int)f.loops,
                     "connections", (int)f.connections, "accepted", (json_int_t)f.accepted,
                     "refused", (json_int_t)f.refused, "closed_for_others", (json_int_t)f.shed,
                     "closed_as_slow", (json_int_t)f.late, "without_certificate",
                     (json_int_t)f.strangers, "held_bytes", (json_int_t)d->held);
}

void peer_server_close(struct peer_server *d)
{
    async_server_close(&d->server);
}

void peer_server_free(struct peer_server **dp)
{
    struct peer_server *d = *dp;

    *dp = NULL;
    if (d == NULL)
        return;
    async_server_close(&d->server);
    ticket_table_free(&d->tickets);
    mem_free(&d->address);
    d->tag = 0;
    mem_free(&d);
}
