// SPDX-License-Identifier: Apache-2.0
#include "operator/webhook/endpoints.h"

#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "net/server.h"

#define SERVE_TAG   DLC_TAG4('o', 'p', 's', 'v')
#define CONNECTIONS 64
#define REVIEW_MAX  (8u << 20) /* the object twice, each at most 3 MiB */
#define TEXT_TYPE   "text/plain; version=0.0.4; charset=utf-8"

struct serve {
    uint32_t tag;
    struct serve_config config; /* texts are not kept */
    char *webhook;              /* where to listen; NULL: nowhere */
    _Atomic bool answers;       /* W who calls serve_tls(), R any; relaxed: a word for /readyz */
    struct http_server *plain, *tls;
    struct http_server *before; /* with the certificate before: for those who are connected */
    char *cert, *key;           /* shown by `tls` */
};

static struct serve *serve_of(void *ctx)
{
    struct serve *s = ctx;

    dlc_check(s != NULL && s->tag == SERVE_TAG);
    return s;
}

static void state_of(const struct serve *s, struct serve_state *out)
{
    *out = (struct serve_state){0};
    s->config.state(out, s->config.arg);
}

static void healthz(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct serve_state st;

    (void)r;
    state_of(serve_of(ctx), &st);
    if (st.sick != NULL)
        http_problem(reply, 503, "Not well", "%s", st.sick);
    else
        reply->body = json_pack("{s:b}", "healthy", 1);
}

static void readyz(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct serve_state st;
    json_t *waits = json_array();

    (void)r;
    state_of(serve_of(ctx), &st);
    for (size_t i = 0; i < st.now.n_watches; i++) {
        if (!st.now.watches[i].synced)
            json_array_append_new(waits, json_string(st.now.watches[i].kind));
    }
    if (st.sick != NULL) {
        http_problem(reply, 503, "Not well", "%s", st.sick);
    } else if (st.ending) {
        http_problem(reply, 503, "Not ready", "this replica is ending");
    } else if (serve_of(ctx)->webhook != NULL &&
               !atomic_load_explicit(&serve_of(ctx)->answers, memory_order_relaxed)) {
        http_problem(reply, 503, "Not ready", "the webhook has no certificate yet");
    } else if (st.now.n_watches == 0 || json_array_size(waits) > 0) {
        http_problem(reply, 503, "Not ready", "some kinds are not listed yet: see \"kinds\"");
        json_object_set(reply->body, "kinds", waits);
    } else {
        reply->body =
            json_pack("{s:b, s:s}", "ready", 1, "role", st.now.leader ? "leader" : "standby");
    }
    json_decref(waits);
}

static void metrics(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct serve *s = serve_of(ctx);
    struct buf b = BUF_INIT;
    struct serve_state st;

    (void)r;
    state_of(s, &st);
    metrics_text(s->config.metrics, &st.now, &b);
    reply->data_len = b.len;
    reply->data = reply->arg = buf_take(&b);
    reply->done = free;
    reply->type = TEXT_TYPE;
}

static void mutate(struct http_request *r, struct http_reply *reply, void *ctx)
{
    enum webhook_outcome o;

    reply->body = webhook_review(r->body, &o);
    metrics_review(serve_of(ctx)->config.metrics, o);
}

static const struct http_route plain_routes[] = {
    {"GET", "/healthz", 0, healthz},
    {"GET", "/readyz", 0, readyz},
    {"GET", "/metrics", 0, metrics},
    {NULL, NULL, 0, NULL},
};
static const struct http_route tls_routes[] = {
    {"POST", WEBHOOK_PATH, 0, mutate},
    {NULL, NULL, 0, NULL},
};

int serve_open(const struct serve_config *c, struct serve **out, struct dlc_err *err)
{
    struct serve *s = mem_new(struct serve);
    struct http_server_config h = {
        .address = c->listen, .connections = CONNECTIONS, .routes = plain_routes, .ctx = s};
    int rc;

    dlc_check(c->metrics != NULL && c->state != NULL);
    s->tag = SERVE_TAG;
    s->config = *c;
    s->config.listen = s->config.webhook = NULL;
    s->webhook = mem_str(c->webhook);
    rc = http_server_open(&h, &s->plain, err);
    if (rc < 0)
        serve_close(&s);
    *out = s;
    return rc;
}

void serve_close(struct serve **sp)
{
    struct serve *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    dlc_check(s->tag == SERVE_TAG);
    http_server_close(&s->before);
    http_server_close(&s->tls);
    http_server_close(&s->plain);
    secret_free(&s->cert);
    secret_free(&s->key);
    mem_free(&s->webhook);
    s->tag = 0;
    mem_free(&s);
}

int serve_tls(struct serve *s, const char *cert, const char *key, struct dlc_err *err)
{
    struct http_server_config h = {.address = s->tls == NULL ? s->webhook : NULL,
                                   .heir_of = s->tls,
                                   .tls_cert = cert,
                                   .tls_key = key,
                                   .tls_text = true,
                                   .connections = CONNECTIONS,
                                   .max_body = REVIEW_MAX,
                                   .max_bodies = 2 * REVIEW_MAX, /* the pod has 128 MiB */
                                   .routes = tls_routes,
                                   .ctx = s};
    struct http_server *next = NULL;
    int rc;

    if (s->webhook == NULL ||
        (s->tls != NULL && strcmp(s->cert, cert) == 0 && strcmp(s->key, key) == 0))
        return 0;
    rc = http_server_open(&h, &next, err);
    if (rc < 0)
        return dlc_err_prefix(err, "webhook");
    http_server_close(&s->before);
    s->before = s->tls;
    s->tls = next;
    secret_free(&s->cert);
    secret_free(&s->key);
    s->cert = mem_str(cert);
    s->key = mem_str(key);
    atomic_store_explicit(&s->answers, true, memory_order_relaxed);
    log_info("the webhook answers at %s", http_server_address(next));
    return 0;
}

const char *serve_address(const struct serve *s)
{
    return http_server_address(s->plain);
}

const char *serve_webhook(const struct serve *s)
{
    return s->tls != NULL ? http_server_address(s->tls) : NULL;
}
