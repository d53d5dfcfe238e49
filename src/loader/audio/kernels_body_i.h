// SPDX-License-Identifier: Apache-2.0
/*
 * The kernels, for kernels.c and kernels_avx2.c. Vectors of WIDTH floats in GNU C, as wide as the
 * processor has them. What depends on the number of lanes is done for LANES of them in any case, so
 * that the bytes do not depend on WIDTH.
 *
 * The transform of a real frame x of 2 * half samples is the complex one of z[i] = x[2i] + sqrt(-1)
 * x[2i + 1], taken apart: with E and O the transforms of the even and the odd samples,
 *
 *     X[k] = E[k] + w O[k], X[half - k]* = E[k] - w O[k]        w = exp(-2 pi sqrt(-1) k / fft)
 *     2 E[k] = Z[k] + Z[half - k]*, 2 sqrt(-1) O[k] = Z[k] - Z[half - k]*
 *
 * Both sums would be halved; the window is instead. Z is made in place, decimated in frequency, and
 * stays in the order in which that leaves it: m->place tells where.
 */
#ifndef DLC_LOADER_AUDIO_KERNELS_BODY_I_H
#define DLC_LOADER_AUDIO_KERNELS_BODY_I_H

#include <float.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "base/check.h"
#include "loader/audio/kernels_i.h"
#include "loader/audio/mel_i.h"
#include "loader/audio/resample_i.h"

#ifdef __AVX2__
#define WIDTH 8
#else
#define WIDTH 4
#endif

typedef float vec __attribute__((vector_size(4 * WIDTH)));
typedef float vec_any __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef int32_t ivec __attribute__((vector_size(4 * WIDTH)));
typedef float quad __attribute__((vector_size(16)));

#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const float *p)
{
    return *(const vec_any *)p;
}

/* The sum of products of LANES columns, n / LANES rows: each column by itself, then all. */
INLINE float dot(const float *a, const float *b, size_t n)
{
#ifdef __AVX2__
    vec sum = {0};

    for (size_t i = 0; i < n; i += LANES)
        sum += load(a + i) * load(b + i);
    quad q =
        (quad)_mm256_castps256_ps128((__m256)sum) + (quad)_mm256_extractf128_ps((__m256)sum, 1);
#else
    vec low = {0}, high = {0};

    for (size_t i = 0; i < n; i += LANES) {
        low += load(a + i) * load(b + i);
        high += load(a + i + WIDTH) * load(b + i + WIDTH);
    }
    quad q = low + high;
#endif
    return (q[0] + q[2]) + (q[1] + q[3]);
}

static inline void resample(const struct resampler *r, const float *x, float *out, size_t n)
{
    size_t whole = r->down / r->up, k = r->half / r->up;
    uint32_t part = r->down % r->up, phase = (uint32_t)(r->half % r->up);

    for (size_t j = 0; j < n; j++) {
        out[j] = dot(x + k + 1 - r->taps, r->table + phase * r->taps, r->taps);
        k += whole;
        phase += part;
        if (phase >= r->up) {
            phase -= r->up;
            k++;
        }
    }
}

struct complex {
    vec re, im;
};

/* One at a time: as a whole they would be copied through other registers. */
INLINE struct complex get(const vec *z, size_t i)
{
    return (struct complex){z[2 * i], z[2 * i + 1]};
}

INLINE void put(vec *z, size_t i, struct complex a)
{
    z[2 * i] = a.re;
    z[2 * i + 1] = a.im;
}

INLINE struct complex add(struct complex a, struct complex b)
{
    return (struct complex){a.re + b.re, a.im + b.im};
}

INLINE struct complex subtract(struct complex a, struct complex b)
{
    return (struct complex){a.re - b.re, a.im - b.im};
}

INLINE struct complex turned(struct complex a, const float *by)
{
    float c = by[0], s = by[1];

    return (struct complex){a.re * c - a.im * s, a.re * s + a.im * c};
}

/* LANES samples of WIDTH frames: z[i] gets sample i of each, times its place in the window. */
#ifdef __AVX2__
INLINE void load_tile(vec *z, const float *x, size_t hop, const float *window)
{
    __m256 a[8], b[8];

    for (int i = 0; i < 4; i++) { /* halves of the rows i and i + 4 */
        a[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x + i * hop)),
                                    _mm_loadu_ps(x + (i + 4) * hop), 1);
        a[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x + i * hop + 4)),
                                        _mm_loadu_ps(x + (i + 4) * hop + 4), 1);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
        b[i + 2] = _mm256_unpacklo_ps(a[i + 2], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_ps(a[i + 2], a[i + 3]);
    }
    for (int i = 0; i < 8; i += 4) {
        z[i] = (vec)_mm256_shuffle_ps(b[i], b[i + 2], 0x44) * window[i];
        z[i + 1] = (vec)_mm256_shuffle_ps(b[i], b[i + 2], 0xee) * window[i + 1];
        z[i + 2] = (vec)_mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44) * window[i + 2];
        z[i + 3] = (vec)_mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee) * window[i + 3];
    }
}
#else
INLINE void load_tile(vec *z, const float *x, size_t hop, const float *window)
{
    for (size_t i = 0; i < LANES; i++, x++)
        z[i] = (vec){x[0], x[hop], x[2 * hop], x[3 * hop]} * window[i];
}
#endif

struct four {
    struct complex a, b, c, d;
};

INLINE struct four butterfly(const vec *z, size_t i, size_t q)
{
    struct complex p = get(z, i), r = get(z, i + q), s = get(z, i + 2 * q), t = get(z, i + 3 * q);
    struct complex even = add(p, s), odd = add(r, t), e = subtract(p, s), o = subtract(r, t);

    return (struct four){add(even, odd),
                         {e.re + o.im, e.im - o.re},
                         subtract(even, odd),
                         {e.re - o.im, e.im + o.re}};
}

/* Every fourth of a block of n becomes a block of n / 4. */
static inline void step(const struct mel *m, vec *z, size_t n)
{
    size_t q = n / 4, stride = m->half / n;

    for (size_t i = 0; i < m->half; i += n) {
        struct four y = butterfly(z, i, q);

        put(z, i, y.a);
        put(z, i + q, y.b);
        put(z, i + 2 * q, y.c);
        put(z, i + 3 * q, y.d);
    }
    for (size_t j = 1; j < q; j++) {
        const float *turn = m->turn + 2 * j * stride;

        for (size_t i = j; i < m->half; i += n) {
            struct four y = butterfly(z, i, q);

            put(z, i, y.a);
            put(z, i + q, turned(y.b, turn));
            put(z, i + 2 * q, turned(y.c, turn + 2 * j * stride));
            put(z, i + 3 * q, turned(y.d, turn + 4 * j * stride));
        }
    }
}

static inline void transform(const struct mel *m, vec *z)
{
    size_t n = m->half;

    for (; n >= 4; n /= 4)
        step(m, z, n);
    for (size_t i = 0; n == 2 && i < m->half; i += 2) {
        struct complex a = get(z, i), b = get(z, i + 1);

        put(z, i, add(a, b));
        put(z, i + 1, subtract(a, b));
    }
}

INLINE vec power_of(struct complex a)
{
    return a.re * a.re + a.im * a.im;
}

static inline void take_powers(const struct mel *m, const vec *z, vec *power)
{
    size_t half = m->half;
    vec first = z[0] + z[1], last = z[0] - z[1];

    power[0] = first * first * 4;
    power[half] = last * last * 4;
    power[half / 2] = power_of(get(z, m->place[half / 2])) * 4;
    for (size_t k = 1; k < half / 2; k++) {
        struct complex a = get(z, m->place[k]), b = get(z, m->place[half - k]);
        struct complex even = {a.re + b.re, a.im - b.im}, odd = {a.im + b.im, b.re - a.re};
        float c = m->split[2 * k], s = m->split[2 * k + 1];
        struct complex w = {odd.re * c + odd.im * s, odd.im * c - odd.re * s};

        power[k] = power_of(add(even, w));
        power[half - k] = power_of(subtract(even, w));
    }
}

INLINE vec choose(ivec which, vec yes, vec no)
{
    return (vec)(((ivec)yes & which) | ((ivec)no & ~which));
}

/* The natural logarithm of normal numbers, to about 1e-7 (Cephes' logf: a polynomial around 1). */
INLINE vec log_of(vec x)
{
    ivec bits = (ivec)x, exponent = (bits >> 23) - 126, low;
    vec f = (vec)((bits & 0x7fffff) | 0x3f000000), e, z, y; /* 0.5 to 1 */

    low = f < 0.707106781186547524f;
    exponent += low; /* -1 where it is so */
    f = choose(low, f + f, f) - 1.0f;
    e = __builtin_convertvector(exponent, vec);
    z = f * f;
    y = f * 7.0376836292e-2f - 1.1514610310e-1f;
    y = y * f + 1.1676998740e-1f;
    y = y * f - 1.2420140846e-1f;
    y = y * f + 1.4249322787e-1f;
    y = y * f - 1.6668057665e-1f;
    y = y * f + 2.0000714765e-1f;
    y = y * f - 2.4999993993e-1f;
    y = y * f + 3.3333331174e-1f;
    y = y * f * z - e * 2.12194440e-4f - z * 0.5f;
    return f + y + e * 0.693359375f;
}

static inline void transform_frames(const struct mel *m, const float *x, vec *z)
{
    for (size_t i = 0; i < m->span; i += LANES)
        load_tile(z + i, x + i, m->spec.hop, m->window + i);
    memset(z + m->span, 0, (2 * m->half - m->span) * sizeof(*z));
    transform(m, z);
}

static inline void mel_wide(const struct mel *m, const float *x, vec *z, float *out, size_t stride,
                            size_t count)
{
    vec *power = z + 2 * m->half, floor = (vec){0} + m->floor, top = (vec){0} + FLT_MAX;

    transform_frames(m, x, z);
    take_powers(m, z, power);
    for (size_t k = 0; k < m->spec.mels; k++) {
        const struct mel_filter *f = &m->filters[k];
        vec sum = {0};

        for (size_t i = 0; i < f->count; i++)
            sum += power[f->first + i] * m->weights[f->weight + i];
        sum = choose(sum > floor, sum, floor);
        sum = log_of(choose(sum < top, sum, top));
        if (count >= WIDTH)
            *(vec_any *)(out + k * stride) = sum;
        else
            memcpy(out + k * stride, &sum, count * sizeof(float));
    }
}

static inline void mel(const struct mel *m, const float *x, float *work, float *out, size_t stride,
                       size_t count)
{
    x += (m->spec.fft - m->spec.window) / 2;
    for (size_t i = 0; i < count; i += WIDTH)
        mel_wide(m, x + i * m->spec.hop, (vec *)(void *)work, out + i, stride, count - i);
}

#endif
