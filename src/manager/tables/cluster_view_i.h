// SPDX-License-Identifier: Apache-2.0
/*
 * A view as readers get it, and the pure parts of making one.
 *
 * (VIEW-1) A view never changes: a new one takes its place in struct control. Readers share it by
 * reference, also after that; the last reference frees it. Nobody takes a reference to a JSON value
 * inside it: jansson's counts are not safe where threads share a value.
 */
#ifndef DLC_MANAGER_TABLES_CLUSTER_VIEW_I_H
#define DLC_MANAGER_TABLES_CLUSTER_VIEW_I_H

#include "manager/manager_i.h"

struct view {
    uint32_t tag;
    _Atomic unsigned refs;
    uint64_t version;
    json_t *body; /* {"version", "fence", "nodes", "datasets", "jobs"} */
    char *text;   /* the same, written out once for all who are sent it */
    size_t len;
};

struct view *view_new(uint64_t version, json_t *body); /* takes body; gives a reference */
void view_put(struct view **vp);

double view_weight(enum node_state state, uint64_t capacity, uint64_t memory);
json_t *view_nodes(const struct node_info *nodes, size_t n); /* gives */
bool view_names(const struct view *v, const char *name);     /* is the node in it? */
/* Make a reply of an object (reply->body) end with a further member, "view". Borrows v. */
void view_add_to_reply(const struct view *v, struct http_reply *reply);

#endif
