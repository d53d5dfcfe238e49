// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/syscalls.h"

static void test_off_by_default(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_false(fault_hit(FAULT_ALLOC));
    assert_false(fault_disarm());
}

static void test_the_nth_fails_once(void **state)
{
    (void)state;
    fault_arm(FAULT_ALLOC, 3);
    assert_false(fault_hit(FAULT_ALLOC));
    assert_false(fault_hit(FAULT_ALLOC));
    assert_true(fault_hit(FAULT_ALLOC));
    assert_false(fault_hit(FAULT_ALLOC));
    assert_true(fault_disarm());
    assert_false(fault_hit(FAULT_ALLOC));
}

static void test_kinds_count_apart(void **state)
{
    (void)state;
    fault_arm(FAULT_SYSCALL, 1);
    assert_false(fault_hit(FAULT_ALLOC));
    assert_true(fault_hit(FAULT_SYSCALL));
    assert_true(fault_disarm());
    fault_arm(FAULT_ALLOC | FAULT_SYSCALL, 2);
    assert_false(fault_hit(FAULT_ALLOC));
    assert_true(fault_hit(FAULT_SYSCALL));
    assert_true(fault_disarm());
}

static void test_arming_anew_forgets(void **state)
{
    (void)state;
    fault_arm(FAULT_ALLOC, 1);
    assert_true(fault_hit(FAULT_ALLOC));
    fault_arm(FAULT_ALLOC, 2);
    assert_false(fault_hit(FAULT_ALLOC));
    assert_false(fault_disarm()); /* armed, but the second never came */
}

static void test_a_plan_names_its_calls(void **state)
{
    int fd;

    (void)state;
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(eventfd) | FAULT_CALL(dup), .nth = 2});
    fd = os_eventfd();
    assert_true(fd >= 0);
    assert_true(os_socket(AF_UNIX, SOCK_STREAM) == fd + 1); /* does not count */
    assert_int_equal(os_dup(fd), -1);
    assert_int_equal(errno, EMFILE);
    assert_string_equal(fault_name(fault_last()), "dup");
    assert_int_equal(os_dup(fd), fd + 2);
    assert_int_equal(fault_hits(), 1);
    assert_true(fault_disarm());
    for (int i = fd; i <= fd + 2; i++)
        close(i);
}

static void test_several_in_a_row_with_another_error(void **state)
{
    (void)state;
    fault_plan(
        &(struct fault_plan){.calls = FAULT_CALL(eventfd), .nth = 1, .times = 3, .error = ENFILE});
    for (int i = 0; i < 3; i++) {
        assert_int_equal(os_eventfd(), -1);
        assert_int_equal(errno, ENFILE);
    }
    for (int i = 0; i < 3; i++) {
        int fd = os_eventfd();

        assert_true(fd >= 0);
        os_close(&fd);
    }
    assert_int_equal(fault_hits(), 3);
    assert_true(fault_disarm());
}

static void test_delay(void **state)
{
    struct dlc_mono start = dlc_mono_now();
    int fd;

    (void)state;
    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(eventfd), .nth = 1, .mode = FAULT_DELAY, .delay_ms = 30});
    fd = os_eventfd();
    assert_true(fd >= 0);
    assert_true(dlc_mono_since(start).ns >= DLC_MS(30).ns);
    assert_true(fault_disarm());
    os_close(&fd);
}

static void *makes_eventfd(void *arg)
{
    *(int *)arg = os_eventfd();
    return NULL;
}

static void test_hang_until_released(void **state)
{
    pthread_t t;
    int fd = -1;

    (void)state;
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(eventfd), .nth = 1, .mode = FAULT_HANG});
    assert_int_equal(os_thread(&t, makes_eventfd, &fd), 0);
    while (fault_hanging() == 0)
        ;
    fault_release();
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_true(fd >= 0);
    assert_int_equal(fault_hanging(), 0);
    assert_true(fault_disarm());
    os_close(&fd);
}

/* How a child ends that makes an eventfd after a memfd, as waitpid() says it. */
static int child_under(const struct fault_plan *p)
{
    int status;
    pid_t pid;

    fault_plan(p);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        os_memfd("x");
        os_eventfd();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    fault_disarm();
    return status;
}

static void test_the_process_ends(void **state)
{
    struct fault_plan p = {.calls = FAULT_ALL_CALLS, .nth = 2, .mode = FAULT_EXIT};
    int status = child_under(&p);

    (void)state;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == FAULT_EXIT_STATUS);
    p.mode = FAULT_KILL;
    status = child_under(&p);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    p.nth = 3;
    assert_int_equal(child_under(&p), 0);
    p.nth = 1;
    p.pid = getpid(); /* not in the child */
    assert_int_equal(child_under(&p), 0);
}

/* Last: what is shared stays shared. */
static void test_a_child_shares_the_plan(void **state)
{
    (void)state;
    fault_share();
    assert_int_equal(
        child_under(&(struct fault_plan){.calls = FAULT_CALL(eventfd), .nth = 1, .times = 9}), 0);
    assert_int_equal(fault_hits(), 1);
    assert_string_equal(fault_name(fault_last()), "eventfd");
}

/* Each wrapper fails as it says, and leaves nothing behind. */
static void test_every_call_can_fail(void **state)
{
    struct epoll_event ev = {0};
    struct stat st;
    struct pollfd p = {0};
    struct sockaddr addr = {0};
    struct msghdr h = {0};
    int fds[2];
    pthread_t t;

    (void)state;
    fault_plan(
        &(struct fault_plan){.calls = FAULT_ALL_CALLS, .nth = 1, .times = 99, .error = EDOM});
    assert_int_equal(os_fstat(0, &st), -1);
    assert_int_equal(os_dup(0), -1);
    assert_int_equal(os_pipe(fds), -1);
    assert_int_equal(os_poll(&p, 1, 0), -1);
    assert_int_equal(os_eventfd(), -1);
    assert_int_equal(os_epoll_create(), -1);
    assert_int_equal(os_epoll_ctl(0, EPOLL_CTL_ADD, 0, &ev), -1);
    assert_int_equal(os_socket(AF_UNIX, SOCK_STREAM), -1);
    assert_int_equal(os_connect(0, &addr, sizeof(addr)), -1);
    assert_int_equal(os_accept(0), -1);
    assert_int_equal(os_recvmsg(0, &h, 0), -1);
    assert_int_equal(os_sendmsg(0, &h, 0), -1);
    assert_int_equal(os_memfd("x"), -1);
    assert_null(os_map(0, 0, 4096, false));
    assert_int_equal(errno, EDOM);
    assert_int_equal(os_thread(&t, makes_eventfd, fds), EDOM);
    assert_int_equal(fault_hits(), 15);
    assert_true(fault_disarm());
}

static void test_plans_in_words(void **state)
{
    static const char *const bad[] = {"",
                                      "fsync",
                                      "fsync,0,kill",
                                      "fsync,1",
                                      "fsync,1,burn",
                                      "fsync+,1,kill",
                                      "fsnc,1,kill",
                                      "fsync+no,1,kill",
                                      ",1,kill"};
    struct fault_plan p;

    (void)state;
    assert_true(fault_parse("fsync+rename,3,kill", &p));
    assert_true(p.calls == (FAULT_CALL(fsync) | FAULT_CALL(rename)));
    assert_int_equal(p.nth, 3);
    assert_int_equal(p.mode, FAULT_KILL);
    assert_true(fault_parse("all,1,fail,5", &p));
    assert_true(p.calls == FAULT_ALL_CALLS);
    assert_int_equal(p.error, 5);
    assert_true(fault_parse("statvfs,2,delay,100", &p));
    assert_int_equal(p.delay_ms, 100);
    for (unsigned i = 0; i < unit_count(bad); i++)
        assert_false(fault_parse(bad[i], &p));
}

static unsigned n_seen;
static int synced = -1;

static void see(enum fault_call call, int fd)
{
    n_seen++;
    if (call == CALL_fsync)
        synced = fd;
}

static void test_an_observer_sees_calls_before_they_are_made(void **state)
{
    int fd = os_memfd("seen");

    (void)state;
    fault_observe(see);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(fsync), .nth = 2});
    assert_int_equal(os_fsync(fd), 0);
    assert_int_equal(os_fsync(fd), -1); /* there is a plan as well */
    assert_true(fault_disarm());
    assert_int_equal(os_fsync(fd), 0);
    assert_int_equal(n_seen, 3);
    assert_int_equal(synced, fd);
    fault_observe(NULL);
    os_close(&fd);
    assert_int_equal(n_seen, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off_by_default),
        cmocka_unit_test(test_the_nth_fails_once),
        cmocka_unit_test(test_kinds_count_apart),
        cmocka_unit_test(test_arming_anew_forgets),
        cmocka_unit_test(test_a_plan_names_its_calls),
        cmocka_unit_test(test_several_in_a_row_with_another_error),
        cmocka_unit_test(test_delay),
        cmocka_unit_test(test_hang_until_released),
        cmocka_unit_test(test_every_call_can_fail),
        cmocka_unit_test(test_the_process_ends),
        cmocka_unit_test(test_a_child_shares_the_plan),
        cmocka_unit_test(test_plans_in_words),
        cmocka_unit_test(test_an_observer_sees_calls_before_they_are_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
