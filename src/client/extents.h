// SPDX-License-Identifier: Apache-2.0
/*
 * The client's mappings of extents: (SHM-5) of shm.h. Each lies at its place in the range that the
 * attachment has reserved; the rest of the range cannot be accessed.
 *
 *     nothing --made by the daemon--> mapped --dropped by the daemon--> nothing
 *                                     mapped --another one at its place--> mapped
 *
 * All that there are are asked for when the process attaches. Later ones come over the channel, a
 * socket, which the watch thread reads: a reader seldom meets a sample in an extent that is not
 * mapped, and then it looks into the channel and asks for what is not there.
 *
 * (EXTENTS-1) What is mapped where changes under the process-wide lock, which fork() takes, too.
 * (EXTENTS-2) Only an extent whose generation has gone from the daemon's table is unmapped or
 *             replaced. The daemon drops none with a pin that counts, so no view lies there.
 * (EXTENTS-3) The channel is read under that lock, without memory of malloc: descriptors from there
 *             are in no child, and the watch thread may do it (WATCH-1). All that came is taken
 *             before the daemon is told that what it dropped is unmapped.
 */
#ifndef DLC_CLIENT_EXTENTS_H
#define DLC_CLIENT_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/attachment.h"
#include "ipc/shm.h"

/* Reserve the range. The header is mapped. */
int extents_attach(struct attachment *a, struct dlc_err *err);

/* Is what lies there mapped? For hits: the caller has pinned it, and its slot is READY. */
static inline bool extents_are_mapped(const struct attachment *a, uint64_t offset, uint32_t len)
{
    const _Atomic uint32_t *table = shm_generations(a->header);
    uint64_t k = offset >> a->extent_shift;
    uint64_t last = (offset + len - (len > 0)) >> a->extent_shift;

    do {
        /* acquire: pairs with the store after the mapping was made */
        uint32_t mine = atomic_load_explicit(&a->mapped[k], memory_order_acquire);

        /* relaxed: after the slot, which was loaded with acquire */
        if (mine == 0 || mine != atomic_load_explicit(&table[k], memory_order_relaxed))
            return false;
    } while (++k <= last);
    return true;
}

/*
 * Map the extents under a sample that is READY, asking the daemon for their descriptors. The caller
 * is a user of `a`. 0 also when it is not READY any more. Errors as of attach_call().
 */
int extents_map(struct attachment *a, uint64_t sample, struct dlc_mono deadline,
                struct dlc_err *err);

/* Map what there is, for who attaches: nobody else has `a` yet. Errors are those of a daemon that does
 * not answer; what cannot be mapped here is tried again when it is read. */
int extents_map_ahead(struct attachment *a, struct dlc_mono deadline, struct dlc_err *err);
void extents_unmapped(struct attachment *a); /* the whole range was */

/* Map what the daemon has made, unmap what it has dropped, and tell it so. With the process-wide
 * lock held. */
void extents_follow(struct attachment *a);
/* The same if some were dropped, without the lock, for calls that wait anyway: the channel may not be
 * watched. */
void extents_look(struct attachment *a);

#endif
