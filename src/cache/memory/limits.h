// SPDX-License-Identifier: Apache-2.0
/* How much memory the tier may use now: a pure function of the host's limits. */
#ifndef DLC_CACHE_MEMORY_LIMITS_H
#define DLC_CACHE_MEMORY_LIMITS_H

#include <stdint.h>

#include "base/host_limits.h"

struct mem_wish {
    uint64_t configured; /* the user's number; 0: as much as is sensible */
    uint64_t ceiling;    /* what the tier may use now; 0: not decided yet */
    uint64_t used;       /* what it does use */
};

/* The largest size ever: for reserving the segment. */
uint64_t mem_limit_max(const struct host_memory *m, uint64_t configured);
/* The ceiling from now on; call it about once per second. Leaves a tenth of the machine and of the
 * cgroup to other processes, shrinks at once when that is short or there is memory pressure, grows
 * slowly. */
uint64_t mem_limit_now(const struct host_memory *m, const struct mem_wish *w);
/* The same between those calls, as often as one likes: it shrinks when memory is short, and leaves
 * it to mem_limit_now() to grow and to heed the pressure, which is an average over 10 s. */
uint64_t mem_limit_between(const struct host_memory *m, const struct mem_wish *w);

#endif
