// SPDX-License-Identifier: Apache-2.0
#include "sandbox/seccomp_i.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/syscalls.h"

#if defined(__x86_64__)
#define ARCH     AUDIT_ARCH_X86_64
#define SYS_RSEQ 334
#elif defined(__aarch64__)
#define ARCH     AUDIT_ARCH_AARCH64
#define SYS_RSEQ 293
#endif
#define SET_VMA      0x53564d41 /* PR_SET_VMA */
#define NEWEST_KNOWN 469        /* file_setattr(), Linux 6.17 */

#ifdef ARCH

struct rule {
    unsigned number;
    bool absent;      /* answered with ENOSYS */
    bool conditional; /* if args[arg] & mask == value */
    uint8_t arg;
    uint32_t mask, value;
};

static void emit(struct buf *out, struct sock_filter f)
{
    buf_add(out, &f, sizeof(f));
}

static void load(struct buf *out, size_t offset)
{
    emit(out, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void answer(struct buf *out, uint32_t action)
{
    emit(out, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Go on with the next instruction if A is `k`, else skip `n`. */
static void unless_skip(struct buf *out, uint32_t k, uint8_t n)
{
    emit(out, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, n));
}

/* A is the number of the call, before and after. */
static void emit_rule(struct buf *out, const struct rule *r)
{
    if (!r->conditional) {
        unless_skip(out, r->number, 1);
        answer(out, r->absent ? SECCOMP_RET_ERRNO | ENOSYS : SECCOMP_RET_ALLOW);
        return;
    }
    unless_skip(out, r->number, 5);
    load(out, offsetof(struct seccomp_data, args) + 8u * r->arg); /* the low half: little endian */
    emit(out, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask));
    unless_skip(out, r->value, 1);
    answer(out, SECCOMP_RET_ALLOW);
    load(out, offsetof(struct seccomp_data, nr));
}

/* The program; returns the number of its instructions. `refused` is the answer to a call that is
 * not in the list, SECCOMP_RET_*. */
static unsigned seccomp_program(unsigned refused, struct buf *out)
{
    const uint32_t SELF = (uint32_t)getpid();
    const struct rule rules[] = {
#define ALLOW(name)          {.number = __NR_##name},
#define ALLOW_NEW(name, nr)  {.number = (nr)},
#define ABSENT_NEW(name, nr) {.number = (nr), .absent = true},
#define ALLOW_IF(name, argument, m, v)                                                             \
    {.number = __NR_##name, .conditional = true, .arg = (argument), .mask = (m), .value = (v)},
#include "sandbox/syscalls.def"
#undef ALLOW
#undef ALLOW_NEW
#undef ABSENT_NEW
#undef ALLOW_IF
    };

    buf_clear(out);
    load(out, offsetof(struct seccomp_data, arch));
    emit(out, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
    answer(out, SECCOMP_RET_KILL_PROCESS);
    load(out, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < DLC_COUNT(rules); i++)
        emit_rule(out, &rules[i]);
    /* Newer ones, and those of the x32 ABI, whose numbers have bit 30 set. */
    emit(out, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NEWEST_KNOWN, 0, 1));
    answer(out, SECCOMP_RET_ERRNO | ENOSYS);
    answer(out, refused);
    return (unsigned)(out->len / sizeof(struct sock_filter));
}

#else

/* This architecture has no list. */
static unsigned seccomp_program(unsigned refused, struct buf *out)
{
    (void)refused;
    buf_clear(out);
    return 0;
}

#endif

/* ---- tests see which calls are refused ---- */

#if defined(DLC_FAULT_ENV) && defined(ARCH)
static void on_refused(int sig, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;

    (void)sig;
    dprintf(STDERR_FILENO, "dlcache: BUG: the sandbox refused system call %d\n", info->si_syscall);
#ifdef __x86_64__
    uc->uc_mcontext.gregs[REG_RAX] = -EPERM;
#else
    uc->uc_mcontext.regs[0] = (unsigned long long)-EPERM;
#endif
}

static unsigned refusal(void)
{
    const char *how = getenv("DLCACHE_TEST_SANDBOX");
    struct sigaction act = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO};

    if (how == NULL || strcmp(how, "report") != 0 || sigaction(SIGSYS, &act, NULL) < 0)
        return SECCOMP_RET_ERRNO | EPERM;
    return SECCOMP_RET_TRAP;
}
#else
static unsigned refusal(void)
{
    return SECCOMP_RET_ERRNO | EPERM;
}
#endif

int seccomp_install(void)
{
    struct buf code = BUF_INIT;
    unsigned n = seccomp_program(refusal(), &code);
    struct sock_fprog program = {(unsigned short)n, (struct sock_filter *)(void *)code.data};
    int rc = -1;

    if (n == 0)
        errno = EOPNOTSUPP;
    else
        rc = os_seccomp(&program);
    buf_release(&code);
    return rc;
}
