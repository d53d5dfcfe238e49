// SPDX-License-Identifier: Apache-2.0
/* For tests: tars by hand, and every compression. */
#ifndef DLC_TESTS_PACKING_H
#define DLC_TESTS_PACKING_H

#include "scanning.h"

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "catalog/archives/tar_header_i.h"

static inline void mend_checksum(char *block)
{
    unsigned sum = 8 * ' ';

    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i >= 148 && i < 156 ? 0 : (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
}

static inline void add_member(struct buf *b, char type, const char *name, const char *data)
{
    size_t len = strlen(data), at = b->len;
    char zeros[TAR_BLOCK] = {0};

    tar_head_make(b, name, strlen(name), len);
    b->data[at + 156] = type;
    mend_checksum(b->data + at);
    buf_add(b, data, len);
    buf_add(b, zeros, (size_t)(TAR_PADDED(len) - len));
}

static inline void end_tar(struct buf *b)
{
    char zeros[2 * TAR_BLOCK] = {0};

    buf_add(b, zeros, sizeof(zeros));
}

static inline void pack_z(struct buf *out, const struct buf *in, int window_bits)
{
    z_stream z = {0};

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)in->data;
    z.avail_in = (unsigned)in->len;
    buf_reserve(out, deflateBound(&z, in->len));
    z.next_out = (unsigned char *)out->data + out->len;
    z.avail_out = (unsigned)(out->cap - out->len);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out->len += z.total_out;
    deflateEnd(&z);
}

/* Append in, compressed by the name at the end of the key. */
static inline void pack(struct buf *out, const struct buf *in, const char *key)
{
    size_t room = in->len + in->len / 50 + 1000, n = 0;
    unsigned bz_room = (unsigned)room;
    unsigned char *to;

    if (strstr(key, "gz") != NULL) {
        pack_z(out, in, 16 + MAX_WBITS);
        return;
    }
    buf_reserve(out, room);
    to = (unsigned char *)out->data + out->len;
    if (strstr(key, "bz2") != NULL) {
        assert_int_equal(
            BZ2_bzBuffToBuffCompress((char *)to, &bz_room, in->data, (unsigned)in->len, 1, 0, 0),
            BZ_OK);
        n = bz_room;
    } else if (strstr(key, "xz") != NULL) {
        assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL,
                                                 (unsigned char *)in->data, in->len, to, &n, room),
                         LZMA_OK);
    } else {
        n = ZSTD_compress(to, room, in->data, in->len, 1);
        assert_false(ZSTD_isError(n));
    }
    out->len += n;
}

#endif
