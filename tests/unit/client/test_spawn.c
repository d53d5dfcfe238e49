// SPDX-License-Identifier: Apache-2.0
/* How a client starts a daemon: which program it runs, how, and what it says when that fails. The
 * program is a script of the test. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "client/daemon.h"

static struct config config;
static char dir[256], noted[256];

static void script(const char *name, const char *does, mode_t mode)
{
    char path[256];
    FILE *f = fopen(unit_path(name, path), "we");

    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", does);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

/* The program that DLCACHE_PROGRAM names. */
static void program(const char *does)
{
    char path[256];

    script("program", does, 0700);
    assert_int_equal(setenv("DLCACHE_PROGRAM", unit_path("program", path), 1), 0);
    unlink(noted);
}

static const char *note(void)
{
    static char text[4096];
    int fd = open(noted, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static int spawn(struct dlc_dur limit, struct dlc_err *err)
{
    *err = (struct dlc_err)DLC_ERR_INIT;
    return daemon_spawn(&config, dlc_mono_add(dlc_mono_now(), limit), err);
}

static int setup(void **state)
{
    char path[256];

    (void)state;
    unit_path("", dir);
    assert_int_equal(setenv("NOTED", unit_path("noted", noted), 1), 0);
    assert_int_equal(config_load(&config, "/dev/null", NULL), 0);
    assert_int_equal(config_set(&config, "socket", unit_path("s", path), NULL), 0);
    assert_int_equal(config_set(&config, "dir", "/the/dir", NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    config_release(&config);
    return 0;
}

static void test_arguments(void **state)
{
    struct dlc_err err;
    char want[600];

    (void)state;
    program("echo \"$@\" > $NOTED");
    config.idle_exit = DLC_MS(1500);
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    snprintf(want, sizeof(want),
             "serve --background --socket %s --dir /the/dir --idle-exit 1500ms\n", config.socket);
    assert_string_equal(note(), want);
    config.idle_exit = (struct dlc_dur){1}; /* 0 would be for ever */
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    assert_non_null(strstr(note(), "--idle-exit 1ms\n"));
    config.idle_exit = (struct dlc_dur){0};
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    assert_null(strstr(note(), "--idle-exit 0ms"));
}

static unsigned long long signals(const char *name)
{
    const char *at = strstr(note(), name);

    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 16);
}

/* A trainer that blocks or ignores signals must not have a daemon that does. */
static void test_signals(void **state)
{
    struct dlc_err err;
    sigset_t some, before;

    (void)state;
    program("cat /proc/self/status > $NOTED");
    sigemptyset(&some);
    sigaddset(&some, SIGTERM);
    sigaddset(&some, SIGUSR1);
    assert_int_equal(sigprocmask(SIG_BLOCK, &some, &before), 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
    assert_int_equal(signals("SigBlk:"), 0);
    assert_int_equal(signals("SigIgn:") & (1u << (SIGPIPE - 1) | 1u << (SIGHUP - 1) |
                                           1u << (SIGINT - 1) | 1u << (SIGTERM - 1)),
                     0);
}

static void test_failures(void **state)
{
    struct dlc_mono start = dlc_mono_now();
    struct dlc_err err;
    char path[256];

    (void)state;
    program("echo out of luck >&2; exit 3");
    assert_int_equal(spawn(DLC_SEC(30), &err), DLC_ENODAEMON);
    assert_string_equal(err.text, "cannot start a daemon: out of luck");
    program("exit 3");
    assert_int_equal(spawn(DLC_SEC(30), &err), DLC_ENODAEMON);
    assert_non_null(strstr(err.text, unit_path("program", path)));
    program("head -c 100000 /dev/zero | tr '\\0' x; exit 1"); /* more than anybody reads */
    assert_int_equal(spawn(DLC_SEC(30), &err), DLC_ENODAEMON);
    assert_non_null(strstr(err.text, "cannot start a daemon: xxx"));
    assert_int_equal(setenv("DLCACHE_PROGRAM", "/nowhere/dlcache", 1), 0);
    assert_int_equal(spawn(DLC_SEC(30), &err), DLC_ENODAEMON);
    assert_non_null(strstr(err.text, "cannot start /nowhere/dlcache: No such file"));
    program("exec sleep 100");
    assert_int_equal(spawn(DLC_MS(300), &err), DLC_ENODAEMON);
    assert_non_null(strstr(err.text, "is still starting"));
    assert_true(dlc_mono_since(start).ns < DLC_SEC(60).ns);
}

static void test_no_leak(void **state)
{
    struct dlc_err err;
    size_t used = 0;

    (void)state;
    assert_int_equal(setenv("DLCACHE_PROGRAM", "/nowhere/dlcache", 1), 0);
    for (unsigned i = 0; i < 101; i++) {
        assert_int_equal(spawn(DLC_SEC(30), &err), DLC_ENODAEMON);
        used = i == 0 ? mallinfo2().uordblks : used;
    }
    assert_true(mallinfo2().uordblks < used + 1600);
}

/* ---- where it is found ---- */

/* In a copy of this test that lies alone in a directory: start what is found. */
static int find_and_start(void)
{
    struct dlc_err err;
    int rc;

    setup(NULL);
    rc = spawn(DLC_SEC(30), &err);
    return rc == 0 ? 0 : strstr(err.text, "was not found") != NULL ? 1 : 2;
}

static int run_copy(const char *path)
{
    char copy[256], command[1200];
    int status;

    snprintf(command, sizeof(command), "cp /proc/%d/exe %s", (int)getpid(),
             unit_path("alone/test", copy));
    unlink(noted);
    if (access(copy, X_OK) < 0)
        assert_int_equal(system(command), 0);
    snprintf(command, sizeof(command), "DLCACHE_PROGRAM= PATH=%s %s copy", path, copy);
    status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_found(void **state)
{
    char path[800], p[256];

    (void)state;
    mkdir(unit_path("alone", p), 0700);
    mkdir(unit_path("a", p), 0700);
    mkdir(unit_path("b", p), 0700);
    mkdir(unit_path("c", p), 0700);
    mkdir(unit_path("a/dlcache", p), 0700);           /* a directory */
    script("b/dlcache", "echo wrong > $NOTED", 0600); /* may not be run */
    script("c/dlcache", "echo in path > $NOTED", 0700);
    snprintf(path, sizeof(path), ":/nowhere:%sa:%sb", dir, dir);
    assert_int_equal(run_copy(path), 1);
    assert_string_equal(note(), "");
    snprintf(path, sizeof(path), "::/nowhere:%sa:%sb:%sc", dir, dir, dir);
    assert_int_equal(run_copy(path), 0);
    assert_string_equal(note(), "in path\n");
    snprintf(path, sizeof(path), "%sc:/nowhere", dir);
    assert_int_equal(run_copy(path), 0);
    assert_string_equal(note(), "in path\n");
    script("alone/dlcache", "echo beside > $NOTED", 0700);
    assert_int_equal(run_copy(path), 0);
    assert_string_equal(note(), "beside\n"); /* of the same installation */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_signals),
        cmocka_unit_test(test_failures),  cmocka_unit_test(test_no_leak),
        cmocka_unit_test(test_found),
    };

    if (argc > 1 && strcmp(argv[1], "copy") == 0)
        return find_and_start();
    return cmocka_run_group_tests(tests, setup, teardown);
}
