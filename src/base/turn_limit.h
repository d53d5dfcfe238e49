// SPDX-License-Identifier: Apache-2.0
/*
 * A limit on the CPU time of one turn of an event loop, for tests and debug builds: a longer turn
 * ends the process, and the message says where. A timer on the thread's CPU clock fires in the
 * middle of the turn, so the stack names the slow function and not only the callback that the loop
 * called. The thread's clock stands still while other threads run, so a busy machine hardly makes a
 * turn longer. But it counts interrupts and cold caches: a turn in which the thread was preempted
 * may take five times as long.
 */
#ifndef DLC_BASE_TURN_LIMIT_H
#define DLC_BASE_TURN_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"

struct turn_limit {
    struct dlc_dur most; /* 0: no limit */
    timer_t timer;
    bool armed;     /* the timer was made */
    long preempted; /* how often the thread was, when the turn began */
};

#define TURN_LIMIT_BUSY 5 /* times as long, when it was preempted */

/* Milliseconds in the variable DLCACHE_TURN_LIMIT_MS, which tests/run sets. Without it: five times
 * LOOP_TURN_MAX in debug builds, which are those with sanitizers; else none. */
struct dlc_dur turn_limit_configured(void);

/* By the loop's thread: before the first turn, as each turn begins, after the last one. */
void turn_limit_open(struct turn_limit *t);
void turn_limit_restart(struct turn_limit *t);
void turn_limit_close(struct turn_limit *t);

/* A turn has ended that took so long: was it too long? */
bool turn_limit_is_over(const struct turn_limit *t, struct dlc_dur cpu);
/* Ends the process. `callback`: its address; most of the turn was spent in it. */
_Noreturn void turn_limit_exceeded(struct dlc_dur cpu, uintptr_t callback);

#endif
