// SPDX-License-Identifier: Apache-2.0
/* The server for other nodes: GET /v1/peer/DATASET/SNAPSHOT/samples/I. */
#ifndef DLC_CLUSTER_PEER_SERVER_H
#define DLC_CLUSTER_PEER_SERVER_H

#include <jansson.h>

#include "base/err.h"

struct door;
struct node;

/* L. listen: HOST:PORT. */
int door_open(struct node *n, const char *listen, struct door **out, struct dlc_err *err);
const char *door_address(const struct door *d); /* X: HOST:PORT, as it is; until door_free() */
json_t *door_json(const struct door *d); /* L: figures, for people; before door_close(). Gives */
/* L: those who wait are told that we end. */
void door_cancel(struct door *d);
/* X, not on the loop, which must be running: waits for its loops. */
void door_close(struct door *d);
void door_free(struct door **dp); /* after door_close() */

#endif
