// SPDX-License-Identifier: Apache-2.0
/* Certificates of nodes (docs/design/0016): with the join, and again before they expire; and a new
 * key for the authority that signs them. */
#ifndef DLC_MANAGER_ROUTES_NODE_CERTIFICATE_H
#define DLC_MANAGER_ROUTES_NODE_CERTIFICATE_H

#include <stdbool.h>

#include <jansson.h>

#include "net/server.h"

struct api;

/* Sign the node's request, and add the certificate to the answer. The caller has decided that it
 * holds the name. False: the reply says why not. */
bool node_certificate_add(struct api *api, const char *node, const char *request, json_t *answer,
                          struct http_reply *reply);

http_handler_f route_nodes_certificate, route_authority_rotate;

#endif
