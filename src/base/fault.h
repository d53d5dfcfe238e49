// SPDX-License-Identifier: Apache-2.0
/*
 * Fault injection for tests: make the nth allocation (base/mem.h) or system call (base/os.h) fail,
 * take long, hang, or end the process. Off, it costs one relaxed load.
 *
 *     fault_arm(FAULT_ALLOC | FAULT_SYSCALL, nth);           the nth of any of them fails
 *     fault_plan(&(struct fault_plan){.calls = FAULT_CALL(recvmsg), .nth = 2, .mode = FAULT_HANG});
 *
 * There is one plan at a time. It counts the calls of all threads of a process. After fault_share()
 * it also counts those of children, and `pid` says in which process it works: a test can so reach
 * into a daemon that it has forked.
 */
#ifndef DLC_BASE_FAULT_H
#define DLC_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum fault_kind {
    FAULT_ALLOC = 1 << 0,
    FAULT_SYSCALL = 1 << 1,
};

enum fault_call {
#define CALL(name, error) CALL_##name,
#include "base/tbl/calls.def"
#undef CALL
    CALL_any, /* a call that the table does not have: metadata stores, for example */
};

#define FAULT_CALL(name) ((uint64_t)1 << CALL_##name)
#define FAULT_ALL_CALLS  (~FAULT_CALL(close)) /* which is made in any case */

enum fault_mode {
    FAULT_FAIL,  /* the call is not made; errno says `error` */
    FAULT_DELAY, /* the call is made `delay_ms` later */
    FAULT_HANG,  /* the call is made after fault_release() */
    FAULT_EXIT,  /* the process ends with FAULT_EXIT_STATUS, without any clean-up */
    FAULT_KILL,  /* the process is killed, as by the kernel when memory is short */
};
#define FAULT_EXIT_STATUS 86

struct fault_plan {
    uint64_t calls; /* FAULT_CALL(name) | ... */
    int nth;        /* the first of them that is hit, from 1 */
    int times;      /* how many are hit from there on; 0: one */
    enum fault_mode mode;
    int error;    /* FAULT_FAIL: 0: that of tbl/calls.def */
    int delay_ms; /* FAULT_DELAY */
    pid_t pid;    /* 0: in any process */
};

/* Let the nth (from 1) operation of these kinds fail, once. */
void fault_arm(unsigned kinds, int nth);
void fault_plan(const struct fault_plan *p);

/* Stop, and let calls go that hang; true if the fault fired. */
bool fault_disarm(void);
void fault_release(void);

/* How many calls were hit, and how many hang now. */
int fault_hits(void);
int fault_hanging(void);

/* Have children share the plan that was or will be made. Before the first fork; for tests. */
void fault_share(void);

/* What a call is named in tbl/calls.def; the last one that was hit. */
const char *fault_name(enum fault_call call);
enum fault_call fault_last(void);

/* Called by the wrappers: true when this operation must fail. */
bool fault_hit(enum fault_kind kind);
/* The same of one call: true when it must fail, with errno set. Waits, or ends the process, when
 * the plan says so. */
bool fault_hit_call(enum fault_call call);

#endif
