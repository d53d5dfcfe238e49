// SPDX-License-Identifier: Apache-2.0
/*
 * Is a word stored with a full barrier? Two processes that each store one word and then load the
 * other's rely on it: (SHM-1) of shm.h. No test that runs both shows for sure that it is missing, so
 * this looks at the instruction: the function runs step by step, and the one that changes the word
 * is a barrier, or the next one is.
 */
#ifndef DLC_TESTS_SINGLE_STEP_H
#define DLC_TESTS_SINGLE_STEP_H

#include "unit.h"

/* ThreadSanitizer holds signals back. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define SINGLE_STEP 1

#include <ucontext.h>
#include <x86intrin.h>

#define STEP_FLAG 0x100 /* TF of the flags: a signal after each instruction */

static struct {
    const volatile uint64_t *word;
    uint64_t before;
    const unsigned char *last; /* the instruction that ran */
    unsigned stores, barriers;
} step;

static inline bool step_is_barrier(const unsigned char *code)
{
    while (*code == 0x66 || (*code & 0xf0) == 0x40) /* operand size, REX */
        code++;
    if (*code == 0xf0) /* lock */
        return true;
    if (*code == 0x0f) /* mfence */
        return code[1] == 0xae && code[2] == 0xf0;
    return (*code | 1) == 0x87 && code[1] >> 6 != 3; /* xchg with memory */
}

static inline void step_on(int number, siginfo_t *info, void *context)
{
    const unsigned char *next = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

    (void)number;
    (void)info;
    if (*step.word != step.before) {
        step.stores++;
        step.barriers += step_is_barrier(step.last) || step_is_barrier(next);
        step.before = *step.word;
    }
    step.last = next;
}

/* Does f change the word, each time with a barrier? */
static inline bool stores_with_barrier(const volatile void *word, void (*f)(void *), void *arg)
{
    struct sigaction trap = {.sa_sigaction = step_on, .sa_flags = SA_SIGINFO}, old;

    step.word = word;
    step.before = *step.word;
    step.last = (const unsigned char *)"\x90"; /* nothing */
    step.stores = step.barriers = 0;
    assert_int_equal(sigaction(SIGTRAP, &trap, &old), 0);
    __writeeflags(__readeflags() | STEP_FLAG);
    f(arg);
    __writeeflags(__readeflags() & ~(unsigned long long)STEP_FLAG);
    assert_int_equal(sigaction(SIGTRAP, &old, NULL), 0);
    return step.stores > 0 && step.stores == step.barriers;
}

#endif
#endif
