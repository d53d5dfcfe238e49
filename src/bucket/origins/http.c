// SPDX-License-Identifier: Apache-2.0
/*
 * http:// and https://: one object, or the objects of a listing file (http_i.h). A URL is a listing
 * if its path ends in ".list" or the server calls it text/uri-list.
 *
 * The size of an object is asked for by HEAD; where the server refuses that (signed URLs are often
 * for GET alone) or keeps silent about the size, by a GET of the first byte. A LIST attempt asks
 * for all sizes that the listing does not give, PROBES at a time.
 *
 *     GET          one request
 *     STAT         one probe
 *     LIST         probe or ".list" --> object, or listing --> probes of its lines --> answer
 *
 * Redirects are followed. No credentials are sent but those in the URL.
 */
#include <assert.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/async_client.h"
#include "bucket/origins/origin.h"
#include "bucket/origins/http_i.h"

static_assert(ETAG_MAX == ENGINE_ETAG_MAX, "ETags are copied whole");

#define WEB_TAG  DLC_TAG4('w', 'e', 'b', ' ')
#define CALL_TAG DLC_TAG4('w', 'e', 'b', 'c')
#define PROBES   16
#define TRIES    3            /* of one probe within an attempt */
#define LIST_MAX (256u << 20) /* bytes of a listing file */
#define LIMIT    1024         /* bucket_config.max_requests when it is 0 */

struct web_lane {
    struct loop *loop;
    struct engine *http;
};

struct web {
    struct origin origin;
    uint32_t tag;
    char *base;
    unsigned connections; /* per lane */
    struct dlc_dur connect_timeout;
    const struct address_rules *address_rules; /* borrowed, as in bucket_config */
    const char *proxy;
    struct web_lane lanes[];
};

struct web_probe {
    struct web_call *call;
    struct engine_request *request; /* NULL: free */
    size_t at;                      /* index in the call's lines */
    bool by_get;
    unsigned tries;
    char byte;
};

struct web_call {
    uint32_t tag;
    struct web *web;
    struct web_lane *lane;
    struct attempt *attempt;
    struct engine_request *request; /* GET, or the listing file; body holds its text */
    struct web_line single;         /* the line of a call that is no listing */
    struct web_line *lines;
    char (*etags)[ETAG_MAX]; /* found by probes, where lines gave none */
    size_t n_lines, next, unknown;
    bool listing;
    struct web_probe probes[PROBES];
};

static struct web *web_of(struct origin *o)
{
    struct web *w = dlc_container(o, struct web, origin);

    dlc_check(w->tag == WEB_TAG);
    return w;
}

static struct web_call *call_of(void *priv)
{
    struct web_call *c = priv;

    dlc_check(c != NULL && c->tag == CALL_TAG);
    return c;
}

/* -------- ends -------- */

static void call_end(struct web_call *c)
{
    struct attempt *a = c->attempt;

    engine_put(&c->request);
    for (size_t i = 0; i < PROBES; i++)
        engine_put(&c->probes[i].request);
    if (c->lines != &c->single)
        mem_free(&c->lines);
    mem_free(&c->etags);
    mem_free(&c);
    a->priv = NULL;
    a->done(a);
}

struct outcome {
    int first, last, rc;
    bool retryable, throttled;
    const char *advice;
};

static const struct outcome outcomes[] = {
    {401, 401, DLC_EDENIED, false, false, "the server wants a login"},
    {403, 403, DLC_EDENIED, false, false, "the server does not allow it"},
    {404, 404, DLC_ENOTFOUND, false, false, "there is no such object: check the URL"},
    {408, 408, DLC_EBUCKET, true, false, "the server gave up waiting for the request"},
    {410, 410, DLC_ENOTFOUND, false, false, "the object was removed"},
    {412, 412, DLC_ECHANGED, false, false, "the object is no longer the one that was listed"},
    {416, 416, DLC_ECHANGED, false, false, "the object is shorter than it was"},
    {429, 429, DLC_EBUCKET, true, true, "the server is overloaded"},
    {501, 501, DLC_EBUCKET, false, false, "the server does not know this request"},
    {503, 503, DLC_EBUCKET, true, true, "the server is overloaded"},
    {500, 599, DLC_EBUCKET, true, false, "the server failed"},
    {0, 999, DLC_EBUCKET, false, false, "an answer that was not expected"},
};

/* The request did not bring what was asked for: set the attempt's answer. */
static void explain(struct attempt *a, const struct engine_request *r)
{
    const struct outcome *o = outcomes;
    struct buf url = BUF_INIT;

    web_show(buf_str(&r->url), &url);
    if (r->rc < 0) {
        a->rc = dlc_err_set(&a->err, r->rc, "cannot read %s: %s", buf_str(&url), r->why);
        a->retryable = r->retryable;
    } else {
        while (r->answer.status < o->first || r->answer.status > o->last)
            o++;
        a->rc = dlc_err_set(&a->err, o->rc, "cannot read %s: HTTP %d; %s", buf_str(&url),
                            r->answer.status, o->advice);
        a->retryable = o->retryable;
        a->throttled = o->throttled;
        a->retry_after = DLC_SEC(DLC_MIN(r->answer.retry_after, 3600u));
    }
    buf_release(&url);
}

static void explain_other(struct attempt *a, const struct engine_request *r, int rc,
                          const char *why)
{
    struct buf url = BUF_INIT;

    web_show(buf_str(&r->url), &url);
    a->rc = dlc_err_set(&a->err, rc, "cannot read %s: %s", buf_str(&url), why);
    buf_release(&url);
}

static bool succeeded(const struct engine_request *r)
{
    return r->rc == 0 && engine_success(r->answer.status);
}

/* -------- GET -------- */

static struct engine_request *request_new(struct web_call *c, const char *key,
                                          void (*done)(struct engine_request *), void *owner)
{
    struct engine_request *r = engine_get(c->lane->http);

    web_resolve(c->web->base, key, &r->url);
    r->follow = true;
    r->first_byte = &c->attempt->first_byte;
    r->received = &c->attempt->received;
    r->done = done;
    r->owner = owner;
    return r;
}

static void on_get(struct engine_request *r)
{
    struct web_call *c = call_of(r->owner);
    struct attempt *a = c->attempt;

    memcpy(a->etag_seen, r->answer.etag, sizeof(a->etag_seen));
    a->rc = 0;
    if (!succeeded(r))
        explain(a, r);
    else if (a->etag != NULL && *a->etag != '\0' && *r->answer.etag != '\0' &&
             strcmp(a->etag, r->answer.etag) != 0)
        explain_other(a, r, DLC_ECHANGED, "the object is no longer the one that was listed");
    call_end(c);
}

static void start_get(struct web_call *c)
{
    const struct attempt *a = c->attempt;
    struct engine_request *r = c->request = request_new(c, a->key, on_get, c);

    r->head = a->length == 0 && !a->whole;
    r->ranged = !a->whole && !r->head;
    if (!r->head) {
        r->dst = a->dst != NULL ? a->dst : r; /* 0 bytes need no room, but NULL means the body */
        r->dst_len = a->length;
        r->offset = a->offset;
    }
    if (r->ranged)
        engine_header(r, "Range: bytes=%llu-%llu", (unsigned long long)a->offset,
                      (unsigned long long)(a->offset + a->length - 1));
    if (a->etag != NULL && *a->etag != '\0')
        engine_header(r, "If-Match: \"%s\"", a->etag);
    engine_send(r);
}

/* -------- probes: how long is it, and which version -------- */

static void on_probe(struct engine_request *r);

static void probe_send(struct web_probe *p)
{
    struct engine_request *r = request_new(p->call, p->call->lines[p->at].key, on_probe, p);

    p->request = r;
    r->head = !p->by_get;
    if (p->by_get) {
        r->ranged = true;
        r->dst = &p->byte;
        r->dst_len = 1;
        engine_header(r, "Range: bytes=0-0");
    }
    engine_send(r);
}

static void probe_more(struct web_call *c);

/* Size in *size, if the answer tells it. */
static bool probe_size(const struct web_probe *p, uint64_t *size)
{
    const struct engine_request *r = p->request;

    if (!p->by_get && succeeded(r))
        *size = r->answer.length;
    else if (p->by_get && (succeeded(r) || r->answer.status == 416))
        *size = r->answer.total; /* 416: there is no first byte */
    else if (p->by_get && r->answer.status == 200)
        *size = r->answer.length; /* the server knows no ranges */
    else
        return false;
    return *size != ENGINE_UNKNOWN;
}

/* Try in another way, or once more. */
static bool probe_again(struct web_probe *p)
{
    const struct engine_request *r = p->request;
    int status = r->answer.status;
    bool transient = r->rc < 0 ? r->retryable : status >= 500 && status != 501 && status != 503;

    if (!p->by_get && r->rc == 0 &&
        (engine_success(status) || status == 403 || status == 405 || status == 501))
        p->by_get = true;
    else if (!transient || ++p->tries >= TRIES)
        return false;
    engine_put(&p->request);
    probe_send(p);
    return true;
}

static void call_found(struct web_call *c, const struct engine_request *r);

static void on_probe(struct engine_request *r)
{
    struct web_probe *p = r->owner;
    struct web_call *c = call_of(p->call);
    struct web_line *line = &c->lines[p->at];

    if (!probe_size(p, &line->size)) {
        if (probe_again(p))
            return;
        if (engine_success(r->answer.status) && (r->rc == 0 || !r->retryable))
            explain_other(c->attempt, r, DLC_EPROTO, "the server does not tell the object's size");
        else
            explain(c->attempt, r);
        call_end(c);
        return;
    }
    if (*line->etag == '\0' && !r->answer.weak) {
        memcpy(c->etags[p->at], r->answer.etag, ETAG_MAX);
        line->etag = c->etags[p->at];
    }
    c->unknown--;
    if (!c->listing) {
        call_found(c, r);
        return;
    }
    c->attempt->received++; /* HEAD has no body, but this is progress */
    engine_put(&p->request);
    probe_more(c);
}

static void list_answer(struct web_call *c)
{
    struct attempt *a = c->attempt;

    for (size_t i = 0; i < c->n_lines; i++)
        attempt_add_object(a, c->lines[i].key, strlen(c->lines[i].key), c->lines[i].size,
                           c->lines[i].etag);
    a->rc = 0;
    call_end(c);
}

/* Keep PROBES requests going until every size is known. */
static void probe_more(struct web_call *c)
{
    for (size_t i = 0; i < PROBES; i++) {
        struct web_probe *p = &c->probes[i];

        if (p->request != NULL)
            continue;
        while (c->next < c->n_lines && c->lines[c->next].size != UINT64_MAX)
            c->next++;
        if (c->next == c->n_lines)
            break;
        *p = (struct web_probe){.call = c, .at = c->next++};
        probe_send(p);
    }
    if (c->unknown == 0)
        list_answer(c);
}

/* -------- STAT and LIST -------- */

static void on_listing(struct engine_request *r)
{
    struct web_call *c = call_of(r->owner);
    struct attempt *a = c->attempt;

    if (!succeeded(r)) {
        explain(a, r);
        call_end(c);
        return;
    }
    buf_adds(&r->body, ""); /* an empty listing is text too */
    a->rc = web_list_parse(r->body.data, &c->lines, &c->n_lines, &a->err);
    if (a->rc < 0) {
        struct buf url = BUF_INIT;

        web_show(buf_str(&r->url), &url);
        dlc_err_prefix(&a->err, "listing %s", buf_str(&url));
        buf_release(&url);
        call_end(c);
        return;
    }
    c->listing = true;
    c->next = 0;
    c->etags = mem_zero(c->n_lines * sizeof(*c->etags));
    for (size_t i = 0; i < c->n_lines; i++)
        c->unknown += c->lines[i].size == UINT64_MAX;
    probe_more(c);
}

static void start_listing(struct web_call *c)
{
    c->request = request_new(c, c->attempt->prefix, on_listing, c);
    c->request->body_max = LIST_MAX;
    engine_send(c->request);
}

static void start_probe(struct web_call *c, const char *key)
{
    c->single = (struct web_line){.key = key, .etag = "", .size = UINT64_MAX};
    c->lines = &c->single;
    c->n_lines = c->unknown = c->next = 1;
    c->etags = mem_zero(sizeof(*c->etags));
    c->probes[0] = (struct web_probe){.call = c};
    probe_send(&c->probes[0]);
}

/* The single object is known: that is the answer, unless it is a listing. */
static void call_found(struct web_call *c, const struct engine_request *r)
{
    struct attempt *a = c->attempt;

    if (a->op == ATTEMPT_LIST && strcmp(r->answer.type, "text/uri-list") == 0) {
        engine_put(&c->probes[0].request);
        mem_free(&c->etags);
        start_listing(c);
        return;
    }
    a->rc = 0;
    a->size = c->single.size;
    memcpy(a->etag_seen, c->etags[0], sizeof(a->etag_seen));
    if (a->op == ATTEMPT_LIST)
        list_answer(c);
    else
        call_end(c);
}

/* -------- the origin -------- */

static void web_start(struct origin *o, struct attempt *a)
{
    struct web *w = web_of(o);
    struct web_call *c = mem_new(struct web_call);

    dlc_check(a->lane < o->lanes);
    a->rc = 0;
    a->retryable = a->throttled = false;
    a->retry_after = (struct dlc_dur){0};
    a->first_byte = (struct dlc_mono){0};
    a->received = 0;
    c->tag = CALL_TAG;
    c->web = w;
    c->lane = &w->lanes[a->lane];
    c->attempt = a;
    a->priv = c;
    if (a->op == ATTEMPT_GET)
        start_get(c);
    else if (a->op == ATTEMPT_LIST && web_is_list(*a->prefix != '\0' ? a->prefix : w->base))
        start_listing(c);
    else
        start_probe(c, a->op == ATTEMPT_LIST ? a->prefix : a->key);
}

static void web_cancel(struct origin *o, struct attempt *a)
{
    struct web_call *c = call_of(a->priv);

    dlc_check(c->web == web_of(o));
    a->rc = dlc_err_set(&a->err, DLC_ECANCELED, "cancelled");
    a->retryable = false;
    call_end(c);
}

static int web_lane_open(struct origin *o, unsigned lane, struct loop *loop, struct dlc_err *err)
{
    struct web *w = web_of(o);

    w->lanes[lane].loop = loop;
    return engine_new(loop,
                      &(struct engine_config){.connections = w->connections,
                                              .connect_timeout = w->connect_timeout,
                                              .rules = w->address_rules,
                                              .proxy = w->proxy},
                      &w->lanes[lane].http, err);
}

static void web_lane_close(struct origin *o, unsigned lane)
{
    engine_free(&web_of(o)->lanes[lane].http);
}

static void web_free(struct origin *o)
{
    struct web *w = web_of(o);

    mem_free(&w->base);
    mem_free(&w);
}

static const struct origin_ops ops = {
    .name = "http",
    .lane_open = web_lane_open,
    .lane_close = web_lane_close,
    .start = web_start,
    .cancel = web_cancel,
    .free = web_free,
};

int origin_http_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                    struct origin **out, struct dlc_err *err)
{
    struct web *w = mem_zero(sizeof(*w) + lanes * sizeof(w->lanes[0]));
    unsigned limit = c->max_requests != 0 ? c->max_requests : LIMIT;

    (void)err;
    w->origin.ops = &ops;
    w->origin.lanes = lanes;
    w->tag = WEB_TAG;
    w->base = mem_fmt("%s://%s%s%s", u->scheme == URL_HTTPS ? "https" : "http", u->bucket,
                      u->prefix[0] == '/' ? "" : "/", u->prefix);
    w->connections = limit / lanes + 1;
    w->address_rules = c->address_rules;
    w->proxy = c->proxy;
    w->connect_timeout = c->connect_timeout.ns != 0 ? c->connect_timeout : DLC_SEC(5);
    *out = &w->origin;
    return 0;
}
