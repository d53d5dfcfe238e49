// SPDX-License-Identifier: Apache-2.0
/*
 * Replies: turns what handlers fill in into libmicrohttpd responses. JSON is serialized here; data
 * is sent from where it lies; a stream is asked for more by its connection's thread, which checks
 * periodically whether the client is still there and the server still open.
 */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "net/range_i.h"
#include "net/server_reply_i.h"
#include "net/server_i.h"

#define TAIL_TAG     DLC_TAG4('h', 't', 't', 'l')
#define STREAM_BLOCK 8192

/* What a reply leaves to be done when it is over. */
struct tail {
    uint32_t tag;
    struct http_server *server;
    struct MHD_Connection *connection;
    int fd;
    char *text; /* JSON written out */
    void (*done)(void *arg);
    long (*next)(void *arg, char *buf, size_t cap);
    void *arg;
};

/* -------- for handlers -------- */

void http_reply_header(struct http_reply *reply, const char *name, const char *fmt, ...)
{
    char value[512];
    size_t i = 0;
    va_list ap;

    while (i < HTTP_HEADERS && reply->headers[i].name != NULL)
        i++;
    dlc_check(i < HTTP_HEADERS);
    va_start(ap, fmt);
    vsnprintf(value, sizeof(value), fmt, ap);
    va_end(ap);
    reply->headers[i].name = name;
    reply->headers[i].value = mem_str(value);
}

void http_problem(struct http_reply *reply, int status, const char *title, const char *detail, ...)
{
    char text[1000];
    va_list ap;

    va_start(ap, detail);
    vsnprintf(text, sizeof(text), detail, ap);
    va_end(ap);
    json_decref(reply->body);
    reply->status = status;
    reply->type = "application/problem+json";
    reply->data = NULL;
    reply->next = NULL;
    reply->body = json_pack("{s:s, s:s, s:i, s:s%}", "type", "about:blank", "title", title,
                            "status", status, "detail", text, strlen(text));
    if (reply->body == NULL) /* cut in the middle of a character, or not UTF-8 at all */
        reply->body =
            json_pack("{s:s, s:s, s:i}", "type", "about:blank", "title", title, "status", status);
}

static int status_of(int code, const char **title)
{
    static const struct {
        int code, status;
        const char *title;
    } table[] = {
        {DLC_EINVAL, 400, "Bad request"},
        {DLC_EDENIED, 403, "Forbidden"},
        {DLC_ENOTFOUND, 404, "Not found"},
        {DLC_EMISS, 404, "Not found"},
        {DLC_EBUSY, 409, "Conflict"},
        {DLC_ECHANGED, 409, "Conflict"},
        {DLC_ELARGE, 413, "Content too large"},
        {DLC_EPROTO, 502, "Bad gateway"},
        {DLC_EBUCKET, 503, "Service unavailable"},
        {DLC_ENODAEMON, 503, "Service unavailable"},
        {DLC_ECANCELED, 503, "Service unavailable"},
        {DLC_ENOMEM, 503, "Service unavailable"},
        {DLC_ETIMEDOUT, 504, "Gateway timeout"},
        {DLC_ENOSPACE, 507, "Insufficient storage"},
    };

    for (size_t i = 0; i < DLC_COUNT(table); i++) {
        if (table[i].code == code) {
            *title = table[i].title;
            return table[i].status;
        }
    }
    *title = "Internal server error";
    return 500;
}

void http_problem_err(struct http_reply *reply, const struct dlc_err *err)
{
    const char *title;
    int status = status_of(err->code, &title);

    http_problem(reply, status, title, "%s", err->text);
}

/* -------- what libmicrohttpd calls -------- */

static struct tail *tail_of(void *priv)
{
    struct tail *t = priv;

    dlc_check(t != NULL && t->tag == TAIL_TAG);
    return t;
}

static void on_over(void *priv)
{
    struct tail *t = tail_of(priv);

    if (t->done != NULL)
        t->done(t->arg);
    free(t->text);
    t->tag = 0;
    mem_free(&t);
}

static bool client_gone(const struct tail *t)
{
    struct pollfd p = {.fd = t->fd, .events = POLLRDHUP};

    return os_poll(&p, 1, 0) > 0;
}

static ssize_t wait_more(struct tail *t, char *buf, size_t cap)
{
    while (!atomic_load_explicit(&t->server->closing, memory_order_relaxed)) {
        long n = t->next(t->arg, buf, cap);

        if (n > 0)
            return (ssize_t)n;
        if (n < 0)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (client_gone(t))
            return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    return MHD_CONTENT_READER_END_OF_STREAM;
}

/* A stream that has nothing to say is not idle; one that nobody reads is. */
static ssize_t on_more(void *priv, uint64_t at, char *buf, size_t cap)
{
    struct tail *t = tail_of(priv);
    ssize_t n;

    (void)at;
    MHD_set_connection_option(t->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    n = wait_more(t, buf, cap);
    MHD_set_connection_option(t->connection, MHD_CONNECTION_OPTION_TIMEOUT, t->server->idle_s);
    return n;
}

/* -------- sending -------- */

static struct tail *tail_new(struct exchange *x, const struct http_reply *reply)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct tail *t = mem_new(struct tail);

    t->tag = TAIL_TAG;
    t->server = x->server;
    t->connection = x->connection;
    t->fd = info != NULL ? info->connect_fd : -1;
    t->done = reply->done;
    t->next = reply->next;
    t->arg = reply->arg;
    return t;
}

/* The body; *type is what it is when the handler did not say. */
static struct MHD_Response *response_new(struct exchange *x, struct http_reply *reply,
                                         const char **type)
{
    struct tail *t = tail_new(x, reply);
    struct MHD_Response *out;
    const void *data = reply->data;
    size_t len = data != NULL ? reply->data_len : 0;

    *type = data != NULL ? "application/octet-stream" : NULL;
    if (reply->next != NULL) {
        *type = "application/x-ndjson";
        out =
            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, on_more, t, on_over);
    } else {
        if (reply->body != NULL) {
            *type = "application/json";
            data = t->text = json_dumps(reply->body, JSON_COMPACT);
            len = data != NULL ? strlen(data) : 0;
        }
        out = MHD_create_response_from_buffer_with_free_callback_cls(
            len, (void *)(uintptr_t)(data != NULL ? data : ""), on_over, t);
    }
    if (out == NULL)
        on_over(t);
    else if (reply->next == NULL)
        conns_replying(x, len);
    return out;
}

void reply_cut_range(struct http_reply *reply, const char *text, bool if_range)
{
    uint64_t first = 0, last = 0, size = reply->data_len;
    enum range what = RANGE_WHOLE;

    if ((reply->data == NULL && !reply->file) || (reply->status != 0 && reply->status != 200))
        return;
    http_reply_header(reply, "Accept-Ranges", "bytes");
    if (text != NULL && !if_range)
        what = range_parse(text, size, &first, &last);
    if (what == RANGE_PART) {
        reply->status = 206;
        if (reply->file)
            reply->file_offset += first;
        else
            reply->data = (const char *)reply->data + first;
        reply->data_len = (size_t)(last - first + 1);
        http_reply_header(reply, "Content-Range", "bytes %llu-%llu/%llu", (unsigned long long)first,
                          (unsigned long long)last, (unsigned long long)size);
    } else if (what == RANGE_BEYOND) {
        http_problem(reply, 416, "Range not satisfiable", "there are %llu bytes",
                     (unsigned long long)size);
        http_reply_header(reply, "Content-Range", "bytes */%llu", (unsigned long long)size);
    }
}

static void add_header(struct MHD_Response *out, const char *name, const char *value)
{
    if (value != NULL && MHD_add_response_header(out, name, value) != MHD_YES)
        log_warn("http: the header %s cannot be sent: its value is not one line of text", name);
}

static void add_headers(struct MHD_Response *out, const struct http_reply *reply, const char *type,
                        bool closing)
{
    add_header(out, "Content-Type", type != NULL && reply->type != NULL ? reply->type : type);
    add_header(out, "Location", reply->location);
    add_header(out, "ETag", reply->etag);
    add_header(out, "Retry-After", reply->retry_after);
    add_header(out, "Cache-Control", "no-store");
    for (size_t i = 0; i < HTTP_HEADERS && reply->headers[i].name != NULL; i++)
        add_header(out, reply->headers[i].name, reply->headers[i].value);
    if (closing)
        add_header(out, "Connection", "close");
}

void reply_release(struct http_reply *reply)
{
    json_decref(reply->body);
    reply->body = NULL;
    mem_free(&reply->location);
    mem_free(&reply->etag);
    mem_free(&reply->retry_after);
    for (size_t i = 0; i < HTTP_HEADERS; i++)
        mem_free(&reply->headers[i].value);
}

enum MHD_Result exchange_reply(struct exchange *x, struct http_reply *reply)
{
    enum MHD_Result rc = MHD_NO;
    struct MHD_Response *out;
    const char *type;

    reply_cut_range(reply, http_header(&x->request, "Range"),
                    http_header(&x->request, "If-Range") != NULL);
    if (x->checked && x->server->config.answered != NULL)
        x->server->config.answered(&x->request, x->route, reply, x->server->config.ctx);
    out = response_new(x, reply, &type);
    if (out != NULL) {
        add_headers(out, reply, type,
                    atomic_load_explicit(&x->server->closing, memory_order_relaxed));
        add_header(out, "X-Request-Id", x->request.id);
        rc = MHD_queue_response(x->connection, reply->status == 0 ? 200 : (unsigned)reply->status,
                                out);
        MHD_destroy_response(out); /* ours; the connection has its own reference */
    }
    reply_release(reply);
    return rc;
}
