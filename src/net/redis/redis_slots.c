// SPDX-License-Identifier: Apache-2.0
/*
 * Servers of a Redis Cluster: their idle connections, and which slots each of them has.
 *
 * (REDIS-SLOTS-1) The number of a server is valid as long as the client lives: none is ever
 *                 removed.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/redis/redis_i.h"

#define KEEP_IDLE 8 /* connections per server */

/* ---- servers ---- */

struct redis *redis_of(struct redis *r)
{
    dlc_check(r != NULL && r->tag == REDIS_TAG);
    return r;
}

int redis_node_locked(struct redis *r, const char *address)
{
    for (size_t i = 0; i < r->n_nodes; i++)
        if (strcmp(r->nodes[i]->address, address) == 0)
            return (int)i;
    if (r->n_nodes == MAX_NODES)
        return -1;
    r->nodes[r->n_nodes] = mem_new(struct rnode);
    snprintf(r->nodes[r->n_nodes]->address, sizeof(r->nodes[0]->address), "%s", address);
    return (int)r->n_nodes++;
}

int redis_node_said_locked(struct redis *r, int from, const char *address)
{
    char host[80], full[96];
    uint16_t port;

    if (address[0] == ':' && redis_address_split(r->nodes[from]->address, host, &port)) {
        snprintf(full, sizeof(full), "%s%.16s", host, address); /* ":PORT" */
        return redis_node_locked(r, full);
    }
    return redis_node_locked(r, address);
}

void redis_drop_idle_locked(struct rnode *n)
{
    while (n->idle != NULL) {
        struct redis_conn *c = n->idle;

        n->idle = c->next;
        redis_conn_close(&c);
    }
    n->n_idle = 0;
}

int redis_conn_get(struct redis *r, int node, struct dlc_mono deadline, struct redis_conn **out,
                   struct dlc_err *err)
{
    struct rnode *n;
    struct dlc_mono limit = dlc_mono_add(dlc_mono_now(), DLC_SEC(1));

    dlc_mtx_lock(&r->mtx);
    n = r->nodes[node];
    *out = n->idle;
    if (*out != NULL) {
        n->idle = (*out)->next;
        n->n_idle--;
    }
    dlc_mtx_unlock(&r->mtx);
    if (*out != NULL)
        return 0;
    return redis_conn_open(&r->url, n->address, limit.ns < deadline.ns ? limit : deadline, out,
                           err);
}

void redis_conn_put(struct redis *r, int node, struct redis_conn *c)
{
    struct rnode *n;

    dlc_mtx_lock(&r->mtx);
    n = r->nodes[node];
    if (n->n_idle < KEEP_IDLE) {
        c->next = n->idle;
        n->idle = c;
        n->n_idle++;
        c = NULL;
    }
    dlc_mtx_unlock(&r->mtx);
    redis_conn_close(&c);
}

/* ---- learning the map ---- */

/* CLUSTER SLOTS: [[from, to, [host, port, ...], replicas...], ...]. False: it is not that. */
static bool slots_install_locked(struct redis *r, int from, const redisReply *reply)
{
    size_t known = 0;

    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *range = reply->element[i], *who;
        char address[96];
        int node;

        if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
            range->element[0]->type != REDIS_REPLY_INTEGER ||
            range->element[1]->type != REDIS_REPLY_INTEGER)
            return false;
        who = range->element[2];
        if (who->type != REDIS_REPLY_ARRAY || who->elements < 2 ||
            who->element[1]->type != REDIS_REPLY_INTEGER)
            return false;
        snprintf(address, sizeof(address), "%.79s:%lld",
                 who->element[0]->type == REDIS_REPLY_STRING ? who->element[0]->str : "",
                 who->element[1]->integer);
        node = redis_node_said_locked(r, from, address);
        for (long long s = DLC_MAX(range->element[0]->integer, 0);
             s <= range->element[1]->integer && s < REDIS_SLOTS; s++, known++) {
            r->slots[s] = (int16_t)node;
            r->copied[s] = range->elements > 3; /* without those that most servers miss */
        }
    }
    return known > 0;
}

/* A server lists only the replicas that are connected just now. Who names several addresses wants
 * copies: one that goes away is missed, or a server that is cut off would go on alone. */
static void single_install_locked(struct redis *r, int node, bool replicas)
{
    r->replicas = (r->replicas && r->url.n > 1) || replicas;
    for (int s = 0; s < REDIS_SLOTS; s++) {
        r->slots[s] = (int16_t)node;
        r->copied[s] = r->replicas;
    }
}

bool redis_is_copied_locked(const struct redis *r, int slot)
{
    return slot >= 0 && r->copied[slot];
}

/* Is it one that takes writes, and does it have replicas? */
static bool is_master(struct redis_conn *c, struct dlc_mono deadline, bool *replicas)
{
    redisReply *reply = NULL;
    struct dlc_err err = DLC_ERR_INIT;
    bool master = true;

    if (redis_conn_call(c, deadline, &reply, &err, "ROLE", (char *)NULL) == 0 &&
        reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
        reply->element[0]->type == REDIS_REPLY_STRING) {
        master = strcmp(reply->element[0]->str, "master") == 0;
        *replicas = master && reply->elements >= 3 &&
                    reply->element[2]->type == REDIS_REPLY_ARRAY && reply->element[2]->elements > 0;
    }
    if (reply != NULL)
        freeReplyObject(reply);
    return master;
}

/* Learn from one server. */
static int learn_from(struct redis *r, int node, struct dlc_mono deadline, struct dlc_err *err)
{
    struct redis_conn *c = NULL;
    redisReply *reply = NULL;
    int rc = redis_conn_get(r, node, deadline, &c, err);

    if (rc == 0)
        rc = redis_conn_call(c, deadline, &reply, err, "CLUSTER", "SLOTS", (char *)NULL);
    if (rc < 0)
        goto out;
    if (reply->type == REDIS_REPLY_ARRAY) {
        dlc_mtx_lock(&r->mtx);
        r->cluster = true;
        if (!slots_install_locked(r, node, reply))
            rc = dlc_err_set(err, DLC_EBUCKET, "Redis %s: a Cluster whose slots are not assigned",
                             r->nodes[node]->address);
        dlc_mtx_unlock(&r->mtx);
    } else if (reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "cluster support") != NULL) {
        bool replicas = false;

        if (is_master(c, deadline, &replicas)) {
            dlc_mtx_lock(&r->mtx);
            single_install_locked(r, node, replicas);
            dlc_mtx_unlock(&r->mtx);
        } else {
            rc = dlc_err_set(err, DLC_EBUCKET, "Redis %s is a replica", r->nodes[node]->address);
        }
    } else {
        bool denied = reply->type == REDIS_REPLY_ERROR &&
                      (str_starts(reply->str, "NOAUTH") || str_starts(reply->str, "NOPERM"));

        rc = dlc_err_set(err, denied ? DLC_EDENIED : DLC_EBUCKET, "Redis %s answered: %.200s",
                         r->nodes[node]->address,
                         reply->type == REDIS_REPLY_ERROR ? reply->str : "nothing we know");
    }
out:
    if (reply != NULL)
        freeReplyObject(reply);
    if (rc == 0)
        redis_conn_put(r, node, c);
    else
        redis_conn_close(&c);
    return rc;
}

/* Ask one after another of all servers we heard of, beginning at another one each time. */
int redis_learn(struct redis *r, struct dlc_mono deadline, struct dlc_err *err)
{
    size_t n, first;
    int rc = DLC_EBUCKET;

    dlc_mtx_lock(&r->mtx);
    n = r->n_nodes;
    first = r->cluster ? (size_t)r->learned % n : 0;
    r->learned++;
    dlc_mtx_unlock(&r->mtx);
    for (size_t i = 0; rc < 0 && i < n; i++) {
        struct dlc_mono limit = dlc_mono_add(dlc_mono_now(), DLC_SEC(1));

        rc = learn_from(r, (int)((first + i) % n), limit.ns < deadline.ns ? limit : deadline, err);
        if (rc == DLC_EDENIED)
            break;
    }
    return rc;
}
