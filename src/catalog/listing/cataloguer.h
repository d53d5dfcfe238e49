// SPDX-License-Identifier: Apache-2.0
/*
 * Makes a catalog from a list of objects: applies the layout, reads manifests and archives from the
 * bucket, each read conditional on the listed ETag (P3 of docs/design/0003), and writes the
 * catalog. Blocks: for workers and programs.
 */
#ifndef DLC_CATALOG_LISTING_CATALOGUER_H
#define DLC_CATALOG_LISTING_CATALOGUER_H

#include <stdatomic.h>

#include "base/mutex.h"
#include "catalog/layout.h"
#include "bucket/bucket.h"
#include "cache/disk/disk.h"

/* How long it took to download an object and to make its unpacked copy. */
struct derived_time {
    uint64_t object;
    struct dlc_dur took;
};

struct cataloguer {
    /* of the caller; borrowed while it runs */
    const struct url *url;
    struct bucket_config config;
    struct catalog_builder *builder; /* cataloguer_run() only */
    struct disk *disk;               /* of unpacked copies; NULL: archives that need one fail */
    struct name_hash disk_id;        /* names its chunks */
    uint32_t group;                  /* of its chunks in the disk tier */

    /* W the running thread, R any, relaxed: for progress only */
    _Atomic(const char *) phase; /* NULL: not begun */
    _Atomic uint64_t done, total;

    /* inside */
    struct layout layout;
    struct dlc_mtx opening;  /* rank LCK_opening */
    struct bucket *bucket;   /* its own, so that nobody closes it under a read; G: opening */
    struct dlc_mtx mtx;      /* rank LCK_sync */
    struct dlc_cond ended;   /* a read */
    struct dlc_list reading; /* G: mtx: objects that are being read */
    bool stop;               /* G: mtx */

    /* of cataloguer_run(), for whoever ran it */
    struct derived_time *derived;
    size_t n_derived, cap_derived; /* G: mtx */
};

void cataloguer_init(struct cataloguer *c);
void cataloguer_release(struct cataloguer *c);
/* Write the catalog to path. */
int cataloguer_run(struct cataloguer *c, const char *path, struct dlc_err *err);
/* Make the unpacked copy of an archive again. */
int cataloguer_derive(struct cataloguer *c, const struct catalog_entry *object,
                      struct dlc_err *err);
/* X: end either soon, with DLC_ECANCELED. */
void cataloguer_stop(struct cataloguer *c);

/* The chunk of an object's unpacked copy. */
struct chunk_id derived_chunk_id(struct name_hash disk_id, const char *key, const char *etag);

/* The prefix to list for a URL; NULL: the URL's own prefix. Gives. */
char *list_prefix(const struct url *u);
/* The same where the URL selects parts: so many listings, one after the other, and of the keys that
 * they show those that are taken. */
size_t list_count(const struct url *u);
char *list_prefix_at(const struct url *u, size_t k);
bool list_takes(const struct url *u, const char *key);

#endif
