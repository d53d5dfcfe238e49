// SPDX-License-Identifier: Apache-2.0
/* What every unit test includes first: cmocka with the headers it wants, and the test's own
 * directory. */
#ifndef DLC_TESTS_UNIT_H
#define DLC_TESTS_UNIT_H

#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Address and thread sanitizers make mlock() a call that does nothing, and map memory of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNIT_SANITIZED 1
#else
#define UNIT_SANITIZED 0
#endif

#define unit_count(array) (sizeof(array) / sizeof((array)[0]))

/* A path in the private directory of this run; made at first use when no runner gave one. */
static inline const char *unit_path(const char *name, char out[static 256])
{
    static char own[] = "/tmp/dlt-XXXXXX";
    static const char *dir;

    if (dir == NULL)
        dir = getenv("TEST_DIR") != NULL ? getenv("TEST_DIR") : mkdtemp(own);
    assert_non_null(dir);
    snprintf(out, 256, "%s/%s", dir, name);
    return out;
}

/* Does f end the process with SIGABRT? It runs in a child, whose words on standard error are
 * dropped. */
static inline bool unit_aborts(void (*f)(void))
{
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        if (freopen("/dev/null", "w", stderr) != NULL)
            f();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* Bytes that malloc() has given out, for tests of leaks: compare before and after many rounds. */
static inline size_t unit_heap(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

#endif
