// SPDX-License-Identifier: Apache-2.0
#include "client/watch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "base/fork_fds.h"
#include "base/syscalls.h"
#include "client/process.h"

#define AT_ONCE  16
#define A_MOMENT 1000 /* milliseconds */
#define STACK    ((size_t)256 << 10)
#define NOBODY   UINT64_MAX          /* no connection has this number */
#define CHANNEL  ((uint64_t)1 << 63) /* nor one with this bit: it is the channel of the rest */

/*
 * An epoll instance, not poll(): it keeps no reference to what it watches, so that a connection
 * that is closed here ends at once and leaves the set by itself.
 */
static int set = -1, wake = -1;        /* written once, before the thread starts */
static const struct watch_calls *call; /* the same */
static bool running;                   /* G: the process-wide lock: there is a thread */
static _Atomic unsigned watched;       /* grows under the lock; seq_cst: the thread ends by it */

/* The thread's last look: who attaches later starts another one. */
static bool may_end(void)
{
    bool end;

    os_wake_drain(wake);
    client_lock();
    end = atomic_load(&watched) == 0;
    running = !end;
    client_unlock();
    return end;
}

/* A connection has ended, or something came over a channel. True: ended. */
static bool watch_tell(uint64_t number)
{
    bool channel = (number & CHANNEL) != 0;

    if (channel)
        call->channel(number & ~CHANNEL);
    else
        call->gone(number);
    return !channel;
}

static void *watch_main(void *arg)
{
    int n, timeout = -1;
    bool ended;
    struct epoll_event ev[AT_ONCE];

    (void)arg;
    prctl(PR_SET_NAME, "dlcache-watch");
    /* An error: the program has closed the set behind our back. */
    while ((n = os_epoll_wait(set, ev, AT_ONCE, timeout)) >= 0 || errno == EINTR) {
        ended = false;
        for (int i = 0; i < n; i++) {
            if (ev[i].data.u64 != NOBODY)
                ended |= watch_tell(ev[i].data.u64);
            else if (may_end())
                return NULL;
        }
        if (n == 0)
            call->gone(0);
        if (n == 0 || ended)
            timeout = ended ? A_MOMENT : -1;
    }
    return NULL;
}

/* The set, and what wakes the thread when nothing is watched. */
static void open_set(void)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = NOBODY};

    fork_fds_lock();
    set = os_epoll_create();
    wake = set >= 0 ? os_eventfd() : -1;
    fork_fds_add(set);
    fork_fds_add(wake);
    fork_fds_unlock();
    if (wake < 0 || os_epoll_ctl(set, EPOLL_CTL_ADD, wake, &ev) < 0) {
        os_close(&wake);
        os_close(&set);
    }
}

bool watch_add(int sock, int channel, uint64_t number, const struct watch_calls *calls)
{
    /* ONESHOT: a connection that has ended would wake the thread again while a view is held. */
    struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = number};
    /* Edge-triggered: a reader may take what came, and the end of a channel wakes only once. */
    struct epoll_event came = {.events = EPOLLIN | EPOLLET, .data.u64 = number | CHANNEL};

    if (call == NULL)
        call = calls;
    if (set < 0)
        open_set();
    if (set < 0)
        return false;
    if (!running)
        running = os_thread_detached(STACK, watch_main, NULL) == 0;
    if (!running || os_epoll_ctl(set, EPOLL_CTL_ADD, sock, &ev) < 0)
        return false; /* a thread that has nothing to watch is there for the next one */
    if (channel >= 0 && os_epoll_ctl(set, EPOLL_CTL_ADD, channel, &came) < 0) {
        os_epoll_remove(set, sock);
        return false;
    }
    atomic_fetch_add(&watched, 1);
    return true;
}

void watch_remove(int channel)
{
    if (channel >= 0) /* it may still be in flight to a process that was not told to take it */
        os_epoll_remove(set, channel);
    if (atomic_fetch_sub(&watched, 1) == 1)
        os_wake(wake);
}

void watch_in_child(void)
{
    set = wake = -1; /* base/fork_fds.h has closed them */
    running = false;
    atomic_store(&watched, 0);
}
