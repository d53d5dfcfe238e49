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

#define SEALS (F_SEAL_SHRINK | F_SEAL_WRITE)

struct closing {
    struct work work;
    unsigned n;
    int fds[];
};

bool client_fd_is_sealed(int fd)
{
    int seals = os_fcntl(fd, F_GET_SEALS, 0); /* asks no file system and no peer */

    return seals >= 0 && (seals & SEALS) == SEALS;
}

/* A socket is reset, so that its close does not wait for a peer that does not read. */
static void close_at_once(int *fd)
{
    const struct linger none = {.l_onoff = 1, .l_linger = 0};

    os_setsockopt(*fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)); /* fails if it is no socket */
    os_close(fd);
}

static void close_work(struct work *w)
{
    struct closing *c = dlc_container(w, struct closing, work);

    for (unsigned i = 0; i < c->n; i++)
        close_at_once(&c->fds[i]);
    mem_free(&c);
}

/* Take out what was sent and not read: the kernel would close it as it is. */
static void drain_work(struct work *w)
{
    struct closing *c = dlc_container(w, struct closing, work);
    union msg_control control;
    char bytes[4096];

    for (;;) {
        struct iovec iov = {bytes, sizeof(bytes)};
        struct msghdr h = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof(control)};

        if (os_recvmsg(c->fds[0], &h, MSG_DONTWAIT) <= 0)
            break;
        for (struct cmsghdr *m = CMSG_FIRSTHDR(&h); m != NULL; m = CMSG_NXTHDR(&h, m)) {
            size_t n = (m->cmsg_len - CMSG_LEN(0)) / sizeof(int);

            for (size_t i = 0; i < n; i++) {
                int fd;

                memcpy(&fd, CMSG_DATA(m) + i * sizeof(fd), sizeof(fd));
                close_at_once(&fd);
            }
        }
    }
    os_close(&c->fds[0]);
    mem_free(&c);
}

static void close_later(struct node *n, const int *fds, unsigned n_fds, void (*run)(struct work *))
{
    struct closing *c = mem_alloc(sizeof(*c) + n_fds * sizeof(*fds));

    *c = (struct closing){.work = {.run = run}};
    for (unsigned i = 0; i < n_fds; i++)
        if (fds[i] >= 0)
            c->fds[c->n++] = fds[i];
    if (c->n > 0)
        work_run(n->work, WORK_CLOSE, &c->work);
    else
        mem_free(&c);
}

void client_fds_close(struct node *n, int *fds, unsigned *n_fds)
{
    close_later(n, fds, *n_fds, close_work);
    for (unsigned i = 0; i < *n_fds; i++)
        fds[i] = -1;
    *n_fds = 0;
}

void client_sock_close(struct node *n, int *sock)
{
    if (*sock < 0)
        return;
    os_shutdown(*sock, SHUT_RDWR); /* the client notices now, and can send no more */
    close_later(n, sock, 1, drain_work);
    *sock = -1;
}
