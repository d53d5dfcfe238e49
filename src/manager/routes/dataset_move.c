// SPDX-License-Identifier: Apache-2.0
/*
 * A move takes effect at once: the view names the new nodes. Those are told to fetch what they own
 * now; when the last of them is done (or gone) the nodes that were left are told to forget theirs.
 */
#include "manager/routes/datasets_i.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/routes/jobs_i.h"

struct move_request {
    const json_t *nodes;    /* names; empty: all */
    const json_t *everyone; /* the nodes that are there */
    bool warm;              /* something of it is cached */
    uint64_t count;
    const struct store_doc *seen; /* by the caller, who may move this one */
};

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

int dataset_move_continue(struct control *c, const char *name, const char *node,
                          struct dlc_err *err)
{
    json_t *there = nodes_there(c, NULL);
    struct move_arrival a = {.node = node, .there = there};
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(c->store, STORE_DATASET, name, &d, err);

    if (rc == 0)
        set_arrived(&d, &a, err);     /* not written: who is left when it is over? */
    if (rc == 0 && a.leaving != NULL) /* before the move is over: one that dies here goes on */
        rc = command_send_all(c, a.leaving, dataset_command(&d, "evict", "all"), err);
    store_doc_release(&d);
    if (rc == 0)
        rc = control_change(c, STORE_DATASET, name, STORE_ANY, set_arrived, &a, &d, err);
    if (rc == 0 && a.leaving != NULL) {
        control_event(c, d.tenant, "dataset.moved",
                      json_pack("{s:s, s:O*}", "dataset", name, "nodes", dataset_nodes(d.body)));
    }
    if (rc < 0 && rc != DLC_ENOTFOUND)
        log_warn("dataset %s: its move does not go on: %s", name, err->text);
    json_decref(a.leaving);
    json_decref(there);
    store_doc_release(&d);
    return rc;
}

static bool is_cached(struct control *c, const char *name)
{
    struct store_sum sum;
    size_t n = 0;

    return store_chunks_sums(c->store, name, &sum, 1, &n, NULL) == 0 && n > 0 && sum.bytes > 0;
}

static bool read_move(struct control *c, const struct http_request *r, struct move_request *m,
                      struct http_reply *reply)
{
    const struct field fields[] = {
        {"nodes", FIELD_NAMES, false, 0, &m->nodes},
        {"node_count", FIELD_U64, false, 1000, &m->count},
        {NULL, 0, false, 0, NULL},
    };

    if (!read_body(r, fields, reply) || !nodes_known(c, m->nodes, "nodes", reply))
        return false;
    if (json_object_get(r->body, "node_count") != NULL && m->count == 0) {
        refuse_field(reply, "", "node_count", "must be 1 at least; \"nodes\": [] means all");
        return false;
    }
    if ((m->nodes == NULL) == (m->count == 0)) {
        refuse_field(reply, "", "nodes",
                     "give \"nodes\" (names; [] for all nodes) or \"node_count\" (how many)");
        return false;
    }
    return true;
}

static void move(struct control *c, const struct http_request *r, const struct store_doc *d,
                 struct move_request *m, uint64_t expect, struct http_reply *reply)
{
    struct store_doc now = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *command = dataset_command(d, "warm", "disk");

    m->warm = is_cached(c, d->id);
    if (control_change(c, STORE_DATASET, d->id, expect, set_moving, m, &now, &err) < 0)
        goto out;
    jobs_dataset_changed(c, d->id, now.body);
    view_changed(c);
    control_event(c, d->tenant, "dataset.moving",
                  json_pack("{s:s, s:O*}", "dataset", d->id, "nodes", dataset_nodes(now.body)));
    view_wait(c); /* nodes warm what they own by it */
    if (m->warm && command_send_all(c, dataset_nodes(now.body), json_incref(command), &err) < 0)
        goto out;
    if (dataset_move_continue(c, d->id, NULL, &err) < 0)
        goto out;
    reply_doc(reply, 202, dataset_json(&now), 0);
out:
    if (err.code != 0)
        reply_store_error(c, r, reply, &err);
    json_decref(command);
    store_doc_release(&now);
}

void dataset_do_move(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    struct move_request m = {0};
    json_t *chosen = NULL, *there = NULL;
    uint64_t expect;

    if (!read_if_match(r, &expect, reply) || !dataset_read(c, r, &d, reply))
        return;
    if (!read_move(c, r, &m, reply))
        goto out;
    m.everyone = there = nodes_there(c, NULL);
    m.seen = &d;
    if (m.count > 0)
        m.nodes = chosen = dataset_choose(c, d.id, d.body, 0, (unsigned)m.count);
    if (m.nodes == NULL)
        http_problem(reply, 507, "No room", "%llu nodes cannot hold dataset %s",
                     (unsigned long long)m.count, d.id);
    else
        move(c, r, &d, &m, expect, reply);
out:
    json_decref(chosen);
    json_decref(there);
    store_doc_release(&d);
}
