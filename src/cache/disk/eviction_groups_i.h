// SPDX-License-Identifier: Apache-2.0
/*
 * Eviction order: chunks in groups, one for each dataset.
 *
 * A group has a life (cache/policy/lifecycle.h) and a worth (the policy `worth`, cache/policy), and
 * its chunks are in order of use. The life says whether the group may be evicted from, the worth
 * which of several groups, the order which of its chunks: so a victim is found without looking at
 * all chunks.
 *
 * Group 0 holds chunks that a restart found and that were not used since. It is always INACTIVE,
 * has no worth, and is evicted first.
 *
 * (EVICTION-GROUPS-1) Groups are in three orders, one for each pressure at which they may be
 *                     evicted; a group is in that of its state if it has chunks in its list,
 *                     otherwise in none.
 * (EVICTION-GROUPS-2) A chunk is in its group's list unless it is BUSY.
 * (EVICTION-GROUPS-3) A chunk stays in a group that has jobs; otherwise it moves to the group that
 *                     uses it.
 *
 * No locks, no files, no clock.
 */
#ifndef DLC_CACHE_DISK_EVICTION_GROUPS_I_H
#define DLC_CACHE_DISK_EVICTION_GROUPS_I_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/u64map.h"
#include "cache/disk/chunk_table_i.h"
#include "cache/policy/lifecycle.h"
#include "cache/policy/policy.h"

#define GROUP_UNKNOWN 0u
#define GROUPS_MAX    UINT16_MAX

struct group {
    uint16_t number;
    char *name; /* for messages */
    struct life life;
    struct dlc_list cooling;  /* in groups.cooling while COOL_DOWN */
    struct policy_item item;  /* size: bytes of the chunks in the list */
    struct chunk_list chunks; /* in order of use */
    uint32_t n;               /* chunks in the list */
    double cost;              /* of what was fetched so far */
    uint64_t fetched;         /* bytes */
    double said;              /* when a line was last logged of it */
};

/* W with the groups, R any, relaxed: figures. By number. */
struct group_seen {
    _Atomic uint64_t chunks, bytes;
    _Atomic uint32_t jobs;
    _Atomic uint8_t state; /* enum life_state */
};

struct groups {
    struct group_seen
        *seen; /* GROUPS_MAX + 1: it never moves, and what is not used takes no memory */
    struct group **v;
    size_t n, cap;
    struct map by_key;
    struct policy *order[LIFE_DIRE + 1]; /* (EVICTION-GROUPS-1) */
    struct dlc_list cooling;             /* the next to become INACTIVE first */
    double cool_down;                    /* seconds */
};

void groups_init(struct groups *gs, double cool_down);
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

/* Put a chunk that is in no list into that of its group, take it out, or make it the newest. */
void groups_link_newest(struct groups *gs, struct chunks *t, uint32_t slot);
void groups_link_oldest(struct groups *gs, struct chunks *t, uint32_t slot);
void groups_unlink(struct groups *gs, struct chunks *t, uint32_t slot);
void groups_touch(struct groups *gs, struct chunks *t, uint32_t slot);
/* A chunk in a list is used by a group: (EVICTION-GROUPS-3). */
void groups_claim(struct groups *gs, struct chunks *t, uint32_t slot, uint32_t number);

/* The group whose oldest chunk is evicted next, and the pressure that this requires. NULL: none. */
struct group *groups_victim(struct groups *gs, double now, enum life_pressure *pressure);
/* May a chunk of g replace one of the victim's? */
bool groups_admit(struct groups *gs, const struct group *g, const struct group *victim,
                  enum life_pressure pressure, double now);

#endif
