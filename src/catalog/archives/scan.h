// SPDX-License-Identifier: Apache-2.0
/*
 * Scanners: find the samples inside one object. Pure code over a source that can be read at any
 * offset; everything read is hostile (P2 of docs/design/0003). They run on workers and may block in
 * reads.
 *
 * A scan fails with DLC_ECORRUPT when the object is damaged or cut short, with DLC_EINVAL when it
 * is refused (a hostile name, encryption, a limit, a variant that cannot be cut), or with what the
 * source, the sink or found() returned. Every message begins with the source's name. Samples found
 * before a failure must be thrown away.
 *
 * Not here: which layout uses a scanner, where unpacked copies are kept.
 */
#ifndef DLC_CATALOG_ARCHIVES_SCAN_H
#define DLC_CATALOG_ARCHIVES_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "catalog/sample.h"

#define SCAN_NAME_MAX 1024 /* of a member or group: it becomes a key */

/* Something that can be read at an offset: an object of a bucket, a file, memory. */
struct source {
    const char *name; /* for messages: the key */
    uint64_t size;
    /* Exactly len bytes at off, both inside the size; 0 or DLC_E*. */
    int (*read)(struct source *s, uint64_t off, void *buf, size_t len, struct dlc_err *err);
    void *priv; /* of whoever made it */
};

int source_read(struct source *s, uint64_t off, void *buf, size_t len,
                struct dlc_err *err);                                           /* bounded */
struct source source_of_memory(const void *data, size_t len, const char *name); /* borrows both */

/* One sample found. Pieces' object numbers are 0: the caller knows which object was scanned.
 * Borrowed. */
struct scan_sample {
    const char *name; /* member path, group name, or "rows 0-4095"; no NUL byte in it */
    size_t name_len;
    const struct piece *pieces; /* at least one, at most SAMPLE_PIECES_MAX */
    size_t n_pieces;
};

enum scan_header {
    SCAN_HEADER_AUTO = 0, /* csv: the first row is a header unless one of its fields is a number */
    SCAN_HEADER_YES,
    SCAN_HEADER_NO,
};

struct scan_limits {
    uint64_t partition_bytes; /* tabular: at most this much per partition (a single row may exceed
                                 it); 0: 64 MiB */
    enum scan_header header;  /* csv: does the file begin with a header row? */
    bool group;               /* archives: WebDataset grouping */
    uint64_t max_members;     /* per archive; 0: 100 million */
    double max_ratio;         /* decompressed over compressed size; 0: 1000 */
    uint64_t max_derived;     /* bytes of an unpacked copy; 0: no limit but the ratio */
};

/* Where the decompressed form goes while it is scanned (the disk tier, a temporary file, memory).
 */
struct scan_sink {
    int (*write)(struct scan_sink *k, const void *data, size_t len, struct dlc_err *err);
};

struct scan {
    struct source *source;
    struct scan_limits limits;
    struct scan_sink *sink; /* needed for archives that need an unpacked copy; else NULL */
    /* Called for each sample in order. Non-zero ends the scan with that code. */
    int (*found)(struct scan *s, const struct scan_sample *sample, struct dlc_err *err);
    void *priv;
    /* out */
    uint64_t derived_size; /* bytes written to the sink */
    uint64_t skipped;      /* members that are not samples: directories, links, devices */
};

struct scanner {
    const char *name;            /* "tar", "zip", "csv", ... */
    const char *const *suffixes; /* lower case, NULL-terminated: ".tar.gz", ".tgz" */
    bool derives;                /* writes to the sink */
    bool tabular;                /* cuts partitions */
    int (*run)(struct scan *s, struct dlc_err *err);
};

/* scanners.c: by the key's suffix, in any case; NULL: not a container format. */
const struct scanner *scanner_of(const char *key);
extern const struct scanner *const scanners[]; /* NULL-terminated */

#endif
