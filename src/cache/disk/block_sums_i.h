// SPDX-License-Identifier: Apache-2.0
/*
 * Checksums of a chunk's blocks, so that a range of it can be verified without reading the rest.
 * They are made when the whole chunk is verified and are kept in memory: 8 bytes per 64 KiB.
 *
 * The map is the disk tier's and under its lock; a reader holds a reference and needs no lock.
 */
#ifndef DLC_CACHE_DISK_BLOCK_SUMS_I_H
#define DLC_CACHE_DISK_BLOCK_SUMS_I_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/u64map.h"
#include "cache/disk/chunk_name_i.h"

#define DISK_BLOCK ((uint64_t)64 << 10)

struct block_sums;

/* Of that chunk, not set yet. NULL: no memory. */
struct block_sums *block_sums_new(const struct chunk_name *n);
void block_sums_put(struct block_sums **sp); /* X; NULL is allowed */

/* Set those of n bytes at off, which begins a block; the last block may be short. */
void block_sums_set(struct block_sums *s, uint64_t off, const char *data, size_t n);
/* Is this block, which begins at off and has n bytes, the one that was set? */
bool block_sums_match(const struct block_sums *s, uint64_t off, const void *block, size_t n);

/* A reference to those of this chunk, or NULL. */
struct block_sums *block_sums_get(const struct map *m, const struct chunk_name *n);
void block_sums_keep(struct map *m, struct block_sums *s); /* takes a reference of its own */
void block_sums_forget(struct map *m, struct chunk_id id);
void block_sums_release(struct map *m);

#endif
