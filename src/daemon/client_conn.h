// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's Unix socket and its connections: messages in and out. The owner (struct client_ops)
 * interprets the messages and owns the state attached to a connection; nothing here calls up.
 */
#ifndef DLC_DAEMON_CLIENT_CONN_H
#define DLC_DAEMON_CLIENT_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/event_loop.h"
#include "base/hash.h"
#include "base/list.h"
#include "daemon/decoded_cache.h"
#include "ipc/frame.h"

struct dataset;
struct dlc_err;
struct node;
struct session;

#define PROTOCOL_VERSION 1

struct conn {
    uint32_t tag;
    struct node *node;
    struct dlc_list link;
    uint64_t id; /* for callers that return later and may find it closed */
    struct watch watch;
    struct msg_reader reader;
    struct msg_writer writer;
    bool greeted;
    uid_t uid;
    pid_t pid;
    struct session *session; /* NULL: none yet */
    struct dlc_list waiting; /* in dataset.opening.openers while it is being listed */
    struct dataset *opening;
    unsigned n_background;                 /* commands that worker threads execute for it */
    uint64_t lists;                        /* bytes of its orders' lists that are being read */
    bool asking;                           /* waits for the manager to permit the open */
    char *job;                             /* the client's name for its job; or NULL */
    int32_t runs;                          /* of the dataset, after its job; -1: it did not say */
    bool by_token;                         /* its session was opened by a token ... */
    unsigned char token[SHA256_LEN];       /* ... with this digest */
    uint64_t snapshot;                     /* the snapshot to open; 0: the newest */
    bool snapshot_of_job;                  /* ranks of its job read it; the client named none */
    struct opening *of_job;                /* client_open.c: its job has yet to agree on one */
    bool wants_decoded;                    /* it opens a decoded cache ... */
    unsigned char decoded_key[SHA256_LEN]; /* ... with this key */
    unsigned char owner[SHA256_LEN];       /* user and token: owner of its weights */
    bool admin;                            /* of the message that is handled: client_rights.c ... */
    char *tenant;                          /* ... whose token came with it; NULL: not known */
    bool closing;                          /* to be ended by its next event, ... */
    const char *why;                       /* ... for this reason; a literal */
    struct timer ender;                    /* that event */
    bool paused;                           /* out of memory or descriptors: the tick resumes it */
    bool zombie;                           /* (CLIENT-CONN-4) */
};

/* Callbacks of the module that owns the state attached to connections. L; none may be NULL. */
struct client_ops {
    /* A message of a client that has said hello. The caller owns m. */
    void (*message)(struct conn *c, struct msg *m);
    /* The daemon ends a connection that has a session: it is served no more (CLIENT-CONN-4).
     * Returns how many samples the client still pins. */
    uint64_t (*ended)(struct conn *c);
    /* The connection is being freed: release the state attached to it. */
    void (*closed)(struct conn *c);
};

/* ops: borrowed, for as long as there are connections. */
int server_open(struct node *n, const struct client_ops *ops, struct dlc_err *err);
int server_listen(struct node *n); /* listens again after descriptors ran out; 0 or -1 */
void server_close(struct node *n);
void conn_close(struct conn **cp);
/* The daemon ends the connection: (CLIENT-CONN-4). `why` is a literal. */
void conn_end(struct conn **cp, const char *why);
/* The same by its next event (CLIENT-CONN-3), which this makes happen. */
void conn_end_soon(struct conn *c, const char *why);
void conns_resume(struct node *n); /* resumes paused connections; called by the tick */
/* May it open a session? Not if the daemon had to end too many sessions of this process or user. */
int conn_may_open(const struct conn *c, struct dlc_err *err);
struct conn *conn_by_id(struct node *n, uint64_t id); /* NULL: gone */
/* Takes body. Descriptors are borrowed (duplicated if they must wait). If they cannot be sent, the
 * client receives the error instead. */
void conn_send(struct conn *c, json_t *body, const int *fds, unsigned n_fds);
/* The same; on failure nothing was sent, and the caller reports the error to the client. */
int conn_send_fds(struct conn *c, json_t *body, const int *fds, unsigned n_fds,
                  struct dlc_err *err);
/* Takes progress; sends nothing to a client that has not read its earlier messages. */
void conn_progress(struct conn *c, json_t *progress);
void conn_fail(struct conn *c, int code, const char *text);
void conn_fail_err(struct conn *c, const struct dlc_err *err);
/* Who serves here, for texts: "stand-alone", "node gpu1 of https://m1:7070". Gives. */
char *conn_server(const struct node *n);

#endif
