// SPDX-License-Identifier: Apache-2.0
#include "daemon/client_fds.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "daemon/state.h"
#include "daemon/work.h"
#include "ipc/frame.h"

#define SEALS       (F_SEAL_SHRINK | F_SEAL_WRITE)
#define CLOSING_MAX 1024u /* that wait for a worker before descriptors are left where they are */
#define EMPTY_MAX   1024u /* empty datagrams, and ends, that are read from one socket */

/* Descriptors that are to be closed: those of a client, and those that lie in them. */
struct closing {
    struct work work;
    size_t n, room;
    int *fds;
};

bool client_fd_is_sealed(int fd)
{
    int seals = os_fcntl(fd, F_GET_SEALS, 0); /* asks no file system and no peer */

    return seals >= 0 && (seals & SEALS) == SEALS;
}

static void closing_add(struct closing *c, int fd)
{
    if (c->n == c->room) {
        c->room = 2 * c->room + MSG_FDS;
        c->fds = mem_grow(c->fds, c->room * sizeof(*c->fds));
    }
    c->fds[c->n++] = fd;
}

/* ---- on a worker ---- */

static int socket_option(int fd, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    return os_getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

/* A message that nobody has read: take out the descriptors in it. False: there was none. */
static bool take_message(struct closing *c, int fd, unsigned *empty)
{
    union msg_control control;
    char bytes[4096];
    struct iovec iov = {bytes, sizeof(bytes)};
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    ssize_t n = os_recvmsg(fd, &h, MSG_DONTWAIT);

    if (n < 0 || (n == 0 && ++*empty > EMPTY_MAX))
        return false;
    for (struct cmsghdr *m = CMSG_FIRSTHDR(&h); m != NULL; m = CMSG_NXTHDR(&h, m)) {
        size_t all = m->cmsg_level == SOL_SOCKET && m->cmsg_type == SCM_RIGHTS
                         ? (m->cmsg_len - CMSG_LEN(0)) / sizeof(int)
                         : 0;

        for (size_t i = 0; i < all; i++) {
            int one;

            memcpy(&one, CMSG_DATA(m) + i * sizeof(one), sizeof(one));
            closing_add(c, one);
        }
    }
    return true;
}

/* The kernel would close what lies in it as it is: take it out. Nothing comes after the shutdown,
 * and accept() and recvmsg() do not wait after it. */
static void empty_socket(struct closing *c, int fd)
{
    unsigned empty = socket_option(fd, SO_TYPE) == SOCK_STREAM ? EMPTY_MAX : 0;
    const int on = 1;
    int waits;

    os_shutdown(fd, SHUT_RDWR);
    os_setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)); /* else it is skipped */
    while (take_message(c, fd, &empty))
        ;
    while (socket_option(fd, SO_ACCEPTCONN) == 1 && (waits = os_accept(fd)) >= 0)
        closing_add(c, waits);
}

/* A socket is reset, so that its close does not wait for a peer that does not read. */
static void close_one(struct closing *c, int fd)
{
    const struct linger none = {.l_onoff = 1, .l_linger = 0};

    if (socket_option(fd, SO_DOMAIN) == AF_UNIX)
        empty_socket(c, fd);
    os_setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)); /* fails if it is no socket */
    os_close(&fd);
}

static void close_work(struct work *w)
{
    struct closing *c = dlc_container(w, struct closing, work);

    while (c->n > 0)
        close_one(c, c->fds[--c->n]);
    mem_free(&c->fds);
    mem_free(&c);
}

/* ---- on the loop ---- */

static void close_later(struct node *n, struct closing *c, enum work_class class)
{
    c->work.run = close_work;
    work_run(n->work, class, &c->work);
}

void client_fds_close(struct node *n, int *fds, unsigned *n_fds)
{
    struct closing *memory = NULL, *others = NULL;

    for (unsigned i = 0; i < *n_fds; i++) {
        struct closing **c = fds[i] < 0                              ? NULL
                             : os_fcntl(fds[i], F_GET_SEALS, 0) >= 0 ? &memory
                                                                     : &others;

        if (c != NULL && *c == NULL)
            *c = mem_new(struct closing);
        if (c != NULL)
            closing_add(*c, fds[i]);
        fds[i] = -1;
    }
    *n_fds = 0;
    if (memory != NULL)
        close_later(n, memory, WORK_COPY); /* (CLIENT-FDS-2) */
    if (others != NULL)
        close_later(n, others, WORK_CLOSE);
}

/* Does anything lie in it unread? With no room for descriptors a peek brings none, and says so. */
static ssize_t peek(int sock, bool *fds)
{
    char byte;
    struct iovec iov = {&byte, 1};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n = os_recvmsg(sock, &h, MSG_PEEK | MSG_DONTWAIT);

    *fds = n > 0 && (h.msg_flags & MSG_CTRUNC) != 0;
    return n;
}

bool client_fds_wait(struct node *n, int sock)
{
    bool fds;

    return work_queued(n->work, WORK_CLOSE) > CLOSING_MAX && peek(sock, &fds) > 0 && fds;
}

void client_sock_open(int sock)
{
    const int on = 1;

    os_setsockopt(sock, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
}

void client_sock_close(struct node *n, int *sock)
{
    struct closing *c;
    bool fds;

    if (*sock < 0)
        return;
    os_shutdown(*sock, SHUT_RDWR); /* the client notices now, and can send no more */
    if (peek(*sock, &fds) <= 0) {
        os_close(sock); /* (CLIENT-FDS-2) */
        return;
    }
    c = mem_new(struct closing);
    closing_add(c, *sock);
    close_later(n, c, WORK_CLOSE);
    *sock = -1;
}
