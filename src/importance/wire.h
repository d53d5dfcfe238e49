// SPDX-License-Identifier: Apache-2.0
/*
 * Weights of samples as they travel between nodes: pairs (sample, weight), samples ascending, as
 * few bytes as that takes.
 *
 *     pair: varint (the sample less the one before it less 1; the first: as it is) | float, 4 bytes
 *
 * All little-endian; a varint has 7 bits a byte, lowest first, and no more bytes than it needs. So
 * there is one way to write each list, samples cannot come twice, and about 6 bytes are a pair.
 * A weight is a positive finite number: others are not written, and refused when they come.
 */
#ifndef DLC_IMPORTANCE_WIRE_H
#define DLC_IMPORTANCE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define PAIRS_MAX       65536             /* of one list */
#define PAIRS_BYTES_MAX ((size_t)1 << 19) /* as many take less, unless samples lie far apart */
#define PAIRS_SAMPLES   ((uint64_t)1 << 48)

/* ---- to write: zero-initialise, release `bytes` ---- */

struct pairs {
    struct buf bytes;
    size_t n;
    uint64_t next; /* the least sample that may follow */
};

/* False: the list is full. A weight that is none is left out. Samples ascend. */
bool pairs_add(struct pairs *p, uint64_t sample, float weight);

/* ---- to read ---- */

struct pairs_reader {
    const unsigned char *at, *end;
    uint64_t next;
    bool bad; /* the rest makes no sense */
};

void pairs_read(struct pairs_reader *r, const void *data, size_t len); /* borrows data */
/* False: that was all, or r->bad. */
bool pairs_next(struct pairs_reader *r, uint64_t *sample, float *weight);
/* How many there are; 0: none, too many, or they make no sense. */
size_t pairs_count(const void *data, size_t len);

#endif
