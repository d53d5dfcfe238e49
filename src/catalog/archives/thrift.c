// SPDX-License-Identifier: Apache-2.0
#include "catalog/archives/thrift_i.h"

#include "base/check.h"

#define DEPTH_MAX 32

static void fail(struct thrift *t)
{
    t->bad = true;
    t->p = t->end;
}

static unsigned get_byte(struct thrift *t)
{
    if (t->p == t->end) {
        fail(t);
        return 0;
    }
    return *t->p++;
}

static uint64_t get_varint(struct thrift *t)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned b = get_byte(t);

        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            return v;
    }
    fail(t);
    return 0;
}

static void skip_bytes(struct thrift *t, uint64_t n)
{
    if (n > (uint64_t)(t->end - t->p))
        fail(t);
    else
        t->p += n;
}

/* Of I16, I32, I64. */
static int64_t thrift_int(struct thrift *t)
{
    uint64_t v = get_varint(t);

    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

bool thrift_field(struct thrift *t, struct thrift_field *f)
{
    unsigned b = get_byte(t), delta = b >> 4;
    int64_t id;

    f->type = (enum thrift_type)(b & 0xf);
    if (f->type == THRIFT_STOP) {
        if (delta != 0)
            fail(t);
        return false;
    }
    id = delta != 0 ? f->id + (int64_t)delta : thrift_int(t);
    if (id <= 0 || id > INT16_MAX || f->type > THRIFT_UUID)
        fail(t);
    f->id = (int)id;
    return !t->bad;
}

static size_t get_list(struct thrift *t, enum thrift_type *type)
{
    unsigned b = get_byte(t);
    uint64_t n = b >> 4;

    if (n == 15)
        n = get_varint(t);
    *type = (enum thrift_type)(b & 0xf);
    if (n > (uint64_t)(t->end - t->p))
        fail(t);
    return t->bad ? 0 : (size_t)n;
}

/* The count; each has at least a byte. */
static size_t thrift_list(struct thrift *t, enum thrift_type type)
{
    enum thrift_type found;
    size_t n = get_list(t, &found);

    if (n > 0 && found != type)
        fail(t);
    return t->bad ? 0 : n;
}

static void skip_value(struct thrift *t, enum thrift_type type, bool in_list, unsigned depth);

static void skip_map(struct thrift *t, unsigned depth)
{
    uint64_t n = get_varint(t);
    unsigned types = n == 0 ? 0 : get_byte(t);

    for (; n > 0 && !t->bad; n--) {
        skip_value(t, (enum thrift_type)(types >> 4), true, depth + 1);
        skip_value(t, (enum thrift_type)(types & 0xf), true, depth + 1);
    }
}

static void skip_list(struct thrift *t, unsigned depth)
{
    enum thrift_type type;

    for (size_t n = get_list(t, &type); n > 0 && !t->bad; n--)
        skip_value(t, type, true, depth + 1);
}

static void skip_value(struct thrift *t, enum thrift_type type, bool in_list, unsigned depth)
{
    struct thrift_field f = {0};

    if (depth == DEPTH_MAX) {
        fail(t);
        return;
    }
    switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE: skip_bytes(t, in_list); break; /* a field's is in its type */
    case THRIFT_BYTE: skip_bytes(t, 1); break;
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64: get_varint(t); break;
    case THRIFT_DOUBLE: skip_bytes(t, 8); break;
    case THRIFT_BINARY: skip_bytes(t, get_varint(t)); break;
    case THRIFT_LIST:
    case THRIFT_SET: skip_list(t, depth); break;
    case THRIFT_MAP: skip_map(t, depth); break;
    case THRIFT_STRUCT:
        while (thrift_field(t, &f))
            skip_value(t, f.type, false, depth + 1);
        break;
    case THRIFT_UUID: skip_bytes(t, 16); break;
    default: fail(t);
    }
}

void thrift_skip(struct thrift *t, enum thrift_type type)
{
    skip_value(t, type, false, 0);
}

int64_t thrift_int_of(struct thrift *t, const struct thrift_field *f)
{
    if (f->type != THRIFT_I16 && f->type != THRIFT_I32 && f->type != THRIFT_I64)
        fail(t);
    return thrift_int(t);
}

size_t thrift_list_of(struct thrift *t, const struct thrift_field *f, enum thrift_type element)
{
    if (f->type != THRIFT_LIST)
        fail(t);
    return thrift_list(t, element);
}

static void put_varint(struct buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        buf_addc(b, (char)(v | 0x80));
    buf_addc(b, (char)v);
}

static void put_zigzag(struct buf *b, int64_t v)
{
    put_varint(b, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

void thrift_put_field(struct buf *b, int *last, int id, enum thrift_type type)
{
    int delta = id - *last;

    *last = id;
    if (delta > 0 && delta <= 15) {
        buf_addc(b, (char)(delta << 4 | (int)type));
        return;
    }
    buf_addc(b, (char)type);
    put_zigzag(b, id);
}

void thrift_put_int(struct buf *b, int *last, int id, enum thrift_type type, int64_t v)
{
    thrift_put_field(b, last, id, type);
    put_zigzag(b, v);
}

void thrift_put_list(struct buf *b, size_t n, enum thrift_type type)
{
    buf_addc(b, (char)(DLC_MIN(n, 15u) << 4 | (unsigned)type));
    if (n >= 15)
        put_varint(b, n);
}

void thrift_put_stop(struct buf *b)
{
    buf_addc(b, THRIFT_STOP);
}

void thrift_copy(struct thrift *t, const struct thrift_field *f, struct buf *b, int *last)
{
    const unsigned char *begin = t->p;

    thrift_skip(t, f->type);
    if (t->bad)
        return;
    thrift_put_field(b, last, f->id, f->type);
    buf_add(b, begin, (size_t)(t->p - begin));
}
