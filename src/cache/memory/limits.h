// SPDX-License-Identifier: Apache-2.0
/*
 * How much memory the tier may use now: a pure function of what the machine says, and the code that
 * asks the machine (cgroup v1 and v2 limits up the tree, MemAvailable, pressure stall information).
 */
#ifndef DLC_CACHE_MEMORY_LIMITS_H
#define DLC_CACHE_MEMORY_LIMITS_H

#include <stdint.h>

struct mem_machine {
    uint64_t total;       /* MemTotal */
    uint64_t available;   /* MemAvailable */
    uint64_t cgroup_max;  /* smallest limit that applies to us; UINT64_MAX: none */
    uint64_t cgroup_used; /* of it, so that the difference is the room left in the fullest group;
                             page cache that can be dropped not counted */
    double pressure;      /* PSI "some avg10" of memory, 0..100; 0 when not offered */
};

struct mem_wish {
    uint64_t configured; /* the user's number; 0: as much as is sensible */
    uint64_t ceiling;    /* what the tier may use now; 0: not decided yet */
    uint64_t used;       /* what it does use */
};

void mem_machine_read(struct mem_machine *m);
/* From a directory that stands for / (tests). */
void mem_machine_read_at(struct mem_machine *m, const char *root);

/* The largest size ever: for reserving the segment. */
uint64_t mem_limit_max(const struct mem_machine *m, uint64_t configured);
/* The ceiling from now on; ask about once per second. Leaves a tenth of the machine and of the
 * cgroup to everybody else, shrinks at once when that is short or pressure shows, grows slowly. */
uint64_t mem_limit_now(const struct mem_machine *m, const struct mem_wish *w);

#endif
