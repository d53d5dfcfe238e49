// SPDX-License-Identifier: Apache-2.0
/*
 * An HTTP/1.1 server on a few event loops, for GET and HEAD: thousands of connections, no thread of
 * their own. The design is at the top of async_server_conn.c.
 *
 * A handler is called on a loop of the server and must not block. It answers its call at once or
 * later, from any thread, with async_answer(): exactly once, also when the client has gone and when
 * the server closes. A client that says "Dlcache-Processing: 1" hears after 10 ms, and then every
 * half second, that we are at work (102).
 *
 * Limits: connections in all and of one address. A connection beyond the first limit takes the
 * place of one that is idle; where none is, and beyond the second limit, it gets 503 and is closed.
 */
#ifndef DLC_NET_ASYNC_SERVER_H
#define DLC_NET_ASYNC_SERVER_H

#include "base/clock.h"
#include "base/err.h"
#include "base/thread_pool.h"
#include "net/server.h"
#include "net/tls_identity.h"

struct async_server;
struct async_call;

typedef void async_handler_f(struct async_call *call, const struct http_request *r, void *ctx);

struct async_route {
    const char *pattern; /* "/v1/datasets/{name}"; NULL: the end of the table */
    async_handler_f *handler;
};

struct async_server_config {
    const char *address; /* as in struct http_server_config */
    const struct async_route *routes;
    void *ctx;
    unsigned loops;       /* 0: by the number of cores, ASYNC_LOOPS_MAX at most */
    unsigned connections; /* in all; 0: 16384, and half of the descriptors at most */
    unsigned per_address; /* 0: 1024, and three quarters of `connections` at most */
    struct dlc_dur idle;  /* without a request; 0: 60 s */
    struct dlc_dur head;  /* from the first byte of a head to its last; 0: 10 s */
    /* A client must take MIN_PROGRESS bytes, or the rest, in each of these; 0: 10 s. */
    struct dlc_dur progress;
    /* X: run work that reads a piece of a file; false: not now, the reply is cut. NULL: no reply
     * is a file. */
    bool (*run)(struct work *w, uint64_t bytes, void *ctx);
    /* Connections speak TLS, and show a certificate of the cluster. Before async_server_identity()
     * none is taken. */
    bool tls;
    /* L of the server: a connection ended that had sent something, and showed no certificate of the
     * cluster. from: HOST:PORT. NULL: nobody asks. */
    void (*stranger)(const char *from, void *ctx);
};
#define ASYNC_LOOPS_MAX    4
#define ASYNC_MIN_PROGRESS (64u << 10)

int async_server_open(const struct async_server_config *c, struct async_server **out,
                      struct dlc_err *err);
/* X, not on a loop of the server. Replies that are being sent have half a second to end. Waits
 * until all calls were answered. */
void async_server_close(struct async_server **sp);
const char *async_server_address(const struct async_server *s);
/* X: with config.tls: new connections begin with this identity. Those that there are keep theirs.
 */
int async_server_identity(struct async_server *s, const struct tls_identity *id,
                          struct dlc_err *err);

/* X: takes what *reply holds, and the call. reply->done, when given, is called on a loop of the
 * server: exactly once, when nothing of the reply is needed any more. */
void async_answer(struct async_call *call, struct http_reply *reply);

struct async_figures {
    unsigned loops, connections;
    uint64_t accepted, refused;  /* refused: beyond a limit */
    uint64_t shed;               /* idle connections that were closed for new ones */
    uint64_t late;               /* that were closed because the client was too slow */
    uint64_t strangers;          /* that ended before they showed a certificate of the cluster */
    struct dlc_dur longest_turn; /* of a loop, CPU time */
};
void async_figures(struct async_server *s, struct async_figures *out); /* X */

#endif
