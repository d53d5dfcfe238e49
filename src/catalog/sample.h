// SPDX-License-Identifier: Apache-2.0
/* Pieces of which a sample is made: docs/design/0003-samples.md. */
#ifndef DLC_CATALOG_SAMPLE_H
#define DLC_CATALOG_SAMPLE_H

#include <stdint.h>

enum piece_kind {
    PIECE_OBJECT = 0,  /* range of an object */
    PIECE_DERIVED = 1, /* range of the object's unpacked copy */
    PIECE_INLINE = 2,  /* bytes in the catalog */
};

struct piece {
    enum piece_kind kind;
    uint64_t object; /* OBJECT, DERIVED: number of the object in the catalog */
    uint64_t offset; /* OBJECT, DERIVED: where the range begins */
    uint64_t length;
    const void *bytes; /* INLINE: length bytes */
};

#define SAMPLE_NO_LABEL   UINT32_MAX
#define SAMPLE_PIECES_MAX 4096 /* in one sample */

#endif
