// SPDX-License-Identifier: Apache-2.0
#include "cli/resource_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void which_are_names(void **state)
{
    char s[NAME_LEN + 2];

    (void)state;
    assert_true(name_is_ok("a") && name_is_ok("0") && name_is_ok("a.b_c-d9"));
    assert_false(name_is_ok("") || name_is_ok(".a") || name_is_ok("-a") || name_is_ok("_a"));
    assert_false(name_is_ok("A") || name_is_ok("a/b") || name_is_ok("a b") ||
                 name_is_ok("\xc3\xa9"));
    memset(s, 'a', sizeof(s));
    s[NAME_LEN + 1] = '\0';
    assert_false(name_is_ok(s));
    s[NAME_LEN] = '\0';
    assert_true(name_is_ok(s));
}

static void names_of_urls(void **state)
{
    static const char *const cases[][2] = {
        {"s3://bucket/imagenet/", "imagenet"},
        {"s3://bucket/a/My Data (v2)/", "my-data-v2"},
        {"s3://bucket", "bucket"},
        {"s3://bucket/", "bucket"},
        {"gs://b-b/x/.hidden//", "hidden"},
        {"http://host:80/p/q.tar?x=1/2", "q.tar"},
        {"file:///", "dataset"},
        {"file:///data/\xc3\xa9\xc3\xa9/", "dataset"},
        {"file:///data/__--/", "dataset"},
        {"plain", "plain"},
        {"", "dataset"},
    };
    char long_url[300] = "s3://bucket/", out[NAME_LEN + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        name_of_url(cases[i][0], out);
        assert_string_equal(out, cases[i][1]);
        assert_true(name_is_ok(out));
    }
    memset(long_url + 12, 'x', 250);
    name_of_url(long_url, out);
    assert_int_equal(strlen(out), NAME_LEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_are_names),
        cmocka_unit_test(names_of_urls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
