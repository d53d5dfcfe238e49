// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's Unix socket and its connections: messages in and out. What a message means, and what
 * hangs on a connection, is its owner's affair (struct client_ops): nothing here calls up.
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
    uint64_t id; /* for those who come back later and find it gone */
    struct watch watch;
    struct msg_reader reader;
    struct msg_writer writer;
    bool greeted;
    uid_t uid;
    pid_t pid;
    struct session *session; /* NULL: none yet */
    struct dlc_list waiting; /* in dataset.opening.openers while it is being listed */
    struct dataset *opening;
    unsigned errands;   /* work on the disk tier under way for it */
    bool asking;        /* the manager, whether it may open what it wants to open */
    char *job;          /* as the client calls it; or NULL */
    uint64_t snapshot;  /* what it opens must be this one; 0: the newest */
    bool wants_decoded; /* it opens a decoded cache, ... */
    unsigned char decoded_key[SHA256_LEN]; /* ... these */
    unsigned char owner[SHA256_LEN];       /* user and token: whose weights it may have */
    bool closing;                          /* to be ended by its next event, ... */
    const char *why;                       /* ... for this reason; a literal */
    struct timer ender;                    /* that event */
    bool paused; /* out of memory or descriptors: the tick goes on with it */
    bool zombie; /* (C4) */
};

/* Who owns what hangs on connections. L; none may be NULL. */
struct client_ops {
    /* A message of a client that has said hello. m is the caller's. */
    void (*message)(struct conn *c, struct msg *m);
    /* The daemon ends a connection that has a session: it is served no more (C4). Returns how many
     * samples the client still pins. */
    uint64_t (*ended)(struct conn *c);
    /* The connection goes: release what hangs on it. */
    void (*closed)(struct conn *c);
};

/* ops: borrowed, and used for as long as there are connections. */
int server_open(struct node *n, const struct client_ops *ops, struct dlc_err *err);
int server_listen(struct node *n); /* again, after descriptors ran out; 0 or -1 */
void server_close(struct node *n);
void conn_close(struct conn **cp);
/* The daemon ends the connection: (C4). `why` is a literal. */
void conn_end(struct conn **cp, const char *why);
void conns_resume(struct node *n); /* those that were paused; by the tick */
/* May it open a session? Not if it, or its user, has too many that the daemon had to end. */
int conn_may_open(const struct conn *c, struct dlc_err *err);
struct conn *conn_by_id(struct node *n, uint64_t id); /* NULL: gone */
/* Takes body. Descriptors are borrowed (duplicated if they must wait). If they cannot be sent, the
 * client is told why instead. */
void conn_send(struct conn *c, json_t *body, const int *fds, unsigned n_fds);
/* The same; when it fails, nothing was sent: tell the client. */
int conn_send_fds(struct conn *c, json_t *body, const int *fds, unsigned n_fds,
                  struct dlc_err *err);
/* Takes progress; says nothing to a client that has not read what it was told before. */
void conn_progress(struct conn *c, json_t *progress);
void conn_fail(struct conn *c, int code, const char *text);
void conn_fail_err(struct conn *c, const struct dlc_err *err);

#endif
