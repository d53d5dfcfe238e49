// SPDX-License-Identifier: Apache-2.0
/*
 * Routes of tenants: the tenants, their tokens, and the credentials of their buckets.
 *
 * A document of kind STORE_TENANT: {"created_ms", "tokens": [{"hash", "until_ms"}], "credentials":
 * {"sealed": {...}, "set_ms", "anonymous"}}. Only the output of tenant_doc() leaves the manager.
 */
#ifndef DLC_MANAGER_ROUTES_TENANTS_H
#define DLC_MANAGER_ROUTES_TENANTS_H

#include "net/server.h"

http_handler_f route_tenants_list, route_tenants_create, route_tenants_show, route_tenants_delete,
    route_tenants_rotate_token, route_tenants_put_credentials, route_tenants_delete_credentials;

#endif
