// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/dataset_ops.h"

#include <string.h>

#include "base/mem.h"
#include "manager/routes/api.h"
#include "manager/routes/dataset_names.h"
#include "manager/routes/datasets.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/tables/cluster_view.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/dataset_listing.h"
#include "manager/tables/dataset_placement.h"
#include "manager/tables/event_log.h"
#include "manager/tables/job_table.h"
#include "manager/tables/node_commands.h"
#include "manager/tables/node_table.h"

static bool tier_ok(const char *tier, bool all, struct http_reply *reply)
{
    if (strcmp(tier, "memory") == 0 || strcmp(tier, "disk") == 0 ||
        (all && strcmp(tier, "all") == 0))
        return true;
    refuse_field(reply, "", "tier", "must be memory%s", all ? ", disk or all" : " or disk");
    return false;
}

/* Give the command (taken) to nodes (NULL: all), and answer. */
static void send_and_reply(struct api *api, const struct http_request *r, struct store_doc *d,
                           const json_t *nodes, json_t *command, struct http_reply *reply)
{
    json_t *there = nodes_present(api->tables, nodes);
    struct dlc_err err = DLC_ERR_INIT;
    const char *op = json_string_value(json_object_get(command, "op"));
    char *type = mem_fmt("dataset.%s", op);
    bool evict = strcmp(op, "evict") == 0; /* also those that are away, when they are back */

    if (json_array_size(there) == 0) {
        http_problem(reply, 409, "No node",
                     "no node that dataset %s lies on is there to do it; see `dlcache node ls`",
                     dataset_doc_name(d));
        json_decref(command);
    } else if (command_send_all(api->tables, evict ? NULL : there, command, &err) < 0) {
        reply_store_error(api, r, reply, &err);
    } else {
        event_log(api->tables->store, d->tenant, type,
                  json_pack("{s:s, s:O}", "dataset", d->id, "nodes", there));
        reply_doc(reply, 202, json_pack("{s:s, s:O}", "dataset", d->id, "nodes", there), 0);
        names_show(api, caller_of(r), reply->body, "dataset");
    }
    mem_free(&type);
    json_decref(there);
}

void route_dataset_snapshot(struct http_request *r, struct http_reply *reply, void *ctx)
{
    const struct field fields[] = {{NULL, 0, false, 0, NULL}};
    struct api *api = api_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    char who[NAME_MAX_LEN + 1] = "";

    if (!dataset_read(api, r, &d, reply))
        return;
    if (!read_body(r, fields, reply)) {
        ;
    } else if (dataset_have_listed(api->tables, &d, who, &err) < 0) {
        reply_store_error(api, r, reply, &err);
    } else if (who[0] == '\0') {
        http_problem(reply, 409, "No node",
                     "no node that dataset %s lies on is there to list it; see `dlcache node ls`",
                     dataset_doc_name(&d));
    } else {
        json_t *answer = json_pack("{s:s, s:[s]}", "dataset", d.id, "nodes", who);

        event_log(api->tables->store, d.tenant, "dataset.snapshot", json_copy(answer));
        names_show(api, caller_of(r), answer, "dataset");
        reply_doc(reply, 202, answer, 0);
    }
    store_doc_release(&d);
}

void route_dataset_warm(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
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

    if (!dataset_read(api, r, &d, reply))
        return;
    if (!read_body(r, fields, reply) || !tier_ok(tier, false, reply))
        goto out;
    one = json_pack("[s*]", split);
    if (dataset_snapshot(d.body) != NULL &&
        !snapshot_bytes(dataset_snapshot(d.body), one, &bytes)) {
        refuse_field(reply, "", "split", "dataset %s has no split %s", dataset_doc_name(&d), split);
        goto out;
    }
    if (dataset_place(api->tables, d.id, 0, &err) < 0) {
        reply_store_error(api, r, reply, &err);
        goto out;
    }
    store_doc_release(&d);
    if (!dataset_read(api, r, &d, reply)) /* it may lie elsewhere now */
        goto out;
    view_wait(api->tables); /* nodes warm what they own by it */
    command = dataset_command(&d, "warm", tier);
    if (split != NULL)
        json_object_set_new(command, "split", json_string(split));
    send_and_reply(api, r, &d, dataset_nodes(d.body), command, reply);
out:
    json_decref(one);
    store_doc_release(&d);
}

void route_dataset_evict(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    const char *tier = "all";
    bool force = false;
    size_t n;
    const struct field fields[] = {
        {"tier", FIELD_TEXT, false, 0, &tier},
        {"force", FIELD_BOOL, false, 0, &force},
        {NULL, 0, false, 0, NULL},
    };

    if (!dataset_read(api, r, &d, reply))
        return;
    if (!read_body(r, fields, reply) || !tier_ok(tier, true, reply))
        goto out;
    n = jobs_count(api->tables, d.id);
    if (n > 0 && !force)
        http_problem(reply, 409, "In use",
                     "%zu jobs run or wait on dataset %s; end them first, or force it (--force)", n,
                     dataset_doc_name(&d));
    else
        send_and_reply(api, r, &d, NULL, dataset_command(&d, "evict", tier), reply);
out:
    store_doc_release(&d);
}
