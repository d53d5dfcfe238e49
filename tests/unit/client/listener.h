// SPDX-License-Identifier: Apache-2.0
/* A socket at which the test itself listens, in place of a daemon. */
#ifndef DLC_TESTS_LISTENER_H
#define DLC_TESTS_LISTENER_H

#include "unit.h"

#include <sys/socket.h>
#include <sys/un.h>

/* Listens at a path, which may be left over from a test before. */
static inline int listener_open(const char *path, int queue, struct sockaddr_un *addr)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(addr->sun_path, sizeof(addr->sun_path), "%.100s", path);
    unlink(path);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)addr, sizeof(*addr)), 0);
    assert_int_equal(listen(fd, queue), 0);
    return fd;
}

#endif
