// SPDX-License-Identifier: Apache-2.0
/*
 * POST /v1/resolve: nodes ask whose a client's token is, what it may read, and with which credentials.
 * Without a token a node asks for itself: a command to carry out, a peer to serve. What belongs to
 * nobody is there for every token.
 *
 * This is the only place where credentials leave the manager, and nodes are the only ones who get
 * them: an admin's token is refused too.
 */
#ifndef DLC_MANAGER_ROUTES_RESOLVE_H
#define DLC_MANAGER_ROUTES_RESOLVE_H

#include "net/server.h"

http_handler_f route_resolve;

#endif
