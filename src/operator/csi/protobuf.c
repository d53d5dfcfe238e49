// SPDX-License-Identifier: Apache-2.0
#include "operator/csi/protobuf.h"

#include <string.h>

#include "base/mem.h"

#define FIELD_MAX 536870911u /* 2^29 - 1 */

enum wire_type { VARINT = 0, FIXED64 = 1, DATA = 2, FIXED32 = 5 };

struct pb_reader pb_read(const void *data, size_t len)
{
    const unsigned char *p = data;

    return (struct pb_reader){p, p != NULL ? p + len : p, false};
}

static bool read_varint(struct pb_reader *r, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        unsigned char c = *r->at++;

        if (shift == 63 && c > 1)
            return false;
        *value |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return true;
    }
    return false;
}

static bool read_fixed(struct pb_reader *r, unsigned bytes, uint64_t *value)
{
    *value = 0;
    if ((size_t)(r->end - r->at) < bytes)
        return false;
    for (unsigned i = 0; i < bytes; i++)
        *value |= (uint64_t)*r->at++ << (8 * i);
    return true;
}

static bool read_data(struct pb_reader *r, struct pb_field *f)
{
    uint64_t len;

    if (!read_varint(r, &len) || len > (uint64_t)(r->end - r->at))
        return false;
    f->data = (const char *)r->at;
    f->len = (size_t)len;
    r->at += len;
    return true;
}

static bool read_value(struct pb_reader *r, unsigned wire, struct pb_field *f)
{
    switch (wire) {
    case VARINT: return read_varint(r, &f->value);
    case FIXED64: return read_fixed(r, 8, &f->value);
    case FIXED32: return read_fixed(r, 4, &f->value);
    case DATA: return read_data(r, f);
    default: return false;
    }
}

bool pb_next(struct pb_reader *r, struct pb_field *f)
{
    uint64_t key = 0;

    *f = (struct pb_field){0};
    if (r->invalid || r->at == r->end)
        return false;
    r->invalid = !read_varint(r, &key) || key >> 3 == 0 || key >> 3 > FIELD_MAX;
    if (!r->invalid) {
        f->number = (unsigned)(key >> 3);
        f->is_number = (key & 7) != DATA;
        r->invalid = !read_value(r, key & 7, f);
    }
    return !r->invalid;
}

char *pb_text(const struct pb_field *f)
{
    if (f->is_number || memchr(f->len > 0 ? f->data : "", '\0', f->len) != NULL)
        return NULL;
    return mem_strn(f->len > 0 ? f->data : "", f->len);
}

/* ---- writing ---- */

static void add_varint(struct buf *b, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        buf_addc(b, (char)(value | 0x80));
    buf_addc(b, (char)value);
}

void pb_add_number(struct buf *b, unsigned field, uint64_t value)
{
    if (value == 0)
        return;
    add_varint(b, (uint64_t)field << 3 | VARINT);
    add_varint(b, value);
}

static void add_data(struct buf *b, unsigned field, const void *data, size_t len)
{
    add_varint(b, (uint64_t)field << 3 | DATA);
    add_varint(b, len);
    buf_add(b, data, len);
}

void pb_add_text(struct buf *b, unsigned field, const char *text)
{
    if (text[0] != '\0')
        add_data(b, field, text, strlen(text));
}

void pb_add_message(struct buf *b, unsigned field, const struct buf *message)
{
    add_data(b, field, buf_str(message), message->len);
}
