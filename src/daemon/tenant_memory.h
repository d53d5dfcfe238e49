// SPDX-License-Identifier: Apache-2.0
/*
 * The memory tier of a node: one struct memory, thus one segment, for each tenant
 * (docs/design/0013). Sessions get the descriptor of their dataset's tenant only. A daemon without
 * tenants has one, with the empty name.
 *
 * (TENANT-MEMORY-1) A dataset's samples lie in the memory of its tenant, and in no other.
 * (TENANT-MEMORY-2) The ceilings add up to at most the node's ceiling; tenant_shares.h divides it,
 *                   when a tenant comes and at each tick. A tenant's ceiling is lowered before
 *                   another one's is raised. What is pinned above a lowered ceiling, or not given
 *                   back yet, is in use beside that until readers let go: they keep their views,
 *                   and follow_limits() lowers the node's ceiling if the machine is short of
 *                   memory.
 * (TENANT-MEMORY-3) A memory is made with its first user and freed after its last one, when it is
 *                   empty. So it costs nothing to have had many tenants.
 *
 * All functions are L. No step depends on the number of samples.
 */
#ifndef DLC_DAEMON_TENANT_MEMORY_H
#define DLC_DAEMON_TENANT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "cache/memory/memory.h"
#include "cache/policy/policy.h"

#define TENANT_MEMORIES_MAX 256
#define TENANT_MEMORY_MIN   ((uint64_t)256 << 10) /* bytes; a smaller share holds no sample */

struct tenant_memory {
    struct dlc_list link; /* in tenant_memories.all */
    char *tenant;
    struct memory *memory;
    unsigned users; /* datasets that lie in it; and the daemon, of the one it must have */

    /* Counted by others, of its datasets. */
    uint64_t filling;              /* budget.c: bytes that fetches have reserved */
    unsigned n_sharing;            /* budget.c: those that use or want some of it */
    unsigned n_reading;            /* prefetch.c: sessions that follow an order and are not idle */
    uint64_t owned, share;         /* ownership.c: bytes that this node must keep for all nodes now;
                                      those of its share, read or not */
    uint64_t ahead, ahead_reading; /* prefetch.c: bytes of windows; of those that are not idle */
    struct {                       /* fetch/room.c */
        struct dlc_list demand, prefetch;
        struct dlc_mono pause; /* nobody waits until then */
    } room;
    struct dlc_list unused;     /* decoded_cache.c: caches without users, left longest ago first */
    struct dlc_mono full_until; /* budget.c: all of it was pinned; prefetches wait until then */
};

struct tenant_memories {
    struct dlc_list all;
    unsigned n;
    uint64_t max, ceiling; /* bytes, of the node. max never changes: X */
    const struct policy_ops *policy;
    struct policy_options policy_options; /* set after tenant_memories_init(); else all are 0 */
    bool closing;
};

/* policy NULL: the memory tier's own. */
void tenant_memories_init(struct tenant_memories *t, uint64_t max, uint64_t ceiling,
                          const struct policy_ops *policy);
void tenant_memories_free(struct tenant_memories *t); /* there must be no users */

/* The memory of a tenant, for one more user. DLC_EBUSY: there are too many tenants. */
int tenant_memory_get(struct tenant_memories *t, const char *tenant, struct tenant_memory **out,
                      struct dlc_err *err);
/* NULL is allowed. Its index must have been freed. */
void tenant_memory_put(struct tenant_memory **mp);

void tenant_memories_set_ceiling(struct tenant_memories *t, uint64_t bytes);
/* Divide it again (TENANT-MEMORY-2), after a change that cannot wait for the tick. */
void tenant_memories_divide(struct tenant_memories *t);
/* Call it periodically: heartbeats, memory_tick() of all, and the division. */
void tenant_memories_tick(struct tenant_memories *t);
/* As memory_free_some(), of one that has something to do; also frees what nobody uses. */
bool tenant_memories_free_some(struct tenant_memories *t);
bool tenant_memories_room_is_coming(const struct tenant_memories *t); /* one of them */
void tenant_memories_give_back(struct tenant_memories *t);
void tenant_memories_set_closing(struct tenant_memories *t);
/* Sums; max and ceiling are the node's, largest_free is of the one that has the largest. */
void tenant_memories_figures(const struct tenant_memories *t, struct memory_figures *out);
void tenant_memories_dump(const struct tenant_memories *t, struct buf *out);

#endif
