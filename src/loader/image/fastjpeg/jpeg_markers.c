// SPDX-License-Identifier: Apache-2.0
/*
 * The headers of a JPEG up to its first scan. An image with uncommon or invalid headers is left to
 * libjpeg, which also has the messages for errors. So this parser is strict, and short.
 */
#include "loader/image/fastjpeg/jpeg_i.h"

#include <string.h>

#include "base/check.h"

const uint8_t jpeg_order[64 + JPEG_END] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18,
    11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43,
    36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45,
    38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, [64 ... 63 + JPEG_END] = 63};

struct piece { /* of the data */
    const uint8_t *p;
    size_t n;
};

static unsigned be16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static bool read_quant(struct jpeg_frame *f, struct piece s)
{
    while (s.n > 0) {
        unsigned wide = s.p[0] >> 4, id = s.p[0] & 15;
        size_t n = 64 * (size_t)(1 + wide);

        if (wide > 1 || id > 3 || s.n < 1 + n)
            return false;
        for (unsigned i = 0; i < 64; i++)
            f->quant[id][jpeg_order[i]] =
                (uint16_t)(wide ? be16(s.p + 1 + 2 * (size_t)i) : s.p[1 + i]);
        f->has_quant[id] = true;
        s.p += 1 + n;
        s.n -= 1 + n;
    }
    return true;
}

static bool read_codes(struct jpeg_frame *f, struct piece s)
{
    while (s.n > 0) {
        unsigned kind = s.p[0] >> 4, id = s.p[0] & 15;
        size_t n = 0;

        if (kind > 1 || id > 1 || s.n < 17)
            return false;
        for (unsigned i = 1; i <= 16; i++)
            n += s.p[i];
        if (n > 256 || s.n < 17 + n)
            return false;
        *(kind == 0 ? &f->dc[id] : &f->ac[id]) = s.p + 1;
        s.p += 17 + n;
        s.n -= 17 + n;
    }
    return true;
}

/* 4:4:4, 4:2:2, 4:2:0. Of a grey image the sampling has no meaning. */
static bool sampling_is_ours(struct jpeg_frame *f)
{
    struct jpeg_part *p = f->parts;

    if (f->n_parts == 1) {
        bool sound = p->h >= 1 && p->h <= 4 && p->v >= 1 && p->v <= 4;

        p->h = p->v = 1;
        return sound;
    }
    if (p[1].h != 1 || p[1].v != 1 || p[2].h != 1 || p[2].v != 1)
        return false;
    if (p[0].h == 1 && p[0].v == 1)
        return true;
    return p[0].h == 2 && (p[0].v == 1 || p[0].v == 2) && f->width > 4; /* narrower: not smoothed */
}

static bool read_frame(struct jpeg_frame *f, struct piece s)
{
    if (f->n_parts != 0 || s.n < 6 || s.p[0] != 8)
        return false;
    f->height = be16(s.p + 1);
    f->width = be16(s.p + 3);
    f->n_parts = s.p[5];
    if (f->width == 0 || f->height == 0 || (f->n_parts != 1 && f->n_parts != 3) ||
        s.n != 6 + 3 * (size_t)f->n_parts)
        return false;
    for (unsigned i = 0; i < f->n_parts; i++) {
        const uint8_t *p = s.p + 6 + 3 * (size_t)i;

        f->parts[i] = (struct jpeg_part){.id = p[0], .h = p[1] >> 4, .v = p[1] & 15, .quant = p[2]};
        for (unsigned k = 0; k < i; k++)
            if (f->parts[k].id == p[0])
                return false;
    }
    return sampling_is_ours(f);
}

/* All components in their order, all coefficients at once, and every table there. */
static bool read_scan(struct jpeg_frame *f, struct piece s)
{
    if (f->n_parts == 0 || s.n != 4 + 2 * (size_t)f->n_parts || s.p[0] != f->n_parts)
        return false;
    for (unsigned i = 0; i < f->n_parts; i++) {
        struct jpeg_part *part = &f->parts[i];

        part->dc = s.p[2 + 2 * i] >> 4;
        part->ac = s.p[2 + 2 * i] & 15;
        if (s.p[1 + 2 * i] != part->id || part->quant > 3 || !f->has_quant[part->quant] ||
            part->dc > 1 || part->ac > 1 || f->dc[part->dc] == NULL || f->ac[part->ac] == NULL)
            return false;
    }
    return memcmp(s.p + s.n - 3, "\0\x3f\0", 3) == 0;
}

static bool read_segment(struct jpeg_frame *f, unsigned marker, struct piece s)
{
    switch (marker) {
    case 0xc0: /* baseline, or extended with the same means */
    case 0xc1: return read_frame(f, s);
    case 0xc4: return read_codes(f, s);
    case 0xda: return read_scan(f, s);
    case 0xdb: return read_quant(f, s);
    case 0xdd: f->restart = s.n == 2 ? be16(s.p) : 0; return s.n == 2;
    default: return (marker >= 0xe0 && marker <= 0xef) || marker == 0xfe;
    }
}

bool jpeg_frame_read(struct jpeg_frame *f, const uint8_t *data, size_t len)
{
    size_t at = 2, n;
    unsigned marker;

    memset(f, 0, sizeof(*f));
    if (len < 4 || be16(data) != 0xffd8)
        return false;
    do {
        if (at >= len || data[at] != 0xff)
            return false;
        while (at < len && data[at] == 0xff)
            at++;
        if (len - at < 3)
            return false;
        marker = data[at++];
        n = be16(data + at);
        if (n < 2 || n > len - at || !read_segment(f, marker, (struct piece){data + at + 2, n - 2}))
            return false;
        at += n;
    } while (marker != 0xda);
    f->scan = data + at;
    f->scan_len = len - at;
    return true;
}
