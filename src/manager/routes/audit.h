// SPDX-License-Identifier: Apache-2.0
/*
 * Audit of requests: which of them are recorded in the audit log, under which name.
 *
 * Recorded are all requests of the table in audit.c, whatever their outcome, and refusals (401, 403)
 * of every route. Reads of the API and heartbeats are recorded only when they are refused.
 */
#ifndef DLC_MANAGER_ROUTES_AUDIT_H
#define DLC_MANAGER_ROUTES_AUDIT_H

#include "net/server.h"

/* http_server_config.answered */
void audit_request(struct http_request *r, const struct http_route *route,
                   const struct http_reply *reply, void *ctx);

#endif
