// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the server: one exchange is one request with its reply. All of an exchange happens on its
 * connection's thread.
 *
 *     URI --exchange_begin--> head --on_access--> body ... --on_access--> handled --> queued
 *                                                          --exchange_end--> gone
 *
 * (HTTP-SERVER-1) exchange_end() is called for every exchange that began, also when the client goes
 *                 away.
 * (HTTP-SERVER-2) `busy` counts exchanges from their handler to their end; closing waits for them.
 */
#ifndef DLC_NET_SERVER_I_H
#define DLC_NET_SERVER_I_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/mutex.h"
#include "net/server.h"
#include "net/router_i.h"

struct listener {
    struct MHD_Daemon *daemon;
    int fd;
    int taken;  /* libmicrohttpd's descriptor of the same socket */
    bool local; /* a Unix socket */
    bool quiesced;
    struct http_server *server;
};

struct http_server {
    uint32_t tag;
    struct http_server_config config; /* texts are not kept */
    unsigned idle_s;
    struct listener tcp, local;
    char *address;
    char *unix_path;
    dev_t unix_dev; /* of the socket we made there */
    ino_t unix_ino;
    struct buf cert, key, authorities;
    _Atomic bool closing; /* W closer, R connections, relaxed: a late look costs a request */

    struct dlc_mtx mtx; /* rank LCK_http */
    struct dlc_cond quiet;
    unsigned busy;         /* G: mtx */
    size_t bodies;         /* G: mtx: bytes of bodies that are kept or announced */
    struct dlc_list conns; /* G: mtx: of conn.link */

    pthread_t watcher; /* of connections */
    bool watching;
    struct dlc_cond watch_wake;
    bool watch_ends; /* G: mtx */
};

#define HTTP_ADDRESS 64 /* "[IPv6%scope]:port" */

struct exchange {
    uint32_t tag;
    struct http_server *server;
    struct listener *listener;
    struct MHD_Connection *connection;
    const char *bad; /* what is wrong with the URI; NULL: nothing */
    struct target target;
    const struct http_route *route;
    struct http_request request;
    char node[TLS_NAME_MAX];
    json_t *json;
    struct buf body;
    size_t reserved;  /* of http_server.bodies */
    size_t swallowed; /* of a body that is too large */
    bool begun, busy, large;
    bool checked; /* config.check was called: config.answered follows */
    char id[17], address[HTTP_ADDRESS];
};

/* Connections (server_timeouts.c). */
int conns_open(struct http_server *s, struct dlc_err *err);
void conns_close(struct http_server *s);
void conns_busy(struct exchange *x);                 /* its handler begins */
void conns_replying(struct exchange *x, size_t len); /* the client is to take so many bytes */
void conns_free(struct exchange *x);                 /* it is over, with or without a handler */
void conns_notify(void *cls, struct MHD_Connection *c, void **priv,
                  enum MHD_ConnectionNotificationCode what);

/* Answer x with *reply, and release it. MHD_NO: the connection closes. */
enum MHD_Result exchange_reply(struct exchange *x, struct http_reply *reply);

/* As libmicrohttpd wants them; cls: struct listener. */
void *exchange_begin(void *cls, const char *uri, struct MHD_Connection *c);
enum MHD_Result exchange_access(void *cls, struct MHD_Connection *c, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *len, void **priv);
void exchange_end(void *cls, struct MHD_Connection *c, void **priv,
                  enum MHD_RequestTerminationCode why);

#endif
