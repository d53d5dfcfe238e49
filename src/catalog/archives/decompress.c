// SPDX-License-Identifier: Apache-2.0
#include "catalog/archives/decompress_i.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "catalog/archives/scan_i.h"
#include "catalog/archives/tar_i.h"

#define DEFAULT_RATIO 1000.0
#define ALWAYS        ((uint64_t)1 << 20) /* however small the source is */
#define OUT_BYTES     ((size_t)256 << 10)

int derived_check(const struct scan *s, uint64_t size, struct dlc_err *err)
{
    double ratio = s->limits.max_ratio > 0 ? s->limits.max_ratio : DEFAULT_RATIO;

    if (s->limits.max_derived != 0 && size > s->limits.max_derived)
        return dlc_err_set(err, DLC_EINVAL,
                           "%s: expands to more than %" PRIu64
                           " bytes (limit max_derived); it is refused",
                           s->source->name, s->limits.max_derived);
    if (size > ALWAYS && (double)size > ratio * (double)s->source->size)
        return dlc_err_set(err, DLC_EINVAL,
                           "%s: expands to more than %g times its %" PRIu64
                           " bytes (limit max_ratio); it is refused",
                           s->source->name, ratio, s->source->size);
    return 0;
}

int derived_write(struct scan *s, const void *data, size_t len, struct dlc_err *err)
{
    int rc = derived_check(s, s->derived_size + len, err);

    if (rc == 0 && len > 0)
        rc = s->sink->write(s->sink, data, len, err);
    if (rc == 0)
        s->derived_size += len;
    return rc;
}

int decoder_error(int code, const struct codec *c, const char *name, const char *what,
                  struct dlc_err *err)
{
    switch (code) {
    case DLC_ENOMEM: return dlc_err_set(err, code, "%s: no memory to decompress %s", name, what);
    case DLC_EINVAL:
        return dlc_err_set(err, code,
                           "%s: %s needs more memory to decompress than is allowed (128 MiB for a "
                           "zstd window, 256 MiB for xz); compress it without --long or --ultra",
                           name, what);
    default:
        return dlc_err_set(err, DLC_ECORRUPT, "%s: %s is not %s data, or it is damaged", name, what,
                           codec_name(c));
    }
}

/* Between frames: over zeros, and to the next frame if there is one. */
static int next_frame(struct expand *x, const unsigned char *in, size_t len, struct dlc_err *err)
{
    size_t zeros = 0;
    int rc;

    while (zeros < len && in[zeros] == 0)
        zeros++;
    x->in_pos += zeros;
    if (zeros == len) {
        x->ended = x->in_pos == x->scan->source->size;
        return 0;
    }
    rc = decoder_begin(&x->decoder);
    if (rc != 0)
        return decoder_error(rc, x->decoder.codec, x->scan->source->name, "it", err);
    x->in_frame = true;
    return 0;
}

static int decode(struct expand *x, const unsigned char *in, size_t len, struct dlc_err *err)
{
    struct decoder_io io = {in, len, x->out, OUT_BYTES};
    int rc = decoder_step(&x->decoder, &io);

    if (rc < 0)
        return decoder_error(rc, x->decoder.codec, x->scan->source->name, "it", err);
    x->in_pos += len - io.in_len;
    x->in_frame = rc != DECODER_END;
    x->at = 0;
    x->len = OUT_BYTES - io.out_len;
    if (x->in_frame && io.in_len == len && x->len == 0)
        return dlc_err_set(err, DLC_ECORRUPT,
                           "%s: the %s data ends early, after %" PRIu64
                           " bytes; it was cut short or is damaged",
                           x->scan->source->name, codec_name(x->decoder.codec), x->in_pos);
    return derived_write(x->scan, x->out, x->len, err);
}

/* More into out, or the end. */
static int fill(struct expand *x, struct dlc_err *err)
{
    const unsigned char *in;
    size_t len;
    int rc = 0;

    while (rc == 0 && x->at == x->len && !x->ended) {
        rc = reader_view(&x->reader, x->in_pos, 1, &in, &len, err);
        if (rc == 0)
            rc = x->in_frame ? decode(x, in, len, err) : next_frame(x, in, len, err);
    }
    return rc;
}

static int read_expanded(struct stream *base, void *buf, uint64_t len, uint64_t *got,
                         struct dlc_err *err)
{
    struct expand *x = dlc_container(base, struct expand, base);
    uint64_t n;
    int rc;

    *got = 0;
    while (*got < len) {
        rc = fill(x, err);
        if (rc != 0)
            return rc;
        n = DLC_MIN(len - *got, x->len - x->at);
        if (n == 0)
            break;
        if (buf != NULL)
            memcpy((char *)buf + *got, x->out + x->at, n);
        x->at += n;
        *got += n;
        base->pos += n;
    }
    return 0;
}

int expand_init(struct expand *x, struct scan *s, const struct codec *codec, struct dlc_err *err)
{
    *x = (struct expand){.base = {.read = read_expanded}, .scan = s};
    dlc_check(s->sink != NULL);
    reader_init(&x->reader, s->source);
    decoder_init(&x->decoder, codec);
    x->out = mem_try_alloc(OUT_BYTES);
    if (x->out == NULL)
        return decoder_error(DLC_ENOMEM, codec, s->source->name, "it", err);
    return 0;
}

void expand_release(struct expand *x)
{
    decoder_release(&x->decoder);
    reader_release(&x->reader);
    mem_free(&x->out);
}
