// SPDX-License-Identifier: Apache-2.0
/*
 * The loops over pixels with AVX2; only image_ops_best() may lead here. Sums are the same integers
 * as in pixel_ops.c: a weight is high * 2^11 + low, both fit products of 16 bits, and addition
 * modulo 2^32 has no order.
 */
#include "loader/image/image_i.h"

#include <immintrin.h>
#include <string.h>

#include "base/check.h"

static inline __m256i two_halves(const uint8_t *low, const uint8_t *high)
{
    __m128i l = _mm_loadu_si128((const __m128i *)low), h = _mm_loadu_si128((const __m128i *)high);

    return _mm256_inserti128_si256(_mm256_castsi128_si256(l), h, 1);
}

static inline __m256i pair_of_weights(const int16_t *w)
{
    int32_t both;

    memcpy(&both, w, sizeof(both));
    return _mm256_set1_epi32(both);
}

static inline __m256i finish(__m256i high, __m256i low)
{
    __m256i half = _mm256_set1_epi32(1 << (IMAGE_WEIGHT_BITS - 1));
    __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, IMAGE_LOW_BITS), low);

    return _mm256_srli_epi32(_mm256_add_epi32(sum, half), IMAGE_WEIGHT_BITS);
}

#define INLINE static inline __attribute__((always_inline))

/* 2 * 8 bytes: two pixels of row a, then of row b, each in its half. */
static inline __m256i two_quarters(const uint8_t *low, const uint8_t *high)
{
    __m128i l = _mm_loadl_epi64((const __m128i *)low), h = _mm_loadl_epi64((const __m128i *)high);

    return _mm256_inserti128_si256(_mm256_castsi128_si256(l), h, 1);
}

/* One output pixel of two rows: 32 bits for each channel, row a in the low half. Taps come in
 * fours, and two more if `half`. */
INLINE __m256i pixel(const uint8_t *a, const uint8_t *b, const int16_t *w, uint32_t quads,
                     bool half)
{
    const __m256i first = _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1,
                                           0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
    const __m256i second = _mm256_add_epi8(first, _mm256_set1_epi16(8));
    __m256i high = _mm256_setzero_si256(), low = high;

    for (uint32_t q = 0; q < quads; q++, a += 16, b += 16, w += 8) {
        __m256i p = two_halves(a, b);
        __m256i p01 = _mm256_shuffle_epi8(p, first), p23 = _mm256_shuffle_epi8(p, second);

        high = _mm256_add_epi32(high, _mm256_madd_epi16(p01, pair_of_weights(w)));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(p01, pair_of_weights(w + 4)));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(p23, pair_of_weights(w + 2)));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(p23, pair_of_weights(w + 6)));
    }
    if (half) {
        __m256i p01 = _mm256_shuffle_epi8(two_quarters(a, b), first);

        high = _mm256_add_epi32(high, _mm256_madd_epi16(p01, pair_of_weights(w)));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(p01, pair_of_weights(w + 4)));
    }
    return finish(high, low);
}

/* Inlined with constants where taps are few. `each`: weights of a pixel. */
INLINE void columns_of(uint8_t *a_out, uint8_t *b_out, const uint8_t *a, const uint8_t *b,
                       const struct image_axis *x, uint32_t quads, bool half)
{
    const size_t each = (size_t)8 * (quads + half);
    const int16_t *w = x->weights;
    const uint32_t *at = x->start;
    uint32_t j = 0;

    for (; j + 4 <= x->n; j += 4, w += 4 * each) {
        size_t i0 = 4 * (size_t)at[j], i1 = 4 * (size_t)at[j + 1];
        size_t i2 = 4 * (size_t)at[j + 2], i3 = 4 * (size_t)at[j + 3];
        __m256i p0 = pixel(a + i0, b + i0, w, quads, half);
        __m256i p1 = pixel(a + i1, b + i1, w + each, quads, half);
        __m256i p2 = pixel(a + i2, b + i2, w + 2 * each, quads, half);
        __m256i p3 = pixel(a + i3, b + i3, w + 3 * each, quads, half);
        __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(p0, p1), _mm256_packs_epi32(p2, p3));

        _mm_storeu_si128((__m128i *)(a_out + 4 * (size_t)j), _mm256_castsi256_si128(bytes));
        _mm_storeu_si128((__m128i *)(b_out + 4 * (size_t)j), _mm256_extracti128_si256(bytes, 1));
    }
    for (; j < x->n; j++, w += each) {
        __m256i p = pixel(a + 4 * (size_t)at[j], b + 4 * (size_t)at[j], w, quads, half);
        uint32_t ra, rb;

        p = _mm256_packs_epi32(p, p);
        p = _mm256_packus_epi16(p, p);
        ra = (uint32_t)_mm256_extract_epi32(p, 0);
        rb = (uint32_t)_mm256_extract_epi32(p, 4);
        memcpy(a_out + 4 * (size_t)j, &ra, 4);
        memcpy(b_out + 4 * (size_t)j, &rb, 4);
    }
}

static void columns(uint8_t *a_out, uint8_t *b_out, const uint8_t *a, const uint8_t *b,
                    const struct image_axis *x)
{
    bool half = x->most % 4 == 1 || x->most % 4 == 2;

    switch (x->most) {
    case 1:
    case 2: columns_of(a_out, b_out, a, b, x, 0, true); break;
    case 3:
    case 4: columns_of(a_out, b_out, a, b, x, 1, false); break;
    case 5:
    case 6: columns_of(a_out, b_out, a, b, x, 1, true); break;
    default: columns_of(a_out, b_out, a, b, x, x->quads - half, half);
    }
}

struct sums {
    __m256i high[4], low[4];
};

/* 32 bytes of two rows into the sums, in the order in which unpack leaves them. */
INLINE void add_pair(struct sums *s, __m256i a, __m256i b, const int16_t *w)
{
    __m256i zero = _mm256_setzero_si256(), high = pair_of_weights(w), low = pair_of_weights(w + 4);
    __m256i l = _mm256_unpacklo_epi8(a, b), h = _mm256_unpackhi_epi8(a, b);
    __m256i p[4] = {_mm256_unpacklo_epi8(l, zero), _mm256_unpackhi_epi8(l, zero),
                    _mm256_unpacklo_epi8(h, zero), _mm256_unpackhi_epi8(h, zero)};

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        s->high[i] = _mm256_add_epi32(s->high[i], _mm256_madd_epi16(p[i], high));
        s->low[i] = _mm256_add_epi32(s->low[i], _mm256_madd_epi16(p[i], low));
    }
}

static inline __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

INLINE __m256i rows_at(const uint8_t *const *in, const int16_t *w, uint32_t pairs, size_t k)
{
    struct sums s;

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        s.high[i] = s.low[i] = _mm256_setzero_si256();
    for (uint32_t p = 0; p < pairs; p++) /* weights: the first and second two of a quad */
        add_pair(&s, load(in[2 * p] + k), load(in[2 * p + 1] + k), w + p / 2 * 8 + p % 2 * 2);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        s.high[i] = finish(s.high[i], s.low[i]);
    return _mm256_packus_epi16(_mm256_packs_epi32(s.high[0], s.high[1]),
                               _mm256_packs_epi32(s.high[2], s.high[3]));
}

INLINE void rows_of(uint8_t *out, const uint8_t *const *in, const int16_t *w, uint32_t pairs,
                    size_t bytes)
{
    size_t k = 0;

    for (; k + 32 <= bytes; k += 32)
        _mm256_storeu_si256((__m256i *)(out + k), rows_at(in, w, pairs, k));
    if (k < bytes) { /* the rows have slack, out has not */
        uint8_t tail[32];

        _mm256_storeu_si256((__m256i *)tail, rows_at(in, w, pairs, k));
        memcpy(out + k, tail, bytes - k);
    }
}

static void rows(uint8_t *out, const uint8_t *const *in, const int16_t *w, uint32_t taps,
                 size_t bytes)
{
    switch ((taps + 1) / 2) {
    case 1: rows_of(out, in, w, 1, bytes); break;
    case 2: rows_of(out, in, w, 2, bytes); break;
    case 3: rows_of(out, in, w, 3, bytes); break;
    default: rows_of(out, in, w, (taps + 1) / 2, bytes);
    }
}

/* Eight pixels: the bytes of r, g, b and x, eight of each. */
static inline __m256i split(const uint8_t *rgbx)
{
    const __m256i by_channel =
        _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0, 4, 8, 12, 1, 5, 9,
                         13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m256i p = _mm256_shuffle_epi8(load(rgbx), by_channel);

    return _mm256_permutevar8x32_epi32(p, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static void planes(uint8_t *r, uint8_t *g, uint8_t *b, const uint8_t *rgbx, size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m256i p = split(rgbx + 4 * i), q = split(rgbx + 4 * i + 32);
        __m256i rb = _mm256_unpacklo_epi64(p, q), gx = _mm256_unpackhi_epi64(p, q);

        _mm_storeu_si128((__m128i *)(r + i), _mm256_castsi256_si128(rb));
        _mm_storeu_si128((__m128i *)(b + i), _mm256_extracti128_si256(rb, 1));
        _mm_storeu_si128((__m128i *)(g + i), _mm256_castsi256_si128(gx));
    }
    image_ops_portable.planes(r + i, g + i, b + i, rgbx + 4 * i, n - i);
}

/* Four pixels at a time, each store a third too long: the last ones are left to portable code. */
static void pack(uint8_t *rgb, const uint8_t *rgbx, size_t n)
{
    const __m128i drop = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    size_t i = 0;

    for (; i + 6 <= n; i += 4) {
        __m128i p = _mm_loadu_si128((const __m128i *)(rgbx + 4 * i));

        _mm_storeu_si128((__m128i *)(rgb + 3 * i), _mm_shuffle_epi8(p, drop));
    }
    image_ops_portable.pack(rgb + 3 * i, rgbx + 4 * i, n - i);
}

static void unpack(uint8_t *rgbx, const uint8_t *rgb, size_t n)
{
    const __m256i spread = _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 0,
                                            1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);

    for (size_t i = 0; i < n; i += 8) {
        __m256i p = two_halves(rgb + 3 * i, rgb + 3 * i + 12);

        _mm256_storeu_si256((__m256i *)(rgbx + 4 * i), _mm256_shuffle_epi8(p, spread));
    }
}

/* 3 * near + far of 16 samples. */
static inline __m256i down(const uint8_t *near, const uint8_t *far)
{
    __m256i n = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)near));
    __m256i f = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)far));

    return _mm256_add_epi16(_mm256_add_epi16(n, n), _mm256_add_epi16(n, f));
}

INLINE void twice_16(uint8_t *out, const uint8_t *near, const uint8_t *far, short up)
{
    __m256i left = down(near - 1, far - 1), here = down(near, far), right = down(near + 1, far + 1);
    __m256i three = _mm256_add_epi16(_mm256_add_epi16(here, here), here);

    left = _mm256_add_epi16(_mm256_add_epi16(three, left), _mm256_set1_epi16(up));
    right = _mm256_add_epi16(_mm256_add_epi16(three, right), _mm256_set1_epi16((short)(15 - up)));
    right = _mm256_slli_epi16(_mm256_srli_epi16(right, 4), 8);
    _mm256_storeu_si256((__m256i *)out, _mm256_or_si256(_mm256_srli_epi16(left, 4), right));
}

/* Samples [i, end), which have neighbours on both sides and are at least 16. */
INLINE void twice(uint8_t *out, const uint8_t *near, const uint8_t *far, uint32_t i, uint32_t end,
                  short up)
{
    uint32_t begin = i;

    for (; i + 16 <= end; i += 16)
        twice_16(out + 2 * (size_t)(i - begin), near + i, far + i, up);
    if (i < end) /* once more over some of them */
        twice_16(out + 2 * (size_t)(end - 16 - begin), near + end - 16, far + end - 16, up);
}

static void chroma(uint8_t *out, const uint8_t *near, const uint8_t *far, uint32_t low,
                   uint32_t high, uint32_t n)
{
    uint32_t begin = DLC_MAX(low, 1), end = DLC_MIN(high, n - 1);

    if (n < 18 || end < begin + 16) {
        image_ops_portable.chroma(out, near, far, low, high, n);
        return;
    }
    if (low == 0)
        image_ops_portable.chroma(out, near, far, 0, 1, n);
    twice(out + 2 * (size_t)(begin - low), near, far, begin, end, 8);
    if (high == n)
        image_ops_portable.chroma(out + 2 * (size_t)(n - 1 - low), near, far, n - 1, n, n);
}

static void chroma_row(uint8_t *out, const uint8_t *row, uint32_t low, uint32_t high, uint32_t n)
{
    uint32_t begin = DLC_MAX(low, 1), end = DLC_MIN(high, n - 1);

    if (n < 18 || end < begin + 16) {
        image_ops_portable.chroma_row(out, row, low, high, n);
        return;
    }
    if (low == 0)
        image_ops_portable.chroma_row(out, row, 0, 1, n);
    twice(out + 2 * (size_t)(begin - low), row, row, begin, end, 7);
    if (high == n)
        image_ops_portable.chroma_row(out + 2 * (size_t)(n - 1 - low), row, n - 1, n, n);
}

/* x * k / 2^16, rounded, as libjpeg's tables have it; |x| <= 128. */
static inline __m256i times(__m256i x, short k)
{
    __m256i twice = _mm256_mulhi_epi16(_mm256_add_epi16(x, x), _mm256_set1_epi16(k));

    return _mm256_srai_epi16(_mm256_add_epi16(twice, _mm256_set1_epi16(1)), 1);
}

/* (-22554 * cb + 18734 * cr + 32768) >> 16 */
static inline __m256i green(__m256i cb, __m256i cr)
{
    __m256i k = _mm256_set1_epi32((int)((uint32_t)18734 << 16 | (uint16_t)-22554));
    __m256i half = _mm256_set1_epi32(32768);
    __m256i l = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), k);
    __m256i h = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), k);

    l = _mm256_srai_epi32(_mm256_add_epi32(l, half), 16);
    h = _mm256_srai_epi32(_mm256_add_epi32(h, half), 16);
    return _mm256_packs_epi32(l, h);
}

static inline __m256i widen(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}

/* 16 pixels: red is y + cr + 0.402 cr, green y - 0.344 cb + 0.286 cr - cr, blue y + 2 cb - 0.228
 * cb: so the factors fit 16 bits. */
static inline void colour_16(uint8_t *rgbx, const uint8_t *luma, const uint8_t *u, const uint8_t *v)
{
    __m256i middle = _mm256_set1_epi16(128), y = widen(luma);
    __m256i cb = _mm256_sub_epi16(widen(u), middle), cr = _mm256_sub_epi16(widen(v), middle);
    __m256i r = _mm256_add_epi16(_mm256_add_epi16(y, cr), times(cr, 26345));
    __m256i g = _mm256_sub_epi16(_mm256_add_epi16(y, green(cb, cr)), cr);
    __m256i b = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)), times(cb, -14942));
    __m256i rb = _mm256_packus_epi16(r, b), g0 = _mm256_packus_epi16(g, _mm256_setzero_si256());
    __m256i rg, bx, p, q;

    /* in each half: r of 8, b of 8; g of 8, 0 of 8 */
    rg = _mm256_unpacklo_epi8(rb, g0);
    bx = _mm256_unpackhi_epi8(rb, g0);
    p = _mm256_unpacklo_epi16(rg, bx);
    q = _mm256_unpackhi_epi16(rg, bx);
    _mm256_storeu_si256((__m256i *)rgbx, _mm256_permute2x128_si256(p, q, 0x20));
    _mm256_storeu_si256((__m256i *)(rgbx + 32), _mm256_permute2x128_si256(p, q, 0x31));
}

static void colour(uint8_t *rgbx, const uint8_t *y, const uint8_t *u, const uint8_t *v, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        colour_16(rgbx + 4 * i, y + i, u + i, v + i);
}

const struct image_ops image_ops_avx2 = {
    .name = "avx2",
    .columns = columns,
    .rows = rows,
    .planes = planes,
    .pack = pack,
    .unpack = unpack,
    .chroma = chroma,
    .chroma_row = chroma_row,
    .colour = colour,
    .idct = image_idct_avx2,
    .idct_4 = image_idct_4_avx2,
    .mix = image_mix_avx2,
    .grey_sum = image_grey_sum_avx2,
    .saturate = image_saturate_avx2,
    .turn = image_turn_avx2,
};
