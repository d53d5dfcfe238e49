// SPDX-License-Identifier: Apache-2.0
#include "net/range_i.h"

#include "unit.h"

static void expect(const char *text, uint64_t size, enum range want, uint64_t first, uint64_t last)
{
    uint64_t a = 77, b = 77;

    assert_int_equal(range_parse(text, size, &a, &b), want);
    if (want == RANGE_PART) {
        assert_int_equal(a, first);
        assert_int_equal(b, last);
    }
}

static void test_parts(void **state)
{
    (void)state;
    expect("bytes=0-0", 10, RANGE_PART, 0, 0);
    expect("bytes=2-5", 10, RANGE_PART, 2, 5);
    expect("Bytes=2-5", 10, RANGE_PART, 2, 5);
    expect("bytes=2-", 10, RANGE_PART, 2, 9);
    expect("bytes=9-99", 10, RANGE_PART, 9, 9);
    expect("bytes=0-99999999999999999999999", 10, RANGE_PART, 0, 9);
    expect("bytes=-3", 10, RANGE_PART, 7, 9);
    expect("bytes=-99", 10, RANGE_PART, 0, 9);
    expect("bytes=-18446744073709551616", 10, RANGE_PART, 0, 9);
    expect("bytes=18446744073709551614-", UINT64_MAX, RANGE_PART, UINT64_MAX - 1, UINT64_MAX - 1);
}

static void test_beyond(void **state)
{
    (void)state;
    expect("bytes=10-", 10, RANGE_BEYOND, 0, 0);
    expect("bytes=10-20", 10, RANGE_BEYOND, 0, 0);
    expect("bytes=99999999999999999999999-", 10, RANGE_BEYOND, 0, 0);
    expect("bytes=-0", 10, RANGE_BEYOND, 0, 0);
    expect("bytes=0-", 0, RANGE_BEYOND, 0, 0);
    expect("bytes=-5", 0, RANGE_BEYOND, 0, 0);
}

static void test_what_is_not_understood_is_the_whole(void **state)
{
    static const char *const texts[] = {
        "",           "bytes",         "bytes=",     "bytes=-",    "bytes=a-b", "bytes=1",
        "bytes=3-2",  "bytes=1-2,4-5", "bytes=1-2 ", "bytes= 1-2", "items=1-2", "bytes=1--2",
        "bytes=+1-2", "bytes=0x1-2",   "bytes=-1-",  "bytes=-x",
    };

    (void)state;
    for (size_t i = 0; i < unit_count(texts); i++)
        expect(texts[i], 10, RANGE_WHOLE, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_beyond),
        cmocka_unit_test(test_what_is_not_understood_is_the_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
