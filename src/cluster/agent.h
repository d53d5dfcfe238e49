// SPDX-License-Identifier: Apache-2.0
/*
 * The manager client of a node: joins the manager, sends heartbeats, asks questions in between, and
 * leaves. The owner (struct agent_ops) fills heartbeats and acts on their answers. One thread sends
 * heartbeats, one asks questions; both speak HTTP and never touch the node loop's state: they reach
 * it by loop_post().
 *
 * (AGENT-1) An unreachable manager only delays news: the view stays, and questions fail at once
 *           where this is known.
 * (AGENT-2) A command is reported as done until the manager has confirmed it.
 */
#ifndef DLC_CLUSTER_AGENT_H
#define DLC_CLUSTER_AGENT_H

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"
#include "base/list.h"
#include "base/event_loop.h"

struct agent;
struct certificate;
struct cluster_view;
struct node;
struct tls_identity;

extern const bool node_has_control; /* false: built without the manager */

/* An answer of the manager. */
struct agent_news {
    const json_t *answer;      /* NULL: it did not answer */
    const json_t *sent;        /* the request; NULL: this is about joining */
    struct cluster_view *view; /* of the answer; NULL: it has none */
    bool joined;               /* it has just accepted this node */
    bool well;                 /* it has accepted the request */
};

/* Contents of a heartbeat, and what to do with its answer. Both L: gather() before each, then
 * digest(). */
struct agent_ops {
    /* Gives; NULL: call it again in the next turn. *more: send another one at once. */
    json_t *(*gather)(struct node *n, bool *more);
    void (*digest)(struct node *n, const struct agent_news *news);
    /* L: the node has a certificate, or a new one. Before digest() of the join. */
    int (*certified)(struct node *n, struct tls_identity *id, struct dlc_err *err);
};

/* L. Starts the threads; they open a manager inside this process. address: HOST:PORT of the peer
 * server, or NULL. certificate: borrowed; NULL: the manager is not at https://. */
int agent_open(struct node *n, const struct agent_ops *ops, const char *address,
               struct certificate *certificate, struct agent **out, struct dlc_err *err);
/* X, not on the loop, which must be running: leaves the manager, ends the threads. Pending calls
 * end with DLC_ECANCELED. */
void agent_leave(struct agent *a);
/* After the loop has ended; closes a manager inside this process. */
void agent_close(struct agent **ap);

/* X: as which node the manager knows this process: its name, and the number of this run. */
const char *agent_name(const struct agent *a);
const char *agent_instance(const struct agent *a);
bool agent_manager_away(const struct agent *a); /* X: it has not answered lately */
void agent_beat_now(struct agent *a);           /* X: the next heartbeat is due */
/* Latest state of the connection to the manager, for display. Gives. X. */
json_t *agent_figures(struct agent *a);

/* One question to the manager. */
struct agent_call {
    const char *method;
    char *path;                         /* taken */
    json_t *body;                       /* taken; or NULL */
    bool later;                         /* asked when no other call waits */
    void (*done)(struct agent_call *c); /* L; then release */

    int rc;
    struct dlc_err err;
    json_t *answer; /* or NULL */
    struct agent *agent;
    struct dlc_list link;
    struct task task;
};
void agent_ask(struct agent *a, struct agent_call *c); /* L */
void agent_call_release(struct agent_call *c);         /* wipes what may be secret */

#endif
