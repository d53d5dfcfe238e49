// SPDX-License-Identifier: Apache-2.0
/*
 * The client: which server has which slot, and how commands get there.
 *
 * A call goes in rounds. In each, the commands that have no reply yet are given to the servers that
 * are believed to have their slots, one pipeline each, and all pipelines run at once. What comes
 * back as a redirection, as "later", or not at all, stays for the next round. Before a round the
 * map of slots is learned again if the last one gave reason. So moved slots, fail-overs, restarts
 * and idle connections that died are one case, which ends at the deadline.
 *
 * A single server is a Cluster of one. When it turns out to be a replica (READONLY) the other
 * addresses of the URL are tried.
 *
 * When a call ran into its deadline the next ones wait for AWAY only, until one succeeds: while
 * Redis is away nobody should wait long.
 */
#include "net/redis/redis.h"

#include <errno.h>
#include <openssl/evp.h>
#include <poll.h>
#include <string.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/str.h"
#include "net/redis/redis_i.h"

#define AWAY    DLC_MS(500)
#define SILENCE DLC_SEC(2) /* of one server, after which another may have its slots */

/* ---- commands ---- */

void redis_script_init(struct redis_script *s, const char *text)
{
    unsigned char sha[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    dlc_check(EVP_Digest(text, strlen(text), sha, &len, EVP_sha1(), NULL) == 1 && len == 20);
    s->text = text;
    str_hex(sha, len, s->sha);
}

void redis_cmd_init(struct redis_cmd *c, const char *name)
{
    *c = (struct redis_cmd){.slot = -1};
    redis_cmd_text(c, name);
}

void redis_cmd_init_script(struct redis_cmd *c, const struct redis_script *s)
{
    *c = (struct redis_cmd){.slot = -1, .script = s};
}

void redis_cmd_release(struct redis_cmd *c)
{
    buf_release(&c->args);
    if (c->reply != NULL)
        freeReplyObject(c->reply);
    c->reply = NULL;
}

void redis_cmd_arg(struct redis_cmd *c, const void *data, size_t len)
{
    redis_add_bulk(&c->args, data, len);
    c->n_args++;
}

void redis_cmd_text(struct redis_cmd *c, const char *s)
{
    redis_cmd_arg(c, s, strlen(s));
}

void redis_cmd_number(struct redis_cmd *c, uint64_t n)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%llu", (unsigned long long)n);

    redis_cmd_arg(c, text, (size_t)len);
}

void redis_cmd_key(struct redis_cmd *c, const char *key)
{
    int slot = redis_slot(key, strlen(key));

    dlc_check(c->slot < 0 || c->slot == slot); /* R2 */
    c->slot = slot;
    c->n_keys++;
    redis_cmd_text(c, key);
}

static void cmd_write(const struct redis_cmd *c, struct buf *out)
{
    const struct redis_script *s = c->script;
    char keys[12];

    if (c->ask[0] != '\0')
        buf_adds(out, "*1\r\n$6\r\nASKING\r\n");
    buf_addf(out, "*%u\r\n", c->n_args + (s != NULL ? 3 : 0));
    if (s != NULL) {
        redis_add_bulk(out, c->whole ? "EVAL" : "EVALSHA", c->whole ? 4 : 7);
        redis_add_bulk(out, c->whole ? s->text : s->sha, strlen(c->whole ? s->text : s->sha));
        redis_add_bulk(out, keys, (size_t)snprintf(keys, sizeof(keys), "%u", c->n_keys));
    }
    buf_add(out, c->args.data, c->args.len);
    if (c->waits)
        buf_adds(out, "*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$3\r\n200\r\n");
}

/* ---- a round ---- */

struct flight { /* one pipeline */
    int node;
    struct redis_conn *conn; /* NULL: over */
    struct buf out;
    size_t sent;
    size_t *cmds; /* in order; those before `got` have their replies */
    size_t n, cap, got;
    bool asking;  /* the reply to ASKING came */
    bool waiting; /* the reply to WAIT is to come */
};

struct call {
    struct redis *r;
    struct redis_cmd *cmds;
    size_t n;
    struct dlc_mono deadline;
    struct flight *flights;
    size_t n_flights, cap_flights;
    bool relearn;  /* the map is wrong, or a server is gone */
    bool later;    /* somebody wants us to wait */
    bool uncopied; /* no replica confirmed a write */
    int rc;        /* a final error */
    struct dlc_err last;
};

static int route_locked(struct redis *r, const struct redis_cmd *c)
{
    if (c->ask[0] != '\0')
        return redis_node_locked(r, c->ask);
    if (c->slot >= 0)
        return r->slots[c->slot];
    return r->slots[r->learned % REDIS_SLOTS];
}

static struct flight *flight_of(struct call *k, int node)
{
    struct flight *f;

    for (size_t i = 0; i < k->n_flights; i++)
        if (k->flights[i].node == node)
            return &k->flights[i];
    mem_reserve(k->flights, k->n_flights, k->cap_flights);
    f = &k->flights[k->n_flights++];
    *f = (struct flight){.node = node};
    return f;
}

static void load(struct call *k)
{
    for (size_t i = 0; i < k->n; i++) {
        struct redis_cmd *c = &k->cmds[i];
        struct flight *f;
        int node;

        if (c->reply != NULL)
            continue;
        dlc_mtx_lock(&k->r->mtx);
        node = route_locked(k->r, c);
        c->waits = c->copied && redis_is_copied_locked(k->r, c->slot);
        dlc_mtx_unlock(&k->r->mtx);
        if (node < 0) {
            dlc_err_set(&k->last, DLC_EBUCKET, "Redis: no server has slot %d", c->slot);
            k->relearn = k->later = true;
            continue;
        }
        f = flight_of(k, node);
        mem_reserve(f->cmds, f->n, f->cap);
        f->cmds[f->n++] = i;
        cmd_write(c, &f->out);
    }
}

/* Its reply does not count: it is to be done again. */
static void cmd_forget(struct redis_cmd *c)
{
    if (c->reply != NULL)
        freeReplyObject(c->reply);
    c->reply = NULL;
}

/* The connection is of no use any more; nor are those that lay idle beside it. why NULL: said. */
static void flight_lost(struct call *k, struct flight *f, const char *why)
{
    dlc_mtx_lock(&k->r->mtx);
    if (why != NULL)
        dlc_err_set(&k->last, DLC_EBUCKET, "Redis %s: %s", k->r->nodes[f->node]->address, why);
    redis_drop_idle_locked(k->r->nodes[f->node]);
    dlc_mtx_unlock(&k->r->mtx);
    redis_conn_close(&f->conn);
    k->relearn = true;
    if (f->waiting) /* it ran, and nobody knows whether a replica has it */
        cmd_forget(&k->cmds[f->cmds[f->got]]);
    for (size_t i = f->got; i < f->n; i++)
        k->cmds[f->cmds[i]].ask[0] = '\0';
}

static int final_error(const char *text, const char *address, struct dlc_err *err)
{
    int code = DLC_EBUCKET;

    if (str_starts(text, "NOAUTH") || str_starts(text, "WRONGPASS") || str_starts(text, "NOPERM"))
        code = DLC_EDENIED;
    else if (str_starts(text, "OOM"))
        code = DLC_ENOSPACE;
    else if (str_starts(text, "WRONGTYPE") || str_starts(text, "ERR"))
        code = DLC_EPROTO;
    return dlc_err_set(err, code, "Redis %s answered: %.300s", address, text);
}

static void take_error(struct call *k, struct flight *f, struct redis_cmd *c, const char *text)
{
    char address[80];
    int slot, node;

    c->ask[0] = '\0';
    dlc_mtx_lock(&k->r->mtx);
    switch (redis_answer_parse(text, &slot, address)) {
    case REDIS_MOVED:
        k->r->slots[slot] = (int16_t)redis_node_said_locked(k->r, f->node, address);
        k->relearn = true;
        break;
    case REDIS_ASK:
        node = redis_node_said_locked(k->r, f->node, address);
        if (node >= 0)
            (void)snprintf(c->ask, sizeof(c->ask), "%s", k->r->nodes[node]->address);
        break;
    case REDIS_LATER:
        dlc_err_set(&k->last, DLC_EBUCKET, "Redis %s: %.200s", k->r->nodes[f->node]->address, text);
        k->later = k->relearn = true;
        break;
    case REDIS_SCRIPT: c->whole = true; break;
    case REDIS_FINAL:
        if (k->rc == 0)
            k->rc = final_error(text, k->r->nodes[f->node]->address, &k->last);
        break;
    }
    dlc_mtx_unlock(&k->r->mtx);
}

static bool is_done(const redisReply *r)
{
    return r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements > 0 &&
           r->element[0]->type == REDIS_REPLY_STRING && strcmp(r->element[0]->str, "ok") == 0;
}

/* How many replicas have what c wrote. With none a fail-over would lose it: it is done again, and
 * who waits for it is told that it failed. */
static void take_copies(struct call *k, struct redis_cmd *c, const redisReply *copies)
{
    if (!is_done(c->reply) || (copies->type == REDIS_REPLY_INTEGER && copies->integer > 0))
        return;
    cmd_forget(c);
    k->uncopied = true;
    k->later = k->relearn = true;
}

static void take_replies(struct call *k, struct flight *f)
{
    while (f->conn != NULL && f->got < f->n) {
        struct redis_cmd *c = &k->cmds[f->cmds[f->got]];
        redisReply *reply = NULL;

        if (redis_conn_reply(f->conn, &reply) < 0) {
            flight_lost(k, f, "this is not Redis");
            return;
        }
        if (reply == NULL)
            return;
        if (c->ask[0] != '\0' && !f->asking && !f->waiting) { /* the "OK" of ASKING */
            f->asking = true;
            freeReplyObject(reply);
            continue;
        }
        f->asking = false;
        if (f->waiting) {
            f->waiting = false;
            take_copies(k, c, reply);
            freeReplyObject(reply);
        } else if (reply->type == REDIS_REPLY_ERROR) {
            take_error(k, f, c, reply->str);
            freeReplyObject(reply);
            f->waiting = c->waits;
        } else {
            c->reply = reply;
            f->waiting = c->waits;
        }
        if (!f->waiting)
            f->got++;
    }
    if (f->conn != NULL && f->got == f->n) {
        redis_conn_put(k->r, f->node, f->conn);
        f->conn = NULL;
    }
}

/* One wait for all pipelines; false when all are over. */
static bool fly_once(struct call *k, struct pollfd *fds, struct dlc_mono until)
{
    struct flight **who = mem_alloc((k->n_flights + 1) * sizeof(struct flight *));
    size_t n = 0;
    bool good;

    for (size_t i = 0; i < k->n_flights; i++) {
        struct flight *f = &k->flights[i];

        if (f->conn == NULL)
            continue;
        fds[n] = (struct pollfd){.fd = f->conn->fd, .events = POLLIN};
        if (f->sent < f->out.len)
            fds[n].events |= POLLOUT;
        who[n++] = f;
    }
    good = n > 0 && redis_wait(fds, n, until);
    for (size_t i = 0; i < n; i++) {
        struct flight *f = who[i];

        if (!good) { /* what was said before tells more */
            flight_lost(k, f, k->last.text[0] != '\0' ? NULL : "no answer in time");
            continue;
        }
        if ((fds[i].revents & POLLOUT) != 0 &&
            redis_conn_send(f->conn, f->out.data, f->out.len, &f->sent) < 0) {
            flight_lost(k, f, redis_conn_why(f->conn));
            continue;
        }
        if ((fds[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            if (redis_conn_receive(f->conn) < 0)
                flight_lost(k, f, redis_conn_why(f->conn));
            else
                take_replies(k, f);
        }
    }
    mem_free(&who);
    return good;
}

static void fly(struct call *k)
{
    struct pollfd *fds = mem_alloc((k->n_flights + 1) * sizeof(*fds));
    struct dlc_mono silent;

    for (size_t i = 0; i < k->n_flights; i++) {
        struct flight *f = &k->flights[i];
        int rc = redis_conn_get(k->r, f->node, k->deadline, &f->conn, &k->last);

        if (rc < 0) {
            flight_lost(k, f, NULL);
            k->later = true;
        }
        if (rc == DLC_EDENIED)
            k->rc = rc;
    }
    do {
        silent = dlc_mono_add(dlc_mono_now(), SILENCE);
    } while (fly_once(k, fds, silent.ns < k->deadline.ns ? silent : k->deadline));
    mem_free(&fds);
}

static void land(struct call *k)
{
    for (size_t i = 0; i < k->n_flights; i++) {
        redis_conn_close(&k->flights[i].conn);
        buf_release(&k->flights[i].out);
        mem_free(&k->flights[i].cmds);
    }
    k->n_flights = 0;
}

static size_t count_left(const struct call *k)
{
    size_t left = 0;

    for (size_t i = 0; i < k->n; i++)
        left += k->cmds[i].reply == NULL;
    return left;
}

static void pause_for(unsigned round, struct dlc_mono deadline)
{
    struct dlc_mono until =
        dlc_mono_add(dlc_mono_now(), backoff_after(round + 1, DLC_MS(10), DLC_MS(200)));

    (void)redis_wait(NULL, 0, until.ns < deadline.ns ? until : deadline);
}

int redis_run(struct redis *r, struct redis_cmd *cmds, size_t n, struct dlc_err *err)
{
    struct call k = {.r = redis_of(r), .cmds = cmds, .n = n};
    bool away;

    dlc_mtx_lock(&r->mtx);
    away = r->away;
    dlc_mtx_unlock(&r->mtx);
    k.deadline =
        dlc_mono_add(dlc_mono_now(), away && r->url.timeout.ns > AWAY.ns ? AWAY : r->url.timeout);
    for (unsigned round = 0; k.rc == 0 && count_left(&k) > 0; round++) {
        if (round > 0 && dlc_mono_now().ns >= k.deadline.ns) {
            k.rc = DLC_EBUCKET;
            break;
        }
        if (k.later || round > 4)
            pause_for(round, k.deadline);
        if (k.relearn) {
            struct dlc_err why = DLC_ERR_INIT;

            if (redis_learn(r, k.deadline, &why) < 0)
                k.last = why;
        }
        k.later = k.relearn = false;
        load(&k);
        fly(&k);
        land(&k);
    }
    dlc_mtx_lock(&r->mtx);
    r->away = k.rc == DLC_EBUCKET;
    dlc_mtx_unlock(&r->mtx);
    mem_free(&k.flights);
    if (k.rc == DLC_EBUCKET && k.uncopied)
        return dlc_err_set(err, k.rc, "Redis: no replica confirmed a write; is one running? %.300s",
                           k.last.text);
    return k.rc == 0 ? 0 : dlc_err_set(err, k.rc, "%s", k.last.text);
}

/* ---- open and close ---- */

int redis_open(struct redis_url *u, struct redis **out, struct dlc_err *err)
{
    struct redis *r = mem_new(struct redis);
    struct dlc_mono deadline = dlc_mono_add(dlc_mono_now(), u->timeout);
    unsigned round = 0;
    int rc;

    r->tag = REDIS_TAG;
    r->url = *u;
    *u = (struct redis_url){0};
    dlc_mtx_init(&r->mtx, LCK_redis);
    memset(r->slots, 0xff, sizeof(r->slots));
    dlc_mtx_lock(&r->mtx);
    for (size_t i = 0; i < r->url.n; i++) {
        char address[96];

        snprintf(address, sizeof(address), "%.79s:%u", r->url.hosts[i], r->url.ports[i]);
        (void)redis_node_locked(r, address);
    }
    dlc_mtx_unlock(&r->mtx);
    while ((rc = redis_learn(r, deadline, err)) == DLC_EBUCKET && dlc_mono_now().ns < deadline.ns)
        pause_for(round++, deadline);
    if (rc < 0)
        redis_close(&r);
    *out = r;
    return rc;
}

void redis_close(struct redis **rp)
{
    struct redis *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    redis_of(r);
    for (size_t i = 0; i < r->n_nodes; i++) {
        redis_drop_idle_locked(r->nodes[i]);
        mem_free(&r->nodes[i]);
    }
    redis_url_release(&r->url);
    dlc_mtx_release(&r->mtx);
    r->tag = 0;
    mem_free(&r);
}

bool redis_is_cluster(struct redis *r)
{
    bool cluster;

    dlc_mtx_lock(&r->mtx);
    cluster = r->cluster;
    dlc_mtx_unlock(&r->mtx);
    return cluster;
}
