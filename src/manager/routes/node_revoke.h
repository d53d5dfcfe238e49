// SPDX-License-Identifier: Apache-2.0
/* Revoking the access of a node: POST /v1/nodes/NAME/revoke (tables/node_revocation.h). */
#ifndef DLC_MANAGER_ROUTES_NODE_REVOKE_H
#define DLC_MANAGER_ROUTES_NODE_REVOKE_H

#include <stdbool.h>

#include "net/server.h"

struct api;

/* May the caller join under this name (NODE-REVOCATION-2)? False: the reply says why not. */
bool node_revoke_allows_join(struct api *api, const struct http_request *r, const char *node,
                             struct http_reply *reply);

http_handler_f route_nodes_revoke;

#endif
