// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/buf.h"
#include "base/mem.h"

static void test_empty(void **state)
{
    struct buf b = BUF_INIT;
    char *s;

    (void)state;
    assert_string_equal(buf_str(&b), "");
    buf_clear(&b);
    buf_release(&b);
    s = buf_take(&b);
    assert_string_equal(s, "");
    mem_free(&s);
}

static void test_every_way_of_adding(void **state)
{
    struct buf b = BUF_INIT;

    (void)state;
    buf_add(&b, "a\0b", 3);
    buf_adds(&b, "cd");
    buf_addc(&b, 'e');
    buf_addf(&b, "%d%s", 42, "!");
    buf_addf(&b, "%s", "");
    buf_add(&b, NULL, 0);
    assert_int_equal(b.len, 9);
    assert_memory_equal(b.data, "a\0bcde42!", 10);
    buf_release(&b);
}

static void test_nul_follows_every_length(void **state)
{
    struct buf b = BUF_INIT;

    (void)state;
    for (size_t i = 0; i < 5000; i++) {
        assert_int_equal(b.len, i);
        buf_addc(&b, (char)('a' + i % 26));
        assert_int_equal(b.data[b.len], '\0');
        assert_true(b.cap > b.len);
    }
    for (size_t i = 0; i < b.len; i++)
        assert_int_equal(b.data[i], 'a' + i % 26);
    buf_release(&b);
}

static void test_long_format(void **state)
{
    struct buf b = BUF_INIT;
    char big[3000];

    (void)state;
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    buf_adds(&b, "<");
    buf_addf(&b, "%s>", big);
    assert_int_equal(b.len, sizeof(big) + 1);
    assert_int_equal(b.data[b.len - 1], '>');
    buf_release(&b);
}

static void test_clear_keeps_memory_and_release_does_not(void **state)
{
    struct buf b = BUF_INIT;
    char *kept;

    (void)state;
    buf_adds(&b, "some text");
    kept = b.data;
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(buf_str(&b), "");
    assert_ptr_equal(b.data, kept);
    buf_release(&b);
    assert_null(b.data);
    assert_int_equal(b.cap, 0);
    buf_adds(&b, "again");
    assert_string_equal(buf_str(&b), "again");
    buf_release(&b);
}

static void test_reserve_makes_adding_free(void **state)
{
    struct buf b = BUF_INIT;
    const char *before;

    (void)state;
    buf_reserve(&b, 1000);
    assert_string_equal(buf_str(&b), "");
    before = b.data;
    for (int i = 0; i < 1000; i++)
        buf_addc(&b, 'x');
    assert_ptr_equal(b.data, before);
    buf_release(&b);
}

static void test_take(void **state)
{
    struct buf b = BUF_INIT;
    char *s;

    (void)state;
    buf_adds(&b, "mine");
    s = buf_take(&b);
    assert_string_equal(s, "mine");
    assert_null(b.data);
    assert_int_equal(b.len, 0);
    mem_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_every_way_of_adding),
        cmocka_unit_test(test_nul_follows_every_length),
        cmocka_unit_test(test_long_format),
        cmocka_unit_test(test_clear_keeps_memory_and_release_does_not),
        cmocka_unit_test(test_reserve_makes_adding_free),
        cmocka_unit_test(test_take),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
