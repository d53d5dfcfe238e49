// SPDX-License-Identifier: Apache-2.0
#include "catalog/archives/codec_i.h"

#include <limits.h>
#include <stdint.h>

#include "base/check.h"
#include "base/mem.h"

#define XZ_MEMORY       ((uint64_t)256 << 20)
#define ZSTD_WINDOW_LOG 27
#define STEP_MAX        ((size_t)1 << 30) /* zlib and bzip2 count in unsigned int */

struct codec {
    const char *name;
    int (*begin)(struct decoder *d);
    int (*step)(struct decoder *d, struct decoder_io *io);
    void (*end)(struct decoder *d);
};

static void on_free(void *opaque, void *p)
{
    (void)opaque;
    mem_free(&p);
}

/* zlib */

static void *z_alloc(void *opaque, unsigned n, unsigned size)
{
    (void)opaque;
    return mem_try_zero((size_t)n * size);
}

static int begin_z(struct decoder *d, int window_bits)
{
    if (d->open)
        return inflateReset(&d->u.z) == Z_OK ? 0 : DLC_ENOMEM;
    d->u.z = (z_stream){.zalloc = z_alloc, .zfree = on_free};
    return inflateInit2(&d->u.z, window_bits) == Z_OK ? 0 : DLC_ENOMEM;
}

static int begin_gzip(struct decoder *d)
{
    return begin_z(d, 16 + MAX_WBITS);
}

static int begin_deflate(struct decoder *d)
{
    return begin_z(d, -MAX_WBITS);
}

static int step_z(struct decoder *d, struct decoder_io *io)
{
    z_stream *z = &d->u.z;
    int rc;

    z->next_in = (unsigned char *)(uintptr_t)io->in;
    z->avail_in = (unsigned)DLC_MIN(io->in_len, STEP_MAX);
    z->next_out = io->out;
    z->avail_out = (unsigned)DLC_MIN(io->out_len, STEP_MAX);
    rc = inflate(z, Z_NO_FLUSH);
    io->in_len -= (size_t)(z->next_in - io->in);
    io->in = z->next_in;
    io->out_len -= (size_t)(z->next_out - io->out);
    io->out = z->next_out;
    switch (rc) {
    case Z_OK:
    case Z_BUF_ERROR: return DECODER_MORE;
    case Z_STREAM_END: return DECODER_END;
    case Z_MEM_ERROR: return DLC_ENOMEM;
    default: return DLC_ECORRUPT;
    }
}

static void end_z(struct decoder *d)
{
    inflateEnd(&d->u.z);
}

/* bzip2 */

static void *bz_alloc(void *opaque, int n, int size)
{
    (void)opaque;
    return mem_try_alloc((size_t)n * (size_t)size);
}

static void end_bz(struct decoder *d)
{
    BZ2_bzDecompressEnd(&d->u.bz);
}

static int begin_bz(struct decoder *d)
{
    if (d->open)
        end_bz(d);
    d->open = false;
    d->u.bz = (bz_stream){.bzalloc = bz_alloc, .bzfree = on_free};
    return BZ2_bzDecompressInit(&d->u.bz, 0, 0) == BZ_OK ? 0 : DLC_ENOMEM;
}

static int step_bz(struct decoder *d, struct decoder_io *io)
{
    bz_stream *bz = &d->u.bz;
    int rc;

    bz->next_in = (char *)(uintptr_t)io->in;
    bz->avail_in = (unsigned)DLC_MIN(io->in_len, STEP_MAX);
    bz->next_out = (char *)io->out;
    bz->avail_out = (unsigned)DLC_MIN(io->out_len, STEP_MAX);
    rc = BZ2_bzDecompress(bz);
    io->in_len -= (size_t)((unsigned char *)bz->next_in - io->in);
    io->in = (unsigned char *)bz->next_in;
    io->out_len -= (size_t)((unsigned char *)bz->next_out - io->out);
    io->out = (unsigned char *)bz->next_out;
    switch (rc) {
    case BZ_OK: return DECODER_MORE;
    case BZ_STREAM_END: return DECODER_END;
    case BZ_MEM_ERROR: return DLC_ENOMEM;
    default: return DLC_ECORRUPT;
    }
}

/* xz */

static void *xz_alloc(void *opaque, size_t n, size_t size)
{
    (void)opaque;
    return size != 0 && n > SIZE_MAX / size ? NULL : mem_try_alloc(n * size);
}

static int begin_xz(struct decoder *d)
{
    static const lzma_allocator allocator = {xz_alloc, on_free, NULL};

    if (!d->open)
        d->u.xz = (lzma_stream){.allocator = &allocator};
    return lzma_stream_decoder(&d->u.xz, XZ_MEMORY, 0) == LZMA_OK ? 0 : DLC_ENOMEM;
}

static int step_xz(struct decoder *d, struct decoder_io *io)
{
    lzma_stream *xz = &d->u.xz;
    lzma_ret rc;

    xz->next_in = io->in;
    xz->avail_in = io->in_len;
    xz->next_out = io->out;
    xz->avail_out = io->out_len;
    rc = lzma_code(xz, LZMA_RUN);
    io->in = xz->next_in;
    io->in_len = xz->avail_in;
    io->out = xz->next_out;
    io->out_len = xz->avail_out;
    switch (rc) {
    case LZMA_OK:
    case LZMA_BUF_ERROR: return DECODER_MORE;
    case LZMA_STREAM_END: return DECODER_END;
    case LZMA_MEM_ERROR: return DLC_ENOMEM;
    case LZMA_MEMLIMIT_ERROR: return DLC_EINVAL;
    default: return DLC_ECORRUPT;
    }
}

static void end_xz(struct decoder *d)
{
    lzma_end(&d->u.xz);
}

/* zstd */

static int begin_zstd(struct decoder *d)
{
    if (d->open) {
        ZSTD_DCtx_reset(d->u.zstd, ZSTD_reset_session_only);
        return 0;
    }
    d->u.zstd = ZSTD_createDStream();
    if (d->u.zstd == NULL)
        return DLC_ENOMEM;
    ZSTD_DCtx_setParameter(d->u.zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
    return 0;
}

static int step_zstd(struct decoder *d, struct decoder_io *io)
{
    ZSTD_inBuffer in = {io->in, io->in_len, 0};
    ZSTD_outBuffer out = {io->out, io->out_len, 0};
    size_t rc = ZSTD_decompressStream(d->u.zstd, &out, &in);

    io->in += in.pos;
    io->in_len -= in.pos;
    io->out += out.pos;
    io->out_len -= out.pos;
    if (!ZSTD_isError(rc))
        return rc == 0 ? DECODER_END : DECODER_MORE;
    switch (ZSTD_getErrorCode(rc)) {
    case ZSTD_error_memory_allocation: return DLC_ENOMEM;
    case ZSTD_error_frameParameter_windowTooLarge: return DLC_EINVAL;
    default: return DLC_ECORRUPT;
    }
}

static void end_zstd(struct decoder *d)
{
    ZSTD_freeDStream(d->u.zstd);
}

const struct codec codec_gzip = {"gzip", begin_gzip, step_z, end_z};
const struct codec codec_deflate = {"deflate", begin_deflate, step_z, end_z};
const struct codec codec_bzip2 = {"bzip2", begin_bz, step_bz, end_bz};
const struct codec codec_xz = {"xz", begin_xz, step_xz, end_xz};
const struct codec codec_zstd = {"zstd", begin_zstd, step_zstd, end_zstd};

const char *codec_name(const struct codec *c)
{
    return c->name;
}

void decoder_init(struct decoder *d, const struct codec *codec)
{
    *d = (struct decoder){.codec = codec};
}

void decoder_release(struct decoder *d)
{
    if (d->open)
        d->codec->end(d);
    d->open = false;
}

int decoder_begin(struct decoder *d)
{
    int rc = d->codec->begin(d);

    d->open = d->open || rc == 0;
    return rc;
}

int decoder_step(struct decoder *d, struct decoder_io *io)
{
    dlc_check(d->open);
    return d->codec->step(d, io);
}
