// SPDX-License-Identifier: Apache-2.0
#include "base/fault.h"

#include <stdatomic.h>

static _Atomic unsigned armed; /* kinds; W test, R any, relaxed: tests are single-threaded here */
static int countdown;
static bool fired;

void fault_arm(unsigned kinds, int nth)
{
    countdown = nth;
    fired = false;
    atomic_store_explicit(&armed, kinds, memory_order_relaxed);
}

bool fault_disarm(void)
{
    atomic_store_explicit(&armed, 0, memory_order_relaxed);
    return fired;
}

bool fault_hit(enum fault_kind kind)
{
    if ((atomic_load_explicit(&armed, memory_order_relaxed) & kind) == 0)
        return false;
    if (fired || --countdown > 0)
        return false;
    fired = true;
    return true;
}
