// SPDX-License-Identifier: Apache-2.0
#include "operator/csi/grpc_session_i.h"

#include <stdio.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"

#define FRAME_HEAD   5 /* of a message: compressed?, and its length in four bytes */
#define HEADERS_SIZE 16384
#define PATH_MAX_LEN 256

/* One call: what came of it, and what goes back. */
struct grpc_stream {
    struct dlc_list link; /* in grpc_session.streams */
    char path[PATH_MAX_LEN];
    bool is_post, is_grpc, too_long;
    struct buf in, out;
    size_t sent; /* of out */
    enum grpc_status status;
    struct dlc_err err;
};

struct grpc_session {
    const struct grpc_method *const *tables;
    void *ctx;
    nghttp2_session *http;
    struct dlc_list streams;
};

/* ---- calls ---- */

static const struct grpc_method *find_method(const struct grpc_session *s, const char *path)
{
    for (const struct grpc_method *const *t = s->tables; *t != NULL; t++)
        for (const struct grpc_method *m = *t; m->path != NULL; m++)
            if (strcmp(m->path, path) == 0)
                return m;
    return NULL;
}

static size_t message_length(const struct buf *in)
{
    const unsigned char *p = (const unsigned char *)in->data + 1;

    return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
}

static enum grpc_status refuse(struct grpc_stream *st, enum grpc_status status, const char *text)
{
    dlc_err_set(&st->err, DLC_EPROTO, "%s", text);
    return status;
}

/* Call the method. Its answer lies behind the head of a message. */
static enum grpc_status serve_call(struct grpc_session *s, struct grpc_stream *st)
{
    const struct grpc_method *m = find_method(s, st->path);
    enum grpc_status status;
    uint32_t len;

    if (m == NULL)
        return refuse(st, GRPC_UNIMPLEMENTED, "there is no such method here");
    if (st->too_long)
        return refuse(st, GRPC_RESOURCE_EXHAUSTED, "the message is longer than 1 MiB");
    if (st->in.len < FRAME_HEAD || message_length(&st->in) != st->in.len - FRAME_HEAD)
        return refuse(st, GRPC_INTERNAL, "one whole message is expected");
    if (st->in.data[0] != 0)
        return refuse(st, GRPC_UNIMPLEMENTED, "compressed messages are not understood");
    buf_add(&st->out, "\0\0\0\0\0", FRAME_HEAD);
    status = m->call(s->ctx, st->in.data + FRAME_HEAD, st->in.len - FRAME_HEAD, &st->out, &st->err);
    len = (uint32_t)(st->out.len - FRAME_HEAD);
    for (unsigned i = 0; i < 4; i++)
        st->out.data[1 + i] = (char)(len >> (24 - 8 * i));
    return status;
}

/* ---- answers ---- */

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NONE};
}

/* As gRPC encodes its messages: printable ASCII but '%'. */
static void add_encoded(struct buf *b, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text >= ' ' && *text <= '~' && *text != '%')
            buf_addc(b, *text);
        else
            buf_addf(b, "%%%02X", (unsigned char)*text);
}

static void submit_trailer(nghttp2_session *session, int32_t id, const struct grpc_stream *st)
{
    struct buf text = BUF_INIT;
    char code[12];
    nghttp2_nv nv[2];

    snprintf(code, sizeof(code), "%d", (int)st->status);
    add_encoded(&text, st->err.text);
    nv[0] = header("grpc-status", code);
    nv[1] = header("grpc-message", buf_str(&text));
    nghttp2_submit_trailer(session, id, nv, st->status == GRPC_OK ? 1 : 2);
    buf_release(&text);
}

static ssize_t read_answer(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                           uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct grpc_stream *st = source->ptr;
    size_t n = DLC_MIN(st->out.len - st->sent, room);

    (void)arg;
    memcpy(to, buf_str(&st->out) + st->sent, n);
    st->sent += n;
    if (st->sent == st->out.len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailer(session, id, st);
    }
    return (ssize_t)n;
}

static void answer(struct grpc_session *s, int32_t id, struct grpc_stream *st)
{
    nghttp2_data_provider body = {.source.ptr = st, .read_callback = read_answer};
    nghttp2_nv nv[] = {header(":status", st->is_post && st->is_grpc ? "200" : "415"),
                       header("content-type", "application/grpc")};

    if (!st->is_post || !st->is_grpc) {
        nghttp2_submit_response(s->http, id, nv, 1, NULL);
        return;
    }
    st->status = serve_call(s, st);
    if (st->status != GRPC_OK)
        buf_clear(&st->out); /* a failed call has no message */
    nghttp2_submit_response(s->http, id, nv, 2, &body);
}

/* ---- HTTP/2 ---- */

static void stream_free(struct grpc_stream *st)
{
    dlc_list_remove(&st->link);
    buf_release(&st->in);
    buf_release(&st->out);
    mem_free(&st);
}

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_session *s = arg;
    struct grpc_stream *st;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    st = mem_new(struct grpc_stream);
    dlc_list_push_tail(&s->streams, &st->link);
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, st);
    return 0;
}

static bool is(const uint8_t *text, size_t len, const char *other)
{
    return len == strlen(other) && memcmp(text, other, len) == 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
    struct grpc_stream *st = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    const char *type = "application/grpc";

    (void)flags;
    (void)arg;
    if (st == NULL)
        return 0;
    if (is(name, name_len, ":path") && len < sizeof(st->path))
        memcpy(st->path, value, len); /* zeroed before */
    else if (is(name, name_len, ":method"))
        st->is_post = is(value, len, "POST");
    else if (is(name, name_len, "content-type"))
        st->is_grpc = len >= strlen(type) && memcmp(value, type, strlen(type)) == 0;
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *arg)
{
    struct grpc_stream *st = nghttp2_session_get_stream_user_data(session, id);

    (void)flags;
    (void)arg;
    if (st == NULL)
        return 0;
    st->too_long |= st->in.len + len > GRPC_MESSAGE_MAX + FRAME_HEAD;
    if (!st->too_long)
        buf_add(&st->in, data, len);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_stream *st = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    bool of_call = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;

    if (st != NULL && of_call && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        answer(arg, frame->hd.stream_id, st);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
    struct grpc_stream *st = nghttp2_session_get_stream_user_data(session, id);

    (void)error;
    (void)arg;
    if (st != NULL)
        stream_free(st);
    return 0;
}

struct grpc_session *grpc_session_new(const struct grpc_method *const *tables, void *ctx)
{
    struct grpc_session *s = mem_new(struct grpc_session);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_SIZE},
    };
    nghttp2_session_callbacks *callbacks;

    *s = (struct grpc_session){.tables = tables, .ctx = ctx};
    dlc_list_init(&s->streams);
    dlc_check(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    dlc_check(nghttp2_session_server_new(&s->http, callbacks, s) == 0);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(s->http, NGHTTP2_FLAG_NONE, settings, 2);
    return s;
}

void grpc_session_free(struct grpc_session **sp)
{
    struct grpc_session *s = *sp;

    *sp = NULL;
    while (!dlc_list_empty(&s->streams))
        stream_free(dlc_container(s->streams.next, struct grpc_stream, link));
    nghttp2_session_del(s->http);
    mem_free(&s);
}

bool grpc_session_receive(struct grpc_session *s, const void *data, size_t len)
{
    return nghttp2_session_mem_recv(s->http, data, len) == (ssize_t)len;
}

ssize_t grpc_session_send(struct grpc_session *s, const void **data)
{
    const uint8_t *p = NULL;
    ssize_t len = nghttp2_session_mem_send(s->http, &p);

    *data = p;
    return len;
}

bool grpc_session_is_open(const struct grpc_session *s)
{
    return nghttp2_session_want_read(s->http) || nghttp2_session_want_write(s->http);
}
