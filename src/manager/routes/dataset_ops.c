// SPDX-License-Identifier: Apache-2.0
/*
 * What is done with datasets: listed, warmed, evicted. Each is a command to nodes, answered with
 * 202: the nodes do it when their heart-beats come. Moving is in dataset_move.c.
 */
#include "manager/routes/datasets_i.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/routes/jobs_i.h"

static bool is_there(const struct node_info *n)
{
    return n->state == NODE_LIVE || n->state == NODE_DRAINING;
}

json_t *nodes_there(struct control *c, const json_t *only)
{
    struct node_info *nodes = NULL;
    size_t n = nodes_list(c, &nodes);
    json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        if (is_there(&nodes[i]) && (only == NULL || json_has_text(only, nodes[i].name)))
            json_array_append_new(out, json_string(nodes[i].name));
    nodes_release(&nodes, n);
    return out;
}

static unsigned spread(const char *name)
{
    unsigned h = 2166136261u;

    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

int dataset_have_listed(struct control *c, const struct store_doc *d, char node[NAME_MAX_LEN + 1],
                        struct dlc_err *err)
{
    json_t *nodes = nodes_there(c, dataset_nodes(d->body));
    size_t n = json_array_size(nodes);
    const char *who = n > 0 ? json_string_value(json_array_get(nodes, spread(d->id) % n)) : "";
    int rc = 0;

    if (n > 0)
        rc = command_send(c, who, dataset_command(d, "snapshot", NULL), err);
    if (node != NULL)
        snprintf(node, NAME_MAX_LEN + 1, "%s", who);
    json_decref(nodes);
    return rc;
}

void dataset_list_for_job(struct control *c, const char *name)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    if (store_get(c->store, STORE_DATASET, name, &d, &err) < 0 ||
        dataset_have_listed(c, &d, NULL, &err) < 0)
        log_warn("dataset %s: not listed yet: %s", name, err.text);
    store_doc_release(&d);
}

bool dataset_list_elsewhere(struct control *c, const char *dataset, const char *node)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    char who[NAME_MAX_LEN + 1] = "";
    int rc = store_get(c->store, STORE_DATASET, dataset, &d, &err);

    if (rc == DLC_ENOTFOUND)
        return true; /* nobody needs it any more */
    if (rc == 0)
        rc = dataset_have_listed(c, &d, who, &err);
    if (rc < 0) {
        log_warn("dataset %s: node %s, which should list it, is gone, but: %s", dataset, node,
                 err.text);
    } else if (who[0] != '\0') {
        log_info("dataset %s: %s lists it instead of %s, which is gone", dataset, who, node);
        control_event(c, d.tenant, "dataset.snapshot",
                      json_pack("{s:s, s:[s]}", "dataset", dataset, "nodes", who));
    }
    store_doc_release(&d);
    return rc == 0 && who[0] != '\0';
}

/* ---- the commands of people ---- */

static bool tier_ok(const char *tier, bool all, struct http_reply *reply)
{
    if (strcmp(tier, "memory") == 0 || strcmp(tier, "disk") == 0 ||
        (all && strcmp(tier, "all") == 0))
        return true;
    refuse_field(reply, "", "tier", "must be memory%s", all ? ", disk or all" : " or disk");
    return false;
}

/* Give the command (taken) to nodes (NULL: all), and answer. */
static void give(struct control *c, const struct http_request *r, struct store_doc *d,
                 const json_t *nodes, json_t *command, struct http_reply *reply)
{
    json_t *there = nodes_there(c, nodes);
    struct dlc_err err = DLC_ERR_INIT;
    const char *op = json_string_value(json_object_get(command, "op"));
    char *type = mem_fmt("dataset.%s", op);
    bool evict = strcmp(op, "evict") == 0; /* also those that are away, when they are back */

    if (json_array_size(there) == 0) {
        http_problem(reply, 409, "No node",
                     "no node that dataset %s lies on is there to do it; see /v1/nodes", d->id);
        json_decref(command);
    } else if (command_send_all(c, evict ? NULL : there, command, &err) < 0) {
        reply_store_error(c, r, reply, &err);
    } else {
        control_event(c, d->tenant, type,
                      json_pack("{s:s, s:O}", "dataset", d->id, "nodes", there));
        reply_doc(reply, 202, json_pack("{s:s, s:O}", "dataset", d->id, "nodes", there), 0);
    }
    mem_free(&type);
    json_decref(there);
}

void dataset_do_snapshot(struct http_request *r, struct http_reply *reply, void *ctx)
{
    const struct field fields[] = {{NULL, 0, false, 0, NULL}};
    struct control *c = control_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    char who[NAME_MAX_LEN + 1] = "";

    if (!dataset_read(c, r, &d, reply))
        return;
    if (!read_body(r, fields, reply)) {
        ;
    } else if (dataset_have_listed(c, &d, who, &err) < 0) {
        reply_store_error(c, r, reply, &err);
    } else if (who[0] == '\0') {
        http_problem(reply, 409, "No node",
                     "no node that dataset %s lies on is there to list it; see /v1/nodes", d.id);
    } else {
        json_t *answer = json_pack("{s:s, s:[s]}", "dataset", d.id, "nodes", who);

        control_event(c, d.tenant, "dataset.snapshot", json_copy(answer));
        reply_doc(reply, 202, answer, 0);
    }
    store_doc_release(&d);
}

void dataset_do_warm(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    const char *split = NULL, *tier = "memory";
    json_t *one = NULL, *command;
    uint64_t bytes;
    const struct field fields[] = {
        {"split", FIELD_TEXT, false, SPLIT_MAX_LEN, &split},
        {"tier", FIELD_TEXT, false, 0, &tier},
        {NULL, 0, false, 0, NULL},
    };

    if (!dataset_read(c, r, &d, reply))
        return;
    if (!read_body(r, fields, reply) || !tier_ok(tier, false, reply))
        goto out;
    one = json_pack("[s*]", split);
    if (dataset_snapshot(d.body) != NULL &&
        !snapshot_bytes(dataset_snapshot(d.body), one, &bytes)) {
        refuse_field(reply, "", "split", "dataset %s has no split %s", d.id, split);
        goto out;
    }
    if (dataset_place(c, d.id, 0, &err) < 0) {
        reply_store_error(c, r, reply, &err);
        goto out;
    }
    store_doc_release(&d);
    if (!dataset_read(c, r, &d, reply)) /* it may lie elsewhere now */
        goto out;
    view_wait(c); /* nodes warm what they own by it */
    command = dataset_command(&d, "warm", tier);
    if (split != NULL)
        json_object_set_new(command, "split", json_string(split));
    give(c, r, &d, dataset_nodes(d.body), command, reply);
out:
    json_decref(one);
    store_doc_release(&d);
}

void dataset_do_evict(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    const char *tier = "all";
    bool force = false;
    size_t n;
    const struct field fields[] = {
        {"tier", FIELD_TEXT, false, 0, &tier},
        {"force", FIELD_BOOL, false, 0, &force},
        {NULL, 0, false, 0, NULL},
    };

    if (!dataset_read(c, r, &d, reply))
        return;
    if (!read_body(r, fields, reply) || !tier_ok(tier, true, reply))
        goto out;
    n = jobs_count(c, d.id);
    if (n > 0 && !force)
        http_problem(reply, 409, "In use",
                     "%zu jobs run or wait on dataset %s; end them first, or say \"force\": true",
                     n, d.id);
    else
        give(c, r, &d, NULL, dataset_command(&d, "evict", tier), reply);
out:
    store_doc_release(&d);
}

/* ---- what nodes say ---- */

struct listing_result {
    const json_t *command;
    json_t *snapshot; /* NULL: it failed */
    const char *error;
};

static int set_listed(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct listing_result *l = arg;
    json_t *why;

    if (!dataset_commanded(d, l->command))
        return dlc_err_set(err, DLC_ENOTFOUND, "dataset %s is another tenant's", d->id);
    if (l->snapshot != NULL) {
        json_object_set(d->body, "snapshot", l->snapshot);
        json_object_del(d->body, "error");
    } else {
        why = json_stringn(l->error, strnlen(l->error, 500)); /* NULL: cut in mid-character */
        json_object_set_new(d->body, "error", why != NULL ? why : json_string("it was not said"));
    }
    return 0;
}

static int on_listed(struct control *c, const char *node, const char *name, const json_t *command,
                     const json_t *result, const char *error, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    struct listing_result l = {.command = command, .error = error};
    int rc;

    if (error == NULL) {
        l.snapshot = snapshot_of_result(result);
        l.error = "the node's answer could not be read";
    }
    rc = control_change(c, STORE_DATASET, name, STORE_ANY, set_listed, &l, &d, err);
    if (rc == 0) {
        jobs_dataset_changed(c, name, d.body);
        control_event(c, d.tenant, l.snapshot != NULL ? "dataset.listed" : "dataset.failed",
                      json_pack("{s:s, s:s, s:s*}", "dataset", name, "node", node, "error",
                                l.snapshot != NULL ? NULL : l.error));
    }
    json_decref(l.snapshot);
    store_doc_release(&d);
    return rc == DLC_ENOTFOUND ? 0 : rc; /* it was deleted meanwhile */
}

int dataset_command_done(struct control *c, const char *node, const json_t *command,
                         const json_t *result, const char *error, struct dlc_err *err)
{
    const char *op = json_string_value(json_object_get(command, "op"));
    const char *name = json_string_value(json_object_get(command, "dataset"));
    struct store_doc d = STORE_DOC_INIT;
    char *type;
    int rc;

    if (op == NULL || name == NULL)
        return 0;
    if (strcmp(op, "snapshot") == 0)
        return on_listed(c, node, name, command, result, error, err);
    rc = store_get(c->store, STORE_DATASET, name, &d, err);
    if (rc == 0 && dataset_commanded(&d, command)) {
        type = mem_fmt("dataset.%s.%s", op, error != NULL ? "failed" : "done");
        control_event(c, d.tenant, type,
                      json_pack("{s:s, s:s, s:s*}", "dataset", name, "node", node, "error", error));
        mem_free(&type);
        if (strcmp(op, "warm") == 0 && json_object_get(d.body, "moving") != NULL)
            rc = dataset_move_continue(c, name, node, err);
    }
    store_doc_release(&d);
    return rc == DLC_ENOTFOUND ? 0 : rc;
}

/* ---- for the view ---- */

/* Of one dataset; NULL: the view need not name it. Gives. */
static json_t *entry_json(const struct dataset_entry *e, const struct job_use *use)
{
    if (e->nodes == NULL && use->keepers == 0 && use->runs == 0)
        return NULL;
    return json_pack("{s:s, s:o*, s:i, s:I}", "id", e->id, "nodes", json_deep_copy(e->nodes),
                     "readers", (int)use->keepers, "runs", (json_int_t)use->runs);
}

/* What is moved goes on; what fails the next view tries again. */
static void move_on(struct control *c, struct dataset_entry *const *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct dlc_err why = DLC_ERR_INIT;

        if (all[i]->moving)
            dataset_move_continue(c, all[i]->id, NULL, &why);
    }
}

json_t *datasets_view(struct control *c, struct dlc_err *err)
{
    struct dataset_entry **all = NULL;
    struct orphans_search lost;
    struct job *jobs;
    size_t n = 0, n_jobs;
    json_t *out;

    if (datasets_index_get(c, &all, &n, err) < 0)
        return NULL;
    out = json_array();
    jobs = jobs_copy(c, &n_jobs);
    orphans_begin(c, &lost);
    for (size_t i = 0; i < n; i++) {
        struct job_use use = jobs_of_dataset(jobs, n_jobs, all[i]->id);
        json_t *one = entry_json(all[i], &use);

        orphans_look(c, &lost, all[i]);
        if (one != NULL)
            json_array_append_new(out, one);
    }
    orphans_end(c, &lost, true);
    jobs_copy_release(&jobs, n_jobs);
    move_on(c, all, n);
    for (size_t i = 0; i < n; i++)
        dataset_entry_put(&all[i]);
    mem_free(&all);
    return out;
}
