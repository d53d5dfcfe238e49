// SPDX-License-Identifier: Apache-2.0
/*
 * idct.c's transforms to 8x8 and 4x4 samples with AVX2, two blocks at once: each has its half of
 * all registers. A register holds a row, then (between the transpositions) a column.
 */
#include "loader/image/image_i.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#define KEPT  2
#define FIXED 13

/* Factors of a pair of values, for all lanes. */
INLINE __m256i factors(int a, int b)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)b << 16 | (uint16_t)a));
}

/* 32 bits for each of 16 lanes, as unpacking leaves them. */
struct wide {
    __m256i l, h;
};

INLINE struct wide dot(struct wide pairs, __m256i k)
{
    return (struct wide){_mm256_madd_epi16(pairs.l, k), _mm256_madd_epi16(pairs.h, k)};
}

INLINE struct wide pair(__m256i a, __m256i b)
{
    return (struct wide){_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)};
}

INLINE struct wide add(struct wide a, struct wide b)
{
    return (struct wide){_mm256_add_epi32(a.l, b.l), _mm256_add_epi32(a.h, b.h)};
}

INLINE struct wide sub(struct wide a, struct wide b)
{
    return (struct wide){_mm256_sub_epi32(a.l, b.l), _mm256_sub_epi32(a.h, b.h)};
}

/* x * 2^13 */
INLINE struct wide widen(__m256i x)
{
    struct wide w = pair(_mm256_setzero_si256(), x);

    return (struct wide){_mm256_srai_epi32(w.l, 16 - FIXED), _mm256_srai_epi32(w.h, 16 - FIXED)};
}

INLINE __m256i narrow(struct wide x, int bits)
{
    return _mm256_packs_epi32(_mm256_srai_epi32(x.l, bits), _mm256_srai_epi32(x.h, bits));
}

/* Of each lane eight values. Rounding is added to the first, which goes into all results. */
INLINE void transform(__m256i v[8], int bits)
{
    __m256i half = _mm256_set1_epi32(1 << (bits - 1));
    struct wide round = {half, half}, p26 = pair(v[2], v[6]), p71 = pair(v[7], v[1]);
    struct wide p53 = pair(v[5], v[3]);
    struct wide z = pair(_mm256_add_epi16(v[7], v[3]), _mm256_add_epi16(v[5], v[1]));
    struct wide even = add(widen(_mm256_add_epi16(v[0], v[4])), round);
    struct wide odd = add(widen(_mm256_sub_epi16(v[0], v[4])), round);
    struct wide low = dot(p26, factors(4433 + 6270, 4433));
    struct wide high = dot(p26, factors(4433, 4433 - 15137));
    struct wide za = dot(z, factors(9633 - 16069, 9633)), zb = dot(z, factors(9633, 9633 - 3196));
    struct wide e0 = add(even, low), e1 = add(odd, high), e2 = sub(odd, high), e3 = sub(even, low);
    struct wide o3 = add(dot(p71, factors(2446 - 7373, -7373)), za);
    struct wide o2 = add(dot(p53, factors(16819 - 20995, -20995)), zb);
    struct wide o1 = add(dot(p53, factors(-20995, 25172 - 20995)), za);
    struct wide o0 = add(dot(p71, factors(-7373, 12299 - 7373)), zb);

    v[0] = narrow(add(e0, o0), bits);
    v[7] = narrow(sub(e0, o0), bits);
    v[1] = narrow(add(e1, o1), bits);
    v[6] = narrow(sub(e1, o1), bits);
    v[2] = narrow(add(e2, o2), bits);
    v[5] = narrow(sub(e2, o2), bits);
    v[3] = narrow(add(e3, o3), bits);
    v[4] = narrow(sub(e3, o3), bits);
}

/* Rows become columns, in each half for itself. */
INLINE void transpose(__m256i v[8])
{
    __m256i a[8], b[8];

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { /* rows i and i + 4, word by word */
        a[2 * i] = _mm256_unpacklo_epi16(v[i], v[i + 4]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(v[i], v[i + 4]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        b[2 * i] = _mm256_unpacklo_epi16(a[i], a[i + 4]);
        b[2 * i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 4]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v[2 * i] = _mm256_unpacklo_epi16(b[i], b[i + 4]);
        v[2 * i + 1] = _mm256_unpackhi_epi16(b[i], b[i + 4]);
    }
}

INLINE __m256i both(const void *a, const void *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(a)), _mm_loadu_si128(b),
                                   1);
}

/* The first pass of a block that has only its first row. */
INLINE void spread(__m256i *v, int n, __m256i only, __m256i first)
{
    first = _mm256_slli_epi16(first, KEPT);
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        v[i] = _mm256_blendv_epi8(v[i], first, only);
}

/* All ones in the halves where x is zero. */
INLINE __m256i zero_halves(__m256i x)
{
    __m256i zero = _mm256_cmpeq_epi64(x, _mm256_setzero_si256());

    return _mm256_and_si256(zero, _mm256_shuffle_epi32(zero, 0x4e));
}

/* Two rows of eight bytes. */
INLINE void store_two(uint8_t *out, size_t stride, __m128i rows)
{
    _mm_storel_epi64((__m128i *)out, rows);
    _mm_storel_epi64((__m128i *)(out + stride), _mm_unpackhi_epi64(rows, rows));
}

/* Rows, dequantised; zeros are left. Gives the halves where there is none but the first. */
INLINE __m256i load(__m256i v[8], int16_t *blocks, const uint16_t *const quant[2], int without,
                    __m256i *first)
{
    __m256i any = _mm256_setzero_si256();

#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        __m256i row = both(blocks + 8 * i, blocks + 64 + 8 * i);

        any = i == 0 || i == without ? any : _mm256_or_si256(any, row);
        v[i] = _mm256_mullo_epi16(row, both(quant[0] + 8 * i, quant[1] + 8 * i));
    }
    *first = v[0];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        _mm256_storeu_si256((__m256i *)blocks + i, _mm256_setzero_si256());
    return zero_halves(any);
}

void image_idct_avx2(uint8_t *const out[2], const size_t stride[2], int16_t *blocks,
                     const uint16_t *const quant[2])
{
    __m256i v[8], first, only = load(v, blocks, quant, 0, &first);

    transform(v, FIXED - KEPT);
    if (!_mm256_testz_si256(only, only))
        spread(v, 8, only, first);
    transpose(v);
    transform(v, FIXED + KEPT + 3);
    transpose(v);
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        __m256i rows = _mm256_packs_epi16(v[2 * i], v[2 * i + 1]);

        rows = _mm256_add_epi8(rows, _mm256_set1_epi8((char)-128));
        store_two(out[0] + 2 * i * stride[0], stride[0], _mm256_castsi256_si128(rows));
        store_two(out[1] + 2 * i * stride[1], stride[1], _mm256_extracti128_si256(rows, 1));
    }
}

/* Pairs of values 1 and 3, 5 and 7, 2 and 6, and the first: 32 bits of four of them. */
INLINE void four(__m256i out[4], __m256i p13, __m256i p57, __m256i p26, __m256i first, int bits)
{
    __m256i half = _mm256_set1_epi32(1 << (bits - 1));
    __m256i even = _mm256_madd_epi16(p26, factors(15137, -6270));
    __m256i far = _mm256_add_epi32(_mm256_madd_epi16(p13, factors(20995, 7373)),
                                   _mm256_madd_epi16(p57, factors(-4926, -4176)));
    __m256i near = _mm256_add_epi32(_mm256_madd_epi16(p13, factors(8697, -17799)),
                                    _mm256_madd_epi16(p57, factors(11893, -1730)));
    __m256i outer, inner;

    first = _mm256_add_epi32(first, half);
    outer = _mm256_add_epi32(first, even);
    inner = _mm256_sub_epi32(first, even);
    out[0] = _mm256_srai_epi32(_mm256_add_epi32(outer, far), bits);
    out[1] = _mm256_srai_epi32(_mm256_add_epi32(inner, near), bits);
    out[2] = _mm256_srai_epi32(_mm256_sub_epi32(inner, near), bits);
    out[3] = _mm256_srai_epi32(_mm256_sub_epi32(outer, far), bits);
}

/* Columns: eight of them, four rows come out. */
INLINE void columns_4(__m256i rows[4], const __m256i v[8])
{
    __m256i zero = _mm256_setzero_si256(), l[4], h[4];
    struct wide p13 = pair(v[1], v[3]), p57 = pair(v[5], v[7]), p26 = pair(v[2], v[6]);
    struct wide first = pair(zero, v[0]);

    four(l, p13.l, p57.l, p26.l, _mm256_srai_epi32(first.l, 15 - FIXED), FIXED - KEPT + 1);
    four(h, p13.h, p57.h, p26.h, _mm256_srai_epi32(first.h, 15 - FIXED), FIXED - KEPT + 1);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        rows[i] = _mm256_packs_epi32(l[i], h[i]);
}

/* Rows: of each half 16 samples, column by column. */
INLINE __m256i rows_4(const __m256i rows[4])
{
    __m256i a = _mm256_unpacklo_epi16(rows[0], rows[1]),
            b = _mm256_unpackhi_epi16(rows[0], rows[1]);
    __m256i c = _mm256_unpacklo_epi16(rows[2], rows[3]),
            d = _mm256_unpackhi_epi16(rows[2], rows[3]);
    __m256i v01 = _mm256_unpacklo_epi32(a, c), v23 = _mm256_unpackhi_epi32(a, c);
    __m256i v45 = _mm256_unpacklo_epi32(b, d), v67 = _mm256_unpackhi_epi32(b, d), out[4];
    __m256i first = _mm256_unpacklo_epi16(_mm256_setzero_si256(), v01);

    four(out, _mm256_unpackhi_epi16(v01, v23), _mm256_unpackhi_epi16(v45, v67),
         _mm256_unpacklo_epi16(v23, v67), _mm256_srai_epi32(first, 15 - FIXED), FIXED + KEPT + 4);
    return _mm256_packs_epi16(_mm256_packs_epi32(out[0], out[1]),
                              _mm256_packs_epi32(out[2], out[3]));
}

void image_idct_4_avx2(uint8_t *const out[2], const size_t stride[2], int16_t *blocks,
                       const uint16_t *const quant[2])
{
    const __m256i by_rows = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m256i v[8], rows[4], first, only = load(v, blocks, quant, 4, &first), samples;
    uint32_t words[8];

    columns_4(rows, v);
    if (!_mm256_testz_si256(only, only))
        spread(rows, 4, only, first);
    samples = _mm256_shuffle_epi8(rows_4(rows), by_rows);
    samples = _mm256_add_epi8(samples, _mm256_set1_epi8((char)-128));
    _mm256_storeu_si256((__m256i *)words, samples);
    for (size_t i = 0; i < 8; i++)
        memcpy(out[i / 4] + i % 4 * stride[i / 4], &words[i], 4);
}
