// SPDX-License-Identifier: Apache-2.0
/*
 * The view that nodes have of the cluster: the nodes with their weights, the datasets that lie on
 * some nodes only or are read, and the jobs that bypass the cache. This module holds the current
 * view and the request for a new one; view_builder.h makes it.
 *
 * (VIEW-1) A view never changes: a new one replaces it. Readers share it by reference, also after
 *          that; the last reference frees it. No code takes a reference to a JSON value inside it:
 *          jansson's counts are not safe where threads share a value.
 * (VIEW-2) Two views of one version are equal.
 * (VIEW-3) Versions grow, also from one manager to the next: the fence is their upper part.
 * (VIEW-4) If the view did not change, its version stays and nothing is sent.
 * (VIEW-5) A node does not get a command before the view that was current when it was sent.
 * (VIEW-6) A node does not get a view that does not name it: a view made while the node was silent
 *          would tell it that others own its chunks.
 */
#ifndef DLC_MANAGER_TABLES_CLUSTER_VIEW_H
#define DLC_MANAGER_TABLES_CLUSTER_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/mutex.h"

struct tables;

struct view {
    uint32_t tag;
    _Atomic unsigned refs;
    uint64_t version;
    json_t *body; /* {"version", "fence", "nodes", "datasets", "jobs"} */
    char *text;   /* the same, serialized once for all receivers */
    size_t len;
};

struct cluster_view {
    bool dirty;           /* G: mtx; a new view must be made */
    uint64_t asked, made; /* G: mtx; calls of view_changed(); those that the view has */
    struct dlc_cond built;
    struct view *current; /* G: mtx; with a reference. Replaced by the thread alone */
    uint64_t version;     /* G: mtx; of the view, or of the last before it */
};

struct view *view_new(uint64_t version, json_t *body); /* takes body; gives a reference */
void view_put(struct view **vp);
/* Gives a reference, for view_put(); NULL: there is no newer one than `has`. */
struct view *view_get(struct tables *t, uint64_t has);
bool view_names(const struct view *v, const char *name); /* is the node in it? */
bool view_is_due(struct tables *t);                      /* will a new one be made soon? */
uint64_t view_version(struct tables *t);

/* Something changed that nodes must know: the thread makes a new view if it differs. */
void view_changed(struct tables *t);
/* The same, with mtx held, for callers that do not wait for the view. */
void view_changed_locked(struct tables *t);
/* Wait, for a bounded time, until the view has the change: nodes carry out a command by their
 * current view, and do not get the command before that view. Not in the thread. */
void view_wait(struct tables *t);
int view_load(struct tables *t, uint64_t fence,
              struct dlc_err *err); /* thread: we lead from now on */

#endif
