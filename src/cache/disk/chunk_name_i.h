// SPDX-License-Identifier: Apache-2.0
/* Names of chunk files: docs/format/disk.md. Private to src/cache/disk. */
#ifndef DLC_CACHE_DISK_CHUNK_NAME_I_H
#define DLC_CACHE_DISK_CHUNK_NAME_I_H

#include <limits.h>
#include <stdbool.h>

#include "cache/disk/disk.h"

#define DISK_SHARDS  256
#define NAME_MAX_LEN 80 /* of a chunk's file, with its NUL */

struct chunk_name {
    struct chunk_id id;
    uint64_t size, checksum;
};

struct disk_path {
    char s[PATH_MAX];
};

static inline unsigned shard_of(struct chunk_id id)
{
    return (unsigned)(id.hi >> 56);
}

void chunk_name_format(const struct chunk_name *n, char out[static NAME_MAX_LEN]);

/* Only names that chunk_name_format makes. */
bool chunk_name_parse(const char *s, struct chunk_name *n);

/* root/chunks/ab, root/chunks/ab/NAME. The root is short enough: disk_open checks. */
void disk_path_of_shard(const char *root, unsigned shard, struct disk_path *out);
void disk_path_of_chunk(const char *root, const struct chunk_name *n, struct disk_path *out);

#endif
