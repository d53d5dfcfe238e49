// SPDX-License-Identifier: Apache-2.0
/*
 * A dataset's chunks in the disk tier: their names, the group that they are counted in, and how to
 * drop all of them. Uses the catalog and the disk tier, and calls nothing else of the daemon.
 * Without a disk tier, all functions but those for names do nothing.
 */
#ifndef DLC_DAEMON_DATASET_CHUNKS_H
#define DLC_DAEMON_DATASET_CHUNKS_H

#include <stdint.h>

#include "cache/disk/disk.h"

struct adoption;
struct catalog;
struct catalog_entry;
struct dataset;

struct dataset_disk {
    struct name_hash id;       /* names its chunks: independent of shape */
    uint32_t group;            /* that they are counted in */
    struct adoption *adoption; /* disk_hints.c; NULL: none is under way */
};

/* The chunk of an object, and of its unpacked copy. X */
struct chunk_id dataset_chunk(const struct dataset *ds, const char *key, const char *etag);
struct chunk_id dataset_derived_chunk(const struct dataset *ds, const struct catalog_entry *object);

void dataset_enter_group(struct dataset *ds);
void dataset_join(struct dataset *ds); /* a job starts to need it: a session or a warm-up */
void dataset_leave(struct dataset *ds);

/* X, blocks: drop its chunks (samples, unpacked copies) from the disk tier, but not those of samples
 * in one of the n catalogs `others`, whose chunks are named alike. Returns bytes freed. */
uint64_t dataset_drop_chunks(const struct dataset *ds, struct catalog *const *others, size_t n);
/* The same for a dataset that is not open: disk_id names its chunks. */
uint64_t catalog_drop_chunks(struct disk *d, const struct catalog *c, struct name_hash disk_id,
                             struct catalog *const *others, size_t n);

#endif
