// SPDX-License-Identifier: Apache-2.0
#include "net/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"

#define BACKLOG 4096 /* a hundred peers may come at once; the kernel has its own limit */

/* Split "HOST:PORT". Gives both, or false. */
static bool split(const char *address, char **host, char **port)
{
    const char *colon = strrchr(address, ':'), *from = address;
    size_t n = colon != NULL ? (size_t)(colon - address) : 0;
    uint64_t number;

    if (n == 0 || !str_parse_u64(colon + 1, &number) || number > 65535)
        return false;
    if (from[0] == '[' && from[n - 1] == ']') {
        from++;
        n -= 2;
    } else if (memchr(from, ':', n) != NULL) {
        return false;
    }
    if (n == 0)
        return false;
    *host = mem_strn(from, n);
    *port = mem_str(colon + 1);
    return true;
}

static int open_one(const struct addrinfo *a)
{
    int fd = os_socket(a->ai_family, a->ai_socktype), one = 1;
    int quiet_s = 60, again_s = 15, tries = 4;

    if (fd < 0)
        return -1;
    os_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    /* Of what it accepts too: a stream to a host that died has nothing to send, and must end. */
    os_setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    os_setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &quiet_s, sizeof(quiet_s));
    os_setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &again_s, sizeof(again_s));
    os_setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
    if (os_bind(fd, a->ai_addr, a->ai_addrlen) < 0 || os_listen(fd, BACKLOG) < 0) {
        int e = errno;

        os_close(&fd);
        errno = e;
    }
    return fd;
}

/* Gives the address in numbers. */
static char *address_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof(a);
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";

    if (os_getsockname(fd, (struct sockaddr *)&a, &len) == 0)
        getnameinfo((struct sockaddr *)&a, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV);
    return mem_fmt(strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

int listen_tcp(const char *address, int *fd, char **shown, struct dlc_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    char *host = NULL, *port = NULL;
    int rc = 0, e;

    *fd = -1;
    if (!split(address, &host, &port)) {
        rc = dlc_err_set(err, DLC_EINVAL,
                         "cannot listen on '%s': write HOST:PORT, or [ADDRESS]:PORT for IPv6",
                         address);
        goto out;
    }
    e = os_resolve(host, port, &hints, &found);
    if (e != 0) {
        rc = dlc_err_set(err, DLC_EINVAL, "cannot listen on '%s': %s", address, gai_strerror(e));
        goto out;
    }
    for (const struct addrinfo *a = found; a != NULL && *fd < 0; a = a->ai_next)
        *fd = open_one(a);
    if (*fd < 0)
        rc = dlc_err_sys(err, "cannot listen on %s", address);
    else
        *shown = address_of(*fd);
out:
    if (found != NULL)
        freeaddrinfo(found);
    mem_free(&host);
    mem_free(&port);
    return rc;
}

/* Make way for a new socket. */
static int clear_path(const struct sockaddr_un *addr, struct dlc_err *err)
{
    struct stat st;
    int fd, rc = 0;

    if (os_lstat(addr->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : dlc_err_sys(err, "%s", addr->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return dlc_err_set(err, DLC_EINVAL, "%s exists and is not a socket; choose another",
                           addr->sun_path);
    fd = os_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK);
    if (fd < 0)
        return dlc_err_sys(err, "cannot make a socket");
    if (os_connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 || errno == EAGAIN)
        rc = dlc_err_set(err, DLC_EBUSY, "another server answers at %s; stop it or name another",
                         addr->sun_path);
    else
        os_unlink(addr->sun_path);
    os_close(&fd);
    return rc;
}

int listen_unix(const char *path, int *fd, struct dlc_err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int rc;

    *fd = -1;
    if (strlen(path) >= sizeof(addr.sun_path))
        return dlc_err_set(err, DLC_EINVAL, "socket path %s is longer than %zu bytes", path,
                           sizeof(addr.sun_path) - 1);
    memcpy(addr.sun_path, path, strlen(path));
    rc = clear_path(&addr, err);
    if (rc < 0)
        return rc;
    *fd = os_socket(AF_UNIX, SOCK_STREAM);
    /* Nobody can connect before os_listen(), and from then on only the owner may. */
    if (*fd < 0 || os_bind(*fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        os_chmod(path, 0600) < 0 || os_listen(*fd, BACKLOG) < 0) {
        rc = dlc_err_sys(err, "cannot listen on %s", path);
        os_close(fd);
    }
    return rc;
}

bool listen_trusts(int fd)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (os_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || len != sizeof(cred))
        return false;
    return cred.uid == 0 || cred.uid == geteuid();
}

void listen_peer(int fd, int64_t *uid, int64_t *pid)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    *uid = *pid = -1;
    if (os_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && len == sizeof(cred)) {
        *uid = cred.uid;
        *pid = cred.pid;
    }
}

void listen_address(const struct sockaddr *a, char *out, size_t len)
{
    socklen_t size = a == NULL                  ? 0
                     : a->sa_family == AF_INET  ? sizeof(struct sockaddr_in)
                     : a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                : 0;
    char host[64], port[16];

    if (size == 0 || getnameinfo(a, size, host, sizeof(host), port, sizeof(port),
                                 NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf(out, len, "unknown");
    else
        snprintf(out, len, a->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}
