// SPDX-License-Identifier: Apache-2.0
/*
 * Parser and writer of the header:
 *
 *     {'descr': DTYPE, 'fortran_order': False, 'shape': (ROWS, ...), }
 *
 * DTYPE is a string such as '<f4', or a list of (name, DTYPE) or (name, DTYPE, shape). It is parsed
 * only as far as the size of an element requires; its text is passed on unchanged.
 */
#include "catalog/archives/npy_header.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"

#define ITEM_MAX  ((uint64_t)1 << 31)
#define DEPTH_MAX 16

struct text {
    const char *p, *end;
};

static void skip_space(struct text *t)
{
    while (t->p < t->end && (*t->p == ' ' || *t->p == '\n' || *t->p == '\t' || *t->p == '\r'))
        t->p++;
}

/* Is this character next? Then take it. */
static bool take(struct text *t, char c)
{
    skip_space(t);
    if (t->p == t->end || *t->p != c)
        return false;
    t->p++;
    return true;
}

/* What is between the quotes, escapes left as they are. */
static bool take_string(struct text *t, struct text *out)
{
    char quote;

    skip_space(t);
    if (t->p == t->end || (*t->p != '\'' && *t->p != '"'))
        return false;
    quote = *t->p++;
    out->p = t->p;
    while (t->p < t->end && *t->p != quote)
        t->p += *t->p == '\\' && t->p + 1 < t->end ? 2 : 1;
    out->end = t->p;
    return take(t, quote);
}

static bool take_number(struct text *t, uint64_t *v)
{
    const char *begin;

    skip_space(t);
    begin = t->p;
    for (*v = 0; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++)
        if (__builtin_mul_overflow(*v, 10u, v) ||
            __builtin_add_overflow(*v, (unsigned)(*t->p - '0'), v))
            return false;
    if (t->p == begin)
        return false;
    if (t->p < t->end && *t->p == 'L') /* as Python 2 wrote it */
        t->p++;
    return true;
}

/* (2, 3) or (2,) or () */
static bool take_shape(struct text *t, uint64_t *dims, unsigned *n)
{
    if (!take(t, '('))
        return false;
    for (*n = 0; !take(t, ')'); (*n)++) {
        if (*n == NPY_DIMS_MAX || !take_number(t, &dims[*n]))
            return false;
        if (!take(t, ',') && (t->p == t->end || *t->p != ')'))
            return false;
    }
    return true;
}

/* '<f4', '|S10', '<U3', '<M8[ns]', '|O' */
static bool size_of_type(struct text type, struct npy_head *h, uint64_t *size)
{
    char kind;

    if (type.p < type.end && strchr("<>|=", *type.p) != NULL)
        type.p++;
    if (type.p == type.end)
        return false;
    kind = *type.p++;
    if (kind == 'O') {
        h->objects = true;
        *size = sizeof(void *);
        return true;
    }
    if (kind == '\0' || strchr("biufcmMSUVa", kind) == NULL || !take_number(&type, size))
        return false;
    if (kind == 'U' && __builtin_mul_overflow(*size, 4u, size))
        return false;
    if ((kind == 'm' || kind == 'M') && type.p < type.end && *type.p == '[')
        type.p = type.end;
    return type.p == type.end && *size <= ITEM_MAX;
}

static bool take_name(struct text *t)
{
    struct text s;

    if (!take(t, '('))
        return take_string(t, &s);
    return take_string(t, &s) && take(t, ',') && take_string(t, &s) && take(t, ')');
}

static bool take_descr(struct text *t, struct npy_head *h, unsigned depth, uint64_t *size);

/* (name, DTYPE) or (name, DTYPE, shape) */
static bool take_field(struct text *t, struct npy_head *h, unsigned depth, uint64_t *size)
{
    uint64_t dims[NPY_DIMS_MAX];
    unsigned n = 0;

    if (!take(t, '(') || !take_name(t) || !take(t, ',') || !take_descr(t, h, depth + 1, size))
        return false;
    if (take(t, ',')) {
        skip_space(t);
        if (t->p < t->end && *t->p == '(' && !take_shape(t, dims, &n))
            return false;
    }
    for (unsigned i = 0; i < n; i++)
        if (__builtin_mul_overflow(*size, dims[i], size) || *size > ITEM_MAX)
            return false;
    return take(t, ')');
}

static bool take_descr(struct text *t, struct npy_head *h, unsigned depth, uint64_t *size)
{
    struct text type;
    uint64_t one;

    *size = 0;
    if (!take(t, '['))
        return take_string(t, &type) && size_of_type(type, h, size);
    if (depth == DEPTH_MAX)
        return false;
    while (!take(t, ']')) {
        if (!take_field(t, h, depth, &one))
            return false;
        *size += one;
        if (*size > ITEM_MAX || (!take(t, ',') && (t->p == t->end || *t->p != ']')))
            return false;
    }
    return true;
}

static bool take_bool(struct text *t, bool *v)
{
    size_t n;

    skip_space(t);
    n = (size_t)(t->end - t->p);
    *v = n >= 4 && memcmp(t->p, "True", 4) == 0;
    if (!*v && (n < 5 || memcmp(t->p, "False", 5) != 0))
        return false;
    t->p += *v ? 4 : 5;
    return true;
}

static bool is_text(struct text s, const char *what)
{
    return (size_t)(s.end - s.p) == strlen(what) && memcmp(s.p, what, strlen(what)) == 0;
}

const char *npy_head_parse(struct npy_head *h, const char *text, size_t len)
{
    struct text t = {text, text + len}, key;
    bool descr = false, order = false, shape = false;

    *h = (struct npy_head){0};
    if (!take(&t, '{'))
        return "no dictionary";
    while (!take(&t, '}')) {
        if (!take_string(&t, &key) || !take(&t, ':'))
            return "a bad dictionary";
        if (is_text(key, "descr") && !descr) {
            skip_space(&t);
            h->descr = t.p;
            descr = take_descr(&t, h, 0, &h->item);
            h->descr_len = (size_t)(t.p - h->descr);
            if (!descr)
                return "a bad dtype";
        } else if (is_text(key, "fortran_order") && !order) {
            order = take_bool(&t, &h->fortran);
            if (!order)
                return "a bad fortran_order";
        } else if (is_text(key, "shape") && !shape) {
            shape = take_shape(&t, h->dims, &h->n_dims);
            if (!shape)
                return "a bad shape";
        } else {
            return "a key that does not belong there";
        }
        if (!take(&t, ',') && (t.p == t.end || *t.p != '}'))
            return "a bad dictionary";
    }
    skip_space(&t);
    if (t.p != t.end)
        return "something after the dictionary";
    return descr && order && shape ? NULL : "no dtype, order or shape";
}

void npy_head_make(struct buf *b, const struct npy_head *h, unsigned major, uint64_t rows)
{
    struct buf text = BUF_INIT;
    size_t before = 10, n;

    buf_adds(&text, "{'descr': ");
    buf_add(&text, h->descr, h->descr_len);
    buf_addf(&text, ", 'fortran_order': False, 'shape': (%" PRIu64 ",", rows);
    for (unsigned i = 1; i < h->n_dims; i++)
        buf_addf(&text, "%s%" PRIu64, i == 1 ? " " : ", ", h->dims[i]);
    buf_adds(&text, "), }");
    if (major < 3)
        major = text.len + 1 + 64 + before > UINT16_MAX ? 2 : 1;
    before = major == 1 ? 10 : 12;
    n = DLC_ALIGN_UP(before + text.len + 1, (size_t)64) - before;
    while (text.len < n - 1)
        buf_addc(&text, ' ');
    buf_addc(&text, '\n');
    buf_add(b, "\x93NUMPY", 6);
    buf_addc(b, (char)major);
    buf_addc(b, 0);
    for (size_t i = 0; i < before - 8; i++)
        buf_addc(b, (char)(n >> 8 * i));
    buf_add(b, text.data, text.len);
    buf_release(&text);
}
