// SPDX-License-Identifier: Apache-2.0
/*
 * Unpacked copies: compressed bytes of the source are decoded into the sink, within the limits.
 *
 * (DECOMPRESS-1) No more than limits.max_derived bytes, and no more than limits.max_ratio times the
 *                source's size (but always 1 MiB), are ever given to the sink.
 */
#ifndef DLC_CATALOG_ARCHIVES_DECOMPRESS_I_H
#define DLC_CATALOG_ARCHIVES_DECOMPRESS_I_H

#include "catalog/archives/codec_i.h"
#include "catalog/archives/byte_stream_i.h"

/* May the unpacked copy have this many bytes? 0, or DLC_EINVAL with the limit's name. */
int derived_check(const struct scan *s, uint64_t size, struct dlc_err *err);

/* Append to the unpacked copy, checked. */
int derived_write(struct scan *s, const void *data, size_t len, struct dlc_err *err);

/* A text for what decoder_begin() and decoder_step() return. `what` is the file, or a member. */
int decoder_error(int code, const struct codec *c, const char *name, const char *what,
                  struct dlc_err *err);

/* The whole source, decoded: frame after frame, with zeros allowed between and after them. */
struct expand {
    struct stream base;
    struct scan *scan;
    struct reader reader;
    uint64_t in_pos;
    struct decoder decoder;
    bool in_frame, ended;
    unsigned char *out;
    size_t at, len; /* what is left in out */
};

int expand_init(struct expand *x, struct scan *s, const struct codec *codec, struct dlc_err *err);
void expand_release(struct expand *x);

#endif
