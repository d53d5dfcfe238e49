// SPDX-License-Identifier: Apache-2.0
/*
 * Requests: refusals before a handler is called, the body, the handler. libmicrohttpd calls
 * exchange_access() once for the head, then for each piece of the body, then once more; a reply is
 * queued in the first or the last of these calls.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <gnutls/gnutls.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "net/listen.h"
#include "net/server_i.h"

#define EXCHANGE_TAG DLC_TAG4('h', 't', 'e', 'x')
#define FLOOD        (1u << 20) /* of a body that is too large: so much is swallowed before we hang up */

static struct exchange *exchange_of(void *priv)
{
    struct exchange *x = priv;

    dlc_check(x != NULL && x->tag == EXCHANGE_TAG);
    return x;
}

const char *http_query(const struct http_request *r, const char *name)
{
    return target_query(r->target, name);
}

const char *http_header(const struct http_request *r, const char *name)
{
    return MHD_lookup_connection_value(exchange_of(r->priv)->connection, MHD_HEADER_KIND, name);
}

/* -------- the head -------- */

static const char *bearer(const struct http_request *r)
{
    const char *v = http_header(r, "Authorization");

    if (v == NULL || strncasecmp(v, "Bearer ", 7) != 0)
        return NULL;
    v += 7;
    v += strspn(v, " ");
    return *v != '\0' ? v : NULL;
}

static bool same_method(const char *asked, const char *has)
{
    return strcmp(asked, has) == 0 || (strcmp(asked, "HEAD") == 0 && strcmp(has, "GET") == 0);
}

/* Find x->route, or fill the reply. */
static bool find_route(struct exchange *x, const char *method, struct http_reply *reply)
{
    struct buf allow = BUF_INIT;

    for (const struct http_route *r = x->server->config.routes; r->method != NULL; r++) {
        if (!target_fits(&x->target, r->pattern, x->request.params))
            continue;
        if (same_method(method, r->method)) {
            x->route = r;
            break;
        }
        buf_addf(&allow, "%s%s", allow.len > 0 ? ", " : "", r->method);
    }
    if (x->route == NULL && allow.len > 0) {
        http_problem(reply, 405, "Method not allowed", "this path takes %s", buf_str(&allow));
        http_reply_header(reply, "Allow", "%s", buf_str(&allow));
    } else if (x->route == NULL) {
        http_problem(reply, 404, "Not found",
                     "there is no such path; GET /v1/openapi.json lists the paths");
    }
    buf_release(&allow);
    return x->route != NULL;
}

static enum MHD_Result count_lengths(void *priv, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    (void)kind;
    (void)value;
    if (strcasecmp(name, "Content-Length") == 0 || strcasecmp(name, "Transfer-Encoding") == 0)
        ++*(int *)priv;
    return MHD_YES;
}

static bool is_json(const char *type)
{
    size_t n;

    if (type == NULL)
        return true;
    n = strcspn(type, "; \t");
    return n == strlen("application/json") && strncasecmp(type, "application/json", n) == 0;
}

/* May this body come? */
static bool check_length(struct exchange *x, const char *method, struct http_reply *reply)
{
    const char *length = http_header(&x->request, "Content-Length");
    size_t most = x->server->config.max_body;
    uint64_t n = 0;
    int said = 0;

    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, count_lengths, &said);
    if (said > 1 || (length != NULL && !str_parse_u64(length, &n))) {
        http_problem(reply, 400, "Bad request", "the length of the body is not clear");
        return false;
    }
    if (said == 0 && (strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0)) {
        http_problem(reply, 411, "Length required",
                     "%s needs a JSON body, or Content-Length: 0 when there is none", method);
        return false;
    }
    if (n > most) {
        http_problem(reply, 413, "Content too large", "a body has at most %zu bytes", most);
        return false;
    }
    if ((n > 0 || (said > 0 && length == NULL)) &&
        !is_json(http_header(&x->request, "Content-Type"))) {
        http_problem(reply, 415, "Unsupported media type",
                     "the body must be JSON: send Content-Type: application/json");
        return false;
    }
    return true;
}

/* May so many more bytes of bodies be kept? */
static bool reserve(struct exchange *x, size_t n)
{
    struct http_server *s = x->server;
    bool fits;

    dlc_mtx_lock(&s->mtx);
    fits = n <= s->config.max_bodies - s->bodies;
    if (fits)
        s->bodies += n;
    dlc_mtx_unlock(&s->mtx);
    if (fits)
        x->reserved += n;
    return fits;
}

static void unreserve(struct exchange *x)
{
    dlc_mtx_lock(&x->server->mtx);
    x->server->bodies -= x->reserved;
    dlc_mtx_unlock(&x->server->mtx);
    x->reserved = 0;
}

/* A body of unknown length may become as large as any. */
static bool reserve_body(struct exchange *x, struct http_reply *reply)
{
    const char *length = http_header(&x->request, "Content-Length");
    bool chunked = http_header(&x->request, "Transfer-Encoding") != NULL;
    uint64_t n = 0;

    if (length != NULL)
        str_parse_u64(length, &n);
    if (reserve(x, chunked ? x->server->config.max_body : (size_t)n))
        return true;
    http_problem(reply, 503, "Service unavailable",
                 "the bodies of other requests fill the memory for them; try again");
    reply->retry_after = mem_str("1");
    return false;
}

static bool check_caller(struct exchange *x, struct http_reply *reply)
{
    const struct http_server_config *c = &x->server->config;

    x->checked = c->check != NULL;
    return c->check == NULL || c->check(&x->request, x->route, reply, c->ctx);
}

/* False: the reply is filled. */
static bool check_head(struct exchange *x, const char *method, struct http_reply *reply)
{
    if (atomic_load_explicit(&x->server->closing, memory_order_relaxed)) {
        http_problem(reply, 503, "Service unavailable", "this server is ending; try another");
        return false;
    }
    if (x->bad != NULL) {
        http_problem(reply, 400, "Bad request", "the path or query is malformed: %s", x->bad);
        return false;
    }
    return find_route(x, method, reply) && check_length(x, method, reply) &&
           check_caller(x, reply) && reserve_body(x, reply);
}

static void fill_address(struct exchange *x, int fd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    snprintf(x->address, sizeof(x->address), "unix");
    x->request.uid = x->request.pid = -1;
    if (x->listener->local)
        listen_peer(fd, &x->request.uid, &x->request.pid);
    else
        listen_address(info != NULL ? info->client_addr : NULL, x->address, sizeof(x->address));
}

/* libmicrohttpd has verified that the client has the key of its certificate, and no more. */
static void fill_node(struct exchange *x)
{
    const struct http_server_config *c = &x->server->config;
    const union MHD_ConnectionInfo *info;
    const gnutls_datum_t *certs;
    unsigned n = 0;

    if (c->identify == NULL || x->listener->local || x->server->cert.len == 0)
        return;
    x->request.asked_certificate = true;
    info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    certs = info != NULL ? gnutls_certificate_get_peers(info->tls_session, &n) : NULL;
    if (certs != NULL && n > 0)
        c->identify(certs[0].data, certs[0].size, x->node, c->ctx);
    x->request.node = x->node[0] != '\0' ? x->node : NULL;
}

static void fill_request(struct exchange *x, const char *url, const char *method)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    snprintf(x->id, sizeof(x->id), "%016" PRIx64, rng_seed());
    x->request.id = x->id;
    x->request.address = x->address;
    fill_address(x, info != NULL ? info->connect_fd : -1);
    x->request.method = method;
    x->request.path = url;
    x->request.token = bearer(&x->request);
    x->request.as_tenant = http_header(&x->request, "Dlcache-As-Tenant");
    fill_node(x);
    x->request.local = x->listener->local && info != NULL && listen_trusts(info->connect_fd);
}

/* -------- the body -------- */

/* False: too much of too much. */
static bool take_body(struct exchange *x, const char *data, size_t len)
{
    size_t most = x->server->config.max_body;

    if (!x->large && len <= most - x->body.len) {
        buf_add(&x->body, data, len);
        return true;
    }
    x->large = true;
    x->swallowed += len;
    return x->swallowed <= FLOOD;
}

static bool parse_body(struct exchange *x, struct http_reply *reply)
{
    size_t most = x->server->config.max_values;
    json_error_t e;

    if (x->large) {
        http_problem(reply, 413, "Content too large", "a body has at most %zu bytes",
                     x->server->config.max_body);
        return false;
    }
    if (x->body.len == 0)
        return true;
    if (json_count_values(x->body.data, x->body.len) > most) {
        http_problem(reply, 413, "Content too large", "a body has at most %zu JSON values", most);
        return false;
    }
    x->json = json_loadb(x->body.data, x->body.len, JSON_REJECT_DUPLICATES, &e);
    if (x->json == NULL) {
        struct buf text = BUF_INIT;
        const char *near =
            strstr(e.text, " near "); /* what follows is of the body: maybe a secret */

        str_printable(e.text, near != NULL ? (size_t)(near - e.text) : strlen(e.text), &text);
        http_problem(reply, 400, "Bad request", "the body is not JSON: line %d, column %d: %s",
                     e.line, e.column, buf_str(&text));
        buf_release(&text);
    } else if (!json_is_object(x->json)) {
        http_problem(reply, 400, "Bad request", "the body must be a JSON object");
    }
    x->request.body = x->json;
    return json_is_object(x->json);
}

/* -------- the handler -------- */

static enum MHD_Result handle(struct exchange *x)
{
    struct http_server *s = x->server;
    struct http_reply reply = {0};

    conns_busy(x);
    /* A handler may take its time: the connection is not idle meanwhile. */
    MHD_set_connection_option(x->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    if (parse_body(x, &reply))
        x->route->handler(&x->request, &reply, s->config.ctx);
    MHD_set_connection_option(x->connection, MHD_CONNECTION_OPTION_TIMEOUT, s->idle_s);
    return exchange_reply(x, &reply);
}

/* -------- called by libmicrohttpd -------- */

void *exchange_begin(void *cls, const char *uri, struct MHD_Connection *c)
{
    struct listener *l = cls;
    struct exchange *x = mem_new(struct exchange);

    x->tag = EXCHANGE_TAG;
    x->listener = l;
    x->server = l->server;
    x->connection = c;
    x->request.priv = x;
    x->request.target = &x->target;
    x->bad = target_parse(&x->target, uri);
    return x;
}

enum MHD_Result exchange_access(void *cls, struct MHD_Connection *c, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *len, void **priv)
{
    struct exchange *x = exchange_of(*priv);
    struct http_reply reply = {0};

    (void)cls;
    (void)c;
    (void)version;
    if (!x->begun) {
        x->begun = true;
        fill_request(x, url, method);
        return check_head(x, method, &reply) ? MHD_YES : exchange_reply(x, &reply);
    }
    if (*len > 0) {
        size_t n = *len;

        *len = 0;
        return take_body(x, data, n) ? MHD_YES : MHD_NO;
    }
    return handle(x);
}

void exchange_end(void *cls, struct MHD_Connection *c, void **priv,
                  enum MHD_RequestTerminationCode why)
{
    struct exchange *x;

    (void)cls;
    (void)why;
    if (*priv == NULL)
        return;
    x = exchange_of(*priv);
    *priv = NULL;
    MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, x->server->idle_s);
    conns_free(x);
    unreserve(x);
    json_decref(x->json);
    secret_buf_release(&x->body);
    target_release(&x->target);
    x->tag = 0;
    mem_free(&x);
}
