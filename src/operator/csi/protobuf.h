// SPDX-License-Identifier: Apache-2.0
/*
 * Protocol Buffers on the wire: as much as CSI needs, without generated code. A reader goes over the
 * fields of one message; unknown ones are skipped by whoever does not ask for their number. Data
 * points into the message. A writer adds to a buffer; zero and empty values are left out, as
 * proto3 does.
 */
#ifndef DLC_OPERATOR_CSI_PROTOBUF_H
#define DLC_OPERATOR_CSI_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct pb_reader {
    const unsigned char *at, *end;
    bool invalid; /* the message is cut off, or not one */
};

struct pb_field {
    unsigned number;
    bool is_number;   /* a value; else data */
    uint64_t value;   /* of varint, fixed32 and fixed64 */
    const char *data; /* of strings, bytes and messages */
    size_t len;
};

struct pb_reader pb_read(const void *data, size_t len);
bool pb_next(struct pb_reader *r, struct pb_field *f); /* false: no more, or invalid */
/* Gives the text of a field; NULL when it is a number or has a NUL in it. */
char *pb_text(const struct pb_field *f);

void pb_add_number(struct buf *b, unsigned field, uint64_t value);
void pb_add_text(struct buf *b, unsigned field, const char *text);
void pb_add_message(struct buf *b, unsigned field,
                    const struct buf *message); /* also an empty one */

#endif
