// SPDX-License-Identifier: Apache-2.0
#include "operator/manager_calls.h"

#include "base/mem.h"
#include "base/secret.h"

/* as_tenant: the request was made with its rights; NULL: with the operator's own. */
static enum manager_said said(const struct manager_client *m, int rc, const char *as_tenant)
{
    int status = manager_client_status(m);

    if (rc == 0)
        return MANAGER_OK;
    if (status == 401 || (status == 403 && as_tenant == NULL))
        return MANAGER_AWAY;
    if (status == 404)
        return MANAGER_ABSENT;
    return status == 507 || (status >= 400 && status < 500) ? MANAGER_REFUSED : MANAGER_AWAY;
}

/* out may be NULL. */
static enum manager_said ask(struct manager_client *m, const struct manager_request *r,
                             json_t **out, struct dlc_err *err)
{
    return said(m, manager_client_send(m, r, out, err), r->as_tenant);
}

/* With path "/v1/KIND/NAME[/MORE]", or a query as `more`. */
static enum manager_said ask_of(struct manager_client *m, struct manager_request r,
                                const char *kind, const char *name, const char *more, json_t **out,
                                struct dlc_err *err)
{
    char *escaped = http_escape(name);
    const char *slash = more[0] != '\0' && more[0] != '?' ? "/" : "";
    char *path = mem_fmt("/v1/%s/%s%s%s", kind, escaped, slash, more);
    enum manager_said s;

    r.path = path;
    s = ask(m, &r, out, err);
    mem_free(&path);
    mem_free(&escaped);
    return s;
}

/* ---- routes ---- */

#define GET        ((struct manager_request){.method = "GET"})
#define DELETE     ((struct manager_request){.method = "DELETE"})
#define POST(json) ((struct manager_request){.method = "POST", .body = (json)})

enum manager_said manager_dataset(struct manager_client *m, const char *name, json_t **out,
                                  struct dlc_err *err)
{
    return ask_of(m, GET, "datasets", name, "", out, err);
}

enum manager_said manager_job(struct manager_client *m, const char *id, json_t **out,
                              struct dlc_err *err)
{
    return ask_of(m, GET, "jobs", id, "", out, err);
}

enum manager_said manager_ended_job(struct manager_client *m, const char *id, json_t **out,
                                    struct dlc_err *err)
{
    return ask_of(m, GET, "jobs", id, "?ended", out, err);
}

enum manager_said manager_nodes(struct manager_client *m, json_t **out, struct dlc_err *err)
{
    return said(m, manager_client_list(m, "/v1/nodes", out, err), NULL);
}

enum manager_said manager_make_dataset(struct manager_client *m, const json_t *body, json_t **out,
                                       struct dlc_err *err)
{
    const char *name = json_string_value(json_object_get(body, "name"));
    const struct manager_request r = {
        .method = "POST",
        .path = "/v1/datasets",
        .body = body,
        .as_tenant = json_string_value(json_object_get(body, "tenant")),
    };
    enum manager_said s = ask(m, &r, out, err);

    if (s == MANAGER_REFUSED && manager_client_status(m) == 409)
        s = manager_dataset(m, name, out, err);
    return s;
}

enum manager_said manager_make_job(struct manager_client *m, const char *key, const json_t *body,
                                   json_t **out, struct dlc_err *err)
{
    const struct manager_request r = {
        .method = "POST", .path = "/v1/jobs", .body = body, .idempotency_key = key};

    return ask(m, &r, out, err);
}

enum manager_said manager_end_dataset(struct manager_client *m, const char *name,
                                      struct dlc_err *err)
{
    return ask_of(m, DELETE, "datasets", name, "", NULL, err);
}

enum manager_said manager_end_job(struct manager_client *m, const char *id, struct dlc_err *err)
{
    return ask_of(m, DELETE, "jobs", id, "", NULL, err);
}

enum manager_said manager_heartbeat(struct manager_client *m, const char *id, struct dlc_err *err)
{
    json_t *nothing = json_object();
    enum manager_said s = ask_of(m, POST(nothing), "jobs", id, "heartbeat", NULL, err);

    json_decref(nothing);
    return s;
}

enum manager_said manager_order(struct manager_client *m, const char *dataset, const char *what,
                                const json_t *body, struct dlc_err *err)
{
    json_t *nothing = json_object();
    enum manager_said s =
        ask_of(m, POST(body != NULL ? body : nothing), "datasets", dataset, what, NULL, err);

    json_decref(nothing);
    return s;
}

enum manager_said manager_tenant(struct manager_client *m, const char *name, char **token,
                                 struct dlc_err *err)
{
    json_t *body = json_pack("{s:s}", "name", name), *nothing = json_object(), *out = NULL;
    const struct manager_request r = {.method = "POST", .path = "/v1/tenants", .body = body};
    enum manager_said s = ask(m, &r, &out, err);
    const char *text;

    *token = NULL;
    if (s == MANAGER_REFUSED && manager_client_status(m) == 409) {
        /* Perhaps of an earlier namespace with this name. */
        s = ask_of(m, DELETE, "tenants", name, "credentials", NULL, err);
        if (s == MANAGER_OK || s == MANAGER_ABSENT)
            s = ask_of(m, POST(nothing), "tenants", name, "token", &out, err);
    }
    text = json_string_value(json_object_get(out, "token"));
    if (s == MANAGER_OK && text == NULL) {
        dlc_err_set(err, DLC_EPROTO, "tenant %s: the manager's answer has no token", name);
        s = MANAGER_AWAY;
    }
    if (s == MANAGER_OK)
        *token = mem_str(text);
    json_decref(out);
    json_decref(nothing);
    json_decref(body);
    return s;
}

enum manager_said manager_credentials(struct manager_client *m, const char *tenant,
                                      const json_t *body, struct dlc_err *err)
{
    const struct manager_request r = {.method = "PUT", .body = body, .as_tenant = tenant};

    return ask_of(m, r, "tenants", tenant, "credentials", NULL, err);
}
