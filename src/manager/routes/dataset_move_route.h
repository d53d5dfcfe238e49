// SPDX-License-Identifier: Apache-2.0
/* POST /v1/datasets/{name}/move: moves a dataset to other nodes (tables/dataset_move.h). */
#ifndef DLC_MANAGER_ROUTES_DATASET_MOVE_ROUTE_H
#define DLC_MANAGER_ROUTES_DATASET_MOVE_ROUTE_H

#include "net/server.h"

http_handler_f route_dataset_move;

#endif
