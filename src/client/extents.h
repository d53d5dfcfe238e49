// SPDX-License-Identifier: Apache-2.0
/*
 * The client's mappings of extents: (SHM-5) of shm.h. Each lies at its place in the range that the
 * attachment has reserved; the rest of the range cannot be accessed.
 *
 *     nothing --a slot is READY there--> mapped --dropped by the daemon: the bell--> nothing
 *                                        mapped --another one at its place: READY--> mapped
 *
 * (EXTENTS-1) What is mapped where changes under the process-wide lock, which fork() takes, too.
 * (EXTENTS-2) Only an extent whose generation has gone from the daemon's table is unmapped or
 *             replaced. The daemon drops none with a pin that counts, so no view lies there.
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

/* Unmap what the daemon has dropped, and tell it so. With the process-wide lock held. */
void extents_unmap_dropped(struct attachment *a);
/* The same without the lock, for calls that wait anyway: the bell may not be watched. */
void extents_look(struct attachment *a);

#endif
