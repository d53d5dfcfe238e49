// SPDX-License-Identifier: Apache-2.0
/*
 * POST /v1/nodes/{name}/heartbeat: what a node has and has done comes in, what is new for it goes back
 * (docs/design/0006). Chunks are written to the store before the answer: a node that gets 200 need not
 * tell them again. A row of values that make no sense is passed over: it must not keep the others, nor
 * the node itself, from being heard.
 */
#ifndef DLC_MANAGER_ROUTES_HEARTBEAT_H
#define DLC_MANAGER_ROUTES_HEARTBEAT_H

#include "net/server.h"

http_handler_f route_nodes_heartbeat;

#endif
