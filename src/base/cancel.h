// SPDX-License-Identifier: Apache-2.0
/*
 * Giving up a wait. A thread that waits for long asks now and then, and whenever a signal woke it,
 * whether its caller still wants the answer: Python's Ctrl-C. Nobody asks unless the caller said
 * who.
 *
 * (I1) Asked only while no lock is held that a caller's other threads may wait for with theirs:
 * those of rank LCK_session and the process-wide ones. (I2) Once the answer was yes it stays yes
 * until the caller says otherwise, so that whatever is tried next (another daemon, the bucket
 * itself) is given up too. Such calls fail with DLC_ECANCELED.
 */
#ifndef DLC_BASE_CANCEL_H
#define DLC_BASE_CANCEL_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"

#define INTERRUPT_EVERY DLC_MS(100)

struct interrupt {
    bool (*ask)(struct interrupt *i); /* does the caller give up? */
    bool yes;
};

extern _Thread_local struct interrupt *interrupt_asked; /* of this thread's caller, or NULL */

static inline bool interrupt_may_come(void)
{
    return interrupt_asked != NULL;
}

static inline bool interrupted(void)
{
    struct interrupt *i = interrupt_asked;

    if (i != NULL && !i->yes)
        i->yes = i->ask(i);
    return i != NULL && i->yes;
}

/* Sets *err and returns DLC_ECANCELED. */
int interrupt_err(struct dlc_err *err);

#endif
