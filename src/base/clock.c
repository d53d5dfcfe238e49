// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic int64_t ahead; /* W tests, R any, relaxed: a late look only delays a timer */

struct dlc_mono dlc_mono_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (struct dlc_mono){(int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec +
                             atomic_load_explicit(&ahead, memory_order_relaxed)};
}

int64_t dlc_wall_seconds(void)
{
    return (int64_t)time(NULL);
}

void dlc_sleep(struct dlc_dur d)
{
    const struct timespec ts = {.tv_sec = d.ns / 1000000000, .tv_nsec = d.ns % 1000000000};

    nanosleep(&ts, NULL);
}

void dlc_clock_advance(struct dlc_dur d)
{
    atomic_fetch_add_explicit(&ahead, d.ns, memory_order_relaxed);
}
