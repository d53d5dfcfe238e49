// SPDX-License-Identifier: Apache-2.0
/*
 * A catalog: the frozen list of a dataset's samples, sorted by key. One file, made once per
 * snapshot of the bucket, written under a temporary name and renamed, memory-mapped read-only by
 * every process. Its format is docs/format/catalog.md: a header with checksums, then blocks of
 * front-coded entries (key, size, ETag), then a table of block offsets. About 30 bytes per sample
 * for typical keys.
 *
 * A reader treats the file as hostile: every access is checked against the mapping.
 */
#ifndef DLC_CATALOG_CATALOG_H
#define DLC_CATALOG_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CATALOG_KEY_MAX  1024 /* S3's limit, without NUL */
#define CATALOG_ETAG_MAX 128

struct catalog_entry {
    char key[CATALOG_KEY_MAX + 1];
    char etag[CATALOG_ETAG_MAX]; /* "" when unknown */
    uint64_t size;
};

/* Building: one thread at a time; entries in any order. */
struct catalog_builder;
struct catalog_builder *catalog_builder_new(void);
/* DLC_EINVAL: key too long, empty or with a NUL inside, ETag too long; DLC_ENOMEM. */
int catalog_builder_add(struct catalog_builder *b, const char *key, size_t key_len, uint64_t size,
                        const char *etag, struct dlc_err *err);
uint64_t catalog_builder_count(const struct catalog_builder *b);
/* Sort, keep the last added of each key, write to path. `url` names the dataset and is stored. */
int catalog_builder_finish(struct catalog_builder *b, const char *path, const char *url,
                           struct dlc_err *err);
void catalog_builder_free(struct catalog_builder **bp);

/* Where the catalog of `url` (canonical, without shape) at `endpoint` ("" when it has none) is kept
 * below the daemon's directory. Gives. */
char *catalog_path(const char *dir, const char *endpoint, const char *url);

struct catalog;
/* Map the file. DLC_ECORRUPT when it is damaged or of another version, DLC_ENOTFOUND when absent.
 */
int catalog_open(const char *path, struct catalog **out, struct dlc_err *err);
/* The same from a descriptor (borrowed), as a client gets it. */
int catalog_open_fd(int fd, struct catalog **out, struct dlc_err *err);
void catalog_close(struct catalog **cp);

/* All X: a catalog never changes. */
uint64_t catalog_count(const struct catalog *c);
uint64_t catalog_bytes(const struct catalog *c); /* sum of sizes */
const char *catalog_url(const struct catalog *c);
int64_t catalog_created(const struct catalog *c); /* Unix time */
uint64_t
catalog_snapshot(const struct catalog *c); /* hash of keys, sizes, ETags: names the snapshot */
uint64_t catalog_file_size(const struct catalog *c);
int catalog_fd(const struct catalog *c); /* borrowed: for handing it to clients */
int catalog_get(const struct catalog *c, uint64_t i, struct catalog_entry *out,
                struct dlc_err *err);
/* 0, DLC_ENOTFOUND, or DLC_ECORRUPT when the search met a damaged block. */
int catalog_find(const struct catalog *c, const char *key, uint64_t *i);

#endif
