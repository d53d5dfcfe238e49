// SPDX-License-Identifier: Apache-2.0
/*
 * Routes of nodes: join, leave, drain, show. Tenants see names and states only.
 */
#ifndef DLC_MANAGER_ROUTES_NODES_H
#define DLC_MANAGER_ROUTES_NODES_H

#include <stdint.h>

#include <jansson.h>

#include "net/server.h"

struct api;

/* 409. holder: the address of the node that has the name; "": not disclosed. */
void nodes_refuse_name(struct api *api, const char *name, const char *holder,
                       struct http_reply *reply);
/* Answer a node with `answer`, an object that is taken, and "commands", "interval_ms", and "view"
 * when there is another than `has` and it names the node. version: as in reply_doc(). */
void nodes_reply(struct api *api, const char *name, uint64_t has, json_t *answer, int status,
                 uint64_t version, struct http_reply *reply);

/* Forget the node, and hand its listings to others. One that is not there is no error. */
int nodes_remove(struct api *api, const char *name, uint64_t expect, struct dlc_err *err);

http_handler_f route_nodes_list, route_nodes_show, route_nodes_join, route_nodes_leave,
    route_nodes_drain, route_nodes_rejoin;

#endif
