// SPDX-License-Identifier: Apache-2.0
/*
 * The chunks that the disk tier knows, in memory: a hash table by id and lists by recency, all of
 * 32-bit numbers into one array. 56 bytes per chunk and 4 to 8 of hash table. No locks, no files.
 *
 * A chunk is known by its slot's number; slots of removed chunks are used again.
 */
#ifndef DLC_CACHE_DISK_CHUNK_TABLE_I_H
#define DLC_CACHE_DISK_CHUNK_TABLE_I_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/disk/disk.h"

#define CHUNK_NONE UINT32_MAX

enum chunk_flags {
    CHUNK_USED = 1 << 0,    /* the slot holds a chunk */
    CHUNK_BUSY = 1 << 1,    /* its file is being renamed or unlinked; in no recency list */
    CHUNK_LEAVING = 1 << 2, /* BUSY because it is being removed */
    CHUNK_RESTORED =
        1 << 3, /* found by a scan and not used since: its place in the list is a guess */
    CHUNK_VERIFYING = 1 << 4, /* by some thread */
};

struct chunk {
    uint64_t hi, lo; /* its id */
    uint64_t size, checksum;
    uint32_t older, newer; /* recency list of its group */
    uint32_t chain;        /* next in the hash bucket, or in the list of free slots */
    uint32_t stamped;      /* the file's modification time, Unix; 0: not known */
    uint16_t group;        /* eviction_groups_i.h */
    uint16_t flags;
};
static_assert(sizeof(struct chunk) <= 56, "a million chunks in 64 MB");

struct chunks {
    struct chunk *chunks;
    uint32_t *buckets;
    uint32_t n, n_slots, cap; /* chunks, slots ever used, slots allocated */
    uint32_t n_buckets;       /* 0 or a power of two */
    uint32_t free;            /* first free slot */
};

struct chunk_list {
    uint32_t oldest, newest;
};

#define CHUNK_LIST_INIT                                                                            \
    {                                                                                              \
        CHUNK_NONE, CHUNK_NONE                                                                     \
    }

#define CHUNKS_INIT                                                                                \
    {                                                                                              \
        .free = CHUNK_NONE                                                                         \
    }

void chunks_release(struct chunks *t);
uint32_t chunks_find(const struct chunks *t, struct chunk_id id);      /* CHUNK_NONE when absent */
uint32_t chunks_find_idle(const struct chunks *t, struct chunk_id id); /* nor when it is BUSY */

/* Add a chunk that is not there, outside the recency lists. CHUNK_NONE: no memory. */
uint32_t chunks_add(struct chunks *t, struct chunk_id id, uint64_t size, uint64_t checksum);
void chunks_remove(struct chunks *t, uint32_t slot); /* it is in no recency list */

void chunks_link_newest(struct chunks *t, struct chunk_list *l, uint32_t slot);
void chunks_link_oldest(struct chunks *t, struct chunk_list *l, uint32_t slot);
void chunks_unlink(struct chunks *t, struct chunk_list *l, uint32_t slot);

#endif
