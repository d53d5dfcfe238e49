// SPDX-License-Identifier: Apache-2.0
/* The daemon's heartbeat: is the daemon alive, and does it make progress? */
#ifndef DLC_CLIENT_HEARTBEAT_H
#define DLC_CLIENT_HEARTBEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "client/attachment.h"

#define LOOK_EVERY DLC_MS(100) /* at the daemon, while one waits for it */

/* Is the daemon gone? The caller is a user of `a`, or has pinned there: (ATTACHMENT-1). */
bool attachment_lost(const struct attachment *a);
static inline bool attachment_died(const struct attachment *a) /* the same, for hits: one load */
{
    /* relaxed: no data goes with it */
    return (atomic_load_explicit(&a->header->owner, memory_order_relaxed) & SHM_OWNER_DIED) != 0;
}

/* It hung during an earlier wait, and has not moved since. */
bool attachment_hangs(struct attachment *a);

/*
 * Observations of the daemon's heartbeat during one wait. Looks are counted, not time: a process
 * that was stopped together with the daemon has not looked.
 */
struct hang_watch {
    struct dlc_mono next; /* look */
    uint64_t beat;
    unsigned still; /* looks that saw the same */
};
/* Looks if one is due. True: the daemon hangs. */
bool hang_watch_look(struct hang_watch *w, struct attachment *a, struct dlc_mono now);

#endif
