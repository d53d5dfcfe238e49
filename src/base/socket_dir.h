// SPDX-License-Identifier: Apache-2.0
/* The directory of the daemon's socket: who can reach it, and whom it vouches for. */
#ifndef DLC_BASE_SOCKET_DIR_H
#define DLC_BASE_SOCKET_DIR_H

#include <stdbool.h>
#include <sys/types.h>

/* Where the daemon of a whole machine serves. Only root can make its directory, below /run. */
#define MACHINE_SOCKET "/run/dlcache/socket"

/*
 * Make the directory of a socket, whatever the umask: for other users to search if `shared`, else
 * for ourselves alone. One that is there keeps its mode, unless it is ours by owner and name
 * ("dlcache", "dlcache-UID"): a private daemon may have made it. -1 with errno.
 */
int socket_dir_make(const char *socket, bool shared);

/* The first directory above the socket that other users cannot search; NULL: none. Gives. */
char *socket_dir_closed(const char *socket);

/* Has root given the place of the machine's socket to this user? Then its daemon may be trusted. */
bool socket_dir_vouches(const char *socket, uid_t uid);

#endif
