// SPDX-License-Identifier: Apache-2.0
/*
 * The view: who is there, with which weight, which datasets lie on some nodes only or are read, and
 * which jobs keep nothing of what they read.
 *
 * (V1) Two views of one version are equal. (V2) Versions grow, also from one manager to the next:
 * the fence is their upper part. (V3) A view that comes out as the last one is the last one: no new
 * version, nothing to send. (V4) No node gets an order before the view that it was given in.
 * (V5) A node gets no view that does not name it: one of the time when it was not heard would tell
 * it that others own what it has.
 */
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "control/nodes_i.h"
#include "control/view_i.h"

#define SETTLE DLC_SEC(2) /* then the order is given all the same */

/* Chunks are spread by space. A node that says nothing of its space counts as a gigabyte. */
double view_weight(enum node_state state, uint64_t capacity, uint64_t memory)
{
    uint64_t space = capacity != 0 ? capacity : memory;

    if (state != NODE_LIVE)
        return 0;
    return space == 0 ? 1.0 : (double)space / 1e9;
}

json_t *view_nodes(const struct node_info *nodes, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++) {
        const struct node_info *x = &nodes[i];

        if (x->state == NODE_GONE)
            continue;
        json_array_append_new(array, json_pack("{s:s, s:s, s:f, s:s}", "name", x->name, "address",
                                               x->address, "weight",
                                               view_weight(x->state, x->capacity, x->memory),
                                               "state", node_state_name(x->state)));
    }
    return array;
}

bool view_names(const json_t *view, const char *name)
{
    size_t i;
    json_t *node;

    json_array_foreach(json_object_get(view, "nodes"), i, node)
    {
        if (strcmp(json_string_value(json_object_get(node, "name")), name) == 0)
            return true;
    }
    return false;
}

void view_changed(struct control *c)
{
    dlc_mtx_lock(&c->mtx);
    c->view_dirty = true;
    c->view_asked++;
    dlc_cond_signal(&c->wake);
    dlc_mtx_unlock(&c->mtx);
}

void view_settle(struct control *c)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), SETTLE), now;
    uint64_t asked;

    dlc_mtx_lock(&c->mtx);
    asked = c->view_asked;
    while (c->view_made < asked && !dlc_mono_passed(until, now = dlc_mono_now()))
        dlc_cond_wait_for(&c->view_new, &c->mtx, dlc_mono_sub(until, now));
    dlc_mtx_unlock(&c->mtx);
}

json_t *view_get(struct control *c, uint64_t has)
{
    json_t *view = NULL;

    dlc_mtx_lock(&c->mtx);
    if (c->view_version != has)
        view = json_deep_copy(c->view);
    dlc_mtx_unlock(&c->mtx);
    return view;
}

int view_load(struct control *c, uint64_t fence, struct dlc_err *err)
{
    struct meta_doc d = META_DOC_INIT;
    int rc = meta_get(c->meta, META_CONTROL, "view", &d, err);
    uint64_t was = (uint64_t)json_integer_value(json_object_get(d.body, "version"));

    if (rc == 0 || rc == DLC_ENOTFOUND) {
        dlc_mtx_lock(&c->mtx);
        json_decref(c->view);
        c->view = NULL;
        c->view_version = DLC_MAX(was, fence);
        c->view_dirty = true;
        dlc_mtx_unlock(&c->mtx);
        rc = 0;
    }
    meta_doc_release(&d);
    return rc;
}

static int write_version(struct control *c, uint64_t version, struct dlc_err *err)
{
    struct meta_doc d = {(char *)"view", (char *)"", NULL, 0};
    int rc;

    d.body = json_pack("{s:I}", "version", (json_int_t)version);
    rc = meta_put(c->meta, META_CONTROL, &d, META_ANY, err);
    json_decref(d.body);
    return rc;
}

/* Borrows all. Only the thread makes views, so nothing comes between. */
static int install(struct control *c, const json_t *nodes, const json_t *datasets,
                   const json_t *jobs, struct dlc_err *err)
{
    uint64_t version;
    bool same;
    int rc;

    dlc_mtx_lock(&c->mtx);
    same = c->view != NULL && json_equal(json_object_get(c->view, "nodes"), nodes) == 1 &&
           json_equal(json_object_get(c->view, "datasets"), datasets) == 1 &&
           json_equal(json_object_get(c->view, "jobs"), jobs) == 1;
    version = c->view_version + 1;
    dlc_mtx_unlock(&c->mtx);
    if (same)
        return 0;
    rc = write_version(c, version, err);
    if (rc < 0)
        return rc;
    dlc_mtx_lock(&c->mtx);
    json_decref(c->view);
    c->view = json_pack("{s:I, s:I, s:o, s:o, s:o}", "version", (json_int_t)version, "fence",
                        (json_int_t)c->fence, "nodes", json_deep_copy(nodes), "datasets",
                        json_deep_copy(datasets), "jobs", json_deep_copy(jobs));
    c->view_version = version;
    dlc_mtx_unlock(&c->mtx);
    return 0;
}

void view_tick(struct control *c)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct node_info *info = NULL;
    json_t *datasets, *nodes, *jobs;
    uint64_t asked;
    size_t n;
    bool dirty, made;

    dlc_mtx_lock(&c->mtx);
    dirty = c->view_dirty;
    asked = c->view_asked;
    c->view_dirty = false; /* what changes from here on makes it dirty again */
    dlc_mtx_unlock(&c->mtx);
    if (!dirty)
        return;
    datasets = datasets_view(c, &err);
    n = nodes_list(c, &info);
    nodes = view_nodes(info, n);
    jobs = jobs_view(c);
    made = datasets != NULL && install(c, nodes, datasets, jobs, &err) == 0;
    if (!made)
        log_warn("no new view can be made: %s", err.text);
    dlc_mtx_lock(&c->mtx);
    c->view_dirty = c->view_dirty || !made;
    c->view_made = made ? asked : c->view_made;
    dlc_cond_broadcast(&c->view_new);
    dlc_mtx_unlock(&c->mtx);
    json_decref(nodes);
    json_decref(datasets);
    json_decref(jobs);
    nodes_release(&info, n);
}
