// SPDX-License-Identifier: Apache-2.0
#include "operator/manager_client.h"

#include "base/mem.h"
#include "base/api_token.h"
#include "base/secret.h"
#include "net/json_client.h"

struct manager {
    struct manager_config config;
    struct http_client *http; /* NULL: not asked yet, or turned away */
    const char *tenant;       /* for which the next request is made; NULL: none. Borrowed */
    int status;
};

struct manager *manager_new(const struct manager_config *c)
{
    struct manager *m = mem_zero(sizeof(*m));

    m->config = *c;
    return m;
}

void manager_free(struct manager **mp)
{
    if (*mp == NULL)
        return;
    http_client_close(&(*mp)->http);
    mem_free(mp);
}

int manager_status(const struct manager *m)
{
    return m->status;
}

/* ---- asking ---- */

static int open_http(struct manager *m, struct dlc_err *err)
{
    struct http_client_config c = {.base = m->config.addresses, .timeout = m->config.timeout};
    char *token = NULL;
    int rc;

    if (m->http != NULL)
        return 0;
    rc = m->config.token(m->config.arg, &token, err);
    c.token = token;
    if (rc == 0)
        rc = http_client_open(&c, &m->http, err);
    secret_free(&token);
    return rc;
}

static enum manager_said said(struct manager *m, int rc)
{
    if (rc == 0)
        return MANAGER_OK;
    if (m->status == 401)
        http_client_close(&m->http); /* it may be another one by now */
    if (m->status == 401 || (m->status == 403 && m->tenant == NULL))
        return MANAGER_AWAY;
    if (m->status == 404)
        return MANAGER_ABSENT;
    return m->status == 507 || (m->status >= 400 && m->status < 500) ? MANAGER_REFUSED
                                                                     : MANAGER_AWAY;
}

/* key: Idempotency-Key, NULL: none. out may be NULL. */
static enum manager_said ask(struct manager *m, const char *method, const char *path,
                             const char *key, const json_t *body, json_t **out, struct dlc_err *err)
{
    json_t *answer = NULL;
    int rc;

    m->status = 0;
    if (out != NULL)
        *out = NULL;
    if (open_http(m, err) < 0)
        return MANAGER_AWAY;
    if (key != NULL)
        http_client_header(m->http, "Idempotency-Key", key);
    if (m->tenant != NULL)
        http_client_header(m->http, "Dlcache-As-Tenant", m->tenant);
    rc = http_json(m->http, method, path, body, &answer, &m->status, err);
    if (rc == 0 && out != NULL)
        *out = answer;
    else
        json_decref(answer);
    return said(m, rc);
}

/* "/v1/KIND/NAME[/MORE]" */
static enum manager_said ask_of(struct manager *m, const char *method, const char *kind,
                                const char *name, const char *more, const json_t *body,
                                json_t **out, struct dlc_err *err)
{
    char *escaped = http_escape(name);
    char *path = mem_fmt("/v1/%s/%s%s%s", kind, escaped, more[0] != '\0' ? "/" : "", more);
    enum manager_said s = ask(m, method, path, NULL, body, out, err);

    mem_free(&path);
    mem_free(&escaped);
    return s;
}

/* ---- routes ---- */

enum manager_said manager_dataset(struct manager *m, const char *name, json_t **out,
                                  struct dlc_err *err)
{
    return ask_of(m, "GET", "datasets", name, "", NULL, out, err);
}

enum manager_said manager_job(struct manager *m, const char *id, json_t **out, struct dlc_err *err)
{
    return ask_of(m, "GET", "jobs", id, "", NULL, out, err);
}

static void collect(const json_t *items, void *arg)
{
    json_array_extend(arg, (json_t *)items);
}

enum manager_said manager_nodes(struct manager *m, json_t **out, struct dlc_err *err)
{
    json_t *all = json_array();
    enum manager_said s = MANAGER_AWAY;

    m->status = 0;
    if (open_http(m, err) == 0)
        s = said(m, http_pages(m->http, "/v1/nodes", collect, all, &m->status, err));
    *out = s == MANAGER_OK ? json_incref(all) : NULL;
    json_decref(all);
    return s;
}

enum manager_said manager_make_dataset(struct manager *m, const json_t *body, json_t **out,
                                       struct dlc_err *err)
{
    const char *name = json_string_value(json_object_get(body, "name"));
    enum manager_said s;

    m->tenant = json_string_value(json_object_get(body, "tenant"));
    s = ask(m, "POST", "/v1/datasets", NULL, body, out, err);
    m->tenant = NULL;
    return s == MANAGER_REFUSED && m->status == 409 ? manager_dataset(m, name, out, err) : s;
}

enum manager_said manager_make_job(struct manager *m, const char *key, const json_t *body,
                                   json_t **out, struct dlc_err *err)
{
    return ask(m, "POST", "/v1/jobs", key, body, out, err);
}

enum manager_said manager_end_dataset(struct manager *m, const char *name, struct dlc_err *err)
{
    return ask_of(m, "DELETE", "datasets", name, "", NULL, NULL, err);
}

enum manager_said manager_end_job(struct manager *m, const char *id, struct dlc_err *err)
{
    return ask_of(m, "DELETE", "jobs", id, "", NULL, NULL, err);
}

enum manager_said manager_heartbeat(struct manager *m, const char *id, struct dlc_err *err)
{
    json_t *nothing = json_object();
    enum manager_said s = ask_of(m, "POST", "jobs", id, "heartbeat", nothing, NULL, err);

    json_decref(nothing);
    return s;
}

enum manager_said manager_order(struct manager *m, const char *dataset, const char *what,
                                const json_t *body, struct dlc_err *err)
{
    json_t *nothing = json_object();
    enum manager_said s =
        ask_of(m, "POST", "datasets", dataset, what, body != NULL ? body : nothing, NULL, err);

    json_decref(nothing);
    return s;
}

enum manager_said manager_tenant(struct manager *m, const char *name, char **token,
                                 struct dlc_err *err)
{
    json_t *body = json_pack("{s:s}", "name", name), *nothing = json_object(), *out = NULL;
    enum manager_said s = ask(m, "POST", "/v1/tenants", NULL, body, &out, err);
    const char *text;

    *token = NULL;
    if (s == MANAGER_REFUSED && m->status == 409) { /* the namespace's before this one, perhaps */
        s = ask_of(m, "DELETE", "tenants", name, "credentials", NULL, NULL, err);
        if (s == MANAGER_OK || s == MANAGER_ABSENT)
            s = ask_of(m, "POST", "tenants", name, "token", nothing, &out, err);
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

enum manager_said manager_credentials(struct manager *m, const char *tenant, const json_t *body,
                                      struct dlc_err *err)
{
    enum manager_said s;

    m->tenant = tenant;
    s = ask_of(m, "PUT", "tenants", tenant, "credentials", body, NULL, err);
    m->tenant = NULL;
    return s;
}
