// SPDX-License-Identifier: Apache-2.0
/* The sockets a server listens on. */
#ifndef DLC_NET_LISTEN_H
#define DLC_NET_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sockaddr;

/* "HOST:PORT", "[::1]:PORT"; *shown (gives): the address in numbers, with the port it has got. */
int listen_tcp(const char *address, int *fd, char **shown, struct dlc_err *err);

/*
 * A socket at path that only its owner may open. One that nobody listens on any more is replaced;
 * one that answers is DLC_EBUSY; what is no socket is left alone (DLC_EINVAL).
 */
int listen_unix(const char *path, int *fd, struct dlc_err *err);

/* The other end of a Unix socket is root or runs as ourselves. */
bool listen_trusts(int fd);

/* User and process at the other end of a Unix socket; -1: not known. */
void listen_peer(int fd, int64_t *uid, int64_t *pid);

/* "HOST:PORT" in numbers; "unknown" for NULL and other families. */
void listen_address(const struct sockaddr *a, char *out, size_t len);

#endif
