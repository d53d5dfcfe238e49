// SPDX-License-Identifier: Apache-2.0
/* Inside the asynchronous server: async_server.c (loops, accepting, limits), async_server_conn.c
 * (connections and calls), async_server_head.c (heads of replies), async_server_file.c (replies
 * from files), async_server_tls.c (TLS of a connection). */
#ifndef DLC_NET_ASYNC_SERVER_I_H
#define DLC_NET_ASYNC_SERVER_I_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/event_loop.h"
#include "base/u64map.h"
#include "base/mutex.h"
#include "net/async_server.h"
#include "net/request_head_i.h"
#include "net/router_i.h"

/* One loop with its connections. All but `server` and `close` is for its own thread. */
struct async_lane {
    struct async_server *server;
    struct loop_thread thread;
    struct dlc_list conns; /* of async_conn.link, those that are not idle */
    struct dlc_list idle;  /* of async_conn.link: since when, oldest first */
    unsigned calls;        /* that were not answered yet */
    struct timer sweep;    /* of idle connections; while it closes: the end of patience */
    struct task open, close;
    bool closing;
    bool gone; /* G: server->mtx: closing, and no connection and no call is left */
    char scratch[REQUEST_HEAD_MAX];
};

struct ssl_ctx_st;

struct async_server {
    uint32_t tag;
    struct async_server_config config; /* address: not kept */
    char *address;
    struct async_lane lanes[ASYNC_LOOPS_MAX];
    unsigned n_lanes;

    /* the first lane's */
    struct watch listener;
    struct timer listen_again; /* there was no descriptor left */
    unsigned next_lane;

    struct dlc_mtx mtx; /* rank LCK_http */
    struct dlc_cond quiet;
    struct ssl_ctx_st *tls; /* G: mtx: of new connections; NULL: plain, or no certificate yet */
    struct map addresses;   /* G: mtx: hash of an address -> its connections */
    struct async_figures counts; /* G: mtx; loops is not used */
    struct log_limit refusals;   /* G: mtx */
};

/* A connection is counted from its acceptance to its end. */
void async_uncount(struct async_server *s, uint64_t address);
void async_count_late(struct async_server *s);
/* began: it had sent something. */
void async_count_stranger(struct async_server *s, const char *from, bool began);
void async_lane_check_gone(struct async_lane *l); /* L: tells the closer when it is so */

struct async_tls;

/* async_server_conn.c: L. Takes fd and tls (NULL: plain). */
void async_conn_open(struct async_lane *l, int fd, uint64_t address, struct async_tls *tls);
bool async_conn_shed(struct async_lane *l); /* the one that is idle longest; false: none is */
void async_conn_sweep(struct async_lane *l);
/* All that are idle; `all`: the others too. */
void async_conn_close_all(struct async_lane *l, bool all);

/* async_server_head.c: adds the head of a reply; len: of its body. */
void async_reply_head(struct buf *b, const struct http_reply *reply, uint64_t len, bool keep);

/*
 * async_server_file.c: the rest of a file, piece by piece. A piece is read by a worker, who may
 * hang: a connection that ends meanwhile leaves it behind.
 *
 *     IDLE --async_file_read--> READING --worker--> POSTED --loop--> IDLE, ready() is called
 *                               READING --async_file_free--> LEFT --worker--> freed
 *                               POSTED --async_file_free--> LEFT --loop--> freed
 */
struct async_file;
/* Takes the file and file_arg of the reply. */
struct async_file *async_file_new(struct async_lane *l, const struct http_reply *reply,
                                  void (*ready)(struct async_file *f, void *arg), void *arg);
bool async_file_read(struct async_file *f); /* L: false: no worker takes it */
/* L: the piece that was read; 0: the read, or its check, failed. */
size_t async_file_piece(const struct async_file *f, const char **data);
uint64_t async_file_left(const struct async_file *f); /* bytes that were not read yet */
void async_file_free(struct async_file **fp);         /* L */

#endif
