// SPDX-License-Identifier: Apache-2.0
/* Pixel kernels in portable C. pixel_ops_avx2.c gives the same bytes. */
#include "loader/image/image_i.h"

#include <string.h>

#include "base/check.h"

#define HALF  (1 << (IMAGE_WEIGHT_BITS - 1))
#define PIECE 64

static inline int32_t weight_at(const int16_t *w, uint32_t tap)
{
    w += (tap / 4) * 8 + tap % 4;
    return w[0] * (1 << IMAGE_LOW_BITS) + w[4];
}

static inline uint8_t shorten(int32_t sum)
{
    sum >>= IMAGE_WEIGHT_BITS;
    return (uint8_t)DLC_MIN(sum, 255);
}

static void one_row(uint8_t *out, const uint8_t *in, const struct image_axis *x)
{
    for (uint32_t j = 0; j < x->n; j++, out += 4) {
        const int16_t *w = x->weights + (size_t)j * x->quads * 8;
        const uint8_t *p = in + (size_t)x->start[j] * 4;
        int32_t r = HALF, g = HALF, b = HALF;

        for (uint32_t i = 0; i < x->count[j]; i++, p += 4) {
            int32_t k = weight_at(w, i);

            r += p[0] * k;
            g += p[1] * k;
            b += p[2] * k;
        }
        out[0] = shorten(r);
        out[1] = shorten(g);
        out[2] = shorten(b);
        out[3] = 0;
    }
}

static void columns(uint8_t *a_out, uint8_t *b_out, const uint8_t *a, const uint8_t *b,
                    const struct image_axis *x)
{
    one_row(a_out, a, x);
    if (b != a)
        one_row(b_out, b, x);
}

/* In pieces that stay in registers or the nearest cache, row by row: compilers make vectors of it.
 */
static void rows(uint8_t *out, const uint8_t *const *in, const int16_t *weights, uint32_t taps,
                 size_t bytes)
{
    int32_t sum[PIECE];

    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t n = DLC_MIN(bytes - at, (size_t)PIECE);

        for (size_t k = 0; k < n; k++)
            sum[k] = HALF;
        for (uint32_t i = 0; i < taps; i++) {
            const uint8_t *row = in[i] + at;
            int32_t w = weight_at(weights, i);

            for (size_t k = 0; w != 0 && k < n; k++)
                sum[k] += row[k] * w;
        }
        for (size_t k = 0; k < n; k++)
            out[at + k] = shorten(sum[k]);
    }
}

static void planes(uint8_t *r, uint8_t *g, uint8_t *b, const uint8_t *rgbx, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        r[i] = rgbx[4 * i];
        g[i] = rgbx[4 * i + 1];
        b[i] = rgbx[4 * i + 2];
    }
}

static void pack(uint8_t *rgb, const uint8_t *rgbx, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(rgb + 3 * i, rgbx + 4 * i, 3);
}

static void unpack(uint8_t *rgbx, const uint8_t *rgb, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(rgbx + 4 * i, rgb + 3 * i, 3);
        rgbx[4 * i + 3] = 0;
    }
}

/* Three parts of the nearer and one of the further, down, then across. libjpeg rounds one of the
 * two pixels up and the other one down, so that errors do not add up. */
static void twice(uint8_t *out, const uint8_t *near, const uint8_t *far, uint32_t low,
                  uint32_t high, uint32_t n, unsigned left)
{
    for (uint32_t i = low; i < high; i++, out += 2) {
        uint32_t l = i > 0 ? i - 1 : 0, r = DLC_MIN(i + 1, n - 1);
        unsigned here = 3u * near[i] + far[i];

        out[0] = (uint8_t)((3 * here + 3u * near[l] + far[l] + left) >> 4);
        out[1] = (uint8_t)((3 * here + 3u * near[r] + far[r] + 15 - left) >> 4);
    }
}

static void chroma(uint8_t *out, const uint8_t *near, const uint8_t *far, uint32_t low,
                   uint32_t high, uint32_t n)
{
    twice(out, near, far, low, high, n, 8);
}

static void chroma_row(uint8_t *out, const uint8_t *row, uint32_t low, uint32_t high, uint32_t n)
{
    twice(out, row, row, low, high, n, 7);
}

static inline uint8_t clip(int x)
{
    return (uint8_t)DLC_CLAMP(x, 0, 255);
}

/* JFIF's equations in 16 bits of fraction. */
static void colour(uint8_t *rgbx, const uint8_t *y, const uint8_t *u, const uint8_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++, rgbx += 4) {
        int cb = u[i] - 128, cr = v[i] - 128;

        rgbx[0] = clip(y[i] + ((91881 * cr + 32768) >> 16));
        rgbx[1] = clip(y[i] + ((-22554 * cb - 46802 * cr + 32768) >> 16));
        rgbx[2] = clip(y[i] + ((116130 * cb + 32768) >> 16));
        rgbx[3] = 0;
    }
}

const struct image_ops image_ops_portable = {
    .name = "portable",
    .columns = columns,
    .rows = rows,
    .planes = planes,
    .pack = pack,
    .unpack = unpack,
    .chroma = chroma,
    .chroma_row = chroma_row,
    .colour = colour,
    .idct = image_idct,
    .idct_4 = image_idct_4,
    .mix = image_mix,
    .grey_sum = image_grey_sum,
    .saturate = image_saturate,
    .turn = image_turn,
};

const struct image_ops *image_ops_best(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return &image_ops_avx2;
#endif
    return &image_ops_portable;
}
