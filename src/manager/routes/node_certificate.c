// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/node_certificate.h"

#include <string.h>

#include "base/log.h"
#include "manager/routes/api.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/nodes.h"
#include "manager/routes/route_util.h"
#include "manager/tables/authority.h"
#include "manager/tables/node_revocation.h"
#include "manager/tables/node_table.h"

bool node_certificate_add(struct api *api, const char *node, const char *request, json_t *answer,
                          struct http_reply *reply)
{
    struct authority_certificate c;
    struct authority_subject who = {node, 0};
    struct dlc_err err = DLC_ERR_INIT;
    int rc = revocations_generation(api->tables, node, &who.generation, &err);

    memset(&c, 0, sizeof(c));
    if (rc == 0)
        rc = authority_sign(api->tables->store, api->seal, &who, request, api->certificate_life, &c,
                            &err);

    if (rc == DLC_EINVAL) {
        refuse_field(reply, "", "certificate_request", "%s", err.text);
    } else if (rc < 0) {
        log_warn("no certificate for node %s: %s", node, err.text);
        http_problem_err(reply, &err);
    } else {
        json_object_set_new(answer, "certificate",
                            json_pack("{s:s, s:s, s:I}", "chain", c.cert, "authorities",
                                      c.authorities, "life_s",
                                      (json_int_t)(api->certificate_life.ns / DLC_SEC(1).ns)));
        log_info("node %s has a certificate for %.0f s", node,
                 dlc_dur_seconds(api->certificate_life));
    }
    authority_certificate_release(&c);
    return rc == 0;
}

void route_nodes_certificate(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_name(r, 0, "node", reply), *instance = NULL, *request = NULL;
    const struct field fields[] = {
        {"instance", FIELD_TEXT, true, 64, &instance},
        {"certificate_request", FIELD_TEXT, true, AUTHORITY_REQUEST_MAX, &request},
        {NULL},
    };
    struct node_info n;
    json_t *answer;
    bool known;

    if (name == NULL || !read_node_body(r, fields, reply))
        return;
    known = nodes_get(api->tables, name, &n);
    node_info_release(&n);
    if (!known) {
        http_problem(reply, 404, "Not found", "node %s is not known: it joins first", name);
        return;
    }
    if (!nodes_is_holder(api->tables, name, instance)) {
        nodes_refuse_name(api, name, "", reply);
        return;
    }
    answer = json_object();
    if (node_certificate_add(api, name, request, answer, reply))
        reply_doc(reply, 200, answer, 0);
    else
        json_decref(answer);
}

void route_authority_rotate(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const struct field none[] = {{NULL}};
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (!read_body(r, none, reply))
        return;
    rc = authority_rotate(api->tables->store, api->seal, api->certificate_life, &err);
    if (rc == DLC_EBUSY)
        http_problem(reply, 409, "Being replaced", "%s", err.text);
    else if (rc < 0)
        reply_store_error(api, r, reply, &err);
    else
        reply_doc(reply, 200,
                  json_pack("{s:I}", "signs_in_s",
                            (json_int_t)(api->certificate_life.ns / DLC_SEC(1).ns)),
                  0);
}
