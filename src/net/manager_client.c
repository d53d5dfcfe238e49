// SPDX-License-Identifier: Apache-2.0
#include "net/manager_client.h"

#include "base/mem.h"
#include "base/secret.h"

struct manager_client {
    struct manager_client_config config;
    struct http_client *http;      /* NULL: the token is to be found first */
    struct tls_identity *identity; /* NULL: none */
    int status;
};

static int connect_http(struct manager_client *c, struct dlc_err *err)
{
    struct http_client_config http = c->config.http;
    char *token = NULL, *ca = NULL;
    int rc = 0;

    c->status = 0;
    if (c->http != NULL)
        return 0;
    http.identity = c->identity;
    http.ca_setting = "a PEM file with --manager-ca FILE (DLCACHE_MANAGER_CA)";
    if (c->config.find_token != NULL) {
        rc = c->config.find_token(c->config.arg, &token, err);
        http.token = token;
    }
    if (rc == 0 && c->config.find_ca != NULL) {
        rc = c->config.find_ca(c->config.arg, &ca, err);
        http.ca_pem = ca;
    }
    if (rc == 0)
        rc = http_client_open(&http, &c->http, err);
    secret_free(&token);
    mem_free(&ca);
    return rc;
}

int manager_client_open(const struct manager_client_config *config, struct manager_client **out,
                        struct dlc_err *err)
{
    struct manager_client *c = mem_new(struct manager_client);
    int rc = 0;

    c->config = *config;
    c->identity = tls_identity_get(config->http.identity);
    if (c->config.find_token == NULL)
        rc = connect_http(c, err);
    if (rc < 0)
        manager_client_close(&c);
    *out = c;
    return rc;
}

void manager_client_close(struct manager_client **cp)
{
    if (*cp == NULL)
        return;
    http_client_close(&(*cp)->http);
    tls_identity_put(&(*cp)->identity);
    mem_free(cp);
}

/* After a request: the token may be another one by now, and so may the authority of a server that
 * was not trusted (DLC_EDENIED without an answer). */
static int finish(struct manager_client *c, int rc)
{
    if ((c->status == 401 && c->config.find_token != NULL) ||
        (c->status == 0 && rc == DLC_EDENIED && c->config.find_ca != NULL))
        http_client_close(&c->http);
    return rc;
}

int manager_client_send(struct manager_client *c, const struct manager_request *r, json_t **out,
                        struct dlc_err *err)
{
    json_t *answer = NULL;
    int rc = connect_http(c, err);

    if (out != NULL)
        *out = NULL;
    if (rc < 0)
        return rc;
    if (r->idempotency_key != NULL)
        http_client_header(c->http, "Idempotency-Key", r->idempotency_key);
    if (r->as_tenant != NULL)
        http_client_header(c->http, "Dlcache-As-Tenant", r->as_tenant);
    rc = http_json(c->http, r->method, r->path, r->body, &answer, &c->status, err);
    if (rc == 0 && out != NULL)
        *out = answer;
    else
        json_decref(answer);
    return finish(c, rc);
}

int manager_client_call(struct manager_client *c, const char *method, const char *path,
                        const json_t *body, json_t **out, struct dlc_err *err)
{
    const struct manager_request r = {.method = method, .path = path, .body = body};

    return manager_client_send(c, &r, out, err);
}

int manager_client_pages(struct manager_client *c, const char *path,
                         void (*each)(const json_t *items, void *arg), void *arg,
                         struct dlc_err *err)
{
    int rc = connect_http(c, err);

    if (rc == 0)
        rc = http_pages(c->http, path, each, arg, &c->status, err);
    return finish(c, rc);
}

static void collect(const json_t *items, void *arg)
{
    json_array_extend(arg, (json_t *)items);
}

int manager_client_list(struct manager_client *c, const char *path, json_t **out,
                        struct dlc_err *err)
{
    json_t *all = json_array();
    int rc = manager_client_pages(c, path, collect, all, err);

    *out = rc == 0 ? json_incref(all) : NULL;
    json_decref(all);
    return rc;
}

int manager_client_lines(struct manager_client *c, const char *path,
                         bool (*each)(const char *line, void *arg), void *arg, struct dlc_err *err)
{
    int rc = connect_http(c, err);

    return rc == 0 ? http_lines(c->http, path, each, arg, err) : rc;
}

void manager_client_identity(struct manager_client *c, struct tls_identity *id)
{
    if (id != c->identity) {
        tls_identity_put(&c->identity);
        c->identity = tls_identity_get(id);
    }
    if (c->http != NULL)
        http_client_identity(c->http, id);
}

void manager_client_forget_token(struct manager_client *c)
{
    if (c->config.find_token != NULL)
        http_client_close(&c->http);
}

int manager_client_status(const struct manager_client *c)
{
    return c->status;
}

const char *manager_client_address(const struct manager_client *c)
{
    return http_client_at(c->http);
}
