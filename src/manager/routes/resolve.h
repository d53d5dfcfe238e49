// SPDX-License-Identifier: Apache-2.0
/*
 * POST /v1/resolve: nodes ask who owns a client's token, what it may read, and with which
 * credentials. Without a token a node asks for itself: a command to carry out, a peer to serve. A
 * dataset without an owner is open to every token.
 *
 * This is the only route on which credentials leave the manager, and only nodes get them: an
 * admin's token is refused too.
 */
#ifndef DLC_MANAGER_ROUTES_RESOLVE_H
#define DLC_MANAGER_ROUTES_RESOLVE_H

#include "net/server.h"

http_handler_f route_resolve;
/* POST /v1/identify: nodes ask for role and tenant of a token that came over their socket. */
http_handler_f route_identify;

#endif
