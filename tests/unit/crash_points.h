// SPDX-License-Identifier: Apache-2.0
/*
 * Crash points: a child process is killed at its nth call of a kind (base/fault.h), for every n
 * until it ends by itself. What it had done by then it told in memory that both share.
 */
#ifndef DLC_TESTS_CRASH_POINTS_H
#define DLC_TESTS_CRASH_POINTS_H

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"

/* Memory that outlives a killed child. */
static inline void *shared_memory(size_t len)
{
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(p != MAP_FAILED);
    return p;
}

/* Run f in a child that is killed at its nth of these calls: true. False: it ended before, well. */
static inline bool killed_at(uint64_t calls, int nth, void (*f)(void))
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fault_plan(&(struct fault_plan){.calls = calls, .nth = nth, .mode = FAULT_KILL});
        f();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) && WEXITSTATUS(status) != 0)
        fail_msg("call %d: the child ended with %d", nth, WEXITSTATUS(status));
    assert_true(!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL);
    return WIFSIGNALED(status);
}

/* ---- how much lies there ---- */

static struct lies {
    unsigned files;
    uint64_t bytes;
} lies_sum;

static inline int lies_add(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path;
    (void)ftw;
    lies_sum.files += type == FTW_F;
    lies_sum.bytes += type == FTW_F ? (uint64_t)st->st_size : 0;
    return 0;
}

/* Files below a directory. */
static inline struct lies lies_below(const char *dir, const char *name)
{
    char path[512];

    lies_sum = (struct lies){0};
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    nftw(path, lies_add, 16, FTW_PHYS);
    return lies_sum;
}

#endif
