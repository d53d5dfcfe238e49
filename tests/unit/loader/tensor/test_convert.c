// SPDX-License-Identifier: Apache-2.0
/* Every pair of types at the edges of their ranges, and the two sets of loops against each other.
 */
#include "unit.h"

#include <math.h>

#include "base/rng.h"
#include "loader/tensor/convert_i.h"

#define CONVERT(stored, type, in, out, n) convert_best(stored, type)(in, out, n)

static void test_integers(void **state)
{
    const int64_t in[] = {0, 1, 255, 256};
    const int32_t small[] = {-1};
    const uint64_t large[] = {INT64_MAX, (uint64_t)INT64_MAX + 1};
    const int64_t edges[] = {INT32_MAX, INT32_MIN, (int64_t)INT32_MAX + 1};
    uint8_t u8[4];
    int64_t i64[2];
    int32_t i32[3];

    (void)state;
    assert_int_equal(CONVERT(TENSOR_I64, TENSOR_U8, in, u8, 4), 3);
    assert_true(u8[0] == 0 && u8[1] == 1 && u8[2] == 255);
    assert_int_equal(CONVERT(TENSOR_I32, TENSOR_U8, small, u8, 1), 0);
    assert_int_equal(CONVERT(TENSOR_U64, TENSOR_I64, large, i64, 2), 1);
    assert_int_equal(i64[0], INT64_MAX);
    assert_int_equal(CONVERT(TENSOR_I64, TENSOR_I32, edges, i32, 3), 2);
    assert_true(i32[0] == INT32_MAX && i32[1] == INT32_MIN);
}

static void test_floats_to_integers(void **state)
{
    const float in[] = {-0.99f, 0.99f, 1.5f, 255.99f, 256};
    const double far[] = {-2147483648.9, 2147483647.9, 2147483648.0};
    const double edge[] = {-0x1p63, 0x1.fffffffffffffp62, 0x1p63};
    const float none[] = {NAN};
    uint8_t u8[5];
    int32_t i32[3];
    int64_t i64[3];

    (void)state;
    assert_int_equal(CONVERT(TENSOR_F32, TENSOR_U8, in, u8, 5), 4);
    assert_true(u8[0] == 0 && u8[1] == 0 && u8[2] == 1 && u8[3] == 255);
    assert_int_equal(CONVERT(TENSOR_F64, TENSOR_I32, far, i32, 3), 2);
    assert_true(i32[0] == INT32_MIN && i32[1] == INT32_MAX);
    assert_int_equal(CONVERT(TENSOR_F64, TENSOR_I64, edge, i64, 3), 2);
    assert_true(i64[0] == INT64_MIN && i64[1] == (int64_t)0x1.fffffffffffffp62);
    assert_int_equal(CONVERT(TENSOR_F32, TENSOR_U8, none, u8, 1), 0);
    assert_int_equal(CONVERT(TENSOR_F32, TENSOR_I64, none, i64, 1), 0);
}

static void test_truth(void **state)
{
    const uint8_t in[] = {0, 1, 2, 255};
    const uint16_t half[] = {0, 0x3c00, 0x3c00, 0x3c00};
    uint16_t f16[4];
    int32_t i32[4];

    (void)state;
    assert_int_equal(CONVERT(TENSOR_BOOL, TENSOR_I32, in, i32, 4), 4);
    assert_true(i32[0] == 0 && i32[1] == 1 && i32[2] == 1 && i32[3] == 1);
    assert_int_equal(CONVERT(TENSOR_BOOL, TENSOR_F16, in, f16, 4), 4);
    assert_memory_equal(f16, half, sizeof(half));
}

/* The value of a half, from its definition. */
static double value_of(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double size = exponent == 0 ? ldexp(h & 1023, -24) : ldexp(1024 + (h & 1023), exponent - 25);

    return (h & 0x8000) != 0 ? -size : size;
}

/* All halves and back, by both sets of loops. */
static void check_halves(convert_table table)
{
    static uint16_t in[65536], back[65536];
    static float out[65536];

    for (size_t i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    assert_int_equal(table[TENSOR_F16][TENSOR_F32](in, out, 65536), 65536);
    assert_int_equal(table[TENSOR_F32][TENSOR_F16](out, back, 65536), 65536);
    for (size_t i = 0; i < 65536; i++) {
        bool nan = (i & 0x7fff) > 0x7c00;

        assert_int_equal(back[i], nan ? i | 0x200 : i);
        assert_true(nan ? isnan(out[i]) : 1);
        if ((i & 0x7fff) == 0x7c00)
            assert_true(isinf(out[i]) && (out[i] < 0) == (i > 0x8000));
        else if (!nan)
            assert_true((double)out[i] == value_of((uint16_t)i));
    }
}

static void test_every_half(void **state)
{
    (void)state;
    check_halves(convert_plain);
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        check_halves(convert_avx2);
#endif
}

/* Between two halves: the nearer one, and of two equally near the even one. */
static void test_rounding_to_halves(void **state)
{
    (void)state;
    for (uint16_t h = 0; h < 0x7bff; h++) {
        double a = value_of(h), b = value_of((uint16_t)(h + 1)), middle = (a + b) / 2;
        const double in[] = {a + (b - a) * 0x1p-40, middle - (b - a) * 0x1p-40, middle,
                             middle + (b - a) * 0x1p-40, -middle};
        const uint16_t even = h % 2 == 0 ? h : (uint16_t)(h + 1);
        const uint16_t want[] = {h, h, even, (uint16_t)(h + 1), (uint16_t)(even | 0x8000)};
        const float exact[] = {(float)middle, (float)-middle};
        uint16_t out[5];

        assert_int_equal(CONVERT(TENSOR_F64, TENSOR_F16, in, out, 5), 5);
        assert_memory_equal(out, want, sizeof(want));
        assert_int_equal(convert_plain[TENSOR_F32][TENSOR_F16](exact, out, 2), 2);
        assert_true(out[0] == want[2] && out[1] == want[4]);
    }
}

static void test_beyond_half(void **state)
{
    const double in[] = {65519.999, 65520, 1e300, -1e300, 1e-300, INFINITY, 2.9e-8, 3.1e-8};
    const uint16_t want[] = {0x7bff, 0x7c00, 0x7c00, 0xfc00, 0, 0x7c00, 0, 1};
    const int64_t whole[] = {65519, 65520, -70000, 2049, 2051};
    const uint16_t halves[] = {0x7bff, 0x7c00, 0xfc00, 0x6800, 0x6802};
    uint16_t out[8];

    (void)state;
    assert_int_equal(CONVERT(TENSOR_F64, TENSOR_F16, in, out, 8), 8);
    assert_memory_equal(out, want, sizeof(want));
    assert_int_equal(CONVERT(TENSOR_I64, TENSOR_F16, whole, out, 5), 5);
    assert_memory_equal(out, halves, sizeof(halves));
}

/* Random bits as every type, at odd addresses and lengths: the same results, the same refusals. */
static void test_both_sets_give_the_same_bytes(void **state)
{
#ifdef __x86_64__
    static uint8_t in[8 * 300 + 1], a[8 * 300 + 1], b[8 * 300 + 1];
    struct rng r = {3};

    (void)state;
    if (!__builtin_cpu_supports("avx2"))
        skip();
    for (unsigned round = 0; round < 400; round++) {
        size_t n = rng_below(&r, 300);

        for (size_t i = 0; i < sizeof(in); i++) /* small numbers more often */
            in[i] = (uint8_t)(round % 2 == 0 ? rng_next(&r) : i % 8 < 2 ? rng_below(&r, 64) : 0);
        for (unsigned from = 0; from < TENSOR_TYPES; from++)
            for (unsigned to = 0; to < TENSOR_OUTPUTS; to++) {
                size_t done = convert_plain[from][to](in + 1, a + 1, n);

                assert_int_equal(convert_avx2[from][to](in + 1, b + 1, n), done);
                assert_memory_equal(a + 1, b + 1, done * tensor_type_bytes(to));
            }
    }
#else
    (void)state;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_floats_to_integers),
        cmocka_unit_test(test_truth),
        cmocka_unit_test(test_every_half),
        cmocka_unit_test(test_rounding_to_halves),
        cmocka_unit_test(test_beyond_half),
        cmocka_unit_test(test_both_sets_give_the_same_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
