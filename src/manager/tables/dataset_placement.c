// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/dataset_placement.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "manager/tables/capacity.h"
#include "manager/tables/cluster_view.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/documents.h"
#include "manager/tables/event_log.h"
#include "manager/tables/job_table.h"
#include "manager/tables/node_table.h"
#include "manager/tables/tables.h"

json_t *dataset_choose(struct tables *t, const char *name, const json_t *body, unsigned gpus,
                       unsigned count)
{
    struct place_ask ask = {.gpus = gpus, .nodes = count};
    struct node_info *nodes = NULL;
    size_t n = nodes_list(t, &nodes), n_jobs;
    struct job *jobs = jobs_copy(t, &n_jobs);
    json_t *chosen, *names = NULL;

    if (dataset_snapshot(body) != NULL)
        snapshot_bytes(dataset_snapshot(body), NULL, &ask.bytes);
    chosen = capacity_place(nodes, n, jobs, n_jobs, name, NULL, &ask);
    if (chosen != NULL)
        names = json_array();
    for (size_t i = 0; i < json_array_size(chosen); i++)
        json_array_append(names, json_object_get(json_array_get(chosen, i), "node"));
    json_decref(chosen);
    jobs_copy_release(&jobs, n_jobs);
    nodes_release(&nodes, n);
    return names;
}

static unsigned count_of(const json_t *body)
{
    return (unsigned)json_integer_value(json_object_get(body, "node_count"));
}

struct placement_change {
    const json_t *was; /* where it lay when we looked; NULL: nowhere yet */
    json_t *names;     /* where it goes; NULL: on all, until enough of them hold it */
};

static int set_nodes(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct placement_change *p = arg;
    const json_t *is = dataset_nodes(d->body);
    bool same = is == NULL || p->was == NULL ? is == p->was : json_equal(is, p->was) == 1;

    (void)err;
    if (!same || count_of(d->body) == 0)
        return 1; /* somebody was faster */
    if (p->names != NULL)
        json_object_set(d->body, "nodes", p->names);
    else
        json_object_del(d->body, "nodes");
    json_object_del(d->body, "moving");
    return 0;
}

static int write_nodes(struct tables *t, const char *name, struct placement_change *p,
                       struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = document_change(t, STORE_DATASET, name, STORE_ANY, set_nodes, p, &d, err);

    if (rc == 0) {
        jobs_dataset_changed(t, name, d.body);
        event_log(t->store, d.tenant, "dataset.placed",
                  json_pack("{s:s, s:O*}", "dataset", name, "nodes", dataset_nodes(d.body)));
        view_changed(t);
    }
    store_doc_release(&d);
    return rc;
}

int dataset_place(struct tables *t, const char *name, unsigned gpus, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    struct placement_change p = {0};
    int rc = store_get(t->store, STORE_DATASET, name, &d, err);

    if (rc < 0 || count_of(d.body) == 0 || dataset_nodes(d.body) != NULL)
        goto out;
    p.names = dataset_choose(t, name, d.body, gpus, count_of(d.body));
    if (p.names != NULL) /* else on all, until they can */
        rc = write_nodes(t, name, &p, err);
    json_decref(p.names);
out:
    store_doc_release(&d);
    return rc;
}

/* ---- all of them are gone ---- */

void orphans_begin(struct tables *t, struct orphans_search *s)
{
    struct node_info *nodes = NULL;
    size_t n = nodes_list(t, &nodes);

    *s = (struct orphans_search){json_object(), json_array()};
    for (size_t i = 0; i < n; i++)
        if (nodes[i].state != NODE_GONE) /* one that joins again is there */
            json_array_append_new(s->known, json_string(nodes[i].name));
    nodes_release(&nodes, n);
}

static bool none_of(const json_t *names, const json_t *known)
{
    for (size_t i = 0; i < json_array_size(names); i++)
        if (json_has_text(known, json_string_value(json_array_get(names, i))))
            return false;
    return true;
}

void orphans_look(struct tables *t, struct orphans_search *s, const struct dataset_entry *e)
{
    json_t *since = json_object_get(t->placement.orphans, e->id);

    if (e->count == 0 || e->nodes == NULL || !none_of(e->nodes, s->known))
        return;
    json_object_set_new(s->found, e->id,
                        since != NULL ? json_incref(since) : json_integer(dlc_mono_now().ns));
}

/* Not whole: not all were looked at, so what was known before stays. */
void orphans_end(struct tables *t, struct orphans_search *s, bool whole)
{
    if (whole) {
        json_decref(t->placement.orphans);
        t->placement.orphans = json_incref(s->found);
    }
    json_decref(s->found);
    json_decref(s->known);
}

static int place_again(struct tables *t, const char *name, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    struct orphans_search s;
    struct placement_change p = {0};
    int rc = store_get(t->store, STORE_DATASET, name, &d, err);

    orphans_begin(t, &s);
    p.was = dataset_nodes(d.body);
    if (rc == 0 && count_of(d.body) > 0 && p.was != NULL && none_of(p.was, s.known)) {
        p.names = dataset_choose(t, name, d.body, 0, count_of(d.body));
        log_warn("dataset %s: none of the nodes it lay on is there any more; %s", name,
                 p.names != NULL ? "others take it" : "it lies on all until others can hold it");
        rc = write_nodes(t, name, &p, err);
    }
    json_decref(p.names);
    orphans_end(t, &s, false);
    store_doc_release(&d);
    return rc == DLC_ENOTFOUND ? 0 : rc;
}

void datasets_tick(struct tables *t, struct dlc_mono now)
{
    struct dlc_err err = DLC_ERR_INIT;
    const char *name;
    json_t *since;
    void *next;

    json_object_foreach_safe(t->placement.orphans, next, name, since)
    {
        if (now.ns - json_integer_value(since) <= t->node_ttl.ns)
            continue;
        if (place_again(t, name, &err) == 0)
            json_object_del(t->placement.orphans, name);
        else
            log_warn("dataset %s is not placed again: %s", name, err.text);
    }
}
