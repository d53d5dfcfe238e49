// SPDX-License-Identifier: Apache-2.0
/*
 * A wall clock that is wrong by SKEW_S seconds, for a program that this library is preloaded into
 * (tests/lib/skew.py). Other clocks are as they are.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(default)

int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);
    const char *skew = getenv("SKEW_S");

    if (rc == 0 && skew != NULL && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        t->tv_sec += atol(skew);
    return rc;
}

time_t time(time_t *out)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_REALTIME, &t);
    if (out != NULL)
        *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec t = {0};

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    *out = (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
    return 0;
}

#pragma GCC visibility pop
