// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel lists sockets with the users that made them in /proc/net/tcp. The other end of our
 * connection is a socket of this machine too: its addresses are ours, the other way round.
 *
 * Rejected: sock_diag(7), which asks for one socket only. It needs another kind of netlink socket
 * than the sandbox's other users of netlink, and /proc is there for all.
 */
#include "gateway/loopback_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/syscalls.h"

#define TABLE_MAX ((size_t)16 << 20) /* about 100,000 sockets */

/* "127.0.0.1:1234" as the kernel writes it there: "0100007F:04D2". */
static bool in_hex(const char *address, char out[static 16])
{
    const char *colon = strrchr(address, ':');
    char text[INET_ADDRSTRLEN];
    struct in_addr host;
    uint64_t port;
    size_t n = colon != NULL ? (size_t)(colon - address) : sizeof(text);

    if (n >= sizeof(text) || !str_parse_u64(colon + 1, &port) || port > 65535)
        return false;
    memcpy(text, address, n);
    text[n] = '\0';
    if (inet_pton(AF_INET, text, &host) != 1 || ntohl(host.s_addr) >> 24 != IN_LOOPBACKNET)
        return false;
    snprintf(out, 16, "%08X:%04X", (unsigned)host.s_addr, (unsigned)port);
    return true;
}

int64_t loopback_peer_find(const char *table, const char *peer, const char *here)
{
    char from[16], to[16], local[16], remote[16];
    const char *line = table;
    unsigned state;
    long long uid;

    if (!in_hex(peer, from) || !in_hex(here, to))
        return -1;
    while ((line = strchr(line, '\n')) != NULL) { /* the first line is a heading */
        line++;
        if (sscanf(line, " %*u: %15s %15s %x %*s %*s %*s %lld", local, remote, &state, &uid) == 4 &&
            strcmp(local, from) == 0 && strcmp(remote, to) == 0)
            return uid;
    }
    return -1;
}

int64_t loopback_peer_uid(const char *peer, const char *here)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct buf table = BUF_INIT;
    int64_t uid = -1;

    if (os_read_file("/proc/net/tcp", TABLE_MAX, &table, &err) == 0)
        uid = loopback_peer_find(buf_str(&table), peer, here);
    buf_release(&table);
    return uid;
}
