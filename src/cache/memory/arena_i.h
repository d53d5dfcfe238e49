// SPDX-License-Identifier: Apache-2.0
/*
 * Allocator of contiguous, 64-byte grained blocks of a range of offsets. It knows offsets only and
 * never touches the memory, so descriptors are out of band and a wild write of a sample cannot
 * break it.
 *
 *     base            ceiling                       end
 *      | USED | FREE | USED | OUT | USED | OUT ...  |
 *
 * (ARENA-1) The blocks, in address order, cover [base, end) without gap or overlap.
 * (ARENA-2) Below the ceiling what is not USED is FREE and lies in one bin; above it is OUT and in
 *           none. A USED block may lie above or across the ceiling after it was lowered; it is cut
 *           there when it is freed.
 * (ARENA-3) No two FREE and no two OUT blocks are neighbours.
 * (ARENA-4) An OUT or FREE block that is not dirty holds no whole page of `page` bytes.
 * (ARENA-5) The dirty OUT blocks are in the list `gone`; in a bin of blocks that are worth giving
 *           back the dirty ones come first.
 *
 * Bins are two-level segregated lists: a power of two, cut in 32. Allocating and freeing is O(1).
 * The ceiling moves, and pages are given back, in steps of bounded work: the owner's event loop
 * serves others between them.
 */
#ifndef DLC_CACHE_MEMORY_ARENA_I_H
#define DLC_CACHE_MEMORY_ARENA_I_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

#define ARENA_GRAIN 64u
#define ARENA_BITS  38u                                   /* of an offset in a slot, in grains */
#define ARENA_MAX   ((uint64_t)ARENA_GRAIN << ARENA_BITS) /* 16 TiB */

#define ARENA_SL_BITS 5u
#define ARENA_SL      (1u << ARENA_SL_BITS)
#define ARENA_FL      (ARENA_BITS - ARENA_SL_BITS + 1u)

enum arena_kind { ARENA_FREE, ARENA_USED, ARENA_OUT };

struct arena_block {
    struct arena_block *prev, *next; /* in address order */
    struct dlc_list node;            /* FREE: the bin. OUT: `gone`. USED: the owner's */
    uint64_t off, size;              /* multiples of the grain */
    uint8_t kind;                    /* enum arena_kind */
    bool dirty;                      /* not USED: may hold pages */
};

/* Give pages of [off, off + len) back, from off on: how many bytes of it hold none any more. 0: it
 * cannot be done now. May do less than all, so that it does not take long. */
typedef uint64_t arena_punch_f(void *arg, uint64_t off, uint64_t len);
/* A USED block lies above the ceiling, or across it, now that it was lowered. */
typedef void arena_above_f(struct arena_block *b);

struct arena {
    struct arena_block *first, *last;
    struct arena_block *top; /* the highest that begins below the ceiling */
    uint64_t base, ceiling, end;
    uint64_t page;       /* what is given back at once: the steps of the ceiling */
    uint64_t used, free; /* bytes of USED and FREE blocks */
    size_t block_size;   /* of a descriptor: the owner's struct begins with arena_block */
    struct dlc_list gone;
    struct arena_block *drained; /* NULL, or the block whose first ... */
    uint64_t drained_to;         /* ... bytes up to this offset have been given back */
    uint64_t fl_map;             /* bit f: sl_map[f] is not 0 */
    uint32_t sl_map[ARENA_FL];
    struct dlc_list bins[ARENA_FL][ARENA_SL];
};

/* base, ceiling and end are multiples of the grain. Descriptors are block_size bytes;
 * what follows the arena_block is the owner's, and not cleared. */
void arena_init(struct arena *a, uint64_t base, uint64_t ceiling, uint64_t end, uint64_t page,
                size_t block_size);
void arena_release(struct arena *a); /* also what is still USED */

/* A block of at least len bytes, or NULL when no hole is large enough. node is an empty list. */
struct arena_block *arena_alloc(struct arena *a, uint64_t len);
/* The same, but from the upper end of one of the largest holes: such blocks stay away from the
 * others, and are the first that a lowered ceiling meets. */
struct arena_block *arena_alloc_high(struct arena *a, uint64_t len);
void arena_free(struct arena *a, struct arena_block **bp); /* takes; node is in no list */

/* The size that arena_alloc would use for len bytes. */
uint64_t arena_rounded(uint64_t len);

/* Move the ceiling towards `wanted`, past ARENA_STEP blocks or some more. `above` (may be NULL)
 * gets the USED blocks that it passes. True: it is there. */
#define ARENA_STEP 1024u
bool arena_move_ceiling(struct arena *a, uint64_t wanted, arena_above_f *above);

/* Call punch, at most `calls` times, for dirty OUT ranges, and with free_too for the dirty FREE
 * ranges that are worth it. True: there are more. */
bool arena_drain(struct arena *a, bool free_too, unsigned calls, arena_punch_f *punch, void *arg);

uint64_t arena_largest(const struct arena *a); /* size of the largest FREE block, 0: none */

/* Aborts when an invariant does not hold. Linear; for tests. */
void arena_check(const struct arena *a);

static inline uint64_t arena_block_end(const struct arena_block *b)
{
    return b->off + b->size;
}

#endif
