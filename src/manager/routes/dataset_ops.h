// SPDX-License-Identifier: Apache-2.0
/*
 * Routes of operations on datasets: snapshot, warm, evict. Each is a command to nodes, answered
 * with 202: nodes receive it with their next heartbeat. Moving is in dataset_move_route.h.
 */
#ifndef DLC_MANAGER_ROUTES_DATASET_OPS_H
#define DLC_MANAGER_ROUTES_DATASET_OPS_H

#include "net/server.h"

http_handler_f route_dataset_snapshot, route_dataset_warm, route_dataset_evict;

#endif
