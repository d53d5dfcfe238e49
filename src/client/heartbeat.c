// SPDX-License-Identifier: Apache-2.0
#include "client/heartbeat.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "client/attachment.h"
#include "ipc/shm.h"

#define STILL_LOOKS 20 /* at a heartbeat that does not move: 2 s */

bool attachment_lost(const struct attachment *a)
{
    struct pollfd p = {.fd = a->sock, .events = POLLRDHUP};

    /* The socket says so a moment later: when the last thread of the daemon has ended. */
    return a->foreign || attachment_died(a) ||
           (os_poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0);
}

/* ---- a daemon that hangs ---- */

static const struct shm_segment_hdr *segment_of(const struct attachment *a)
{
    return a->header; /* mapped: we are a user */
}

bool attachment_hangs(struct attachment *a)
{
    /* relaxed, here and below: numbers that are compared; no data goes with them */
    uint64_t at = atomic_load_explicit(&a->hung_at, memory_order_relaxed);

    if (at == 0)
        return false;
    if (at == atomic_load_explicit(&segment_of(a)->heartbeat, memory_order_relaxed))
        return true;
    if (atomic_exchange_explicit(&a->hung_at, 0, memory_order_relaxed) != 0)
        log_warn("the daemon (process %u) goes on: reading through it again",
                 segment_of(a)->owner_pid);
    return false;
}

bool hang_watch_look(struct hang_watch *w, struct attachment *a, struct dlc_mono now)
{
    uint64_t beat;

    if (now.ns < w->next.ns) /* a watch that is all zero looks at once */
        return false;
    w->next = dlc_mono_add(now, LOOK_EVERY);
    beat = atomic_load_explicit(&segment_of(a)->heartbeat, memory_order_relaxed);
    if (beat != w->beat || beat == 0) { /* 0: it does not say */
        w->beat = beat;
        w->still = 0;
        return false;
    }
    if (++w->still < STILL_LOOKS)
        return false;
    if (atomic_exchange_explicit(&a->hung_at, beat, memory_order_relaxed) != beat)
        log_warn("the daemon (process %u) hangs or is stopped: what is not in memory is read from "
                 "the bucket until it goes on",
                 segment_of(a)->owner_pid);
    return true;
}
