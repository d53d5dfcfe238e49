// SPDX-License-Identifier: Apache-2.0
/*
 * Eviction order: chunks in groups, one for each dataset.
 *
 * A group has a life (cache/policy/lifecycle.h), which says whether it may be evicted from. Two
 * levels of orders, both by the tier's policy, find a victim without looking at all chunks: each
 * group ranks its own chunks, and the first of them to go stands for the group among the groups of
 * the same pressure. So a job that joins or leaves moves one entry, however many chunks there are.
 * Turns are counted in common, so the victim is the one that a single order of these chunks has.
 *
 * Under `worth` the runs are the group's: those that its jobs declare, or those that it has had. A
 * chunk is worth these runs x its own cost.
 *
 * Group 0 holds chunks that a restart found and that were not used since. It is always INACTIVE,
 * and is evicted first, the oldest chunk first.
 *
 * (EVICTION-GROUPS-1) Groups are in three orders, one for each pressure at which they may be
 *                     evicted; a group is in that of its state if it has chunks in its list,
 *                     otherwise in none.
 * (EVICTION-GROUPS-2) A chunk is in its group's list unless it is BUSY.
 * (EVICTION-GROUPS-3) A chunk stays in a group that has jobs; otherwise it moves to the group that
 *                     uses it.
 *
 * (EVICTION-GROUPS-4) A chunk that could not be removed (groups_link_stuck) is not a victim again
 *                     before it is used.
 *
 * No locks, no files, no clock. The simulator drives this code, too (src/sim).
 */
#ifndef DLC_CACHE_DISK_EVICTION_GROUPS_I_H
#define DLC_CACHE_DISK_EVICTION_GROUPS_I_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/rng.h"
#include "base/u64map.h"
#include "cache/disk/chunk_table_i.h"
#include "cache/policy/lifecycle.h"
#include "cache/policy/policy.h"

#define GROUP_UNKNOWN 0u
#define GROUPS_MAX    UINT16_MAX

/* What is known of a chunk in a list, by its slot; not of chunks of group 0. */
struct chunk_rank {
    struct policy_item item; /* id: the slot. cost: its own, or the mean of its group when ranked */
    bool costed;             /* its own cost is known */
    uint32_t run;            /* of the group, in which it was used; 0: none */
};

struct group {
    uint16_t number;
    char *name; /* for messages */
    struct life life;
    struct dlc_list cooling;  /* in groups.cooling while COOL_DOWN */
    struct policy_item item;  /* stands for its first chunk to go, among groups */
    struct policy *policy;    /* ranks its chunks; NULL: group 0, or it never had any */
    struct chunk_list chunks; /* in order of use */
    uint32_t n;               /* chunks in the list */
    uint32_t run;             /* how often jobs came when there were none */
    uint32_t n_read;          /* chunks used in this run; counted while there are jobs */
    uint64_t bytes;           /* of them */
    double cost;              /* of what was fetched so far */
    uint64_t fetched;         /* bytes */
    double said;              /* when a line was last logged of it */
};

/* W with the groups, R any, relaxed: figures. By number. */
struct group_seen {
    _Atomic uint64_t chunks, bytes;
    _Atomic uint64_t read;      /* chunks ACTIVE, while there are jobs; the others are PENDING */
    _Atomic uint64_t preparing; /* W any: chunks being written */
    _Atomic uint32_t jobs;
    _Atomic uint8_t state; /* enum life_state */
};

struct groups {
    struct group_seen
        *seen; /* GROUPS_MAX + 1: it never moves, and what is not used takes no memory */
    struct group **v;
    size_t n, cap;
    struct map by_key;
    const struct policy_ops *ops;
    struct policy_options options;
    uint64_t turns;            /* of all its policies */
    struct rng rng;            /* of the policy `random` */
    struct chunk_rank **ranks; /* by slot, in blocks that do not move */
    size_t n_blocks, cap_blocks;
    struct policy *order[LIFE_DIRE + 1]; /* (EVICTION-GROUPS-1) */
    struct dlc_list cooling;             /* the next to become INACTIVE first */
    double cool_down;                    /* seconds */
};

/* ops NULL: worth. o may be NULL. */
void groups_init(struct groups *gs, double cool_down, const struct policy_ops *ops,
                 const struct policy_options *o);
void groups_release(struct groups *gs);

/* The number of the group of that key, made when there is none. GROUP_UNKNOWN: too many. */
uint32_t groups_find(struct groups *gs, uint64_t key, const char *name, double now);
struct group *groups_get(struct groups *gs, uint32_t number);

void groups_join(struct groups *gs, struct group *g, double now);
void groups_leave(struct groups *gs, struct group *g, double now);
void groups_expect(struct groups *gs, struct group *g, int32_t runs);
void groups_cost(struct groups *gs, struct group *g, double cost, uint64_t bytes);
void groups_tick(struct groups *gs, double now); /* cool-downs that are over */

/* Any thread: as of the last change. */
void groups_seen(const struct groups *gs, uint32_t number, struct disk_group_figures *out);

/* What it cost to bring a chunk, in a list or not; 0: not known. */
void groups_chunk_cost(struct groups *gs, struct chunks *t, uint32_t slot, double cost);
/* Put a chunk that is in no list into that of its group: it was just used; nobody knows when it
 * was; it could not be removed. */
void groups_link_newest(struct groups *gs, struct chunks *t, uint32_t slot, double now);
void groups_link_oldest(struct groups *gs, struct chunks *t, uint32_t slot);
void groups_link_stuck(struct groups *gs, struct chunks *t, uint32_t slot);
void groups_unlink(struct groups *gs, struct chunks *t, uint32_t slot);
void groups_forget(struct groups *gs,
                   uint32_t slot); /* the chunk is gone, its slot will be reused */
void groups_touch(struct groups *gs, struct chunks *t, uint32_t slot, double now); /* it is used */
enum life_state groups_chunk_state(struct groups *gs, struct chunks *t, uint32_t slot);
/* A chunk in a list is used by a group: (EVICTION-GROUPS-3). */
void groups_claim(struct groups *gs, struct chunks *t, uint32_t slot, uint32_t number);

/* The group of the chunk that is evicted next, and the pressure that this requires. NULL: none. */
struct group *groups_victim(struct groups *gs, double now, enum life_pressure *pressure);
uint32_t groups_victim_chunk(const struct group *victim); /* its slot */
/* May a chunk of g, which costs so much by byte (0: g's mean), replace one of the victim's? */
bool groups_admit(struct groups *gs, const struct group *g, double byte_cost,
                  const struct group *victim, enum life_pressure pressure, double now);

#endif
