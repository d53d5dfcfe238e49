// SPDX-License-Identifier: Apache-2.0
/*
 * The disk tier: chunks as files below a root (local SSD or any mounted path).
 *
 * A chunk is named by 128 bits (dataset, object key, ETag) and holds an object's bytes and nothing
 * else, in one contiguous file whose name also carries size and checksum:
 *     root/chunks/ab/abcd...-<size hex>-<xxh3 hex>      root/tmp/...: being written
 * Written under tmp/, synced as configured, renamed. What is in chunks/ is complete.
 *
 * All functions are X and may block on the disk; call them on workers. Files are found again after
 * a restart without reading them: directories are scanned in the background and on first use.
 */
#ifndef DLC_STORAGE_DISK_DISK_H
#define DLC_STORAGE_DISK_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct disk;

struct chunk_id {
    uint64_t hi, lo;
};

struct chunk_id chunk_id_of(uint64_t dataset, const char *key, const char *etag);

struct disk_config {
    const char *root;
    uint64_t limit;     /* bytes of chunks at most; 0: no limit but keep_free */
    uint64_t keep_free; /* bytes of the file system that stay free */
    bool sync;          /* fsync before rename: survive a power cut, not only a crash */
};

/* DLC_EDENIED, DLC_ENOSPACE...: the caller may go on without a disk tier. DLC_EBUSY: another
 * process. */
int disk_open(const struct disk_config *c, struct disk **out, struct dlc_err *err);
void disk_close(struct disk **dp);

bool disk_has(struct disk *d, struct chunk_id id);

/* Read a chunk of exactly len bytes into dst and verify it. DLC_EMISS: not there. DLC_ECORRUPT: it
 * was damaged and has been dropped. */
int disk_read(struct disk *d, struct chunk_id id, void *dst, uint64_t len, struct dlc_err *err);

/* Store len bytes. Evicts the least recently used to make room; DLC_ENOSPACE when that cannot help.
 */
int disk_store(struct disk *d, struct chunk_id id, const void *data, uint64_t len,
               struct dlc_err *err);

/* A chunk that is filled in place, for objects too large for memory. */
struct disk_fill;
int disk_fill_begin(struct disk *d, struct chunk_id id, uint64_t len, struct disk_fill **out,
                    struct dlc_err *err);
void *disk_fill_data(struct disk_fill *f); /* len bytes, mapped writable, space reserved */
/* For a chunk whose length is not known ahead: begin it with length 0, append, commit. */
int disk_fill_append(struct disk *d, struct disk_fill *f, const void *data, size_t len,
                     struct dlc_err *err);
int disk_fill_commit(struct disk *d, struct disk_fill **fp, struct dlc_err *err); /* checksums it */
void disk_fill_abandon(struct disk *d, struct disk_fill **fp);

/* A read-only descriptor of a chunk, verified once per opening of the tier. Gives *fd. The chunk
 * may be evicted meanwhile: the descriptor stays good. */
int disk_map_fd(struct disk *d, struct chunk_id id, uint64_t len, int *fd, struct dlc_err *err);

void disk_drop(struct disk *d, struct chunk_id id); /* no-op when absent */
/* Drop everything; returns the bytes freed. */
uint64_t disk_drop_all(struct disk *d);

void disk_set_limit(struct disk *d, uint64_t limit);

struct disk_figures {
    uint64_t chunks, bytes, limit, keep_free, fs_free;
    bool scanning;  /* the background scan has not finished: chunks and bytes may still rise */
    bool read_only; /* writing failed for good; reading goes on */
};
void disk_figures(struct disk *d, struct disk_figures *out);

#endif
