// SPDX-License-Identifier: Apache-2.0
/* Which token is taken, and what is said of one that cannot be. */
#include "unit.h"

#include "base/secret.h"
#include "base/syscalls.h"
#include "base/api_token.h"

static const struct {
    const char *given, *variable;
    const char *file; /* what is in the file of token_file; NULL: none is named */
    const char *want; /* NULL: none */
    int rc;
} cases[] = {
    {NULL, NULL, NULL, NULL, 0},
    {"", "", NULL, NULL, 0},
    {"code", "env", "file", "code", 0},
    {NULL, "env", "file", "env", 0},
    {NULL, NULL, "file", "file", 0},
    {"", "", " file \n", "file", 0},
    {NULL, NULL, "dlc_new\ndlc_old\n", "dlc_new", 0}, /* one replaces the other */
    {NULL, NULL, "dlc_new\nold\n", NULL, DLC_EINVAL},
    {NULL, "env", "two words", "env", 0},
    {NULL, NULL, "two words", NULL, DLC_EINVAL},
    {NULL, NULL, "", NULL, DLC_EINVAL},
    {NULL, "two words", "file", NULL, DLC_EINVAL}, /* not passed over for the next */
    {"two words", "env", "file", NULL, DLC_EINVAL},
};

static void test_order(void **state)
{
    char path[256];

    (void)state;
    unit_path("token", path);
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct config c = {.token_file = cases[i].file != NULL ? path : (char *)""};
        struct dlc_err err = DLC_ERR_INIT;
        char *token = NULL;

        unsetenv("DLCACHE_TOKEN");
        if (cases[i].variable != NULL)
            setenv("DLCACHE_TOKEN", cases[i].variable, 1);
        if (cases[i].file != NULL)
            assert_int_equal(os_write_file(path, cases[i].file, strlen(cases[i].file), 0600, NULL),
                             0);
        assert_int_equal(token_load(&c, cases[i].given, &token, &err), cases[i].rc);
        if (cases[i].want == NULL)
            assert_null(token);
        else
            assert_string_equal(token, cases[i].want);
        assert_null(strstr(err.text, "words")); /* no message holds any of it */
        secret_free(&token);
        assert_null(token);
    }
    unsetenv("DLCACHE_TOKEN");
}

static void test_a_file_that_is_not_there(void **state)
{
    char path[256];
    struct config c = {.token_file = (char *)unit_path("absent", path)};
    struct dlc_err err = DLC_ERR_INIT;
    char *token = NULL;

    (void)state;
    unsetenv("DLCACHE_TOKEN");
    assert_true(token_load(&c, NULL, &token, &err) < 0);
    assert_null(token);
    assert_non_null(strstr(err.text, "absent"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_a_file_that_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
