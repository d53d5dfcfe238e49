// SPDX-License-Identifier: Apache-2.0
#include "base/suggest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {"serve", "stop", "stat", "evict", "version"};

static void test_near(void **state)
{
    (void)state;
    assert_string_equal("serve", nearest_name("server", names, 5)); /* one too many */
    assert_string_equal("evict", nearest_name("evct", names, 5));   /* one missing */
    assert_string_equal("stat", nearest_name("stta", names, 5));    /* swapped */
    assert_string_equal("version", nearest_name("varsoin", names, 5));
    assert_string_equal("stop", nearest_name("stop", names, 5));
}

static void test_far(void **state)
{
    char longest[300];

    (void)state;
    memset(longest, 's', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_null(nearest_name("upload", names, 5));
    assert_null(nearest_name("", names, 0));
    assert_null(nearest_name(longest, names, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_near), cmocka_unit_test(test_far)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
