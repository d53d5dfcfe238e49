// SPDX-License-Identifier: Apache-2.0
/*
 * Rebuilding records: a store that was emptied is filled again from this manager's copy
 * (store/record_copy.h); datasets that a store does not know, because it is new or an old backup,
 * are registered again from the records that nodes keep beside their catalogs. A plan is made, and
 * either shown or carried out: both by the same function.
 *
 * (REBUILD-1) A dataset comes back as it was registered, for its tenant, or not at all: its record
 *             is authentic, so its endpoint is the one that the tenant's keys were given for.
 * (REBUILD-2) What was deleted stays deleted.
 * (REBUILD-3) What a plan promises then happens, unless the store fails or changes in between.
 */
#ifndef DLC_MANAGER_ROUTES_REBUILD_H
#define DLC_MANAGER_ROUTES_REBUILD_H

#include "net/server.h"

void route_rebuild_show(struct http_request *r, struct http_reply *reply, void *ctx);
void route_rebuild(struct http_request *r, struct http_reply *reply, void *ctx);
/* A node tells what it has records of. */
void route_nodes_inventory(struct http_request *r, struct http_reply *reply, void *ctx);

#endif
