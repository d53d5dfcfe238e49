// SPDX-License-Identifier: Apache-2.0
/*
 * Speaks with the manager: joins it, beats, asks questions in between, leaves. What a heart-beat
 * says and what its answer means is the owner's affair (struct agent_ops). One thread beats, one
 * asks; both speak HTTP and never touch what is the node loop's: they ask it by loop_post().
 *
 * (A1) A manager that is away costs nothing but news: the view stays, questions fail at once where
 * that is known. (A2) An order is reported done until the manager has heard it.
 */
#ifndef DLC_CLUSTER_AGENT_H
#define DLC_CLUSTER_AGENT_H

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"
#include "base/list.h"
#include "base/event_loop.h"

struct agent;
struct node;

extern const bool node_has_control; /* false: built without it, so no node is of a cluster */

/* What the manager said. */
struct agent_news {
    const json_t *answer; /* NULL: it did not answer */
    const json_t *sent;   /* what it was told; NULL: this is about joining */
    bool joined;          /* it has just taken us in */
    bool well;            /* it has taken what was sent */
};

/* What a heart-beat says, and what becomes of its answer. L, both: gather() before each, then
 * digest(). */
struct agent_ops {
    json_t *(*gather)(struct node *n, bool *more); /* Gives. *more: beat again at once */
    void (*digest)(struct node *n, const struct agent_news *news);
};

/* L. Starts the threads; a control plane inside is opened by them. address: HOST:PORT of the peer
 * server, or NULL. */
int agent_open(struct node *n, const struct agent_ops *ops, const char *address, struct agent **out,
               struct dlc_err *err);
/* X, not on the loop, which must be running: leaves the manager, ends the threads. Calls that wait
 * end with DLC_ECANCELED. */
void agent_leave(struct agent *a);
/* After the loop has ended; closes the control plane inside. */
void agent_close(struct agent **ap);

bool agent_manager_away(const struct agent *a); /* X: it did not answer lately */
/* The latest that was said of it, for people. Gives. X. */
json_t *agent_figures(struct agent *a);

/* One question to the manager. */
struct agent_call {
    const char *method;
    char *path;                         /* taken */
    json_t *body;                       /* taken; or NULL */
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
