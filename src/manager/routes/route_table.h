// SPDX-License-Identifier: Apache-2.0
/*
 * All routes of the manager's API, in one table.
 */
#ifndef DLC_MANAGER_ROUTES_ROUTE_TABLE_H
#define DLC_MANAGER_ROUTES_ROUTE_TABLE_H

#include "net/server.h"

extern const struct http_route route_table[]; /* ends with a method NULL */

#endif
