// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/node_revoke.h"

#include "base/log.h"
#include "manager/routes/api.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/nodes.h"
#include "manager/routes/route_util.h"
#include "manager/routes/tickets.h"
#include "manager/tables/event_log.h"
#include "manager/tables/node_revocation.h"

bool node_revoke_allows_join(struct api *api, const struct http_request *r, const char *node,
                             struct http_reply *reply)
{
    const struct caller *who = caller_of(r);

    bool by_hand = who->node[0] != '\0' && (!who->joins || who->token_id[0] != '\0');

    if (who->role != ROLE_NODE || by_hand || !revocations_bar(api->tables, node))
        return true;
    http_problem(
        reply, 403, "Revoked",
        "node %s was revoked, so neither the token that all nodes share nor that of a service "
        "account opens its name; an "
        "admin lets it join with a token of its own (`dlcache node join-token %s`), or "
        "allows the name again (`dlcache node unrevoke %s`)",
        node, node, node);
    return false;
}

void route_nodes_revoke(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_name(r, 0, "node", reply);
    bool revoke = true;
    const struct field fields[] = {{"revoke", FIELD_BOOL, true, 0, &revoke}, {NULL}};
    const struct issued_life life = {api->certificate_life, ticket_life(api)};
    struct dlc_err err = DLC_ERR_INIT;
    uint32_t generation = 0;
    int rc;

    if (name == NULL || !read_body(r, fields, reply))
        return;
    rc = revoke ? revocations_add(api->tables, name, &life, &err)
                : revocations_lift(api->tables, name, &err);
    if (rc == 0 && revoke)
        rc = nodes_remove(api, name, STORE_ANY, &err);
    if (rc == 0)
        rc = revocations_generation(api->tables, name, &generation, &err);
    if (rc < 0) {
        reply_store_error(api, r, reply, &err);
        return;
    }
    log_info("node %s: %s", name, revoke ? "its access is revoked" : "it may join again");
    event_log(api->tables->store, "", "node.revoke",
              json_pack("{s:s, s:b}", "name", name, "revoke", revoke));
    reply_doc(reply, 200,
              json_pack("{s:s, s:b, s:I}", "name", name, "revoked",
                        revocations_bar(api->tables, name), "generation", (json_int_t)generation),
              0);
}
