// SPDX-License-Identifier: Apache-2.0
/* The server for other nodes: GET /v1/peer/DATASET/SNAPSHOT/samples/I. */
#ifndef DLC_CLUSTER_PEER_SERVER_H
#define DLC_CLUSTER_PEER_SERVER_H

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"

struct peer_server;
struct node;
struct tls_identity;

/* L. listen: HOST:PORT. tls: it serves nobody before peer_server_identity(). */
int peer_server_open(struct node *n, const char *listen, bool tls, struct peer_server **out,
                     struct dlc_err *err);
/* L, before peer_server_close(): the certificate of new connections. */
int peer_server_identity(struct peer_server *d, const struct tls_identity *id, struct dlc_err *err);
const char *peer_server_address(
    const struct peer_server *d); /* X: the actual HOST:PORT; until peer_server_free() */
json_t *peer_server_json(
    const struct peer_server *d); /* L: figures, for people; before peer_server_close(). Gives */
/* L: "tickets" of the manager's answer: by which keys and clock it judges tickets. NULL: none. */
void peer_server_heard(struct peer_server *d, const json_t *tickets);
/* L: "revoked" of a view: nodes whose certificates and tickets are refused. NULL: none. */
void peer_server_revoked(struct peer_server *d, const json_t *revoked);
/* L: answers waiting requests: the daemon ends. */
void peer_server_cancel(struct peer_server *d);
/* X, not on the loop, which must be running: waits for its loops. */
void peer_server_close(struct peer_server *d);
void peer_server_free(struct peer_server **dp); /* after peer_server_close() */

#endif
