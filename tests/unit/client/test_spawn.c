// SPDX-License-Identifier: Apache-2.0
/* How a client calls a daemon and starts one: which program it runs, how, and what it says when that
 * fails. The program is a script of the test. */
#include "lock_held.h"
#include "proc_self.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/fork_fds.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "client/daemon.h"
#include "ipc/node_marker.h"
#include "listener.h"

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
    config.idle_exit = DLC_SEC(3600);
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    assert_non_null(strstr(note(), "--idle-exit 3600000ms\n"));
    config.idle_exit = (struct dlc_dur){0};
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    assert_non_null(strstr(note(), "--idle-exit 60000ms\n"));
}

/* It does not read what the trainer is to read. */
static void test_input(void **state)
{
    int input = dup(0), fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    struct dlc_err err;

    (void)state;
    program("readlink /proc/self/fd/0 > $NOTED");
    assert_int_equal(dup2(fd, 0), 0);
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    assert_int_equal(dup2(input, 0), 0);
    assert_string_equal(note(), "/dev/null\n");
    close(input);
    close(fd);
}

/* This test as the program: shells change what they do with signals. */
static int note_status(void)
{
    char text[4096];
    int from = open("/proc/self/status", O_RDONLY | O_CLOEXEC),
        to = open(getenv("NOTED"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n = read(from, text, sizeof(text));

    return n > 0 && write(to, text, (size_t)n) == n ? 0 : 1;
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
    static const int ignored[] = {SIGPIPE, SIGHUP, SIGINT, SIGTERM, SIGCHLD};
    unsigned long long mask = 0;
    struct dlc_err err;
    sigset_t some, before;

    (void)state;
    assert_int_equal(setenv("DLCACHE_PROGRAM", "/proc/self/exe", 1), 0);
    sigemptyset(&some);
    sigaddset(&some, SIGTERM);
    sigaddset(&some, SIGUSR1);
    assert_int_equal(sigprocmask(SIG_BLOCK, &some, &before), 0);
    for (unsigned i = 0; i < unit_count(ignored); i++) {
        signal(ignored[i], SIG_IGN);
        mask |= 1ull << (ignored[i] - 1);
    }
    assert_int_equal(spawn(DLC_SEC(30), &err), 0); /* there is no status: it is taken for 0 */
    for (unsigned i = 0; i < unit_count(ignored); i++)
        signal(ignored[i], SIG_DFL);
    assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
    assert_int_equal(signals("SigBlk:"), 0);
    assert_int_equal(signals("SigIgn:") & mask, 0);
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

static int spawn_with(uint64_t calls, int nth, int error, struct dlc_err *err)
{
    int rc;

    fault_plan(&(struct fault_plan){.calls = calls, .nth = nth, .error = error});
    rc = spawn(DLC_SEC(30), err);
    assert_true(fault_disarm());
    return rc;
}

static void test_calls_fail(void **state)
{
    struct dlc_err err;

    (void)state;
    program("exit 0");
    assert_int_equal(spawn_with(FAULT_CALL(pipe), 1, EMFILE, &err), DLC_EIO);
    assert_int_equal(spawn_with(FAULT_CALL(open), 2, EACCES, &err), DLC_EDENIED); /* the lock */
    assert_int_equal(spawn_with(FAULT_CALL(flock), 1, ENOLCK, &err), DLC_EIO);
    assert_int_equal(spawn_with(FAULT_CALL(flock), 1, EINTR, &err), 0);
    assert_int_equal(spawn_with(FAULT_CALL(poll), 1, EINTR, &err), 0);
    program("printf x; exit 3");
    assert_int_equal(spawn_with(FAULT_CALL(waitpid), 1, EINTR, &err), DLC_ENODAEMON);
    assert_string_equal(err.text, "cannot start a daemon: x");
    assert_int_equal(spawn_with(FAULT_CALL(read), 1, EINTR, &err), DLC_ENODAEMON);
    assert_string_equal(err.text, "cannot start a daemon: x");
    program(
        "exec >&- 2>&-; i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; exit 0"); /* lets go of the pipe and ends later */
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
}

/* The place of a node of a cluster: nothing is started. */
static void test_place_of_a_node(void **state)
{
    struct dlc_err err;
    char path[256];

    (void)state;
    program("echo x > $NOTED");
    assert_int_equal(node_marker_write(config.socket, "n1", "manager", NULL, NULL), 0);
    assert_int_equal(spawn(DLC_SEC(30), &err), DLC_ENODAEMON);
    assert_string_equal(note(), "");
    assert_true(fcntl(0, F_GETFD) >= 0);
    assert_int_equal(unlink(unit_path("s.node", path)), 0);
}

/* A starter that hangs, and one that is asked to give up. */
static bool gives_up(struct interrupt *i)
{
    (void)i;
    return note()[0] != '\0';
}

static int held = -1;

static bool lets_go(struct interrupt *i)
{
    (void)i;
    os_close(&held);
    return false;
}

static void test_given_up(void **state)
{
    struct interrupt asks = {.ask = gives_up}, last = {.ask = lets_go};
    struct dlc_err err;
    char path[256];

    (void)state;
    program("echo x > $NOTED; exec sleep 100");
    interrupt_asked = &asks;
    assert_int_equal(spawn(DLC_SEC(60), &err), DLC_ENODAEMON);
    assert_true(asks.yes);
    held = open(unit_path("s.start", path), O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(held, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(spawn(DLC_SEC(60), &err), DLC_ECANCELED);
    interrupt_asked = NULL;
    assert_int_equal(spawn(DLC_MS(50), &err), DLC_ENODAEMON);
    assert_non_null(strstr(err.text, "another program is starting"));
    program("exit 0");
    interrupt_asked = &last; /* the other one is done: it is this one's turn */
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    interrupt_asked = NULL;
}

static void test_no_leak(void **state)
{
    unsigned descriptors = proc_descriptors();
    struct dlc_err err;
    size_t used = 0;

    (void)state;
    assert_int_equal(setenv("DLCACHE_PROGRAM", "/nowhere/dlcache", 1), 0);
    for (unsigned i = 0; i < 101; i++) {
        assert_int_equal(spawn(DLC_SEC(30), &err), DLC_ENODAEMON);
        used = i == 0 ? mallinfo2().uordblks : used;
    }
    assert_true(mallinfo2().uordblks < used + 1600);
    for (unsigned i = 0; i < 101; i++) {
        assert_int_equal(spawn_with(FAULT_CALL(pipe), 1, EMFILE, &err), DLC_EIO);
        used = i == 0 ? mallinfo2().uordblks : used;
    }
    assert_true(mallinfo2().uordblks < used + 1600);
    program("head -c 4000 /dev/zero | tr '\\0' x");
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(spawn(DLC_SEC(30), &err), 0);
        used = i == 0 ? mallinfo2().uordblks : used;
    }
    assert_true(mallinfo2().uordblks < used + 16000);
    assert_int_equal(proc_descriptors(), descriptors);
}

/* ---- what a child of this process must not have ---- */

static enum fault_call fork_at;
static unsigned before_fork, left_in_child;

/* Another thread forks just then: how many descriptors more does the child have? */
static void fork_there(enum fault_call call, int fd)
{
    int status;
    pid_t pid;

    (void)fd;
    if (call != fork_at)
        return;
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit((int)(proc_descriptors() - before_fork));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    left_in_child += (unsigned)WEXITSTATUS(status);
}

static void test_children_have_none(void **state)
{
    struct dlc_err err;

    (void)state;
    fork_fds_init();
    program("exit 0");
    fork_at = CALL_spawn; /* the lock and the pipe */
    before_fork = proc_descriptors();
    fault_observe(fork_there);
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    fork_at = CALL_connect; /* the lock and the connection */
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    fault_observe(NULL);
    assert_int_equal(left_in_child, 0);
    lock_watch(CALL_pipe, fork_fds_lock, fork_fds_unlock);
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    assert_int_equal(lock_watch_end(), 1);
    lock_watch(CALL_open, fork_fds_lock, fork_fds_unlock);
    lock_watched.skip = 1; /* the marker of a node, which is closed at once */
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    assert_int_equal(lock_watch_end(), 1);
    lock_watch(CALL_socket, fork_fds_lock, fork_fds_unlock);
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    assert_int_equal(lock_watch_end(), 1);
}

/* ---- calling ---- */

static int call(struct dlc_dur limit, struct dlc_err *err)
{
    *err = (struct dlc_err)DLC_ERR_INIT;
    return daemon_connect(&config, dlc_mono_add(dlc_mono_now(), limit), err);
}

/* Somebody listens there, and answers nobody. */
static int listen_there(int queue)
{
    struct sockaddr_un addr;

    return listener_open(config.socket, queue, &addr);
}

static bool at_once(struct interrupt *i)
{
    (void)i;
    return true;
}

static void test_call(void **state)
{
    unsigned before = proc_descriptors();
    int there = listen_there(0), first, second;
    struct interrupt asks = {.ask = at_once};
    struct dlc_mono start = dlc_mono_now();
    struct timeval limit;
    struct dlc_err err;
    socklen_t len = sizeof(limit);

    (void)state;
    first = call(DLC_SEC(30), &err);
    assert_true(first > 0);
    assert_int_equal(getsockopt(first, SOL_SOCKET, SO_SNDTIMEO, &limit, &len), 0);
    assert_int_equal(limit.tv_sec + limit.tv_usec, 0); /* it may write for as long as it takes */
    second = call(DLC_MS(20), &err);                   /* the queue is full */
    assert_int_equal(second, DLC_ETIMEDOUT);
    assert_int_equal(call(DLC_MS(250), &err), DLC_ETIMEDOUT);
    assert_non_null(strstr(err.text, "takes no calls"));
    interrupt_asked = &asks;
    assert_int_equal(call(DLC_SEC(60), &err), DLC_ECANCELED);
    interrupt_asked = NULL;
    assert_true(dlc_mono_since(start).ns < DLC_SEC(60).ns);
    assert_int_equal(spawn(DLC_MS(50), &err), DLC_ETIMEDOUT); /* starts no second one */
    os_close(&first);
    os_close(&there);
    assert_int_equal(call(DLC_SEC(30), &err), DLC_ENODAEMON);
    unlink(config.socket);
    assert_int_equal(call(DLC_SEC(30), &err), DLC_ENODAEMON);
    assert_int_equal(proc_descriptors(), before);
}

/* A daemon that answers is not started again. Standard input is closed: its number is one like any
 * other. */
static void test_is_there(void **state)
{
    int there = listen_there(8), input = dup(0), fd;
    unsigned before = proc_descriptors();
    struct dlc_err err;

    (void)state;
    program("echo x > $NOTED");
    assert_int_equal(spawn(DLC_SEC(30), &err), 0);
    close(0);
    fd = call(DLC_SEC(30), &err);
    assert_int_equal(fd, 0);
    os_close(&fd);
    assert_int_equal(spawn(DLC_SEC(30), &err), 0); /* 0 is the lock */
    assert_int_equal(dup2(input, 0), 0);
    assert_int_equal(proc_descriptors(), before);
    assert_string_equal(note(), "");
    close(input);
    os_close(&there);
    unlink(config.socket);
}

/* With one of the system calls failing. */
static void call_fails(uint64_t calls, int nth, int error, int code)
{
    struct dlc_err err;

    fault_plan(&(struct fault_plan){.calls = calls, .nth = nth, .error = error});
    assert_int_equal(call(DLC_SEC(30), &err), code);
    assert_true(fault_disarm());
}

static void test_call_fails(void **state)
{
    unsigned before = proc_descriptors();
    int there = listen_there(8), fd;
    char *path = config.socket, name[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1];
    struct dlc_err err;

    (void)state;
    call_fails(FAULT_CALL(socket), 1, EMFILE, DLC_EIO);
    call_fails(FAULT_CALL(connect), 1, EACCES, DLC_EDENIED);
    call_fails(FAULT_CALL(connect), 1, EPERM, DLC_EDENIED);
    call_fails(FAULT_CALL(sockopt), 3, EINVAL, DLC_EDENIED); /* who is it? */
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(connect), .nth = 1, .error = EINTR});
    fd = call(DLC_SEC(30), &err); /* a signal is no reason to give up */
    assert_true(fault_disarm());
    assert_true(fd > 0);
    os_close(&fd);
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0'; /* one too long */
    config.socket = name;
    assert_int_equal(call(DLC_SEC(30), &err), DLC_EINVAL);
    name[sizeof(name) - 2] = '\0';
    assert_int_equal(call(DLC_SEC(30), &err), DLC_ENODAEMON);
    config.socket = path;
    os_close(&there);
    unlink(config.socket);
    assert_int_equal(proc_descriptors(), before);
}

/* ---- where it is found ---- */

/* In a copy of this test: start what is found. 1: nothing is, 100 times without a leak. */
static int find_and_start(void)
{
    struct dlc_err err;
    size_t used = 0;
    int rc = 0;

    setup(NULL);
    for (unsigned i = 0; i < 101; i++) {
        rc = spawn(DLC_SEC(30), &err);
        if (rc == 0 || strstr(err.text, "was not found") == NULL)
            return rc == 0 ? 0 : 2;
        used = i == 0 ? mallinfo2().uordblks : used;
    }
    return mallinfo2().uordblks < used + 1600 ? 1 : 3;
}

static int run_copy(const char *path)
{
    char copy[256], command[1200];
    int status;

    snprintf(command, sizeof(command), "cp /proc/%d/exe %s", (int)getpid(),
             unit_path("x/y/test", copy));
    unlink(noted);
    if (access(copy, X_OK) < 0)
        assert_int_equal(system(command), 0);
    snprintf(command, sizeof(command), "cd %s && DLCACHE_PROGRAM= PATH=%s %s copy", dir, path,
             copy);
    status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void directory(const char *name)
{
    char path[256];

    assert_int_equal(os_mkdirs(unit_path(name, path), 0700), 0);
}

static void test_in_path(void **state)
{
    char path[800];

    (void)state;
    directory("x/y");
    directory("a/dlcache"); /* not a program */
    directory("b");
    directory("c");
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
    assert_int_equal(run_copy("c"), 0); /* a name of one letter */
    assert_string_equal(note(), "in path\n");
}

/* That of the same installation, wherever the code lies: the last place first. */
static void test_beside(void **state)
{
    static const char *const places[] = {"src/cli", "x/y/bin", "x/y/src/cli",
                                         "bin",     "x/bin",   "x/y"};
    char path[300], file[64], does[100], want[100];

    (void)state;
    snprintf(path, sizeof(path), "%sc", dir);
    for (unsigned i = 0; i < unit_count(places); i++) {
        directory(places[i]);
        snprintf(file, sizeof(file), "%s/dlcache", places[i]);
        snprintf(does, sizeof(does), "echo %s > $NOTED", places[i]);
        snprintf(want, sizeof(want), "%s\n", places[i]);
        script(file, does, 0700);
        assert_int_equal(run_copy(path), 0);
        assert_string_equal(note(), want);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_calls_fail),
        cmocka_unit_test(test_place_of_a_node),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_no_leak),
        cmocka_unit_test(test_children_have_none),
        cmocka_unit_test(test_call),
        cmocka_unit_test(test_is_there),
        cmocka_unit_test(test_call_fails),
        cmocka_unit_test(test_in_path),
        cmocka_unit_test(test_beside),
    };

    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        return note_status();
    if (argc > 1 && strcmp(argv[1], "copy") == 0)
        return find_and_start();
    return cmocka_run_group_tests(tests, setup, teardown);
}
