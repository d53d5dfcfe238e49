// SPDX-License-Identifier: Apache-2.0
/* float16: every value comes back, and what lies between goes to the nearer one, half to even. */
#include "unit.h"

#include <math.h>

#include "loader/image/image_i.h"

static float single(unsigned half)
{
    unsigned exponent = half >> 10 & 31, mantissa = half & 1023;
    float v = exponent == 0 ? ldexpf((float)mantissa, -24)
                            : ldexpf((float)(1024 + mantissa), (int)exponent - 25);

    return (half & 0x8000) != 0 ? -v : v;
}

static void test_values_come_back(void **state)
{
    (void)state;
    for (unsigned sign = 0; sign < 2; sign++)
        for (unsigned h = 0; h < 0x7c00; h++)
            assert_int_equal(image_half(single(h | sign << 15)), h | sign << 15);
}

static void test_rounding(void **state)
{
    (void)state;
    for (unsigned h = 0; h + 1 < 0x7c00; h++) {
        float a = single(h), b = single(h + 1), middle = (a + b) / 2;

        assert_int_equal(image_half(middle), h % 2 == 0 ? h : h + 1);
        assert_int_equal(image_half(nextafterf(middle, a)), h);
        assert_int_equal(image_half(nextafterf(middle, b)), h + 1);
        assert_int_equal(image_half(-nextafterf(middle, b)), (h + 1) | 0x8000);
    }
}

static void test_edges(void **state)
{
    (void)state;
    assert_int_equal(image_half(65520), 0x7c00);
    assert_int_equal(image_half(65519), 0x7bff);
    assert_int_equal(image_half(-1e30f), 0xfc00);
    assert_int_equal(image_half(INFINITY), 0x7c00);
    assert_int_equal(image_half(NAN) & 0x7e00, 0x7e00);
    assert_int_equal(image_half(1e-30f), 0);
    assert_int_equal(image_half(-0.0f), 0x8000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_come_back),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_edges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
