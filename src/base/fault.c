// SPDX-License-Identifier: Apache-2.0
#include "base/fault.h"

#include <stdatomic.h>

/* W the test, R any; sequentially consistent but for the look at `armed` that is always paid. */
static _Atomic unsigned armed; /* kinds */
static _Atomic int countdown;  /* the operation that makes it 0 fails */
static _Atomic bool fired;

void fault_arm(unsigned kinds, int nth)
{
    countdown = nth;
    fired = false;
    armed = kinds;
}

bool fault_disarm(void)
{
    armed = 0;
    return fired;
}

bool fault_hit(enum fault_kind kind)
{
    if ((atomic_load_explicit(&armed, memory_order_relaxed) & kind) == 0)
        return false;
    if (atomic_fetch_sub(&countdown, 1) != 1)
        return false;
    fired = true;
    return true;
}
