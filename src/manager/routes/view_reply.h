// SPDX-License-Identifier: Apache-2.0
/*
 * A view as the last member of an answer, without another copy of its text for each node.
 */
#ifndef DLC_MANAGER_ROUTES_VIEW_REPLY_H
#define DLC_MANAGER_ROUTES_VIEW_REPLY_H

#include "manager/tables/cluster_view.h"
#include "net/server.h"

/* Make a reply of an object (reply->body) end with a further member, "view". Borrows v. */
void view_add_to_reply(const struct view *v, struct http_reply *reply);

#endif
