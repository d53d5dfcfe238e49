// SPDX-License-Identifier: Apache-2.0
/*
 * The view: who is there, with which weight, and which datasets lie on some nodes only or are read.
 *
 * (V1) Two views of one version are equal. (V2) Versions grow, also from one manager to the next:
 * the fence is their upper part. (V3) A view that comes out as the last one is the last one: no new
 * version, nothing to send.
 */
#include <string.h>

#include "base/log.h"
#include "control/nodes_i.h"
#include "control/view_i.h"

#define FENCE_SHIFT 24

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

void view_changed(struct control *c)
{
    dlc_mtx_lock(&c->mtx);
    c->view_dirty = true;
    dlc_cond_signal(&c->wake);
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

/* Takes both. */
static void install(struct control *c, json_t *nodes, json_t *datasets)
{
    uint64_t version;

    dlc_mtx_lock(&c->mtx);
    if (c->view == NULL || c->view_version >> FENCE_SHIFT != c->fence ||
        json_equal(json_object_get(c->view, "nodes"), nodes) != 1 ||
        json_equal(json_object_get(c->view, "datasets"), datasets) != 1) {
        version = c->view_version >> FENCE_SHIFT == c->fence ? c->view_version + 1
                                                             : (c->fence << FENCE_SHIFT) + 1;
        json_decref(c->view);
        c->view = json_pack("{s:I, s:I, s:O, s:O}", "version", (json_int_t)version, "fence",
                            (json_int_t)c->fence, "nodes", nodes, "datasets", datasets);
        c->view_version = version;
    }
    json_decref(nodes);
    json_decref(datasets);
    dlc_mtx_unlock(&c->mtx);
}

void view_tick(struct control *c)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct node_info *info = NULL;
    json_t *datasets;
    size_t n;
    bool dirty;

    dlc_mtx_lock(&c->mtx);
    dirty = c->view_dirty;
    c->view_dirty = false; /* what changes from here on makes it dirty again */
    dlc_mtx_unlock(&c->mtx);
    if (!dirty)
        return;
    datasets = datasets_view(c, &err);
    if (datasets == NULL) {
        log_warn("the view cannot be made: %s", err.text);
        dlc_mtx_lock(&c->mtx);
        c->view_dirty = true;
        dlc_mtx_unlock(&c->mtx);
        return;
    }
    n = nodes_list(c, &info);
    install(c, view_nodes(info, n), datasets);
    nodes_release(&info, n);
}
