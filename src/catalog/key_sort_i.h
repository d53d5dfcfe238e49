// SPDX-License-Identifier: Apache-2.0
/* Sorting the records of a catalog under construction. Private to src/catalog. */
#ifndef DLC_CATALOG_KEY_SORT_I_H
#define DLC_CATALOG_KEY_SORT_I_H

#include <stddef.h>
#include <stdint.h>

/* A record in the builder's arena is: u16 key length, u8 tail length, key, NUL, tail. */
#define RECORD_KEY_LEN(p)  ((size_t)((p)[0] | (p)[1] << 8))
#define RECORD_TAIL_LEN(p) ((size_t)(p)[2])
#define RECORD_HEAD        3
#define RECORD_KEY(p)      ((p) + RECORD_HEAD)
#define RECORD_TAIL(p)     ((p) + RECORD_HEAD + RECORD_KEY_LEN(p) + 1)

struct record_ref {
    uint64_t cache; /* while sorting: eight bytes of the key, the first most significant */
    uint64_t off;   /* of the record in the arena */
};

/* By bytes of the key. Records of equal keys become neighbours, in no particular order. */
void catalog_sort(const unsigned char *arena, struct record_ref *refs, size_t n);

#endif
