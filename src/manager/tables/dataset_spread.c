// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/dataset_spread.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/tables/capacity.h"
#include "manager/tables/cluster_view.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/dataset_index.h"
#include "manager/tables/documents.h"
#include "manager/tables/event_log.h"
#include "manager/tables/job_table.h"
#include "manager/tables/node_table.h"
#include "manager/tables/spread.h"
#include "manager/tables/tables.h"

#define LEAST_SHARE 1e-4 /* less is rounding */
#define SAME_SHARE  1e-3
#define WORTH       16 /* shares change for room if at least one part of so many would move to it */

/* The cluster as decisions see it. */
struct spread_world {
    struct node_info *nodes;
    size_t n;
    struct job *jobs;
    size_t n_jobs;
};

static void world_get(struct tables *t, struct spread_world *w)
{
    w->n = nodes_list(t, &w->nodes);
    w->jobs = jobs_copy(t, &w->n_jobs);
}

static void world_release(struct spread_world *w)
{
    jobs_copy_release(&w->jobs, w->n_jobs);
    nodes_release(&w->nodes, w->n);
}

static bool keeps(const struct job *j, const char *dataset)
{
    return j->state == JOB_RUNNING && job_keeps(j) && strcmp(j->dataset, dataset) == 0;
}

/* The live nodes that jobs of the dataset read on, by the last heartbeats. Gives. */
static json_t *reading_nodes(const struct spread_world *w, const char *dataset)
{
    json_t *out = json_array();

    for (size_t i = 0; i < w->n; i++) {
        const json_t *jobs = json_object_get(w->nodes[i].figures, "jobs");
        bool reads = false;

        for (size_t k = 0; k < w->n_jobs && w->nodes[i].state == NODE_LIVE; k++)
            reads = reads || (keeps(&w->jobs[k], dataset) &&
                              json_u64_at(json_object_get(jobs, w->jobs[k].id), "readers") > 0);
        if (reads)
            json_array_append_new(out, json_string(w->nodes[i].name));
    }
    return out;
}

/* ---- shares ---- */

/* With the shares that spread (NULL: none) says. Gives. */
static struct spread_node *describe(const struct spread_world *w, const struct dataset_entry *e,
                                    const json_t *homes)
{
    struct spread_node *s = mem_zero((w->n + 1) * sizeof(*s));
    const json_t *weights = json_object_get(e->spread, "weights");
    double sum = 0;

    for (size_t i = 0; i < w->n; i++) {
        const struct node_info *x = &w->nodes[i];

        s[i] = (struct spread_node){
            .live = x->state == NODE_LIVE,
            .home = json_has_text(homes, x->name),
            .weight = (double)DLC_MAX(capacity_space(x), 1u),
            .room = capacity_room(x, w->jobs, w->n_jobs, e->id),
        };
        if (s[i].live)
            s[i].share = weights != NULL ? json_number_value(json_object_get(weights, x->name))
                                         : s[i].weight;
        sum += s[i].share;
    }
    for (size_t i = 0; i < w->n && sum > 0; i++)
        s[i].share /= sum;
    return s;
}

/* Are these the shares that nodes have without a spread? */
static bool is_default(const struct spread_node *s, size_t n)
{
    double sum = 0, most = 0;

    for (size_t i = 0; i < n; i++)
        sum += s[i].live ? s[i].weight : 0;
    for (size_t i = 0; i < n && sum > 0; i++)
        most = DLC_MAX(most, fabs(s[i].share - (s[i].live ? s[i].weight / sum : 0)));
    return most < SAME_SHARE;
}

/* NULL: all nodes by their space. Gives. */
static json_t *spread_json(const struct spread_world *w, const struct spread_node *s,
                           const json_t *homes, uint64_t bytes)
{
    json_t *weights;

    if (is_default(s, w->n))
        return NULL;
    weights = json_object();
    for (size_t i = 0; i < w->n; i++)
        if (s[i].live && s[i].share >= LEAST_SHARE)
            json_object_set_new(weights, w->nodes[i].name, json_real(s[i].share));
    return json_pack("{s:o, s:o, s:I}", "homes",
                     homes != NULL ? json_deep_copy(homes) : json_array(), "weights", weights,
                     "bytes", (json_int_t)bytes);
}

/* ---- the document ---- */

struct spread_change {
    json_t *spread; /* NULL: none */
    bool changed;
};

static int set_spread(struct store_doc *d, void *arg, struct dlc_err *err)
{
    struct spread_change *c = arg;
    json_t *was = json_object_get(d->body, "spread");

    (void)err;
    c->changed = false;
    if (dataset_nodes(d->body) != NULL || json_object_get(d->body, "node_count") != NULL)
        return 1; /* (SPREAD-1) */
    if (c->spread == NULL ? was == NULL : json_equal(was, c->spread) == 1)
        return 1;
    if (c->spread == NULL)
        json_object_del(d->body, "spread");
    else
        json_object_set(d->body, "spread", c->spread);
    c->changed = true;
    return 0;
}

/* spread: taken. why: for the event. */
static bool write_spread(struct tables *t, const char *dataset, json_t *spread, const char *why)
{
    struct spread_change c = {.spread = spread};
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int rc = document_change(t, STORE_DATASET, dataset, STORE_ANY, set_spread, &c, &d, &err);

    if (rc == 0 && c.changed) {
        event_log(t->store, d.tenant, "dataset.spread",
                  json_pack("{s:s, s:s, s:O*}", "dataset", dataset, "why", why, "spread", spread));
        view_changed(t);
    } else if (rc < 0 && rc != DLC_ENOTFOUND) {
        log_warn("dataset %s is not spread otherwise: %s", dataset, err.text);
    }
    store_doc_release(&d);
    json_decref(spread);
    return rc == 0 && c.changed;
}

static bool is_ours(const struct dataset_entry *e)
{
    return e != NULL && e->nodes == NULL && e->count == 0;
}

/* ---- ranks arrive ---- */

static bool is_live(const struct spread_world *w, const char *node)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->nodes[i].name, node) == 0)
            return w->nodes[i].state == NODE_LIVE;
    return false;
}

void spread_reader(struct tables *t, const char *dataset, const char *node)
{
    struct dataset_entry *e = datasets_index_find(t, dataset);
    struct spread_world w;
    struct spread_node *s;
    json_t *homes;

    if (is_ours(e) && !json_has_text(json_object_get(e->spread, "homes"), node)) {
        world_get(t, &w);
        homes = reading_nodes(&w, dataset);
        if (!json_has_text(homes, node))
            json_array_append_new(homes, json_string(node));
        if (is_live(&w, node)) {
            s = describe(&w, e, homes);
            spread_compute(s, w.n, e->bytes);
            if (write_spread(t, dataset, spread_json(&w, s, homes, e->bytes),
                             "a job reads it there"))
                view_wait(t);
            mem_free(&s);
        }
        json_decref(homes);
        world_release(&w);
    }
    dataset_entry_put(&e);
}

/* ---- the tick ---- */

/* Since when it has been so; 0: it is not. True: for as long as `after`. */
static bool is_due(json_t *due, const char *what, bool so, struct dlc_mono now,
                   struct dlc_dur after)
{
    json_int_t since = json_integer_value(json_object_get(due, what));

    if (!so || since == 0)
        json_object_set_new(due, what, json_integer(so ? now.ns : 0));
    return so && since != 0 && now.ns - since >= after.ns;
}

/* Do its jobs read on some of its homes only? */
static bool reads_on_fewer(const json_t *reads, const json_t *homes)
{
    if (json_array_size(reads) == 0 || json_array_size(reads) >= json_array_size(homes))
        return false;
    for (size_t i = 0; i < json_array_size(reads); i++)
        if (!json_has_text(homes, json_string_value(json_array_get(reads, i))))
            return false;
    return true;
}

static json_t *due_of(struct tables *t, const char *dataset, const json_t *reads)
{
    json_t *due = json_object_get(t->spreads.due, dataset);

    if (due == NULL || json_equal(json_object_get(due, "homes"), reads) != 1) {
        json_int_t room = json_integer_value(json_object_get(due, "room_ns"));

        due = json_pack("{s:O, s:I, s:I}", "homes", reads, "fewer_ns", (json_int_t)0, "room_ns",
                        room);
        json_object_set_new(t->spreads.due, dataset, due);
    }
    return due;
}

static void spread_look(struct tables *t, const struct spread_world *w,
                        const struct dataset_entry *e, struct dlc_mono now)
{
    json_t *homes = json_object_get(e->spread, "homes"), *reads = reading_nodes(w, e->id);
    json_t *due = due_of(t, e->id, reads);
    bool fewer = is_due(due, "fewer_ns", reads_on_fewer(reads, homes), now, SPREAD_SETTLE), room;
    bool listed = e->spread != NULL && json_u64_at(e->spread, "bytes") == 0 && e->bytes > 0;
    const json_t *to = fewer ? reads : homes;
    struct spread_node *s = describe(w, e, to);
    uint64_t before = spread_excess(s, w->n, e->bytes), after;

    spread_compute(s, w->n, e->bytes);
    after = spread_excess(s, w->n, e->bytes);
    room = t->spreads.interval.ns > 0 && before > after && before - after > e->bytes / WORTH;
    room = is_due(due, "room_ns", room, now, t->spreads.interval) &&
           (t->spreads.changed.ns == 0 ||
            now.ns - t->spreads.changed.ns >= t->spreads.interval.ns); /* (SPREAD-3) */
    if (room)
        t->spreads.changed = now;
    if (fewer || room || listed) {
        write_spread(t, e->id, spread_json(w, s, to, e->bytes),
                     fewer  ? "its jobs read on fewer nodes"
                     : room ? "its nodes have no room for it"
                            : "its size is known");
        json_object_del(t->spreads.due, e->id);
    }
    mem_free(&s);
    json_decref(reads);
}

void spreads_tick(struct tables *t, struct dlc_mono now)
{
    struct spread_world w;

    if (t->spreads.due == NULL)
        t->spreads.due = json_object();
    world_get(t, &w);
    for (size_t i = 0; i < w.n_jobs; i++) {
        struct dataset_entry *e = NULL;
        bool seen = !keeps(&w.jobs[i], w.jobs[i].dataset);

        for (size_t k = 0; k < i && !seen; k++)
            seen = keeps(&w.jobs[k], w.jobs[i].dataset);
        if (!seen)
            e = datasets_index_find(t, w.jobs[i].dataset);
        if (is_ours(e))
            spread_look(t, &w, e, now);
        dataset_entry_put(&e);
    }
    if (w.n_jobs == 0)
        json_object_clear(t->spreads.due);
    world_release(&w);
}
