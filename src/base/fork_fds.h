// SPDX-License-Identifier: Apache-2.0
/*
 * Descriptors that a child of fork() must not have: sockets whose end tells the daemon that this
 * process has ended, and whatever comes over them. The child closes its copies before fork()
 * returns there, whatever other threads were doing.
 *
 *     fork_fds_lock();                 no fork() now: for moments, and never while waiting
 *     fd = os_socket(...);
 *     fork_fds_add(fd);
 *     fork_fds_unlock();
 *     os_close(&fd);                   knows of them
 */
#ifndef DLC_BASE_FORK_FDS_H
#define DLC_BASE_FORK_FDS_H

#include <stdbool.h>

void fork_fds_init(void); /* once is enough; who has locks of its own for fork() calls it first */
void fork_fds_lock(void);
void fork_fds_unlock(void);
void fork_fds_add(int fd); /* locked; -1 is ignored */
/* For os_close(): true if it was one of them, and is closed now. */
bool fork_fds_close(int fd);

#endif
