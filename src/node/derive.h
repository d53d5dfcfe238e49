// SPDX-License-Identifier: Apache-2.0
/*
 * Objects of the bucket as sources for scanners, and the derived form of an archive: decompressed
 * once into one chunk of the disk tier. All of it blocks: on workers.
 */
#ifndef DLC_NODE_DERIVE_H
#define DLC_NODE_DERIVE_H

#include "catalog/scan/scan.h"
#include "node/node_i.h"

/* Reads are conditional on the object's ETag. Borrows: ds, object. */
struct object_source {
    struct source source;
    struct dataset *ds;
    const struct catalog_entry *object;
};

void object_source_init(struct object_source *o, struct dataset *ds,
                        const struct catalog_entry *object);

/* Names the chunk of an object's derived form. */
struct chunk_id derived_id(const struct dataset *ds, const struct catalog_entry *object);

/* Where a scanner writes the derived form. */
struct chunk_sink {
    struct scan_sink sink;
    struct disk *disk;
    struct disk_fill *fill;
};

int chunk_sink_open(struct chunk_sink *c, struct dataset *ds, const struct catalog_entry *object,
                    struct dlc_err *err);
/* keep: the scan went well. */
int chunk_sink_close(struct chunk_sink *c, bool keep, struct dlc_err *err);

/* Make a derived form that was evicted again. */
int derive_to_disk(struct dataset *ds, const struct catalog_entry *object, struct dlc_err *err);

#endif
