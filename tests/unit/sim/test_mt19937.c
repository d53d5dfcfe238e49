// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "sim/mt19937.h"

/* The C++ standard names the 10,000th number of the default seed. */
static void test_known_numbers(void **state)
{
    struct mt19937 m;
    uint32_t v = 0;

    (void)state;
    mt_seed(&m, 5489);
    assert_int_equal(mt_next(&m), 3499211612u);
    for (int i = 1; i < 10000; i++)
        v = mt_next(&m);
    assert_int_equal(v, 4123659995u);
}

/* numpy.random.seed(12345); shuffle(range(12)); shuffle(range(5)) */
static void test_shuffles_as_numpy(void **state)
{
    static const int twelve[] = {8, 0, 3, 7, 11, 10, 6, 9, 4, 1, 5, 2}, five[] = {0, 4, 2, 3, 1};
    struct mt19937 m;

    (void)state;
    mt_seed(&m, 12345);
    for (int round = 0; round < 2; round++) {
        const int *want = round == 0 ? twelve : five;
        int n = round == 0 ? 12 : 5, a[12];

        for (int i = 0; i < n; i++)
            a[i] = i;
        for (int i = n - 1; i > 0; i--) {
            int j = (int)mt_upto(&m, (uint32_t)i), t = a[i];

            a[i] = a[j];
            a[j] = t;
        }
        for (int i = 0; i < n; i++)
            assert_int_equal(a[i], want[i]);
    }
}

static void test_bounds(void **state)
{
    struct mt19937 m, same;

    (void)state;
    mt_seed(&m, 1);
    same = m;
    assert_int_equal(mt_upto(&m, 0), 0);
    assert_int_equal(m.at, same.at); /* nothing was drawn */
    for (int i = 0; i < 1000; i++)
        assert_true(mt_upto(&m, 4) <= 4);
    assert_int_equal(mt_upto(&same, UINT32_MAX), 1791095845u); /* the first number of seed 1 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_numbers),
        cmocka_unit_test(test_shuffles_as_numpy),
        cmocka_unit_test(test_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
