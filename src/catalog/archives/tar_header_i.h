// SPDX-License-Identifier: Apache-2.0
/*
 * The header block of a tar: reads those of any writer, and makes them for groups whose members are
 * not neighbours.
 */
#ifndef DLC_CATALOG_ARCHIVES_TAR_HEADER_I_H
#define DLC_CATALOG_ARCHIVES_TAR_HEADER_I_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define TAR_BLOCK    512u
#define TAR_SIZE_MAX ((uint64_t)1 << 62) /* so that sums of two never overflow */

#define TAR_PADDED(n) (((n) + TAR_BLOCK - 1) & ~(uint64_t)(TAR_BLOCK - 1))

struct tar_head {
    char type;
    uint64_t size;
    char name[257]; /* prefix, '/' and name */
};

/* False: the block is not a tar header (its checksum or its numbers are wrong). */
bool tar_head_parse(const unsigned char block[static TAR_BLOCK], struct tar_head *h);

bool tar_block_is_zero(const unsigned char block[static TAR_BLOCK]);

/*
 * The records of a pax header. *next walks from 0 to len; false at the end, with *bad set when a
 * record is malformed. Key and value are not NUL-terminated.
 */
struct pax_record {
    const char *key, *value;
    size_t key_len, value_len;
};
bool pax_next(const char *data, size_t len, size_t *next, struct pax_record *r, bool *bad);

/* Append the header of a regular file: ustar, with a pax header before it when the name or the
 * size does not fit. */
void tar_head_make(struct buf *b, const char *name, size_t name_len, uint64_t size);

#endif
