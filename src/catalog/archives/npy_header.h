// SPDX-License-Identifier: Apache-2.0
/* The header of an npy file: a dictionary written as Python would show it. */
#ifndef DLC_CATALOG_ARCHIVES_NPY_HEADER_H
#define DLC_CATALOG_ARCHIVES_NPY_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define NPY_DIMS_MAX 64

struct npy_head {
    const char *descr; /* the dtype as text, in the parsed text */
    size_t descr_len;
    uint64_t item; /* bytes of one element */
    bool objects;  /* the dtype has Python objects in it: the data is pickled */
    bool fortran;
    unsigned n_dims;
    uint64_t dims[NPY_DIMS_MAX];
};

/* NULL, or what is wrong with it. */
const char *npy_head_parse(struct npy_head *h, const char *text, size_t len);

/* Append magic, length and a header for this many rows, aligned to 64 bytes. `major` is the version
 * of the source file. */
void npy_head_make(struct buf *b, const struct npy_head *h, unsigned major, uint64_t rows);

#endif
