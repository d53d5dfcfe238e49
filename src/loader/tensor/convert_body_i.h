// SPDX-License-Identifier: Apache-2.0
/*
 * The conversions, for convert.c and convert_avx2.c: a loop for each pair of types, which the
 * compiler makes of these macros and turns into vectors.
 */
#ifndef DLC_LOADER_TENSOR_CONVERT_BODY_I_H
#define DLC_LOADER_TENSOR_CONVERT_BODY_I_H

#include <math.h>
#include <stdbool.h>
#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

#include "loader/tensor/convert_i.h"

/* Numbers where they lie. */
typedef uint8_t mem_u8;
typedef int8_t mem_i8;
typedef uint16_t mem_u16 __attribute__((aligned(1)));
typedef int16_t mem_i16 __attribute__((aligned(1)));
typedef uint32_t mem_u32 __attribute__((aligned(1)));
typedef int32_t mem_i32 __attribute__((aligned(1)));
typedef uint64_t mem_u64 __attribute__((aligned(1)));
typedef int64_t mem_i64 __attribute__((aligned(1)));
typedef float mem_f32 __attribute__((aligned(1)));
typedef double mem_f64 __attribute__((aligned(1)));
typedef uint16_t mem_f16 __attribute__((aligned(1)));
typedef uint8_t mem_bool;

static inline uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float float_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* To the nearest, even ones first. A NaN stays one, quiet, with the top of its payload. */
static inline uint16_t half_of(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;

    if (size > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x3ff));
    if (size >= 0x477ff000) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) /* below 2^-14: the sum leaves multiples of 2^-24 in the low bits */
        return (uint16_t)(sign | (bits_of(float_of_bits(size) + 0.5f) - 0x3f000000));
    size += 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | (size - 0x38000000) >> 13);
}

static inline float float_of(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, size = h & 0x7fff;

    if (size >= 0x7c00)
        return float_of_bits(sign | 0x7f800000 | (size & 0x3ff) << 13 |
                             (size > 0x7c00 ? 0x400000 : 0));
    if (size < 0x400)
        return float_of_bits(sign | bits_of((float)size * 0x1p-24f));
    return float_of_bits(sign | (size + 0x1c000) << 13);
}

/* To float such that half_of() of it is right: cut off, and the last bit says that something was.
 */
static inline float odd_of(double x)
{
    float near = (float)x;
    uint32_t bits = bits_of(near);

    if ((double)near == x)
        return near;
    if (fabs((double)near) > fabs(x))
        bits--;
    return float_of_bits(bits | 1);
}

#define IS_TRUE(x) ((x) != 0)
#define AS_IS(x)   (x)

/* What always fits. */
#define CAST(stored, type, expression)                                                             \
    static inline size_t stored##_to_##type(const void *in, void *out, size_t n)                   \
    {                                                                                              \
        const mem_##stored *from = in;                                                             \
        mem_##type *to = out;                                                                      \
                                                                                                   \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = expression(from[i]);                                                           \
        return n;                                                                                  \
    }

/* Integers of a range that may be too large. */
#define FIT(stored, type, number)                                                                  \
    static inline size_t stored##_to_##type(const void *in, void *out, size_t n)                   \
    {                                                                                              \
        const mem_##stored *from = in;                                                             \
        mem_##type *to = out;                                                                      \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            number x;                                                                              \
                                                                                                   \
            if (__builtin_add_overflow(from[i], 0, &x))                                            \
                return i;                                                                          \
            to[i] = x;                                                                             \
        }                                                                                          \
        return n;                                                                                  \
    }

/* Floats: what lies between these two is in range without its fraction. */
#define CUT(stored, type, expression, above, below)                                                \
    static inline size_t stored##_to_##type(const void *in, void *out, size_t n)                   \
    {                                                                                              \
        const mem_##stored *from = in;                                                             \
        mem_##type *to = out;                                                                      \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            double x = (double)expression(from[i]);                                                \
                                                                                                   \
            if (!(x > (above) && x < (below)))                                                     \
                return i;                                                                          \
            to[i] = (__typeof__(to[i]))x;                                                          \
        }                                                                                          \
        return n;                                                                                  \
    }

#define HALF_OF_INTEGER(x) half_of((float)(x))
#define HALF_OF_TRUTH(x)   half_of((x) != 0 ? 1.0f : 0.0f)
#define HALF_OF_DOUBLE(x)  half_of(odd_of(x))

#define FROM_INTEGER(stored)                                                                       \
    FIT(stored, u8, uint8_t)                                                                       \
    FIT(stored, i32, int32_t)                                                                      \
    FIT(stored, i64, int64_t)                                                                      \
    CAST(stored, f32, (float))                                                                     \
    CAST(stored, f16, HALF_OF_INTEGER)

#define BELOW_I64 (-0x1.0000000000001p63) /* the first double that does not fit */

#define FROM_FLOAT(stored, expression)                                                             \
    CUT(stored, u8, expression, -1.0, 256.0)                                                       \
    CUT(stored, i32, expression, -2147483649.0, 2147483648.0)                                      \
    CUT(stored, i64, expression, BELOW_I64, 0x1p63)

FROM_INTEGER(u8)
FROM_INTEGER(i8)
FROM_INTEGER(i16)
FROM_INTEGER(u16)
FROM_INTEGER(i32)
FROM_INTEGER(u32)
FROM_INTEGER(i64)
FROM_INTEGER(u64)
CAST(bool, u8, IS_TRUE)
CAST(bool, i32, IS_TRUE)
CAST(bool, i64, IS_TRUE)
CAST(bool, f32, IS_TRUE)
CAST(bool, f16, HALF_OF_TRUTH)
FROM_FLOAT(f16, float_of)
FROM_FLOAT(f32, AS_IS)
FROM_FLOAT(f64, AS_IS)
CAST(f16, f16, AS_IS)
CAST(f32, f32, AS_IS)
CAST(f64, f32, (float))
CAST(f64, f16, HALF_OF_DOUBLE)

#ifdef __F16C__
static inline size_t f32_to_f16(const void *in, void *out, size_t n)
{
    const mem_f32 *from = in;
    mem_f16 *to = out;
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps((const float *)(const void *)(from + i)),
                                         _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        to[i] = half_of(from[i]);
    return n;
}

static inline size_t f16_to_f32(const void *in, void *out, size_t n)
{
    const mem_f16 *from = in;
    mem_f32 *to = out;
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(
            (float *)(void *)(to + i),
            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
    for (; i < n; i++)
        to[i] = float_of(from[i]);
    return n;
}
#else
CAST(f32, f16, half_of)
CAST(f16, f32, float_of)
#endif

#define ROW(stored)                                                                                \
    {                                                                                              \
        stored##_to_u8, stored##_to_i32, stored##_to_i64, stored##_to_f16, stored##_to_f32         \
    }

#define CONVERSIONS                                                                                \
    {                                                                                              \
        [TENSOR_U8] = ROW(u8), [TENSOR_I32] = ROW(i32), [TENSOR_I64] = ROW(i64),                   \
        [TENSOR_F16] = ROW(f16), [TENSOR_F32] = ROW(f32), [TENSOR_BOOL] = ROW(bool),               \
        [TENSOR_I8] = ROW(i8), [TENSOR_I16] = ROW(i16), [TENSOR_U16] = ROW(u16),                   \
        [TENSOR_U32] = ROW(u32), [TENSOR_U64] = ROW(u64), [TENSOR_F64] = ROW(f64)                  \
    }

#endif
