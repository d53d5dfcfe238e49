// SPDX-License-Identifier: Apache-2.0
/* Internals of the Redis client: connections, servers, slots. */
#ifndef DLC_NET_REDIS_REDIS_I_H
#define DLC_NET_REDIS_REDIS_I_H

#include <sys/types.h>

#include "base/mutex.h"
#include "net/redis/redis.h"

/*
 * A connection that never blocks. Written and read by one thread at a time.
 */
struct redis_conn {
    int fd;
    struct ssl_st *tls; /* NULL: plain */
    char tls_error[80]; /* of OpenSSL; "": errno says what happened */
    redisReader *reader;
    struct redis_conn *next; /* idle ones of a server */
};

/* With TLS when u says so, with AUTH when u has a password. */
int redis_conn_open(const struct redis_url *u, const char *address, struct dlc_mono deadline,
                    struct redis_conn **out, struct dlc_err *err);
void redis_conn_close(struct redis_conn **cp);
/* Send what can be sent of data[*at..len); moves *at. -1: the connection is lost. */
int redis_conn_send(struct redis_conn *c, const char *data, size_t len, size_t *at);
/* Take in what is there. -1: the connection is lost. */
int redis_conn_receive(struct redis_conn *c);
/* Why the connection was lost, after -1. */
const char *redis_conn_why(const struct redis_conn *c);
/* The next whole reply, or NULL. -1: not the protocol. */
int redis_conn_reply(struct redis_conn *c, redisReply **out);
/* Send and wait for one reply; "CLUSTER", "SLOTS", NULL. */
int redis_conn_call(struct redis_conn *c, struct dlc_mono deadline, redisReply **out,
                    struct dlc_err *err, ...);
/* poll() until the deadline; false: it passed. */
struct pollfd;
bool redis_wait(struct pollfd *fds, size_t n, struct dlc_mono deadline);

/* ---- redis_tls.c ---- */

/* TLS over a connected socket. DLC_EDENIED: the certificate is refused; DLC_EINVAL: a file of u. */
int redis_tls_open(const struct redis_url *u, const char *address, int fd, struct dlc_mono deadline,
                   struct ssl_st **out, struct dlc_err *err);
void redis_tls_close(struct ssl_st **sp);
/* Bytes, 0: not now, -1 with errno and perhaps a text: lost. */
ssize_t redis_tls_send(struct ssl_st *ssl, const void *data, size_t len, char why[static 80]);
ssize_t redis_tls_receive(struct ssl_st *ssl, void *data, size_t cap, char why[static 80]);
bool redis_tls_has_more(const struct ssl_st *ssl); /* which poll() does not see */

/* ---- redis_slots.c ---- */

struct rnode {
    char address[96]; /* "HOST:PORT" */
    struct redis_conn *idle;
    unsigned n_idle;
};

#define MAX_NODES 1024
#define REDIS_TAG DLC_TAG4('r', 'd', 'i', 's')
struct redis {
    uint32_t tag;
    struct redis_url url;
    struct dlc_mtx mtx; /* rank LCK_redis; not held during input and output */
    /* G: mtx */
    struct rnode *nodes[MAX_NODES]; /* never removed: numbers stay good */
    size_t n_nodes;
    int16_t slots[REDIS_SLOTS]; /* node; -1: not known */
    uint64_t learned;           /* how often the map was learned */
    bool copied[REDIS_SLOTS];   /* the slot's server has replicas */
    bool cluster, away;
    bool replicas; /* of several addresses without a Cluster: some server was seen with a replica */
};

struct redis *redis_of(struct redis *r);
/* The number of the server at an address; -1: there are too many. */
int redis_node_locked(struct redis *r, const char *address);
bool redis_is_copied_locked(const struct redis *r, int slot);
/* Where an answer from `from` points to; an empty host means the one that said so. */
int redis_node_said_locked(struct redis *r, int from, const char *address);
void redis_drop_idle_locked(struct rnode *n);
int redis_conn_get(struct redis *r, int node, struct dlc_mono deadline, struct redis_conn **out,
                   struct dlc_err *err);
void redis_conn_put(struct redis *r, int node, struct redis_conn *c);
/* Ask one after another of all servers we heard of who has what, until one answers. */
int redis_learn(struct redis *r, struct dlc_mono deadline, struct dlc_err *err);

/* ---- words ---- */

void redis_add_bulk(struct buf *b, const void *data, size_t len);
bool redis_address_split(const char *address, char host[static 80], uint16_t *port);

#endif
