// SPDX-License-Identifier: Apache-2.0
/* Appends a view to an answer as its last member, without copying the view's text for each node. */
#ifndef DLC_MANAGER_ROUTES_VIEW_REPLY_H
#define DLC_MANAGER_ROUTES_VIEW_REPLY_H

#include "manager/tables/cluster_view.h"
#include "net/server.h"

/* Add a last member, "view", to a reply whose body is an object. Borrows v. */
void view_add_to_reply(const struct view *v, struct http_reply *reply);

#endif
