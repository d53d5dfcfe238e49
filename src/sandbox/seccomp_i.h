// SPDX-License-Identifier: Apache-2.0
/*
 * The filter of system calls: an allow-list (syscalls.def) as a BPF program.
 *
 * (SECCOMP-1) A call that is not in the list is answered with EPERM and has no effect; one whose
 *             number is newer than the list, and clone3(), with ENOSYS, so that libc uses what
 *             there was before it.
 * (SECCOMP-2) Calls of another architecture (32-bit calls of a 64-bit kernel) end the process.
 */
#ifndef DLC_SANDBOX_SECCOMP_I_H
#define DLC_SANDBOX_SECCOMP_I_H

/*
 * Filter the calls of this thread and of those that it starts, for good. 0 or -1 with errno:
 * EINVAL where the kernel has no filters, EOPNOTSUPP on an architecture without a list.
 *
 * In a build for tests (DLC_FAULT_ENV) with DLCACHE_TEST_SANDBOX=report in the environment, a
 * refused call also says its number on standard error.
 */
int seccomp_install(void);

#endif
