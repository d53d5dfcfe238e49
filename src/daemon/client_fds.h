// SPDX-License-Identifier: Apache-2.0
/*
 * Descriptors that a client chose. The loop makes no call on them that can wait, and does not close
 * them: close() of a TCP socket with SO_LINGER and unsent data waits for up to 18 hours, that of a
 * file on FUSE for as long as its server likes. They are closed by workers of a class of their own
 * (WORK_CLOSE).
 */
#ifndef DLC_DAEMON_CLIENT_FDS_H
#define DLC_DAEMON_CLIENT_FDS_H

#include <stdbool.h>

struct node;

/* Is it memory (memfd_create) that nobody can write to or cut any more? Does not wait. */
bool client_fd_is_sealed(int fd);

/* X: close them on a worker. Takes the descriptors; *n becomes 0. Those that are -1 do not count.
 */
void client_fds_close(struct node *n, int *fds, unsigned *n_fds);
/* X: the same of a connection, which is shut down at once. Descriptors that lie in it unread are
 * closed with it. *sock becomes -1. */
void client_sock_close(struct node *n, int *sock);

#endif
