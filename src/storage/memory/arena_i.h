// SPDX-License-Identifier: Apache-2.0
/*
 * Allocator of contiguous, 64-byte grained blocks of a range of offsets. It knows offsets only and
 * never touches the memory, so descriptors are out of band and a wild write of a sample cannot
 * break it.
 *
 *     base            ceiling                       end
 *      | USED | FREE | USED | OUT | USED | OUT ...  |
 *
 * (A1) The blocks, in address order, cover [base, end) without gap or overlap.
 * (A2) Below the ceiling what is not USED is FREE and lies in one bin; above it is OUT and in none.
 *      A USED block may lie above or across the ceiling after it was lowered; it is cut there when
 *      it is freed.
 * (A3) No two FREE and no two OUT blocks are neighbours.
 * (A4) An OUT block that is not dirty holds no pages.
 *
 * Bins are two-level segregated lists: a power of two, cut in 32. Allocating and freeing is O(1),
 * moving the ceiling is linear in the blocks above the lower of the two ceilings.
 */
#ifndef DLC_STORAGE_MEMORY_ARENA_I_H
#define DLC_STORAGE_MEMORY_ARENA_I_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

#define ARENA_GRAIN 64u
#define ARENA_PAGE  4096u
#define ARENA_MAX   ((uint64_t)ARENA_GRAIN << 34) /* offsets have 34 bits in a slot: 1 TiB */

#define ARENA_SL_BITS 5u
#define ARENA_SL      (1u << ARENA_SL_BITS)
#define ARENA_FL      (34u - ARENA_SL_BITS + 1u)

enum arena_kind { ARENA_FREE, ARENA_USED, ARENA_OUT };

struct arena_block {
    struct arena_block *prev, *next; /* in address order */
    struct dlc_list node;            /* FREE: the bin. USED: the owner's */
    uint64_t off, size;              /* multiples of the grain */
    uint8_t kind;                    /* enum arena_kind */
    bool dirty;                      /* OUT: may hold pages */
};

struct arena {
    struct arena_block *first, *last;
    uint64_t base, ceiling, end;
    uint64_t used, free; /* bytes of USED and FREE blocks */
    size_t block_size;   /* of a descriptor: the owner's struct begins with arena_block */
    bool dirty;          /* some OUT block is */
    uint32_t fl_map;     /* bit f: sl_map[f] is not 0 */
    uint32_t sl_map[ARENA_FL];
    struct dlc_list bins[ARENA_FL][ARENA_SL];
};

/* base is a multiple of the grain, ceiling and end of the page. Descriptors are block_size bytes;
 * what follows the arena_block is the owner's, and not cleared. */
void arena_init(struct arena *a, uint64_t base, uint64_t ceiling, uint64_t end, size_t block_size);
void arena_release(struct arena *a); /* also what is still USED */

/* A block of at least len bytes, or NULL when no hole is large enough. node is an empty list. */
struct arena_block *arena_alloc(struct arena *a, uint64_t len);
/* The same, but from the upper end of one of the largest holes: who allocates so stays away from
 * the others, and is the first that a lowered ceiling meets. */
struct arena_block *arena_alloc_high(struct arena *a, uint64_t len);
void arena_free(struct arena *a, struct arena_block **bp); /* takes; node is in no list */

/* What arena_alloc would take for len bytes. */
uint64_t arena_rounded(uint64_t len);

void arena_set_ceiling(struct arena *a, uint64_t ceiling);

/* Call punch for each dirty OUT range; it returns false to be asked again another time. */
void arena_drain(struct arena *a, bool (*punch)(void *arg, uint64_t off, uint64_t len), void *arg);

/* Call punch for the FREE ranges that are worth it. */
void arena_drain_free(struct arena *a, bool (*punch)(void *arg, uint64_t off, uint64_t len),
                      void *arg);

uint64_t arena_largest(const struct arena *a); /* size of the largest FREE block, 0: none */

/* Aborts when an invariant does not hold. Linear; for tests. */
void arena_check(const struct arena *a);

static inline uint64_t arena_block_end(const struct arena_block *b)
{
    return b->off + b->size;
}

#endif
