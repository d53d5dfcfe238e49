// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/dataset_move.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "manager/tables/cluster_view.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/documents.h"
#include "manager/tables/event_log.h"
#include "manager/tables/job_table.h"
#include "manager/tables/node_commands.h"
#include "manager/tables/node_table.h"
#include "manager/tables/tables.h"

static json_t *names_without(const json_t *names, const json_t *without)
{
    json_t *out = json_array();

    for (size_t i = 0; i < json_array_size(names); i++)
        if (!json_has_text(without, json_string_value(json_array_get(names, i))))
            json_array_append(out, json_array_get(names, i));
    return out;
}

static int set_moving(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct move_request *m = arg;
    bool all = json_array_size(m->nodes) == 0;
    const json_t *from = dataset_nodes(d->body), *to = all ? m->everyone : m->nodes;
    json_t *leaving;

    if (!dataset_is(d, m->seen))
        return dlc_err_set(err, DLC_ENOTFOUND, "there is no dataset %s", d->id);
    leaving = names_without(from != NULL ? from : m->everyone, to);
    if (all)
        json_object_del(d->body, "nodes");
    else
        json_object_set(d->body, "nodes", (json_t *)m->nodes);
    if (m->count > 0)
        json_object_set_new(d->body, "node_count", json_integer((json_int_t)m->count));
    else
        json_object_del(d->body, "node_count");
    json_object_del(d->body, "moving");
    json_object_del(d->body, "spread");
    if (json_array_size(leaving) > 0)
        json_object_set_new(d->body, "moving",
                            json_pack("{s:o, s:O}", "waiting",
                                      m->warm ? json_deep_copy(to) : json_array(), "leaving",
                                      leaving));
    json_decref(leaving);
    return 0;
}

/* `node` (NULL: none) has fetched its part. Leave the others when nobody is waited for any more. */
struct move_arrival {
    const char *node;
    const json_t *there;
    json_t *leaving; /* out */
};

static int set_arrived(struct store_doc *d, void *arg, struct dlc_err *err)
{
    struct move_arrival *a = arg;
    json_t *m = json_object_get(d->body, "moving"), *waiting = json_object_get(m, "waiting");
    size_t before = json_array_size(waiting);

    (void)err;
    if (m == NULL)
        return 1;
    for (size_t i = before; i-- > 0;) {
        const char *name = json_string_value(json_array_get(waiting, i));

        if ((a->node != NULL && strcmp(name, a->node) == 0) || !json_has_text(a->there, name))
            json_array_remove(waiting, i);
    }
    if (json_array_size(waiting) > 0)
        return json_array_size(waiting) == before;
    json_decref(a->leaving);
    a->leaving = json_deep_copy(json_object_get(m, "leaving"));
    json_object_del(d->body, "moving");
    return 0;
}

int dataset_move_continue(struct tables *t, const char *name, const char *node, struct dlc_err *err)
{
    json_t *there = nodes_present(t, NULL);
    struct move_arrival a = {.node = node, .there = there};
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(t->store, STORE_DATASET, name, &d, err);

    if (rc == 0)
        set_arrived(&d, &a, err);     /* not written: who is left when it is over? */
    if (rc == 0 && a.leaving != NULL) /* before the move is over: one that dies here goes on */
        rc = command_send_all(t, a.leaving, dataset_command(&d, "evict", "all"), err);
    store_doc_release(&d);
    if (rc == 0)
        rc = document_change(t, STORE_DATASET, name, STORE_ANY, set_arrived, &a, &d, err);
    if (rc == 0 && a.leaving != NULL) {
        event_log(t->store, d.tenant, "dataset.moved",
                  json_pack("{s:s, s:O*}", "dataset", name, "nodes", dataset_nodes(d.body)));
    }
    if (rc < 0 && rc != DLC_ENOTFOUND)
        log_warn("dataset %s: its move does not go on: %s", name, err->text);
    json_decref(a.leaving);
    json_decref(there);
    store_doc_release(&d);
    return rc;
}

static bool is_cached(struct tables *t, const char *name)
{
    struct store_sum sum;
    size_t n = 0;

    return store_chunks_sums(t->store, name, &sum, 1, &n, NULL) == 0 && n > 0 && sum.bytes > 0;
}

int dataset_move_begin(struct tables *t, struct move_request *m, uint64_t expect,
                       struct store_doc *out, struct dlc_err *err)
{
    const struct store_doc *d = m->seen;
    int rc;

    m->warm = is_cached(t, d->id);
    rc = document_change(t, STORE_DATASET, d->id, expect, set_moving, m, out, err);
    if (rc < 0)
        return rc;
    jobs_dataset_changed(t, d->id, out->body);
    view_changed(t);
    event_log(t->store, d->tenant, "dataset.moving",
              json_pack("{s:s, s:O*}", "dataset", d->id, "nodes", dataset_nodes(out->body)));
    view_wait(t); /* nodes warm what they own by it */
    if (m->warm)
        rc = command_send_all(t, dataset_nodes(out->body), dataset_command(d, "warm", "disk"), err);
    return rc < 0 ? rc : dataset_move_continue(t, d->id, NULL, err);
}
