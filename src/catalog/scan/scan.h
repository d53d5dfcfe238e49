// SPDX-License-Identifier: Apache-2.0
/*
 * Scanners: find the samples inside one object. Pure code over a source that can be read at any
 * offset; everything read is hostile (P2 of docs/design/0003). They run on workers and may block in
 * reads.
 */
#ifndef DLC_CATALOG_SCAN_SCAN_H
#define DLC_CATALOG_SCAN_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "catalog/sample.h"

/* Something that can be read at an offset: an object of a bucket, a file, memory. */
struct source {
    const char *name; /* for messages: the key */
    uint64_t size;
    /* Exactly len bytes at off, both inside the size; 0 or DLC_E*. */
    int (*read)(struct source *s, uint64_t off, void *buf, size_t len, struct dlc_err *err);
};

int source_read(struct source *s, uint64_t off, void *buf, size_t len,
                struct dlc_err *err); /* bounded */
struct source source_of_memory(const void *data, size_t len, const char *name, const void **keep);

/* One sample found. Pieces' object numbers are 0: the caller knows which object was scanned.
 * Borrowed. */
struct scan_sample {
    const char *name; /* member path, group name, or "rows 0-4095" */
    size_t name_len;
    const struct piece *pieces;
    size_t n_pieces;
};

struct scan_limits {
    uint64_t
        partition_bytes; /* tabular: at most this much per partition (a single row may exceed it) */
    bool group;          /* archives: WebDataset grouping */
    uint64_t max_members; /* per archive; 0: 100 million */
    double max_ratio;     /* decompressed over compressed size; 0: 1000 */
    uint64_t max_derived; /* bytes of a derived form; 0: no limit but the ratio */
};

/* Where the decompressed form goes while it is scanned (the disk tier, a temporary file, memory).
 */
struct scan_sink {
    int (*write)(struct scan_sink *k, const void *data, size_t len, struct dlc_err *err);
};

struct scan {
    struct source *source;
    struct scan_limits limits;
    struct scan_sink *sink; /* needed for forms with a derived form; else NULL */
    /* Called for each sample in order. Non-zero ends the scan with that code. */
    int (*found)(struct scan *s, const struct scan_sample *sample, struct dlc_err *err);
    void *priv;
    /* out */
    uint64_t derived_size; /* bytes written to the sink */
};

struct scanner {
    const char *name;            /* "tar", "zip", "csv", ... */
    const char *const *suffixes; /* lower case, NULL-terminated: ".tar.gz", ".tgz" */
    bool derives;                /* writes to the sink */
    bool tabular;                /* cuts partitions */
    int (*run)(struct scan *s, struct dlc_err *err);
};

/* By the key's suffix; NULL: not a container format. */
const struct scanner *scanner_of(const char *key);
extern const struct scanner *const scanners[]; /* NULL-terminated */

#endif
