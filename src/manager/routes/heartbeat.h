// SPDX-License-Identifier: Apache-2.0
/*
 * POST /v1/nodes/{name}/heartbeat: takes a node's report, and answers with what is new for the node
 * (docs/design/0006). Chunks are written to the store before the answer: a node that gets 200 need
 * not report them again. A row with invalid values is skipped: it must not hold up the other rows
 * or the node itself.
 */
#ifndef DLC_MANAGER_ROUTES_HEARTBEAT_H
#define DLC_MANAGER_ROUTES_HEARTBEAT_H

#include "net/server.h"

http_handler_f route_nodes_heartbeat;

#endif
