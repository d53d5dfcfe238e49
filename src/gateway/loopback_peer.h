// SPDX-License-Identifier: Apache-2.0
/* Which user has the other end of a TCP connection on this machine's loopback address. */
#ifndef DLC_GATEWAY_LOOPBACK_PEER_H
#define DLC_GATEWAY_LOOPBACK_PEER_H

#include <stdint.h>

/* X. peer, here: HOST:PORT of the other end and of ours, in numbers. -1: one of them is not of
 * 127.0.0.0/8, or nobody knows. */
int64_t loopback_peer_uid(const char *peer, const char *here);

/* Pure: the same by the text of /proc/net/tcp. */
int64_t loopback_peer_find(const char *table, const char *peer, const char *here);

#endif
