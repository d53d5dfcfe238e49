// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the peer server (peer_server.c): a request, and what each part does with it.
 *
 *     peer_server.c          requests, tickets, datasets, samples from memory
 *     peer_server_work.c     what a worker reads: files of large samples, pieces of catalogs
 *     handover_server.c      copies for the new owners of samples
 */
#ifndef DLC_CLUSTER_PEER_SERVER_I_H
#define DLC_CLUSTER_PEER_SERVER_I_H

#include <jansson.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/event_loop.h"
#include "base/list.h"
#include "cache/disk/disk.h"
#include "cluster/peer_server.h"
#include "daemon/dataset_open.h"
#include "daemon/session.h"
#include "daemon/work.h"
#include "net/async_server.h"

struct catalog_entry;
struct ticket_table;

#define PEER_SERVER_TAG  DLC_TAG4('p', 'e', 'e', 's')
#define PEER_REQUEST_TAG DLC_TAG4('p', 'r', 'q', 's')
#define REFUSALS         16

/* A dataset that could not be opened: for a moment nobody need try again. */
struct refusal {
    uint64_t hash;
    struct dlc_mono until;
    struct dlc_err err;
};

struct peer_server {
    uint32_t tag;
    struct node *node;
    struct async_server *server;
    char *address;
    struct ticket_table *tickets;
    _Atomic bool cancelled;            /* W L, R any */
    struct refusal refusals[REFUSALS]; /* L, and what follows; by hash */
    uint64_t held;                     /* bytes that replies hold (PEER-SERVER-3) */
};

enum peer_question {
    PEER_SAMPLE,  /* a sample: this node reads it as for a program of its own */
    PEER_CACHED,  /* a sample, if there is a copy here */
    PEER_TAKE,    /* copy a sample, which this node owns now, from the node that owned it before */
    PEER_CATALOG, /* a piece of the catalog */
};

struct peer_request {
    uint32_t tag;
    struct peer_server *peer_server;
    struct async_call *call; /* NULL: it was answered */
    char *token;             /* NULL: a peer asks, with a ticket */
    char *client;            /* with a token: HOST:PORT, for the audit log */
    char *cid;
    char *tenant; /* whose it must be; with a token that is known when the manager has answered */
    bool anew;    /* what was known of the name was about another tenant: the manager was asked */
    uint64_t snapshot, sample; /* of a catalog: an offset instead */
    enum peer_question question;
    char *from;    /* PEER_TAKE: the previous owner */
    bool on_disk;  /* PEER_TAKE: its copy is on disk */
    char *evicted; /* PEER_TAKE: mark of the last eviction that it knows; or NULL */

    struct dlc_list link; /* in member.requests until it is answered */
    struct task task;
    struct dataset_waiter dataset_waiter;
    struct waiter waiter;
    struct dataset *ds; /* with a reference */
    bool resident;      /* it was when we were asked */
    uint64_t len;       /* of the sample */

    /* of a worker: what it is asked for, and what it brings */
    struct work work;
    struct chunk_id chunk;
    int rc, fd;
    struct dlc_err err;
    json_t *piece;
    uint64_t checksum; /* of the sample, as it was when it came */
};

static inline struct peer_request *peer_request_of(void *arg)
{
    struct peer_request *a = arg;

    dlc_check(a != NULL && a->tag == PEER_REQUEST_TAG);
    return a;
}

/* ---- peer_server.c; all L ---- */

/* The answer; takes what *reply holds. */
void peer_request_answer(struct peer_request *a, struct http_reply *reply);
/* Send the sample, which is resident. */
void peer_request_send(struct peer_request *a);
/* Nothing refers to it any more. */
void peer_request_end(struct peer_request *a);
/* Answers with a problem, unless it was answered, and ends it. text NULL or "": that of rc. */
void peer_request_fail(struct peer_request *a, int rc, const char *text);

/* ---- peer_server_work.c; all L ---- */

/* Sends the file in which a large sample lies. */
void peer_request_open_large(struct peer_request *a, const struct catalog_entry *e);
/* Sends a piece of the catalog, to nodes alone and only if it is here (ds NULL: it is not). It does
 * not change while we hold the dataset. */
void peer_request_give_catalog(struct peer_request *a, struct dataset *ds);

/* ---- handover_server.c; all L: the dataset, its snapshot and the number of the sample are right - */

void handover_give(struct peer_request *a); /* PEER_CACHED */
void handover_take(struct peer_request *a); /* PEER_TAKE */

#endif
