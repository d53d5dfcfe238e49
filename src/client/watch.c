// SPDX-License-Identifier: Apache-2.0
#include "client/watch.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "base/fork_fds.h"
#include "base/syscalls.h"

#define AT_ONCE  16
#define A_MOMENT 1000 /* milliseconds */
#define STACK    ((size_t)256 << 10)

/*
 * An epoll instance, not poll(): it keeps no reference to what it watches, so that a connection
 * that is closed here ends at once and leaves the set by itself.
 */
static int set = -1;                /* G: the process-wide lock */
static void (*call_gone)(uint64_t); /* written once, before the thread starts */

static void *watch_main(void *arg)
{
    int fd = (int)(intptr_t)arg, n, timeout = -1;
    struct epoll_event ev[AT_ONCE];

    prctl(PR_SET_NAME, "dlcache-watch");
    /* An error: the program has closed the set behind our back. */
    while ((n = os_epoll_wait(fd, ev, AT_ONCE, timeout)) >= 0 || errno == EINTR) {
        for (int i = 0; i < n; i++)
            call_gone(ev[i].data.u64);
        if (n == 0)
            call_gone(0);
        if (n >= 0)
            timeout = n > 0 ? A_MOMENT : -1;
    }
    return NULL;
}

static void start(void (*gone)(uint64_t))
{
    call_gone = gone;
    fork_fds_lock();
    set = os_epoll_create();
    fork_fds_add(set);
    fork_fds_unlock();
    if (set >= 0 && os_thread_detached(STACK, watch_main, (void *)(intptr_t)set) != 0)
        os_close(&set); /* the next attachment tries again */
}

void watch_add(int sock, uint64_t number, void (*gone)(uint64_t number))
{
    /* ONESHOT: a connection that has ended would wake the thread again while a view is held. */
    struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = number};

    if (set < 0)
        start(gone);
    if (set >= 0)
        os_epoll_ctl(set, EPOLL_CTL_ADD, sock, &ev);
}

void watch_in_child(void)
{
    set = -1; /* base/fork_fds.h has closed it */
}
