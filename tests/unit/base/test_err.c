// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <errno.h>

#include "base/err.h"

static void test_set_gives_back_the_code(void **state)
{
    struct dlc_err e = DLC_ERR_INIT;

    (void)state;
    assert_int_equal(dlc_err_set(&e, DLC_ENOTFOUND, "no %s number %d", "thing", 7), DLC_ENOTFOUND);
    assert_int_equal(e.code, DLC_ENOTFOUND);
    assert_string_equal(e.text, "no thing number 7");
    assert_int_equal(dlc_err_set(NULL, DLC_EIO, "unseen"), DLC_EIO);
}

static void test_sys_names_the_system_error(void **state)
{
    struct dlc_err e = DLC_ERR_INIT;

    (void)state;
    errno = ENOENT;
    assert_int_equal(dlc_err_sys(&e, "cannot open %s", "/x"), DLC_ENOTFOUND);
    assert_string_equal(e.text, "cannot open /x: No such file or directory");
    errno = ENOSPC;
    assert_int_equal(dlc_err_sys(NULL, "unseen"), DLC_ENOSPACE);
}

static void test_prefix(void **state)
{
    struct dlc_err e = DLC_ERR_INIT;

    (void)state;
    dlc_err_set(&e, DLC_EINVAL, "bad size 'x'");
    assert_int_equal(dlc_err_prefix(&e, "%s:%d", "file.conf", 3), DLC_EINVAL);
    assert_string_equal(e.text, "file.conf:3: bad size 'x'");
    assert_true(dlc_err_prefix(NULL, "unseen") < 0);
}

static void test_long_texts_are_cut_and_ended(void **state)
{
    struct dlc_err e = DLC_ERR_INIT;
    char big[2 * sizeof(e.text)];

    (void)state;
    memset(big, 'y', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    dlc_err_set(&e, DLC_EIO, "%s", big);
    assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
    dlc_err_prefix(&e, "head");
    assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
    assert_memory_equal(e.text, "head: yyy", 9);
    errno = EIO;
    dlc_err_sys(&e, "%s", big);
    assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
    dlc_err_prefix(&e, "%s", big);
    assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
}

static void test_every_code_has_a_name_and_a_text(void **state)
{
    (void)state;
    for (int code = -1; code >= DLC_ELARGE; code--) {
        assert_string_not_equal(dlc_err_name(code), "?");
        assert_string_not_equal(dlc_strerror(code), "unknown error");
    }
    assert_string_equal(dlc_err_name(DLC_EDENIED), "EDENIED");
    assert_string_equal(dlc_err_name(0), "OK");
    assert_string_equal(dlc_err_name(-1000), "?");
    assert_string_equal(dlc_strerror(0), "success");
    assert_string_equal(dlc_strerror(1), "unknown error");
}

static void test_codes_of_errno(void **state)
{
    static const int want[][2] = {
        {0, DLC_OK},
        {EINVAL, DLC_EINVAL},
        {ENAMETOOLONG, DLC_EINVAL},
        {ENOMEM, DLC_ENOMEM},
        {ENOENT, DLC_ENOTFOUND},
        {ENOTDIR, DLC_ENOTFOUND},
        {EACCES, DLC_EDENIED},
        {EPERM, DLC_EDENIED},
        {EROFS, DLC_EDENIED},
        {EDQUOT, DLC_ENOSPACE},
        {ETIMEDOUT, DLC_ETIMEDOUT},
        {EAGAIN, DLC_EBUSY},
        {EEXIST, DLC_EBUSY},
        {EIO, DLC_EIO},
        {EPIPE, DLC_EIO},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(want); i++)
        assert_int_equal(dlc_err_of_errno(want[i][0]), want[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_gives_back_the_code),
        cmocka_unit_test(test_sys_names_the_system_error),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_long_texts_are_cut_and_ended),
        cmocka_unit_test(test_every_code_has_a_name_and_a_text),
        cmocka_unit_test(test_codes_of_errno),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
