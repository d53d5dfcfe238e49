// SPDX-License-Identifier: Apache-2.0
/*
 * Decompression, one frame at a time: gzip, raw deflate, bzip2, xz and zstd behind one step.
 * Memory is bounded whatever the input says: 256 MiB for xz, a window of 128 MiB for zstd.
 */
#ifndef DLC_CATALOG_ARCHIVES_CODEC_I_H
#define DLC_CATALOG_ARCHIVES_CODEC_I_H

#include <stdbool.h>
#include <stddef.h>

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/err.h"

struct decoder_io {
    const unsigned char *in; /* both advance */
    size_t in_len;
    unsigned char *out;
    size_t out_len;
};

struct codec;
extern const struct codec codec_gzip, codec_deflate, codec_bzip2, codec_xz, codec_zstd;

const char *codec_name(const struct codec *c);

struct decoder {
    const struct codec *codec;
    bool open;
    union {
        z_stream z;
        bz_stream bz;
        lzma_stream xz;
        ZSTD_DStream *zstd;
    } u;
};

void decoder_init(struct decoder *d, const struct codec *codec);
void decoder_release(struct decoder *d);

/* Begin a frame; 0 or DLC_ENOMEM. */
int decoder_begin(struct decoder *d);

enum { DECODER_MORE = 0, DECODER_END = 1 };

/* Decode the available input. DECODER_*, DLC_ECORRUPT, DLC_ENOMEM, or DLC_EINVAL if the frame wants
 * more memory than is allowed. */
int decoder_step(struct decoder *d, struct decoder_io *io);

#endif
