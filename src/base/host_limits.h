// SPDX-License-Identifier: Apache-2.0
/*
 * Host limits: the memory (limits of the cgroups, version 1 and 2, up the tree; MemAvailable;
 * pressure stall information) and the processors (affinity, and the quota of the cgroups, version
 * 2) that this process may use.
 */
#ifndef DLC_BASE_HOST_LIMITS_H
#define DLC_BASE_HOST_LIMITS_H

#include <stdint.h>

struct host_memory {
    uint64_t total;       /* MemTotal */
    uint64_t available;   /* MemAvailable */
    uint64_t cgroup_max;  /* smallest limit that applies to us; UINT64_MAX: none */
    uint64_t cgroup_used; /* of it, so that the difference is the room left in the fullest group;
                             page cache that can be dropped not counted */
    double pressure;      /* PSI "some avg10" of memory, 0..100; 0 when not offered */
};

void host_memory_read(struct host_memory *m);
unsigned host_cores(void); /* at least 1 */

/* For tests: from a directory that stands for /. */
void host_memory_read_at(struct host_memory *m, const char *root);
unsigned host_cores_of_quota(const char *root); /* affinity not counted; UINT_MAX: no quota */

#endif
