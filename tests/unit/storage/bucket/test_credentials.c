// SPDX-License-Identifier: Apache-2.0
#include "storage/bucket/credentials_i.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "aws_place.h"

static void test_environment(void **state)
{
    (void)state;
    setenv("AWS_ACCESS_KEY_ID", "AKENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "hush-env", 1);
    aws_place_expect("AKENV", "hush-env", NULL);
    setenv("AWS_SESSION_TOKEN", "hush-token", 1);
    aws_place_expect("AKENV", "hush-env", "hush-token");
}

static void test_nothing_found(void **state)
{
    (void)state;
    aws_place_expect_error(DLC_EDENIED, "no AWS credentials found");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_environment, aws_place_set_up, aws_place_tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_found, aws_place_set_up, aws_place_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
