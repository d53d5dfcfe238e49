// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes of a client at the gRPC server, without its socket. The input is a list of frames: of calls
 * that are nearly right (headers as libnghttp2 packs them, messages with their length or another
 * one), of any kind with any contents, and bytes that are none. What the server answers is read or
 * left lying, so that streams end with an answer on its way.
 */
#include "fuzz_numbers.h"

#include <nghttp2/nghttp2.h>

#include "base/check.h"
#include "base/mem.h"
#include "operator/csi/grpc_session_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD        9 /* of a frame */
#define PAYLOAD_MAX 16384

struct run {
    struct fuzz_bytes b;
    struct grpc_session *session;
    nghttp2_hd_deflater *pack;
    uint32_t last; /* stream */
    bool alive;
};

static enum grpc_status echo(void *ctx, const void *request, size_t len, struct buf *out,
                             struct dlc_err *err)
{
    (void)ctx;
    (void)err;
    dlc_check(len <= GRPC_MESSAGE_MAX);
    buf_add(out, request, len);
    return GRPC_OK;
}

static enum grpc_status fail(void *ctx, const void *request, size_t len, struct buf *out,
                             struct dlc_err *err)
{
    (void)ctx;
    buf_add(out, request, len);
    dlc_err_set(err, DLC_EINVAL, "%.*s", (int)DLC_MIN(len, 100), (const char *)request);
    return GRPC_INVALID_ARGUMENT;
}

static const struct grpc_method methods[] = {{"/t.T/Echo", echo}, {"/t.T/Fail", fail}, {0}};
static const struct grpc_method *const tables[] = {methods, NULL};

/* In two pieces, cut where the input says. */
static void receive(struct run *r, const void *data, size_t len)
{
    size_t cut = len > 0 ? fuzz_byte(&r->b) % (len + 1) : 0;
    char *first = mem_alloc(cut), *second = mem_alloc(len - cut);

    memcpy(first, data, cut);
    memcpy(second, (const char *)data + cut, len - cut);
    r->alive = r->alive && grpc_session_receive(r->session, first, cut) &&
               grpc_session_receive(r->session, second, len - cut);
    mem_free(&first);
    mem_free(&second);
}

static void frame(struct run *r, uint8_t type, uint8_t flags, uint32_t stream,
                  const struct buf *payload)
{
    uint32_t len = (uint32_t)DLC_MIN(payload->len, PAYLOAD_MAX);
    const uint8_t head[HEAD] = {(uint8_t)(len >> 16),
                                (uint8_t)(len >> 8),
                                (uint8_t)len,
                                type,
                                flags,
                                (uint8_t)(stream >> 24),
                                (uint8_t)(stream >> 16),
                                (uint8_t)(stream >> 8),
                                (uint8_t)stream};
    struct buf b = BUF_INIT;

    buf_add(&b, head, HEAD);
    buf_add(&b, buf_str(payload), len);
    receive(r, b.data, b.len);
    buf_release(&b);
}

static void take_bytes(struct run *r, size_t n, struct buf *out)
{
    for (; n > 0 && r->b.left > 0; n--)
        buf_addc(out, (char)fuzz_byte(&r->b));
}

/* The new stream, or one from before. */
static uint32_t stream(struct run *r, bool new)
{
    if (new)
        r->last += 2;
    return new ? r->last - 1 : (uint32_t)fuzz_byte(&r->b) % (r->last + 2);
}

static nghttp2_nv nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0};
}

static void send_headers(struct run *r)
{
    static const char *const paths[] = {"/t.T/Echo", "/t.T/Fail", "/t.T/None", "/"};
    static const char *const types[] = {"application/grpc", "application/grpc+proto", "text/plain"};
    uint8_t how = fuzz_byte(&r->b);
    const nghttp2_nv list[] = {nv(":method", how & 64 ? "GET" : "POST"), nv(":scheme", "http"),
                               nv(":authority", "x"), nv(":path", paths[how & 3]),
                               nv("content-type", types[(how >> 2) % 3])};
    uint8_t flags = NGHTTP2_FLAG_END_HEADERS | (how & 128 ? NGHTTP2_FLAG_END_STREAM : 0);
    struct buf payload = BUF_INIT;
    ssize_t n;

    buf_reserve(&payload, 4096);
    n = nghttp2_hd_deflate_hd(r->pack, (uint8_t *)payload.data, 4096, list,
                              DLC_COUNT(list) - (how >> 4 & 3));
    dlc_check(n >= 0);
    payload.len = (size_t)n;
    frame(r, NGHTTP2_HEADERS, flags, stream(r, how % 16 != 15), &payload);
    buf_release(&payload);
}

static void send_message(struct run *r)
{
    uint8_t how = fuzz_byte(&r->b);
    size_t len = fuzz_byte(&r->b) * (how & 16 ? 100 : 1);
    uint32_t said = how & 1 ? (uint32_t)fuzz_take(&r->b) : (uint32_t)len;
    struct buf payload = BUF_INIT;

    buf_addc(&payload, (char)(how & 2 ? 1 : 0));
    for (int i = 24; i >= 0; i -= 8)
        buf_addc(&payload, (char)(said >> i));
    for (size_t i = 0; i < len; i++)
        buf_addc(&payload, (char)(i * 7));
    if (how & 4)
        payload.len = DLC_MIN(payload.len, 4);
    frame(r, NGHTTP2_DATA, how & 8 ? 0 : NGHTTP2_FLAG_END_STREAM,
          how & 32 ? stream(r, false) : r->last - 1, &payload);
    buf_release(&payload);
}

static void send_other(struct run *r)
{
    static const uint8_t types[] = {NGHTTP2_RST_STREAM, NGHTTP2_WINDOW_UPDATE, NGHTTP2_SETTINGS,
                                    NGHTTP2_PRIORITY,   NGHTTP2_PING,          NGHTTP2_CONTINUATION,
                                    NGHTTP2_GOAWAY,     NGHTTP2_PUSH_PROMISE};
    uint8_t how = fuzz_byte(&r->b);
    struct buf payload = BUF_INIT;
    uint64_t n;

    switch (how & 7) {
    case 0:
    case 1: /* a number of 31 bits */
        n = fuzz_take(&r->b);
        for (int i = 24; i >= 0; i -= 8)
            buf_addc(&payload, (char)(n >> i));
        break;
    case 2:
        for (unsigned i = how >> 3 & 3; i > 0; i--) {
            buf_addc(&payload, 0);
            buf_addc(&payload, (char)(fuzz_byte(&r->b) % 8));
            n = fuzz_take(&r->b);
            for (int k = 24; k >= 0; k -= 8)
                buf_addc(&payload, (char)(n >> k));
        }
        break;
    default: take_bytes(r, fuzz_byte(&r->b) % 64, &payload);
    }
    frame(r, types[how & 7], how & 64 ? fuzz_byte(&r->b) : 0,
          how & 32         ? stream(r, false)
          : (how & 7) == 2 ? 0
                           : r->last - 1,
          &payload);
    buf_release(&payload);
}

static void drain(struct run *r)
{
    const void *data;

    while (r->alive && grpc_session_send(r->session, &data) > 0)
        ;
}

static void step(struct run *r)
{
    struct buf raw = BUF_INIT;

    switch (fuzz_byte(&r->b) % 8) {
    case 0:
    case 1: send_headers(r); break;
    case 2:
    case 3: send_message(r); break;
    case 4: send_other(r); break;
    case 5: drain(r); break;
    case 6:
        take_bytes(r, fuzz_byte(&r->b), &raw);
        frame(r, fuzz_byte(&r->b), fuzz_byte(&r->b), stream(r, false), &raw);
        break;
    default: take_bytes(r, fuzz_byte(&r->b), &raw); receive(r, buf_str(&raw), raw.len);
    }
    buf_release(&raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run r = {.b = {data, size}, .last = 0, .alive = true};
    struct buf nothing = BUF_INIT;

    r.session = grpc_session_new(tables, NULL);
    dlc_check(nghttp2_hd_deflate_new(&r.pack, 4096) == 0);
    if (fuzz_byte(&r.b) < 250) {
        receive(&r, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
        frame(&r, NGHTTP2_SETTINGS, 0, 0, &nothing);
    }
    while (r.alive && r.b.left > 0)
        step(&r);
    drain(&r);
    (void)grpc_session_is_open(r.session);
    nghttp2_hd_deflate_del(r.pack);
    grpc_session_free(&r.session);
    return 0;
}
