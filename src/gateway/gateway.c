// SPDX-License-Identifier: Apache-2.0
#include "gateway/gateway.h"

#include <string.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/openmetrics.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "daemon/figures.h"
#include "daemon/state.h"
#include "gateway/access.h"
#include "gateway/figures_json.h"
#include "gateway/metrics.h"
#include "gateway/page/event_stream.h"
#include "gateway/page/page.h"
#include "net/server.h"

#define GATEWAY_TAG DLC_TAG4('g', 't', 'w', 'y')
#define CONNECTIONS 96 /* each has a thread; EVENT_STREAMS of them may be streams */
#define IDLE        DLC_SEC(20)
#define SHARED_AGE  DLC_MS(250) /* scrapers that come together share a snapshot */
#define PATIENCE    DLC_SEC(5)

struct gateway {
    uint32_t tag;
    struct node *node;
    struct access *access;
    struct http_server *server;
    struct event_stream_owner streams;
};

static struct gateway *gateway_of(void *ctx)
{
    struct gateway *g = ctx;

    dlc_check(g != NULL && g->tag == GATEWAY_TAG);
    return g;
}

static void text_free(void *arg)
{
    char *text = arg;

    mem_free(&text);
}

/* The caller may see *who of *out. False: *reply says why not. */
static bool take(struct gateway *g, const struct http_request *r, struct viewer *who,
                 struct node_figures **out, struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (!access_check(g->access, r, who, reply))
        return false;
    if (figures_get(g->node->figures, SHARED_AGE, PATIENCE, out, &err) == 0)
        return true;
    http_problem(reply, 503, "No figures", "%s", err.text);
    return false;
}

static void get_metrics(struct http_request *r, struct http_reply *reply, void *ctx)
{
    bool old = !openmetrics_accepted(http_header(r, "Accept"));
    struct node_figures *f = NULL;
    struct buf b = BUF_INIT;
    struct viewer who;

    if (!take(gateway_of(ctx), r, &who, &f, reply))
        return;
    gateway_metrics(f, who.all ? NULL : who.tenant, old, &b);
    node_figures_put(&f);
    reply->type = old ? OPENMETRICS_TYPE_TEXT : OPENMETRICS_TYPE;
    reply->data_len = b.len;
    reply->data = reply->arg = buf_take(&b);
    reply->done = text_free;
}

static void get_figures(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct node_figures *f = NULL;
    struct viewer who;

    if (!take(gateway_of(ctx), r, &who, &f, reply))
        return;
    reply->body = gateway_figures_json(f, who.all ? NULL : who.tenant);
    node_figures_put(&f);
}

/* ---- the stream ---- */

struct viewing {
    struct gateway *gateway;
    struct viewer who;
};

static json_t *next_figures(void *arg, struct dlc_err *err)
{
    const struct viewing *v = arg;
    struct node_figures *f = NULL;
    json_t *doc;

    if (figures_get(v->gateway->node->figures, SHARED_AGE, PATIENCE, &f, err) < 0)
        return NULL;
    doc = gateway_figures_json(f, v->who.all ? NULL : v->who.tenant);
    node_figures_put(&f);
    return doc;
}

static void viewing_free(void *arg)
{
    struct viewing *v = arg;

    mem_free(&v);
}

static void get_stream(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct gateway *g = gateway_of(ctx);
    struct viewing *v;
    struct viewer who;

    if (!access_check(g->access, r, &who, reply))
        return;
    v = mem_new(struct viewing);
    *v = (struct viewing){g, who};
    event_stream_begin(&g->streams, reply, next_figures, viewing_free, v);
}

static const struct http_route routes[] = {
    {"GET", "/metrics", 0, get_metrics},  {"GET", "/v1/figures", 0, get_figures},
    {"GET", "/v1/stream", 0, get_stream}, {"GET", "/", 0, page_index},
    {"GET", "/web/{name}", 0, page_file}, {NULL, NULL, 0, NULL},
};

/* ---- open and close ---- */

static int open_server(struct gateway *g, struct dlc_err *err)
{
    const char *where = g->node->config->http;
    struct http_server_config c = {
        .routes = routes, .ctx = g, .connections = CONNECTIONS, .idle = IDLE};
    char *path = NULL;
    int rc;

    if (where[0] == '\0')
        path = mem_fmt("%s.http", g->node->config->socket);
    else if (str_starts(where, "unix:"))
        path = mem_str(where + strlen("unix:"));
    else
        c.address = where;
    c.unix_path = path;
    if (path != NULL && strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        rc = dlc_err_set(err, DLC_EINVAL, "%s is too long for a socket", path);
    else
        rc = http_server_open(&c, &g->server, err);
    if (rc < 0)
        dlc_err_prefix(err, "no metrics (choose another place with --http)");
    mem_free(&path);
    return rc;
}

static void gateway_close(void **state)
{
    struct gateway *g = *state;

    *state = NULL;
    if (g == NULL)
        return;
    access_end(g->access);
    http_server_close(&g->server);
    access_free(&g->access);
    g->tag = 0;
    mem_free(&g);
}

static int gateway_open(struct node *n, void **state, struct dlc_err *err)
{
    const char *where = n->config->http;
    struct gateway *g;
    int rc;

    if (strcmp(where, "off") == 0)
        return 0;
    *state = g = mem_new(struct gateway);
    g->tag = GATEWAY_TAG;
    g->node = n;
    g->access = access_new(n);
    rc = open_server(g, err);
    if (rc < 0 && where[0] == '\0') { /* nobody asked for it */
        log_warn("%s", err->text);
        rc = 0;
    }
    if (g->server != NULL && http_server_address(g->server) != NULL) {
        access_set_address(g->access, http_server_address(g->server));
        log_info("metrics and page at http://%s/", http_server_address(g->server));
    }
    return rc;
}

const struct node_gateway gateway_ops = {.open = gateway_open, .close = gateway_close};
