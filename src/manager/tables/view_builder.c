// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/view_builder.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "manager/tables/cluster_view.h"
#include "manager/tables/dataset_index.h"
#include "manager/tables/dataset_move.h"
#include "manager/tables/dataset_placement.h"
#include "manager/tables/job_table.h"
#include "manager/tables/tables.h"

/* ---- nodes ---- */

/* Chunks are spread by space. A node that says nothing of its space counts as a gigabyte. One that
 * drains or is away owns nothing, by its state; by its weight others know what it owned. */
double view_weight(enum node_state state, uint64_t capacity, uint64_t memory)
{
    uint64_t space = capacity != 0 ? capacity : memory;

    if (state != NODE_LIVE && state != NODE_DRAINING && state != NODE_AWAY)
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
        json_array_append_new(
            array, json_pack("{s:s, s:s, s:f, s:s, s:b}", "name", x->name, "address", x->address,
                             "weight", view_weight(x->state, x->capacity, x->memory), "state",
                             node_state_name(x->state), "disk", x->disk));
    }
    return array;
}

/* ---- datasets ---- */

/* The names of an object. Gives. */
static json_t *names_of(json_t *weights)
{
    json_t *out = json_array(), *v;
    const char *name;

    json_object_foreach(weights, name, v)
    {
        json_array_append_new(out, json_string(name));
    }
    return out;
}

/* Of one dataset; NULL: the view need not name it. Gives. */
static json_t *entry_json(const struct dataset_entry *e, const struct job_use *use)
{
    json_t *weights = e->nodes == NULL ? json_object_get(e->spread, "weights") : NULL;

    if (e->nodes == NULL && weights == NULL && use->keepers == 0 && use->runs == 0)
        return NULL;
    return json_pack("{s:s, s:o*, s:o*, s:i, s:I}", "id", e->id, "nodes",
                     weights != NULL ? names_of(weights) : json_deep_copy(e->nodes), "weights",
                     json_deep_copy(weights), "readers", (int)use->keepers, "runs",
                     (json_int_t)use->runs);
}

/* What is moved goes on; what fails the next view tries again. */
static void move_on(struct tables *t, struct dataset_entry *const *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct dlc_err why = DLC_ERR_INIT;

        if (all[i]->moving)
            dataset_move_continue(t, all[i]->id, NULL, &why);
    }
}

/* Those that are placed on some nodes only or have readers. NULL and *err on failure. Gives. */
static json_t *datasets_view(struct tables *t, struct dlc_err *err)
{
    struct dataset_entry **all = NULL;
    struct orphans_search lost;
    struct job *jobs;
    size_t n = 0, n_jobs;
    json_t *out;

    if (datasets_index_get(t, &all, &n, err) < 0)
        return NULL;
    out = json_array();
    jobs = jobs_copy(t, &n_jobs);
    orphans_begin(t, &lost);
    for (size_t i = 0; i < n; i++) {
        struct job_use use = jobs_of_dataset(jobs, n_jobs, all[i]->id);
        json_t *one = entry_json(all[i], &use);

        orphans_look(t, &lost, all[i]);
        if (one != NULL)
            json_array_append_new(out, one);
    }
    orphans_end(t, &lost, true);
    jobs_copy_release(&jobs, n_jobs);
    move_on(t, all, n);
    for (size_t i = 0; i < n; i++)
        dataset_entry_put(&all[i]);
    mem_free(&all);
    return out;
}

/* ---- jobs ---- */

/* Those that run and keep nothing of what they read. Gives. */
static json_t *jobs_view(struct tables *t)
{
    size_t n;
    struct job *jobs = jobs_copy(t, &n);
    json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        if (jobs[i].state == JOB_RUNNING && !job_keeps(&jobs[i]))
            json_array_append_new(out, json_pack("{s:s, s:s, s:I}", "id", jobs[i].id, "dataset",
                                                 jobs[i].dataset, "part",
                                                 (json_int_t)job_part(&jobs[i])));
    jobs_copy_release(&jobs, n);
    return out;
}

/* ---- the whole ---- */

static int write_version(struct tables *t, uint64_t version, struct dlc_err *err)
{
    struct store_doc d = {(char *)"view", (char *)"", NULL, 0};
    int rc;

    d.body = json_pack("{s:I}", "version", (json_int_t)version);
    rc = store_put(t->store, STORE_MANAGER, &d, STORE_ANY, err);
    json_decref(d.body);
    return rc;
}

struct view_parts {
    json_t *nodes, *datasets, *jobs, *revoked;
};

static bool is_same(const struct view *v, const struct view_parts *p)
{
    return v != NULL && json_equal(json_object_get(v->body, "nodes"), p->nodes) == 1 &&
           json_equal(json_object_get(v->body, "datasets"), p->datasets) == 1 &&
           json_equal(json_object_get(v->body, "jobs"), p->jobs) == 1 &&
           json_equal(json_object_get(v->body, "revoked"), p->revoked) == 1;
}

/* Borrows all. Only the thread makes views, so nothing comes between, and it may look at the
 * present one without the lock. */
static int install(struct tables *t, const struct view_parts *p, struct dlc_err *err)
{
    struct view *old, *now;
    uint64_t version, fence;
    int rc;

    dlc_mtx_lock(&t->mtx);
    old = t->view.current;
    version = t->view.version + 1;
    fence = t->leader.fence;
    dlc_mtx_unlock(&t->mtx);
    if (is_same(old, p))
        return 0;
    rc = write_version(t, version, err);
    if (rc < 0)
        return rc;
    now = view_new(version,
                   json_pack("{s:I, s:I, s:O, s:O, s:O, s:O}", "version", (json_int_t)version,
                             "fence", (json_int_t)fence, "nodes", p->nodes, "datasets", p->datasets,
                             "jobs", p->jobs, "revoked", p->revoked));
    dlc_mtx_lock(&t->mtx);
    t->view.current = now;
    t->view.version = version;
    dlc_mtx_unlock(&t->mtx);
    view_put(&old);
    return 0;
}

void view_tick(struct tables *t)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct node_info *info = NULL;
    struct view_parts p;
    uint64_t asked;
    size_t n;
    bool dirty, made;

    dlc_mtx_lock(&t->mtx);
    dirty = t->view.dirty;
    asked = t->view.asked;
    t->view.dirty = false; /* what changes from here on makes it dirty again */
    dlc_mtx_unlock(&t->mtx);
    if (!dirty)
        return;
    p.datasets = datasets_view(t, &err);
    n = nodes_of_view(t, &info);
    p.nodes = view_nodes(info, n);
    p.jobs = jobs_view(t);
    p.revoked = revocations_view(t);
    made = p.datasets != NULL && install(t, &p, &err) == 0;
    if (!made)
        log_warn("no new view can be made: %s", err.text);
    dlc_mtx_lock(&t->mtx);
    t->view.dirty = t->view.dirty || !made;
    t->view.made = made ? asked : t->view.made;
    dlc_cond_broadcast(&t->view.built);
    dlc_mtx_unlock(&t->mtx);
    json_decref(p.nodes);
    json_decref(p.datasets);
    json_decref(p.jobs);
    json_decref(p.revoked);
    nodes_release(&info, n);
}
