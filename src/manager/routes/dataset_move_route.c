// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/dataset_move_route.h"

#include <string.h>

#include "manager/routes/api.h"
#include "manager/routes/dataset_names.h"
#include "manager/routes/datasets.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/dataset_move.h"
#include "manager/tables/dataset_placement.h"
#include "manager/tables/node_table.h"

static bool read_move(struct api *api, const struct http_request *r, struct move_request *m,
                      struct http_reply *reply)
{
    const struct field fields[] = {
        {"nodes", FIELD_NAMES, false, 0, &m->nodes},
        {"node_count", FIELD_U64, false, 1000, &m->count},
        {NULL, 0, false, 0, NULL},
    };

    if (!read_body(r, fields, reply) || !nodes_known(api, m->nodes, "nodes", reply))
        return false;
    if (json_object_get(r->body, "node_count") != NULL && m->count == 0) {
        refuse_field(reply, "", "node_count", "must be 1 at least");
        return false;
    }
    if ((m->nodes == NULL) == (m->count == 0)) {
        refuse_field(reply, "", "nodes",
                     "give \"nodes\" (names; [] for all nodes) or \"node_count\" (how many)");
        return false;
    }
    return true;
}

static void move(struct api *api, const struct http_request *r, struct move_request *m,
                 uint64_t expect, struct http_reply *reply)
{
    struct store_doc now = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    if (dataset_move_begin(api->tables, m, expect, &now, &err) < 0) {
        reply_store_error(api, r, reply, &err);
    } else {
        reply_doc(reply, 202, dataset_json(&now), 0);
        names_show(api, caller_of(r), reply->body, "name");
    }
    store_doc_release(&now);
}

void route_dataset_move(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    struct move_request m = {0};
    json_t *chosen = NULL, *there = NULL;
    uint64_t expect;

    if (!read_if_match(r, &expect, reply) || !dataset_read(api, r, &d, reply))
        return;
    if (!read_move(api, r, &m, reply))
        goto out;
    m.everyone = there = nodes_present(api->tables, NULL);
    m.seen = &d;
    if (m.count > 0)
        m.nodes = chosen = dataset_choose(api->tables, d.id, d.body, 0, (unsigned)m.count);
    if (m.nodes == NULL)
        http_problem(reply, 507, "No room", "%llu nodes cannot hold dataset %s",
                     (unsigned long long)m.count, dataset_doc_name(&d));
    else
        move(api, r, &m, expect, reply);
out:
    json_decref(chosen);
    json_decref(there);
    store_doc_release(&d);
}
