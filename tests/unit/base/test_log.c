// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <fcntl.h>

#include "base/log.h"
#include "base/syscalls.h"

static struct buf said = BUF_INIT;

/* Collect in `said` what f writes to standard error. */
static void capture(void (*f)(void))
{
    char path[256];
    int keep = dup(STDERR_FILENO), fd;

    unit_path("log", path);
    fd = os_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(keep >= 0 && fd >= 0);
    dup2(fd, STDERR_FILENO);
    f();
    dup2(keep, STDERR_FILENO);
    os_close(&fd);
    os_close(&keep);
    buf_clear(&said);
    assert_int_equal(os_read_file(path, 100000, &said, NULL), 0);
    unlink(path);
}

static void say_at_all_levels(void)
{
    log_error("e%d", 1);
    log_warn("w%d", 2);
    log_info("i%d", 3);
    log_debug("d%d", 4);
}

static void say_two_lines(void)
{
    log_error("key 'a\n2026-01-01T00:00:00Z error forged\x1b[31m'");
}

static void say_much(void)
{
    char big[5000];

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    log_error("%s", big);
}

static void test_levels(void **state)
{
    (void)state;
    log_threshold = LOG_WARN;
    capture(say_at_all_levels);
    assert_non_null(strstr(buf_str(&said), "Z error e1\n"));
    assert_non_null(strstr(buf_str(&said), "Z warn  w2\n"));
    assert_null(strstr(buf_str(&said), "i3"));
    log_threshold = LOG_DEBUG;
    capture(say_at_all_levels);
    assert_non_null(strstr(buf_str(&said), "Z info  i3\n"));
    assert_non_null(strstr(buf_str(&said), "Z debug d4\n"));
    log_threshold = LOG_WARN;
}

static void test_one_line_per_event(void **state)
{
    (void)state;
    capture(say_two_lines);
    assert_ptr_equal(strchr(buf_str(&said), '\n'), buf_str(&said) + said.len - 1);
    assert_null(strchr(buf_str(&said), '\x1b'));
    capture(say_much);
    assert_in_range(said.len, 1000, 1200);
    assert_int_equal(said.data[said.len - 1], '\n');
}

static void test_json(void **state)
{
    const char *line;

    (void)state;
    log_set_json(true, "node");
    capture(say_two_lines);
    line = buf_str(&said);
    assert_ptr_equal(strchr(line, '\n'), line + said.len - 1);
    assert_non_null(strstr(line, "\"level\":\"error\",\"role\":\"node\",\"component\":"));
    assert_non_null(strstr(line, "\"message\":\"key 'a\\u000a2026-01-01T00:00:00Z error forged"
                                 "\\u001b[31m'\"}\n"));
    capture(say_much);
    assert_in_range(said.len, 1000, 1400);
    assert_string_equal(buf_str(&said) + said.len - 4, "x\"}\n");
    log_set_json(false, "");
}

static void say_to_file(void)
{
    log_error("to the file");
}

static void test_file_is_opened_again(void **state)
{
    struct buf text = BUF_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    char path[256], old[256];

    (void)state;
    unit_path("file", path);
    unit_path("file.1", old);
    assert_int_equal(log_reopen(&err), 0); /* standard error has no name */
    assert_int_equal(log_open(path, &err), 0);
    log_error("first");
    assert_int_equal(rename(path, old), 0);
    log_error("second");
    assert_int_equal(log_reopen(&err), 0);
    log_error("third");
    assert_int_equal(os_read_file(old, 1000, &text, NULL), 0);
    assert_non_null(strstr(buf_str(&text), "error first\n"));
    assert_non_null(strstr(buf_str(&text), "error second\n"));
    buf_clear(&text);
    assert_int_equal(os_read_file(path, 1000, &text, NULL), 0);
    assert_ptr_equal(strstr(buf_str(&text), "error third\n") + strlen("error third\n"),
                     buf_str(&text) + text.len);
    capture(say_to_file);
    assert_int_equal(said.len, 0);
    buf_release(&text);
}

static void test_names_of_levels(void **state)
{
    enum log_level l;

    (void)state;
    assert_true(log_level_parse("debug", &l) && l == LOG_DEBUG);
    assert_true(log_level_parse("error", &l) && l == LOG_ERROR);
    assert_false(log_level_parse("loud", &l));
    assert_false(log_level_parse("", &l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_one_line_per_event),
        cmocka_unit_test(test_names_of_levels),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_file_is_opened_again), /* the last: the log stays there */
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    buf_release(&said);
    return rc;
}
