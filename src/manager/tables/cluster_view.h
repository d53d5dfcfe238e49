// SPDX-License-Identifier: Apache-2.0
/*
 * The view that nodes have of the cluster: which nodes there are, with which weight, which datasets
 * lie on some nodes only or are read, and which jobs keep nothing of what they read. Here are the view
 * that nodes get and the wish for another one; view_builder.h makes it.
 *
 * (VIEW-1) A view never changes: a new one takes its place. Readers share it by reference, also after
 *          that; the last reference frees it. Nobody takes a reference to a JSON value inside it:
 *          jansson's counts are not safe where threads share a value.
 * (VIEW-2) Two views of one version are equal.
 * (VIEW-3) Versions grow, also from one manager to the next: the fence is their upper part.
 * (VIEW-4) If the view did not change, its version stays and nothing is sent.
 * (VIEW-5) No node gets a command before the view that it was sent in.
 * (VIEW-6) A node gets no view that does not name it: one of the time when it was not heard would tell
 *          it that others own what it has.
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
    char *text;   /* the same, written out once for all who are sent it */
    size_t len;
};

struct cluster_view {
    bool dirty;           /* G: mtx; another view is to be made */
    uint64_t asked, made; /* G: mtx; calls of view_changed(); those that the view has */
    struct dlc_cond built;
    struct view *current; /* G: mtx; with a reference. Replaced by the thread alone */
    uint64_t version;     /* G: mtx; of the view, or of the last before it */
};

struct view *view_new(uint64_t version, json_t *body); /* takes body; gives a reference */
void view_put(struct view **vp);
/* Gives a reference, for view_put(); NULL: there is none but `has`. */
struct view *view_get(struct tables *t, uint64_t has);
bool view_names(const struct view *v, const char *name); /* is the node in it? */
bool view_is_due(struct tables *t); /* will there be another one in a moment? */
uint64_t view_version(struct tables *t);

/* Something changed that nodes must know: the thread makes a new view if it comes out different. */
void view_changed(struct tables *t);
/* The same, with mtx held, by modules that nobody waits for. */
void view_changed_locked(struct tables *t);
/* Wait until what changed is in the view: nodes carry a command out by the view that they have, and
 * get the command not before that one. A while at most. Not in the thread. */
void view_wait(struct tables *t);
int view_load(struct tables *t, uint64_t fence,
              struct dlc_err *err); /* thread: we lead from now on */

#endif
