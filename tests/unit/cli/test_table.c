// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void test_columns(void **state)
{
    struct table t;
    struct buf b = BUF_INIT;

    (void)state;
    table_init(&t, "key|>size|note");
    table_add(&t, "caf\xc3\xa9");
    table_addf(&t, "%d", 7);
    table_add(&t, "x");
    table_add(&t, "a");
    table_add(&t, "12,345");
    table_add(&t, "bad\x1b[2J\xff");
    table_format(&t, &b);
    assert_string_equal("key     size  note\n"
                        "caf\xc3\xa9       7  x\n"
                        "a     12,345  bad?[2J?\n",
                        buf_str(&b));
    buf_release(&b);
    table_release(&t);
}

static void test_no_headings(void **state)
{
    struct table t;
    struct buf b = BUF_INIT;

    (void)state;
    table_init(&t, "|>");
    table_add(&t, "memory");
    table_add(&t, "1 B");
    table_format(&t, &b);
    assert_string_equal("memory  1 B\n", buf_str(&b));
    buf_release(&b);
    table_release(&t);
}

static void test_empty(void **state)
{
    struct table t;
    struct buf b = BUF_INIT;

    (void)state;
    table_init(&t, "a|b");
    table_format(&t, &b);
    assert_string_equal("a  b\n", buf_str(&b));
    buf_release(&b);
    table_release(&t);
}

static void test_count(void **state)
{
    char text[32];

    (void)state;
    assert_string_equal("0", table_count(0, text));
    assert_string_equal("999", table_count(999, text));
    assert_string_equal("1,000", table_count(1000, text));
    assert_string_equal("123,456", table_count(123456, text));
    assert_string_equal("18,446,744,073,709,551,615", table_count(UINT64_MAX, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_no_headings),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
