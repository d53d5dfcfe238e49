// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the manager client of a node (agent.h):
 *
 *     agent.c            heartbeats, membership, and the life of both threads
 *     agent_calls.c      questions in between
 *     agent_client.c     what this node shows to the manager: its token and its certificate
 */
#ifndef DLC_CLUSTER_AGENT_I_H
#define DLC_CLUSTER_AGENT_I_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/check.h"
#include "base/mutex.h"
#include "cluster/agent.h"
#include "cluster/identity.h"

struct manager;
struct manager_client;

#define AGENT_TAG DLC_TAG4('a', 'g', 'n', 't')

struct agent {
    uint32_t tag;
    struct node *node;
    const struct agent_ops *ops;
    pthread_t beating, asking;
    bool has_beating, has_asking;
    char *name, *base;               /* base: set before `ready` */
    char *address;                   /* of the peer server, or NULL */
    struct certificate *certificate; /* borrowed; NULL: the manager is not at https:// */
    struct identity identity;
    struct manager *manager; /* inside; the beating thread's, then agent_close()'s */

    struct dlc_mtx mtx; /* rank LCK_agent */
    struct dlc_cond wake, answered;
    bool ready;              /* G: mtx: base and the node's token are known */
    bool joined;             /* G: mtx: it did once, and has what it needs to ask */
    char *credential;        /* G: mtx: of this node; NULL: it has none */
    bool credential_refused; /* G: mtx: the manager does not know it: --token-file is tried */
    bool broken;             /* G: mtx: there is no control plane, and will be none */
    bool ending;             /* G: mtx */
    bool hurry;              /* G: mtx: the next heartbeat is due */
    struct dlc_list calls;   /* G: mtx */
    struct dlc_list later;   /* G: mtx: calls that wait until there is no other */
    struct dlc_err trouble;  /* G: mtx: why the manager does not answer; code 0: it does */
    _Atomic bool away;       /* W beating, R any, relaxed: a hint */
    bool refused;            /* the beating thread's: the manager did not take the last report */
};

static inline struct agent *agent_of(void *arg)
{
    struct agent *a = arg;

    dlc_check(a != NULL && a->tag == AGENT_TAG);
    return a;
}

/* ---- agent_calls.c ---- */

/* The thread that asks. */
void *agent_calls_main(void *agent);
/* Nobody will answer those that wait. X. */
void agent_calls_fail(struct agent *a, const struct dlc_err *err);

/* ---- agent_client.c ---- */

/* Gives a client that asks as this node. */
int agent_client_open(struct agent *a, struct manager_client **out, struct dlc_err *err);
/* The manager did not know our token (401): the other one, of --token-file or our credential, is
 * shown from the next request on. */
void agent_client_denied(struct agent *a);
/* The answer to a join or a heartbeat (NULL: none): it may bring a credential, which is shown from now
 * on. */
void agent_client_joined(struct agent *a, struct manager_client *client, const json_t *answer);
/* It shows the newest certificate from the next request on. */
void agent_client_certify(struct agent *a, struct manager_client *client);

#endif
