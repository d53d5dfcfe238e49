// SPDX-License-Identifier: Apache-2.0
/*
 * Thrift's compact protocol, as much as a parquet footer needs: walk over structs and lists, copy
 * what is not understood, write fields. Reading never leaves the bytes it was given; a failure
 * sticks, and everything after it reads as the end.
 *
 *     struct = fields, 0            field = (id delta << 4 | type), [id], value
 *     list   = (count << 4 | type), [count], values
 *     numbers are variable-length and zigzag
 */
#ifndef DLC_CATALOG_ARCHIVES_THRIFT_I_H
#define DLC_CATALOG_ARCHIVES_THRIFT_I_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum thrift_type {
    THRIFT_STOP = 0,
    THRIFT_TRUE = 1,
    THRIFT_FALSE = 2,
    THRIFT_BYTE = 3,
    THRIFT_I16 = 4,
    THRIFT_I32 = 5,
    THRIFT_I64 = 6,
    THRIFT_DOUBLE = 7,
    THRIFT_BINARY = 8,
    THRIFT_LIST = 9,
    THRIFT_SET = 10,
    THRIFT_MAP = 11,
    THRIFT_STRUCT = 12,
    THRIFT_UUID = 13,
};

struct thrift {
    const unsigned char *p, *end;
    bool bad;
};

struct thrift_field {
    int id; /* set to 0 before the first */
    enum thrift_type type;
};

/* The next field of the struct that is read; false at its end. Its value must be taken next. */
bool thrift_field(struct thrift *t, struct thrift_field *f);
void thrift_skip(struct thrift *t, enum thrift_type type);

/* Take an integer, or a list's count, of a field that must have this type. */
int64_t thrift_int_of(struct thrift *t, const struct thrift_field *f);
size_t thrift_list_of(struct thrift *t, const struct thrift_field *f, enum thrift_type element);

/* Writing: `last` is the id of the field before in this struct, 0 at its begin. */
void thrift_put_field(struct buf *b, int *last, int id, enum thrift_type type);
void thrift_put_int(struct buf *b, int *last, int id, enum thrift_type type, int64_t v);
void thrift_put_list(struct buf *b, size_t n, enum thrift_type type);
void thrift_put_stop(struct buf *b);

/* Copy the field that was just read, value and all. */
void thrift_copy(struct thrift *t, const struct thrift_field *f, struct buf *b, int *last);

#endif
