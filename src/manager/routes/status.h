// SPDX-License-Identifier: Apache-2.0
/* GET /v1/health and /v1/status: whether the manager is alive and leads, and how much it knows. */
#ifndef DLC_MANAGER_ROUTES_STATUS_H
#define DLC_MANAGER_ROUTES_STATUS_H

#include "net/server.h"

http_handler_f route_health, route_status;

#endif
