// SPDX-License-Identifier: Apache-2.0
/*
 * Descriptors that a client chose. The loop makes no call on them that can wait, and does not close
 * them: close() of a TCP socket with SO_LINGER and unsent data waits for up to 18 hours, that of a
 * file on FUSE for as long as its server likes. They are closed by workers of a class of their own
 * (WORK_CLOSE). Sockets are reset before, also those that lie unread in Unix sockets, so that only
 * files can make a worker wait.
 *
 * (CLIENT-FDS-1) The kernel never drops a descriptor on the loop's thread, for it would close it
 *                there: all that a message can bring have room (MSG_FDS_RECEIVED), and an urgent
 *                byte is read in its turn (client_sock_open()), since one that is skipped is dropped
 *                with its descriptors.
 * (CLIENT-FDS-2) Clients that send what they should do not depend on those workers, which others
 *                can make wait: sealed memory is freed by workers of another class, and a
 *                connection in which nothing lies unread is closed at once.
 * (CLIENT-FDS-3) While many closings wait, connections that bring descriptors are not read: what
 *                a client sends stays in its own connection, of which it may have so many.
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
/* L: has this connection to wait before it is read (CLIENT-FDS-3)? */
bool client_fds_wait(struct node *n, int sock);
/* L: of each connection, before it is read (CLIENT-FDS-1). */
void client_sock_open(int sock);
/* L: the same of a connection, which is shut down at once. Descriptors that lie in it unread are
 * closed with it. *sock becomes -1. */
void client_sock_close(struct node *n, int *sock);

#endif
