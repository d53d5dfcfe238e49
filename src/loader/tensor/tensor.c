// SPDX-License-Identifier: Apache-2.0
#include "loader/tensor/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "catalog/archives/npy_header.h"
#include "loader/tensor/convert_i.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are used as they lie");

#define BYTES_MAX  ((uint64_t)1 << 40) /* of a record: a slip of the pen beyond */
#define HEADER_MAX ((size_t)1 << 20)

static const struct {
    const char *name, *descr; /* as in an npy header, after '<' or '|' */
    size_t bytes;
} types[TENSOR_TYPES] = {
    [TENSOR_U8] = {"uint8", "u1", 1},    [TENSOR_I32] = {"int32", "i4", 4},
    [TENSOR_I64] = {"int64", "i8", 8},   [TENSOR_F16] = {"float16", "f2", 2},
    [TENSOR_F32] = {"float32", "f4", 4}, [TENSOR_BOOL] = {"bool", "b1", 1},
    [TENSOR_I8] = {"int8", "i1", 1},     [TENSOR_I16] = {"int16", "i2", 2},
    [TENSOR_U16] = {"uint16", "u2", 2},  [TENSOR_U32] = {"uint32", "u4", 4},
    [TENSOR_U64] = {"uint64", "u8", 8},  [TENSOR_F64] = {"float64", "f8", 8},
};

size_t tensor_type_bytes(enum tensor_type type)
{
    dlc_check((unsigned)type < TENSOR_TYPES);
    return types[type].bytes;
}

const char *tensor_type_name(enum tensor_type type)
{
    dlc_check((unsigned)type < TENSOR_TYPES);
    return types[type].name;
}

/* Numbers of a record. */
static uint64_t numbers(const struct tensor_spec *spec)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < spec->n_dims; i++)
        n *= spec->dims[i];
    return n;
}

int tensor_check_spec(const struct tensor_spec *spec, struct dlc_err *err)
{
    uint64_t bytes = sizeof(double);

    if ((unsigned)spec->type >= TENSOR_OUTPUTS)
        return dlc_err_set(err, DLC_EINVAL,
                           "a tensor becomes uint8, int32, int64, float16 or float32, not %s",
                           (unsigned)spec->type < TENSOR_TYPES ? types[spec->type].name : "that");
    if (spec->format != TENSOR_NPY && spec->format != TENSOR_RAW)
        return dlc_err_set(err, DLC_EINVAL, "tensors are npy or raw, not %u",
                           (unsigned)spec->format);
    if (spec->format == TENSOR_RAW && (unsigned)spec->stored >= TENSOR_TYPES)
        return dlc_err_set(err, DLC_EINVAL, "raw records need the type of their numbers");
    if (spec->n_dims > TENSOR_DIMS_MAX)
        return dlc_err_set(err, DLC_EINVAL, "a shape of %u dimensions; at most %u", spec->n_dims,
                           TENSOR_DIMS_MAX);
    for (uint32_t i = 0; i < spec->n_dims; i++)
        if (spec->dims[i] == 0 || __builtin_mul_overflow(bytes, spec->dims[i], &bytes) ||
            bytes > BYTES_MAX)
            return dlc_err_set(err, DLC_EINVAL,
                               "dimension %u of the shape is %" PRIu64
                               ": a record would be empty or larger than a terabyte",
                               i, spec->dims[i]);
    return 0;
}

size_t tensor_bytes(const struct tensor_spec *spec)
{
    return (size_t)numbers(spec) * tensor_type_bytes(spec->type);
}

static int damaged(const char *what, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECORRUPT, "%s in the npy header; it is damaged or no npy file",
                       what);
}

/* Where the header's text lies: *begin and *len of `size` bytes. */
static int find_header(const unsigned char *data, size_t size, size_t *begin, size_t *len,
                       struct dlc_err *err)
{
    if (size < 12 || memcmp(data, "\x93NUMPY", 6) != 0)
        return damaged("no magic number", err);
    if (data[6] < 1 || data[6] > 3)
        return damaged("an unknown version", err);
    *begin = data[6] == 1 ? 10 : 12;
    *len = data[8] | (size_t)data[9] << 8;
    if (data[6] > 1)
        *len |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (*len > HEADER_MAX)
        return damaged("a length of more than 1 MiB", err);
    if (*len > size - *begin)
        return damaged("a length of more than there is", err);
    return 0;
}

/* The dtype as text, quotes and all, into a type that is known here. */
static int find_type(const struct npy_head *h, enum tensor_type *type, struct dlc_err *err)
{
    const char *d = h->descr;

    for (unsigned i = 0; h->descr_len == 5 && i < TENSOR_TYPES; i++) {
        bool order = d[1] == '<' || (types[i].bytes == 1 && d[1] == '|');

        if (order && memcmp(d + 2, types[i].descr, 2) == 0) {
            *type = (enum tensor_type)i;
            return 0;
        }
    }
    return dlc_err_set(err, DLC_EINVAL,
                       "has the dtype %.*s; read are bool, integers of 8 to 64 and floats of 16 to "
                       "64 bits, little endian",
                       (int)DLC_MIN(h->descr_len, (size_t)60), d);
}

static const char *shape_text(const uint64_t *dims, uint32_t n, char out[static 200])
{
    size_t at = 1;

    out[0] = '(';
    out[1] = '\0';
    for (uint32_t i = 0; i < n && at < 170; i++)
        at += (size_t)snprintf(out + at, 200 - at, i == 0 ? "%" PRIu64 : ", %" PRIu64, dims[i]);
    snprintf(out + at, 200 - at, n == 1 ? ",)" : ")");
    return out;
}

/* Is it one record or a row of them? */
static int check_shape(const struct npy_head *h, const struct tensor_spec *spec, uint64_t *count,
                       struct dlc_err *err)
{
    unsigned more = h->n_dims == spec->n_dims + 1;
    char is[200], want[200];
    bool same = h->n_dims == spec->n_dims + more;

    for (uint32_t i = 0; same && i < spec->n_dims; i++)
        same = h->dims[i + more] == spec->dims[i];
    *count = more ? h->dims[0] : 1;
    if (!same)
        return dlc_err_set(err, DLC_EINVAL, "has the shape %s; expected is %s, or rows of it",
                           shape_text(h->dims, h->n_dims, is),
                           shape_text(spec->dims, spec->n_dims, want));
    return 0;
}

static int open_npy(const char *data, size_t len, const struct tensor_spec *spec,
                    struct tensor_rows *rows, struct dlc_err *err)
{
    struct npy_head head;
    size_t begin = 0, text = 0;
    const char *wrong;
    uint64_t bytes;
    int rc = find_header((const unsigned char *)data, len, &begin, &text, err);

    if (rc != 0)
        return rc;
    wrong = npy_head_parse(&head, data + begin, text);
    if (wrong != NULL)
        return damaged(wrong, err);
    rc = find_type(&head, &rows->stored, err);
    if (rc == 0 && head.fortran)
        rc = dlc_err_set(err, DLC_EINVAL,
                         "is in Fortran order; save it with numpy.ascontiguousarray");
    if (rc == 0)
        rc = check_shape(&head, spec, &rows->count, err);
    if (rc != 0)
        return rc;
    if (__builtin_mul_overflow(rows->count, numbers(spec) * head.item, &bytes) ||
        bytes != len - begin - text)
        return dlc_err_set(err, DLC_ECORRUPT,
                           "has %zu bytes of data, not what the shape in its header needs; it was "
                           "cut short or is damaged",
                           len - begin - text);
    rows->data = data + begin + text;
    return 0;
}

int tensor_open(const void *data, size_t len, const struct tensor_spec *spec,
                struct tensor_rows *rows, struct dlc_err *err)
{
    uint64_t record;

    *rows = (struct tensor_rows){0};
    if (spec->format == TENSOR_NPY)
        return open_npy(data, len, spec, rows, err);
    record = numbers(spec) * tensor_type_bytes(spec->stored);
    if (len == 0 || len % record != 0)
        return dlc_err_set(err, DLC_ECORRUPT,
                           "has %zu bytes, no multiple of a record of %" PRIu64
                           "; it was cut short, or shape or type are others",
                           len, record);
    *rows = (struct tensor_rows){data, spec->stored, len / record};
    return 0;
}

int tensor_make(const struct tensor_rows *rows, const struct tensor_spec *spec, uint64_t first,
                uint64_t count, void *out, struct dlc_err *err)
{
    uint64_t each = numbers(spec);
    size_t n = (size_t)(count * each), done, size = tensor_type_bytes(rows->stored);
    const char *from = rows->data;

    if (first > rows->count || count > rows->count - first)
        return dlc_err_set(err, DLC_EINVAL,
                           "rows %" PRIu64 " to %" PRIu64 " are asked for; there are %" PRIu64,
                           first, first + count, rows->count);
    from += first * each * size;
    if (rows->stored == spec->type) {
        memcpy(out, from, n * size);
        return 0;
    }
    done = convert_best(rows->stored, spec->type)(from, out, n);
    if (done < n)
        return dlc_err_set(err, DLC_EINVAL,
                           "number %" PRIu64 " of row %" PRIu64 " (%s) does not fit %s",
                           done % each, first + done / each, tensor_type_name(rows->stored),
                           tensor_type_name(spec->type));
    return 0;
}
