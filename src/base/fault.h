// SPDX-License-Identifier: Apache-2.0
/*
 * Fault injection for tests: make the nth allocation or system call that goes through base/mem.h
 * and base/os.h fail. Off, it costs one relaxed load. Process-wide: with several threads, whichever
 * comes nth.
 */
#ifndef DLC_BASE_FAULT_H
#define DLC_BASE_FAULT_H

#include <stdbool.h>

enum fault_kind {
    FAULT_ALLOC = 1 << 0,
    FAULT_SYSCALL = 1 << 1,
};

/* Let the nth (from 1) operation of these kinds fail, once. */
void fault_arm(unsigned kinds, int nth);

/* Stop; true if the fault fired. */
bool fault_disarm(void);

/* Called by the wrappers: true when this operation must fail. */
bool fault_hit(enum fault_kind kind);

#endif
