// SPDX-License-Identifier: Apache-2.0
/* credential_process of a process that may not start programs, by its helper. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>

#include "base/syscalls.h"
#include "bucket/aws_home.h"
#include "bucket/credentials/command_helper.h"
#include "sandbox/seccomp_i.h"

/* f in a child that has a helper if a profile asks for one, and then gives up starting programs. Its
 * home has this ~/.aws/config. */
static void in_sandbox(const char *config, bool helped, void (*f)(void))
{
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        struct dlc_err err = DLC_ERR_INIT;

        unsetenv("DLCACHE_TEST_SANDBOX");
        aws_home_set_up(NULL);
        aws_home_file(".aws/config", config);
        assert_int_equal(command_helper_start(&err), 0);
        assert_int_equal(command_helper_runs(), helped);
        assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L), 0);
        assert_int_equal(seccomp_install(), 0);
        assert_int_equal(os_fork(), -1);
        f();
        aws_home_tear_down(NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void expect_all_kinds(void)
{
    aws_home_file("keys.json",
                  "{\"Version\": 1, \"AccessKeyId\": \"AKPROC\", "
                  "\"SecretAccessKey\": \"hush-proc\", \"SessionToken\": \"hush-st\"}");
    for (unsigned i = 0; i < 3; i++)
        aws_home_expect("AKPROC", "hush-proc", "hush-st");
    setenv("AWS_PROFILE", "fails", 1);
    aws_home_expect_error(DLC_EDENIED, "it ended with status 3");
    setenv("AWS_PROFILE", "dies", 1);
    aws_home_expect_error(DLC_EDENIED, "it ended with signal 9");
    setenv("AWS_PROFILE", "floods", 1);
    aws_home_expect_error(DLC_EPROTO, "prints too much");
}

static void test_commands(void **state)
{
    (void)state;
    in_sandbox("[default]\ncredential_process = true ; cat \"$HOME/keys.json\"\n"
               "[profile fails]\ncredential_process = echo hush; exit 3\n"
               "[profile dies]\ncredential_process = kill -9 $$\n"
               "[profile floods]\ncredential_process = yes hush\n",
               true, expect_all_kinds);
}

static void expect_restart(void)
{
    aws_home_file(".aws/config", "[default]\ncredential_process = true\n");
    aws_home_expect_error(DLC_EDENIED, "the sandbox of this daemon runs no commands");
}

static void test_no_command_at_the_start(void **state)
{
    (void)state;
    in_sandbox("[default]\nregion = x\n", false, expect_restart);
}

/* ---- requests as of somebody who took the daemon over ---- */

static void ask_for_a_command(void)
{
    static const char *const names[] = {"touch $HOME/taken", "; touch $HOME/taken",
                                        "x]\ncredential_process = touch $HOME/taken\n["};
    char path[256];
    int out[2], conn = -1, status;

    for (size_t i = 0; i < unit_count(names); i++) {
        assert_int_equal(os_pipe(out), 0);
        assert_int_equal(command_helper_request(names[i], out[1], &conn), 0);
        os_close(&out[1]);
        /* The worker ends without a status. */
        assert_int_equal(os_read(conn, &status, sizeof(status)), 0);
        os_close(&conn);
        os_close(&out[0]);
    }
    snprintf(path, sizeof(path), "%s/taken", getenv("HOME"));
    assert_int_equal(os_access(path, F_OK), -1);
}

static void test_only_commands_of_profiles(void **state)
{
    (void)state;
    in_sandbox("[default]\ncredential_process = true\n", true, ask_for_a_command);
}

static void close_early(void)
{
    char byte;
    int out[2], conn = -1;

    assert_int_equal(os_pipe(out), 0);
    assert_int_equal(command_helper_request("default", out[1], &conn), 0);
    os_close(&out[1]);
    assert_int_equal(os_read(out[0], &byte, 1), 1); /* it runs */
    os_close(&conn);
    assert_int_equal(os_read(out[0], &byte, 1), 0); /* it is gone, with what it started */
    os_close(&out[0]);
}

static void test_ends_with_its_request(void **state)
{
    (void)state;
    in_sandbox("[default]\ncredential_process = printf x; tail -f /dev/null | cat\n", true,
               close_early);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_no_command_at_the_start),
        cmocka_unit_test(test_only_commands_of_profiles),
        cmocka_unit_test(test_ends_with_its_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
