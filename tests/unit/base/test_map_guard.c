// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/map_guard.h"
#include "base/syscalls.h"

enum { LEN = 1 << 20 };

static int file_of(size_t len)
{
    int fd = os_memfd("guarded");

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    return fd;
}

static void test_whole(void **state)
{
    int fd = file_of(LEN);
    struct map_guard *g = map_guard_new(fd, LEN);
    char byte;

    (void)state;
    assert_non_null(g);
    memset(map_guard_data(g), 7, LEN);
    assert_false(map_guard_failed(g));
    map_guard_free(&g);
    assert_null(g);
    map_guard_free(&g);
    assert_int_equal(pread(fd, &byte, 1, LEN - 1), 1);
    assert_int_equal(byte, 7);
    close(fd);
}

/* Of two mappings, the one whose file was cut has failed; the next in its place has not. */
static void test_cut(void **state)
{
    int fds[2] = {file_of(LEN), file_of(LEN)};
    struct map_guard *a = map_guard_new(fds[0], LEN), *b = map_guard_new(fds[1], LEN);
    char *p = map_guard_data(b);

    (void)state;
    assert_int_equal(ftruncate(fds[1], LEN / 2), 0);
    memset(map_guard_data(a), 1, LEN);
    errno = 42;
    memset(p, 2, LEN);
    assert_int_equal(errno, 42);
    assert_true(map_guard_failed(b));
    assert_false(map_guard_failed(a));
    assert_int_equal(p[LEN - 1], 2);
    map_guard_free(&b);
    b = map_guard_new(fds[0], LEN);
    assert_false(map_guard_failed(b));
    map_guard_free(&a);
    map_guard_free(&b);
    close(fds[0]);
    close(fds[1]);
}

/* What is not guarded is as deadly as before. */
static int unguarded(void)
{
    int fd = file_of(LEN);
    struct map_guard *g;
    volatile char *p;

    signal(SIGBUS, SIG_DFL);
    g = map_guard_new(fd, LEN);
    p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (g == NULL || ftruncate(fd, 0) < 0)
        return 1;
    p[0] = 1;
    return 2;
}

static void test_others(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0)
        _exit(unguarded());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void test_cannot_map(void **state)
{
    int fd = file_of(LEN);

    (void)state;
    for (int i = 0; i < 3000; i++) { /* more than there are: none is lost */
        fault_plan(&(struct fault_plan){.calls = FAULT_CALL(mmap), .nth = 1});
        assert_null(map_guard_new(fd, LEN));
        assert_true(fault_disarm());
    }
    test_whole(state);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_cannot_map),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
