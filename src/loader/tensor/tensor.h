// SPDX-License-Identifier: Apache-2.0
/*
 * tensor: records of one shape that lie in bytes, as npy or raw, in the type that is asked for.
 *
 *     struct tensor_rows rows;
 *
 *     if (tensor_open(data, len, &spec, &rows, err) == 0)
 *         tensor_make(&rows, &spec, first, count, out, err);
 *
 * Pure: numbers in, numbers out. Nothing is allocated and nothing read twice: the bytes may be a
 * view of shared memory or a mapped file, at any alignment.
 *
 * (TENSOR-1) Rows are what the header says and what is there, both: a header that says more or less
 *            than there are bytes is refused.
 * (TENSOR-2) Conversion is NumPy's astype() where a number fits: integers keep their value, floats
 *            lose their fraction, float16 and float32 are the nearest, beyond their range infinite.
 *            A number that does not fit an integer (300 in uint8, NaN) is refused, where NumPy
 *            makes up another.
 */
#ifndef DLC_LOADER_TENSOR_TENSOR_H
#define DLC_LOADER_TENSOR_TENSOR_H

#include <stddef.h>
#include <stdint.h>

struct dlc_err;

#define TENSOR_DIMS_MAX 8

enum tensor_format { TENSOR_NPY, TENSOR_RAW };

/* Little endian. The first five are what a tensor can become. */
enum tensor_type {
    TENSOR_U8,
    TENSOR_I32,
    TENSOR_I64,
    TENSOR_F16,
    TENSOR_F32,
    TENSOR_BOOL,
    TENSOR_I8,
    TENSOR_I16,
    TENSOR_U16,
    TENSOR_U32,
    TENSOR_U64,
    TENSOR_F64,
};
#define TENSOR_OUTPUTS 5
#define TENSOR_TYPES   12

struct tensor_spec {
    enum tensor_format format;
    enum tensor_type stored; /* TENSOR_RAW: what the bytes are; npy says it itself */
    enum tensor_type type;   /* of the output */
    uint32_t n_dims;         /* of a record; 0: one number */
    uint64_t dims[TENSOR_DIMS_MAX];
};

/* Records one after the other; borrowed. */
struct tensor_rows {
    const void *data;
    enum tensor_type stored;
    uint64_t count;
};

size_t tensor_type_bytes(enum tensor_type type);
const char *tensor_type_name(enum tensor_type type); /* "float32" */

int tensor_check_spec(const struct tensor_spec *spec, struct dlc_err *err);

/* Of one record of the output; the spec was checked. */
size_t tensor_bytes(const struct tensor_spec *spec);

/*
 * Find the records. npy, versions 1 to 3 in C order: an array of the spec's shape is one, an array
 * with one dimension more before it has as many as that says. Raw: as many as fill the bytes.
 * Borrows: data, as long as *rows is used. Returns: 0 or DLC_E* with what is wrong and expected.
 */
int tensor_open(const void *data, size_t len, const struct tensor_spec *spec,
                struct tensor_rows *rows, struct dlc_err *err);

/* Records first..first + count - 1, converted, at `out`: count * tensor_bytes(spec) bytes. */
int tensor_make(const struct tensor_rows *rows, const struct tensor_spec *spec, uint64_t first,
                uint64_t count, void *out, struct dlc_err *err);

#endif
