// SPDX-License-Identifier: Apache-2.0
#include "manager/store/wall_time.h"

#include <time.h>

#include "base/mem.h"

int64_t wall_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

char *wall_time_text(int64_t ms)
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    char day[32];

    gmtime_r(&s, &tm);
    strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
    return mem_fmt("%s.%03dZ", day, (int)(ms % 1000));
}
