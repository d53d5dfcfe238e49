// SPDX-License-Identifier: Apache-2.0
/* Joining by a token for one node: POST /v1/nodes/NAME/join-token, and what PUT /v1/nodes/NAME does
 * with it (tables/node_token.h). */
#ifndef DLC_MANAGER_ROUTES_NODE_JOIN_TOKEN_H
#define DLC_MANAGER_ROUTES_NODE_JOIN_TOKEN_H

#include <stdbool.h>

#include <jansson.h>

#include "net/server.h"

struct api;

/* If the caller has a join token: bind it to this process. False: the reply says why not. */
bool node_join_token_use(struct api *api, struct http_request *r, const char *instance,
                         struct http_reply *reply);
/* The same for its answer: adds "credential", by which the node is known from now on. */
bool node_join_token_answer(struct api *api, struct http_request *r, const char *node,
                            json_t *answer, struct http_reply *reply);
/* Adds one to the answer to a heartbeat whose caller has one that ends soon. If the store cannot
 * take it: with a later heartbeat. */
void node_credential_renew(struct api *api, struct http_request *r, const char *node,
                           json_t *answer);

http_handler_f route_nodes_join_token;

#endif
