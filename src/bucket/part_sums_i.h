// SPDX-License-Identifier: Apache-2.0
/*
 * The checksum of an object that comes in parts, in any order. Each part is summed when it has come
 * and the kind of checksum is known, whichever is later; the sums are combined in the end, without
 * a look at the bytes.
 */
#ifndef DLC_BUCKET_PART_SUMS_I_H
#define DLC_BUCKET_PART_SUMS_I_H

#include <stdbool.h>
#include <stdint.h>

#include "bucket/checksum.h"

struct part_sums {
    const char *data; /* borrowed; NULL: nobody asked */
    uint64_t length, part;
    struct object_checksum want;
    struct part_sum *parts;
};

void part_sums_init(struct part_sums *s, const void *data, uint64_t length, uint64_t part);
void part_sums_release(struct part_sums *s);
/* The checksum that the bucket reports for the object. */
void part_sums_want(struct part_sums *s, const struct object_checksum *want);
/* The part at this offset is there; once more: it is there again. */
void part_sums_came(struct part_sums *s, uint64_t offset);
/* All parts have come. True, too, where nothing is known to compare with. */
bool part_sums_right(const struct part_sums *s);

#endif
