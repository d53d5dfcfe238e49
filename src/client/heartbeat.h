// SPDX-License-Identifier: Apache-2.0
/* Does the daemon still live, and does it move? */
#ifndef DLC_CLIENT_HEARTBEAT_H
#define DLC_CLIENT_HEARTBEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "client/attachment.h"

#define LOOK_EVERY DLC_MS(100) /* at the daemon, while one waits for it */

/* Has the daemon gone? The caller is a user of `a`, or has pinned there: (A1). */
bool attachment_lost(const struct attachment *a);
static inline bool attachment_died(const struct attachment *a) /* the same, for hits: one load */
{
    const struct shm_segment_hdr *seg = (const void *)a->segment;

    /* relaxed: no data goes with it */
    return (atomic_load_explicit(&seg->owner, memory_order_relaxed) & SHM_OWNER_DIED) != 0;
}

/* It hung when somebody waited for it, and has not moved since. */
bool attachment_hangs(struct attachment *a);

/*
 * What one wait saw of the daemon's heartbeat. Looks are counted, not time: a process that was
 * stopped together with the daemon has not looked.
 */
struct hang_watch {
    struct dlc_mono next; /* look */
    uint64_t beat;
    unsigned still; /* looks that saw the same */
};
/* Looks when it is time to. True: the daemon hangs. */
bool hang_watch_look(struct hang_watch *w, struct attachment *a, struct dlc_mono now);

#endif
