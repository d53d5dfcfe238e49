// SPDX-License-Identifier: Apache-2.0
/*
 * Inverse cosine transforms that give libjpeg's samples: its slow integer one, and the reduced ones
 * of 4x4, 2x2 and 1x1 samples. The factors have 13 bits of fraction; between the passes two are
 * kept. Sums that libjpeg-turbo's vector code keeps in 16 bits wrap here too, and what it saturates
 * is saturated: so the samples are the same for coefficients that no encoder makes, and all
 * implementations agree. idct_avx2.c gives the same bytes.
 */
#include "loader/image/image_i.h"

#include <string.h>

#include "base/check.h"

#define KEPT  2 /* bits of fraction between the passes */
#define FIXED 13

static inline int16_t wrap(int32_t x)
{
    return (int16_t)(uint16_t)x;
}

static inline int16_t saturate(int32_t x)
{
    return (int16_t)DLC_CLAMP(x, INT16_MIN, INT16_MAX);
}

/* Modulo 2^32, as vector code does. */
static inline int32_t sum(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static inline int32_t minus(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

/* a * fa + b * fb; products of 16 bits each. */
static inline int32_t dot(int16_t a, int32_t fa, int16_t b, int32_t fb)
{
    return sum(a * fa, b * fb);
}

static inline int16_t scale(int32_t x, unsigned bits)
{
    return saturate(sum(x, 1 << (bits - 1)) >> bits);
}

static inline uint8_t sample(int16_t x)
{
    return (uint8_t)(DLC_CLAMP(x, -128, 127) + 128);
}

/* Eight values, `step` apart, in place. */
static void transform_8(int16_t *v, size_t step, unsigned bits)
{
    int16_t x0 = v[0], x1 = v[step], x2 = v[2 * step], x3 = v[3 * step], x4 = v[4 * step],
            x5 = v[5 * step], x6 = v[6 * step], x7 = v[7 * step];
    int32_t even = wrap(x0 + x4) * (1 << FIXED), odd = wrap(x0 - x4) * (1 << FIXED);
    int32_t low = dot(x2, 4433 + 6270, x6, 4433), high = dot(x2, 4433, x6, 4433 - 15137);
    int32_t e[4] = {sum(even, low), sum(odd, high), minus(odd, high), minus(even, low)}, o[4];
    int16_t a = wrap(x7 + x3), b = wrap(x5 + x1);
    int32_t za = dot(a, 9633 - 16069, b, 9633), zb = dot(a, 9633, b, 9633 - 3196);

    o[3] = sum(dot(x7, 2446 - 7373, x1, -7373), za);
    o[2] = sum(dot(x5, 16819 - 20995, x3, -20995), zb);
    o[1] = sum(dot(x5, -20995, x3, 25172 - 20995), za);
    o[0] = sum(dot(x7, -7373, x1, 12299 - 7373), zb);
    for (size_t i = 0; i < 4; i++) {
        v[i * step] = scale(sum(e[i], o[i]), bits);
        v[(7 - i) * step] = scale(minus(e[i], o[i]), bits);
    }
}

/* Is there nothing but the first row? */
static bool only_first_row(const int16_t *block, unsigned without)
{
    int any = 0;

    for (unsigned i = 8; i < 64; i++)
        any |= i / 8 == without ? 0 : block[i];
    return any == 0;
}

static void idct_8(uint8_t *out, size_t stride, int16_t *block, const uint16_t *quant)
{
    bool flat = only_first_row(block, 0);
    int16_t v[64];

    for (unsigned i = 0; i < 64; i++)
        v[i] = wrap(block[i] * quant[i]);
    memset(block, 0, sizeof(v));
    if (flat) {
        for (unsigned i = 0; i < 64; i++)
            v[i] = i < 8 ? wrap(v[i] * (1 << KEPT)) : v[i % 8];
    } else {
        for (unsigned x = 0; x < 8; x++)
            transform_8(v + x, 8, FIXED - KEPT);
    }
    for (unsigned y = 0; y < 8; y++, out += stride) {
        transform_8(v + 8 * (size_t)y, 1, FIXED + KEPT + 3);
        for (unsigned x = 0; x < 8; x++)
            out[x] = sample(v[8 * y + x]);
    }
}

void image_idct(uint8_t *const out[2], const size_t stride[2], int16_t *blocks,
                const uint16_t *const quant[2])
{
    idct_8(out[0], stride[0], blocks, quant[0]);
    idct_8(out[1], stride[1], blocks + 64, quant[1]);
}

void image_idct_flat(uint8_t *out, size_t stride, int16_t dc, const uint16_t *quant)
{
    int16_t kept = wrap(wrap(dc * quant[0]) * (1 << KEPT));
    uint8_t value = sample((int16_t)((kept + 16) >> (KEPT + 3)));

    for (unsigned y = 0; y < 8; y++, out += stride)
        memset(out, value, 8);
}

/* Four out of seven, `step` apart: the fifth does not count. */
static void transform_4(int16_t out[4], const int16_t *v, size_t step, unsigned bits)
{
    int16_t x1 = v[step], x3 = v[3 * step], x5 = v[5 * step], x7 = v[7 * step];
    int32_t first = (int32_t)((uint32_t)v[0] << (FIXED + 1));
    int32_t even = dot(v[2 * step], 15137, v[6 * step], -6270);
    int32_t far = sum(dot(x1, 20995, x3, 7373), dot(x5, -4926, x7, -4176));
    int32_t near = sum(dot(x1, 8697, x3, -17799), dot(x5, 11893, x7, -1730));

    out[0] = scale(sum(sum(first, even), far), bits);
    out[1] = scale(sum(minus(first, even), near), bits);
    out[2] = scale(minus(minus(first, even), near), bits);
    out[3] = scale(minus(sum(first, even), far), bits);
}

static void idct_4(uint8_t *out, size_t stride, int16_t *block, const uint16_t *quant)
{
    bool flat = only_first_row(block, 4);
    int16_t v[64], rows[4][8], column[4];

    for (unsigned i = 0; i < 64; i++)
        v[i] = wrap(block[i] * quant[i]);
    memset(block, 0, sizeof(v));
    for (unsigned x = 0; x < 8; x++) {
        int16_t same = wrap(v[x] * (1 << KEPT));

        if (!flat)
            transform_4(column, v + x, 8, FIXED - KEPT + 1);
        for (unsigned y = 0; y < 4; y++)
            rows[y][x] = flat ? same : column[y];
    }
    for (unsigned y = 0; y < 4; y++, out += stride) {
        transform_4(column, rows[y], 1, FIXED + KEPT + 4);
        for (unsigned x = 0; x < 4; x++)
            out[x] = sample(column[x]);
    }
}

void image_idct_4(uint8_t *const out[2], const size_t stride[2], int16_t *blocks,
                  const uint16_t *const quant[2])
{
    idct_4(out[0], stride[0], blocks, quant[0]);
    idct_4(out[1], stride[1], blocks + 64, quant[1]);
}

/* The odd part of two: 1, 3, 5, 7. */
static inline int32_t odd_2(int16_t x1, int16_t x3, int16_t x5, int16_t x7)
{
    return sum(dot(x1, 29692, x3, -10426), dot(x5, 6967, x7, -5906));
}

void image_idct_2(uint8_t *out, size_t stride, int16_t *block, const uint16_t *quant)
{
    int32_t rows[2][8];

    for (unsigned x = 0; x < 8; x += x == 0 ? 1 : 2) {
        int16_t v[8];
        int32_t first, odd;

        for (unsigned y = 0; y < 8; y++)
            v[y] = wrap(block[8 * y + x] * quant[8 * y + x]);
        first = (int32_t)((uint32_t)v[0] << (FIXED + 2));
        odd = odd_2(v[1], v[3], v[5], v[7]);
        rows[0][x] = sum(sum(first, odd), 1 << (FIXED - KEPT + 1)) >> (FIXED - KEPT + 2);
        rows[1][x] = sum(minus(first, odd), 1 << (FIXED - KEPT + 1)) >> (FIXED - KEPT + 2);
    }
    memset(block, 0, 64 * sizeof(*block));
    for (unsigned y = 0; y < 2; y++, out += stride) {
        const int32_t *r = rows[y];
        int32_t first = (int32_t)((uint32_t)r[0] << (FIXED + 2));
        int32_t odd = odd_2(saturate(r[1]), saturate(r[3]), saturate(r[5]), saturate(r[7]));

        out[0] = sample(scale(sum(first, odd), FIXED + KEPT + 5));
        out[1] = sample(scale(minus(first, odd), FIXED + KEPT + 5));
    }
}

/* The mean alone. libjpeg looks it up by its low ten bits. */
uint8_t image_idct_1(int16_t dc, uint16_t quant)
{
    int32_t x = ((dc * (int16_t)quant + 4) >> 3) & 1023;

    return (uint8_t)(DLC_CLAMP(x < 512 ? x : x - 1024, -128, 127) + 128);
}
