// SPDX-License-Identifier: Apache-2.0
/*
 * Cancellation of blocking waits. A thread that waits for long calls back periodically, and after
 * every signal, to ask whether its caller still wants the result (Python's Ctrl-C). No check is
 * made unless the caller installed a callback.
 *
 * (CANCEL-1) The callback runs only while no lock is held that other threads of the caller may wait
 *            for: those of rank LCK_session and the process-wide ones.
 * (CANCEL-2) Once the answer was yes it stays yes until the caller resets it, so that later
 *            attempts (another daemon, the bucket itself) are cancelled too. Such calls fail with
 *            DLC_ECANCELED.
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
