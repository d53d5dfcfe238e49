// SPDX-License-Identifier: Apache-2.0
/*
 * Colour jitter with AVX2: operation for operation what jitter.c does, in float where that has
 * float and in double where it has double, so that every rounding is the same. Compiled without
 * FMA, which would round once where PIL rounds twice.
 */
#include "loader/image/image_i.h"

#include <immintrin.h>

#include "base/check.h"

/* base + factor * (x - base) of eight, cut to 0..255. */
static inline __m256i mix(__m256i base, __m256i x, __m256 factor)
{
    __m256 change = _mm256_mul_ps(factor, _mm256_cvtepi32_ps(_mm256_sub_epi32(x, base)));
    __m256 v = _mm256_add_ps(_mm256_cvtepi32_ps(base), change);

    v = _mm256_max_ps(_mm256_min_ps(v, _mm256_set1_ps(255)), _mm256_setzero_ps());
    return _mm256_cvttps_epi32(v);
}

void image_mix_avx2(uint8_t *p, size_t n, int base, float factor)
{
    __m256i b = _mm256_set1_epi32(base), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256 f = _mm256_set1_ps(factor);
    size_t i = 0;

    for (; i + 8 <= n; i += 8, p += 32) { /* 32 bytes, whatever the channel */
        __m256i v[4], bytes;

        for (int k = 0; k < 4; k++)
            v[k] = mix(b, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8 * k))), f);
        bytes = _mm256_packus_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
        _mm256_storeu_si256((__m256i *)p, _mm256_permutevar8x32_epi32(bytes, order));
    }
    image_mix(p, n - i, base, factor);
}

struct rgb {
    __m256i r, g, b;
};

/* Eight pixels, 32 bits for each value. */
static inline struct rgb split(const uint8_t *p)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)p), low = _mm256_set1_epi32(255);

    return (struct rgb){
        _mm256_and_si256(v, low),
        _mm256_and_si256(_mm256_srli_epi32(v, 8), low),
        _mm256_and_si256(_mm256_srli_epi32(v, 16), low),
    };
}

static inline void join(uint8_t *p, struct rgb v)
{
    __m256i gb = _mm256_or_si256(_mm256_slli_epi32(v.g, 8), _mm256_slli_epi32(v.b, 16));

    _mm256_storeu_si256((__m256i *)p, _mm256_or_si256(v.r, gb));
}

static inline __m256i grey(struct rgb v)
{
    __m256i sum = _mm256_mullo_epi32(v.r, _mm256_set1_epi32(19595));

    sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(v.g, _mm256_set1_epi32(38470)));
    sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(v.b, _mm256_set1_epi32(7471)));
    return _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(0x8000)), 16);
}

uint64_t image_grey_sum_avx2(const uint8_t *p, size_t n)
{
    __m256i sums = _mm256_setzero_si256();
    uint64_t four[4];
    size_t i = 0;

    for (; i + 8 <= n; i += 8) /* each below 256: their bytes may be added up */
        sums =
            _mm256_add_epi64(sums, _mm256_sad_epu8(grey(split(p + 4 * i)), _mm256_setzero_si256()));
    _mm256_storeu_si256((__m256i *)four, sums);
    return four[0] + four[1] + four[2] + four[3] + image_grey_sum(p + 4 * i, n - i);
}

void image_saturate_avx2(uint8_t *p, size_t n, float factor)
{
    __m256 f = _mm256_set1_ps(factor);
    size_t i = 0;

    for (; i + 8 <= n; i += 8, p += 32) {
        struct rgb v = split(p);
        __m256i base = grey(v);

        join(p, (struct rgb){mix(base, v.r, f), mix(base, v.g, f), mix(base, v.b, f)});
    }
    image_saturate(p, n - i, factor);
}

/* Four pixels: what jitter.c calls hue and sat. Nonsense where max == min. */
static inline void to_hsv(__m128i r, __m128i g, __m128i b, __m128i max, __m128i min, __m128i *hue,
                          __m128i *sat)
{
    __m128 span = _mm_cvtepi32_ps(_mm_sub_epi32(max, min));
    __m128 dr = _mm_div_ps(_mm_cvtepi32_ps(_mm_sub_epi32(max, r)), span);
    __m128 dg = _mm_div_ps(_mm_cvtepi32_ps(_mm_sub_epi32(max, g)), span);
    __m128 db = _mm_div_ps(_mm_cvtepi32_ps(_mm_sub_epi32(max, b)), span);
    __m128 is_r = _mm_castsi128_ps(_mm_cmpeq_epi32(r, max));
    __m128 is_g = _mm_castsi128_ps(_mm_cmpeq_epi32(g, max));
    __m128 plus = _mm_blendv_ps(_mm_blendv_ps(dg, dr, is_g), db, is_r);
    __m128 minus = _mm_blendv_ps(_mm_blendv_ps(dr, db, is_g), dg, is_r);
    __m128 base = _mm_blendv_ps(_mm_set1_ps(4), _mm_set1_ps(2), is_g);
    __m256d h, one = _mm256_set1_pd(1), whole = _mm256_set1_pd(255);

    base = _mm_andnot_ps(is_r, base);
    h = _mm256_sub_pd(_mm256_add_pd(_mm256_cvtps_pd(base), _mm256_cvtps_pd(plus)),
                      _mm256_cvtps_pd(minus));
    h = _mm256_cvtps_pd(_mm256_cvtpd_ps(h));
    h = _mm256_add_pd(_mm256_div_pd(h, _mm256_set1_pd(6)), one);
    h = _mm256_sub_pd(h, _mm256_and_pd(one, _mm256_cmp_pd(h, one, _CMP_GE_OQ)));
    h = _mm256_cvtps_pd(_mm256_cvtpd_ps(h));
    *hue = _mm256_cvttpd_epi32(_mm256_mul_pd(h, whole));
    span = _mm_div_ps(span, _mm_cvtepi32_ps(max));
    *sat = _mm256_cvttpd_epi32(_mm256_mul_pd(_mm256_cvtps_pd(span), whole));
}

static inline __m128i to_byte(__m256d v)
{
    __m256d whole = _mm256_round_pd(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    __m256d up = _mm256_cmp_pd(_mm256_sub_pd(v, whole), _mm256_set1_pd(0.5), _CMP_GE_OQ);

    return _mm256_cvttpd_epi32(_mm256_add_pd(whole, _mm256_and_pd(up, _mm256_set1_pd(1))));
}

/* One of six for each pixel: of[i]. */
static inline __m128i choose(__m128i i, const __m128i of[6])
{
    __m128i v = of[0];

    for (int k = 1; k < 6; k++)
        v = _mm_blendv_epi8(v, of[k], _mm_cmpeq_epi32(i, _mm_set1_epi32(k)));
    return v;
}

static inline void from_hsv(__m128i hue, __m128i sat, __m128i value, __m128i out[3])
{
    __m256d one = _mm256_set1_pd(1), whole = _mm256_set1_pd(255), v = _mm256_cvtepi32_pd(value);
    __m256d sixth = _mm256_mul_pd(_mm256_cvtepi32_pd(hue), _mm256_set1_pd(6)), f, s;
    __m128i i, p, q, t;
    __m128 ff, sf;

    sixth = _mm256_div_pd(sixth, whole);
    i = _mm256_cvttpd_epi32(sixth); /* 6 is 0 again */
    ff = _mm256_cvtpd_ps(_mm256_sub_pd(sixth, _mm256_cvtepi32_pd(i)));
    sf = _mm256_cvtpd_ps(_mm256_div_pd(_mm256_cvtepi32_pd(sat), whole));
    f = _mm256_cvtps_pd(ff);
    s = _mm256_cvtps_pd(sf);
    p = to_byte(_mm256_mul_pd(v, _mm256_sub_pd(one, s)));
    q = to_byte(_mm256_mul_pd(v, _mm256_sub_pd(one, _mm256_cvtps_pd(_mm_mul_ps(sf, ff)))));
    f = _mm256_mul_pd(s, _mm256_sub_pd(one, f));
    t = to_byte(_mm256_mul_pd(v, _mm256_sub_pd(one, f)));
    out[0] = choose(i, (const __m128i[6]){value, q, p, p, t, value});
    out[1] = choose(i, (const __m128i[6]){t, value, value, q, p, p});
    out[2] = choose(i, (const __m128i[6]){p, p, t, value, value, q});
}

static inline void turn_four(uint8_t *pixels, __m128i turn)
{
    __m128i all = _mm_loadu_si128((const __m128i *)pixels), low = _mm_set1_epi32(255);
    __m128i r = _mm_and_si128(all, low), g = _mm_and_si128(_mm_srli_epi32(all, 8), low);
    __m128i b = _mm_and_si128(_mm_srli_epi32(all, 16), low), hue, sat, out[3];
    __m128i max = _mm_max_epi32(r, _mm_max_epi32(g, b)),
            min = _mm_min_epi32(r, _mm_min_epi32(g, b));
    __m128i grey = _mm_cmpeq_epi32(max, min), faint;

    to_hsv(r, g, b, max, min, &hue, &sat);
    from_hsv(_mm_and_si128(_mm_add_epi32(hue, turn), low), sat, max, out);
    faint = _mm_or_si128(grey, _mm_cmpeq_epi32(sat, _mm_setzero_si128()));
    for (int c = 0; c < 3; c++)
        out[c] = _mm_blendv_epi8(out[c], max, faint);
    all = _mm_or_si128(_mm_slli_epi32(out[1], 8), _mm_slli_epi32(out[2], 16));
    _mm_storeu_si128((__m128i *)pixels, _mm_or_si128(out[0], all));
}

void image_turn_avx2(uint8_t *p, size_t n, uint8_t turn)
{
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        turn_four(p + 4 * i, _mm_set1_epi32(turn));
    image_turn(p + 4 * i, n - i, turn);
}
