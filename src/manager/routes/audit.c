// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/audit.h"

#include <string.h>

#include "base/audit_log.h"
#include "base/json.h"
#include "base/mem.h"
#include "manager/routes/api.h"

static const struct {
    const char *method, *pattern, *action;
} actions[] = {
    {"POST", "/v1/tenants", "tenant.create"},
    {"DELETE", "/v1/tenants/{name}", "tenant.delete"},
    {"POST", "/v1/tenants/{name}/token", "token.rotate"},
    {"PUT", "/v1/tenants/{name}/credentials", "credentials.set"},
    {"DELETE", "/v1/tenants/{name}/credentials", "credentials.delete"},
    {"POST", "/v1/datasets", "dataset.create"},
    {"DELETE", "/v1/datasets/{name}", "dataset.delete"},
    {"POST", "/v1/datasets/{name}/snapshot", "dataset.snapshot"},
    {"POST", "/v1/datasets/{name}/warm", "dataset.warm"},
    {"POST", "/v1/datasets/{name}/evict", "dataset.evict"},
    {"POST", "/v1/datasets/{name}/move", "dataset.move"},
    {"POST", "/v1/jobs", "job.create"},
    {"DELETE", "/v1/jobs/{id}", "job.delete"},
    {"PUT", "/v1/nodes/{name}", "node.join"},
    {"DELETE", "/v1/nodes/{name}", "node.leave"},
    {"POST", "/v1/nodes/{name}/drain", "node.drain"},
    {"POST", "/v1/nodes/{name}/rejoin", "node.rejoin"},
    {"POST", "/v1/nodes/{name}/join-token", "node.join-token"},
    {"POST", "/v1/nodes/{name}/revoke", "node.revoke"},
    {"POST", "/v1/nodes/{name}/certificate", "node.certificate"},
    {"POST", "/v1/authority/rotate", "authority.rotate"},
    {"POST", "/v1/keys/rekey", "keys.rekey"},
    {"POST", "/v1/resolve", "dataset.resolve"},
};

/* NULL: not recorded, unless it is refused. */
static const char *action_of(const struct http_route *route, const struct http_reply *reply)
{
    if (strcmp(route->pattern, "/v1/resolve") == 0 &&
        json_is_object(json_object_get(reply->body, "credentials")))
        return "credentials.read";
    for (size_t i = 0; i < DLC_COUNT(actions); i++)
        if (strcmp(actions[i].method, route->method) == 0 &&
            strcmp(actions[i].pattern, route->pattern) == 0)
            return actions[i].action;
    return NULL;
}

/* The first of these members that is a text. */
static const char *first_text(const json_t *o, const char *const *names)
{
    const char *text = NULL;

    for (; text == NULL && *names != NULL; names++)
        text = json_string_value(json_object_get(o, *names));
    return text;
}

/* Gives what the request is about; NULL: not known. A query may hold a signature: it is cut. */
static char *object_of(const struct http_request *r, const struct caller *who,
                       const struct http_reply *reply)
{
    static const char *const made[] = {"dataset", "id", "name", NULL};
    static const char *const asked[] = {"dataset", "name", "url", NULL};
    const char *name = who->object[0] != '\0' ? who->object : r->params[0];

    if (name == NULL && reply->status < 300)
        name = first_text(reply->body, made);
    if (name == NULL)
        name = first_text(r->body, asked);
    return name != NULL ? mem_strn(name, strcspn(name, "?")) : NULL;
}

static enum audit_outcome outcome_of(int status)
{
    if (status == 401 || status == 403)
        return AUDIT_REFUSED;
    return status < 400 ? AUDIT_OK : AUDIT_FAILED;
}

static void fill_actor(struct audit_event *e, const struct http_request *r,
                       const struct caller *who)
{
    e->role = who->role == 0 ? "unknown" : role_name(who->role);
    e->name = who->role == ROLE_TENANT ? who->tenant : NULL;
    /* Nodes share a token. A node that asks for itself was identified by the number of its run. */
    if (who->role == ROLE_NODE && e->outcome == AUDIT_OK)
        e->name = json_string_value(json_object_get(r->body, "node"));
    if (who->role == ROLE_NODE && who->node[0] != '\0')
        e->name = who->node;
    e->by = who->for_tenant ? role_name(ROLE_ADMIN) : NULL;
    e->local = r->uid >= 0;
    e->uid = r->uid;
    e->pid = r->pid;
}

void audit_request(struct http_request *r, const struct http_route *route,
                   const struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *action = action_of(route, reply);
    int status = reply->status == 0 ? 200 : reply->status;
    char *object, *read = NULL;
    struct audit_event e = {
        .address = r->address,
        .request = r->id,
        .outcome = outcome_of(status),
        .status = status,
    };

    if (api->audit == NULL || (action == NULL && e.outcome != AUDIT_REFUSED))
        return;
    fill_actor(&e, r, caller_of(r));
    object = object_of(r, caller_of(r), reply);
    if (action == NULL)
        action = read = mem_fmt("%s %s", route->method, route->pattern);
    e.action = action;
    e.object = object;
    if (e.outcome == AUDIT_OK)
        e.tenant = json_string_value(json_object_get(reply->body, "tenant"));
    else
        e.reason = json_string_value(json_object_get(reply->body, "title"));
    audit_log_write(api->audit, &e);
    mem_free(&read);
    mem_free(&object);
}
