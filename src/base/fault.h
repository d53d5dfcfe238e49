// SPDX-License-Identifier: Apache-2.0
/*
 * Fault injection for tests: make the nth allocation (base/mem.h) or system call (base/syscalls.h)
 * fail, take long, hang, or end the process. Off, it costs one relaxed load.
 *
 *     fault_arm(FAULT_ALLOC | FAULT_SYSCALL, nth);           the nth of any of them fails
 *     fault_plan(&(struct fault_plan){.calls = FAULT_CALL(recvmsg), .nth = 2, .mode = FAULT_HANG});
 *
 * There is one plan at a time. It counts the calls of all threads of a process. After fault_share()
 * it also counts those of children, and `pid` says in which process it works: a test can so reach
 * into a daemon that it has forked.
 *
 * A debug build (not a release, see meson.build) also takes a plan from the environment, for the
 * real programs. It says on standard error when it hits a call.
 *
 *     DLCACHE_TEST_FAULT=CALL[+CALL...],NTH,fail|delay|hang|exit|kill[,errno or milliseconds]
 *     DLCACHE_TEST_FAULT=fsync+rename,3,kill       DLCACHE_TEST_FAULT=all,17,fail
 *     DLCACHE_TEST_FAULT=@FILE    the plan is in that file, and changes while the program runs:
 *                                 tests/lib/faults.py writes it
 */
#ifndef DLC_BASE_FAULT_H
#define DLC_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum fault_kind {
    FAULT_ALLOC = 1 << 0,
    FAULT_SYSCALL = 1 << 1,
    FAULT_OBSERVE = 1 << 2, /* of fault_observe() */
};

enum fault_call {
#define CALL(name, error, functions) CALL_##name,
#include "base/tbl/calls.def"
#undef CALL
    CALL_any, /* a call that the table does not have: metadata stores, for example */
};

#define FAULT_CALL(name) ((uint64_t)1 << CALL_##name)
/* Those that are made in any case: nobody could do without them. */
#define FAULT_SURE_CALLS (FAULT_CALL(close) | FAULT_CALL(munmap) | FAULT_CALL(wake))
#define FAULT_ALL_CALLS  (~FAULT_SURE_CALLS)
/* Those that change files or read them. */
#define FAULT_FILE_CALLS                                                                           \
    (FAULT_CALL(open) | FAULT_CALL(read) | FAULT_CALL(write) | FAULT_CALL(rename) |                \
     FAULT_CALL(link) | FAULT_CALL(unlink) | FAULT_CALL(fsync) | FAULT_CALL(ftruncate) |           \
     FAULT_CALL(fallocate) | FAULT_CALL(mkdir) | FAULT_CALL(fstat) | FAULT_CALL(stat) |            \
     FAULT_CALL(statvfs) | FAULT_CALL(readdir) | FAULT_CALL(flock) | FAULT_CALL(utimens) |         \
     FAULT_CALL(close))

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
    bool loud;    /* say on standard error which call is hit */
};

/* Let the nth (from 1) operation of these kinds fail, once. */
void fault_arm(unsigned kinds, int nth);
void fault_plan(const struct fault_plan *p);

/* Stop, and let calls go that hang; true if the fault fired. */
bool fault_disarm(void);
void fault_release(void);

/* How many calls the plan has met, how many of them were hit, and how many hang now. */
int fault_calls(void);
int fault_hits(void);
int fault_hanging(void);

/* Have children share the plan that was or will be made. Before the first fork; for tests. */
void fault_share(void);

/* The same by way of a file, for processes that are not related. False with errno. */
bool fault_share_at(const char *path);

/* What a call is named in tbl/calls.def; the last one that was hit. */
const char *fault_name(enum fault_call call);
enum fault_call fault_last(void);

/* The plan that `text` describes (see above); false: it makes no sense. */
bool fault_parse(const char *text, struct fault_plan *out);

/* Have `f` called before each system call, on its thread; NULL: no more. The descriptor is that of
 * fsync, -1 for all others. */
void fault_observe(void (*f)(enum fault_call call, int fd));

/* Called by the wrappers: true when this operation must fail. */
bool fault_hit(enum fault_kind kind);
/* The same of one call: true when it must fail, with errno set. Waits, or ends the process, when
 * the plan says so. */
bool fault_hit_call(enum fault_call call, int fd);

#endif
