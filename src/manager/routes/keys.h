// SPDX-License-Identifier: Apache-2.0
/*
 * GET /v1/keys: the keys of this manager's ring, and how many records of the store use each.
 * POST /v1/keys/rekey: a step of the walk that writes all records again with the first key.
 */
#ifndef DLC_MANAGER_ROUTES_KEYS_H
#define DLC_MANAGER_ROUTES_KEYS_H

#include "net/server.h"

http_handler_f route_keys_list, route_keys_rekey;

#endif
