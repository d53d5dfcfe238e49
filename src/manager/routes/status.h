// SPDX-License-Identifier: Apache-2.0
/*
 * GET /v1/health and /v1/status: is the manager alive, does it lead, how much does it know?
 */
#ifndef DLC_MANAGER_ROUTES_STATUS_H
#define DLC_MANAGER_ROUTES_STATUS_H

#include "net/server.h"

http_handler_f route_health, route_status;

#endif
