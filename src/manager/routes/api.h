// SPDX-License-Identifier: Apache-2.0
/*
 * The manager's HTTP API: definitions that its handlers share. Each file of this directory has
 * the handlers of one resource; route_table.c lists them all.
 *
 *     route_table -> handlers -> idempotency -> auth -> route_util -> json_fields
 *                       |
 *                    tables -> store
 *
 * Threads: handlers run on threads of the HTTP server, one per connection.
 *
 * (API-1) Only the leader writes: on other managers the check before each handler refuses every
 *         method but GET (and routes marked ROUTE_READS) with 503. The store refuses writes that
 *         slip through as the lock is lost (MANAGER-STORE-2).
 * (API-2) A caller that may not see a document gets the answer for one that does not exist.
 * (API-3) A handler answers by reply_doc() or with named fields: no document of the store is sent
 *         unchanged.
 */
#ifndef DLC_MANAGER_ROUTES_API_H
#define DLC_MANAGER_ROUTES_API_H

#include <stdint.h>

#include "base/address_rules.h"
#include "base/audit_log.h"
#include "base/clock.h"
#include "manager/routes/auth.h"
#include "manager/routes/events.h"
#include "manager/routes/node_reviewer.h"
#include "manager/store/seal.h"
#include "manager/tables/authority.h"
#include "manager/tables/tables.h"
#include "net/server.h"

#define API_TAG DLC_TAG4('a', 'p', 'i', '1')

struct api {
    uint32_t tag;
    struct tables *tables; /* borrowed, as the rest */
    struct seal *seal;
    struct auth auth;
    struct event_streams streams;
    struct address_rules tenant_networks; /* besides public addresses */
    struct audit_log *audit;              /* NULL: none */
    struct dlc_dur certificate_life;      /* of nodes */
    struct authority_trust trust;         /* whose certificates are valid */
    bool no_shared_node_token;            /* nodes have tokens of their own */
    struct node_reviewer reviewer;
    struct dlc_mono started;
    struct ticket_signer *tickets;
};

static inline struct api *api_of(void *ctx)
{
    struct api *api = ctx;

    dlc_check(api != NULL && api->tag == API_TAG);
    return api;
}

#endif
