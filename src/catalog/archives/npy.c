// SPDX-License-Identifier: Apache-2.0
/*
 * npy: partitions of whole rows (steps of the first axis), each an npy file of its own: a new
 * header and a range of the data. Any dtype of fixed size, in C order; an array of one dimension
 * has no other. Pickled objects are refused: reading them runs code.
 *
 *     "\x93NUMPY" major minor | length, 2 or 4 bytes | header | data
 */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "catalog/archives/npy_header.h"
#include "catalog/archives/scan_i.h"

#define HEADER_MAX ((size_t)1 << 20)

struct npy {
    struct scan *scan;
    char *text;
    unsigned major;
    struct npy_head head;
    uint64_t data; /* where it begins */
    uint64_t row;  /* bytes of a row */
    uint64_t rows;
};

static int cut_short(const struct npy *n, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECORRUPT,
                       "%s: has %" PRIu64
                       " bytes, fewer than an npy file of its shape; it was cut short",
                       n->scan->source->name, n->scan->source->size);
}

static int damaged(const struct npy *n, const char *what, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECORRUPT, "%s: %s in the npy header; it is damaged or no npy file",
                       n->scan->source->name, what);
}

static int refuse(const struct npy *n, const char *why, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_EINVAL, "%s: %s", n->scan->source->name, why);
}

static int read_header(struct npy *n, struct dlc_err *err)
{
    struct source *s = n->scan->source;
    unsigned char start[12];
    const char *wrong;
    size_t before, len;
    int rc;

    if (s->size < sizeof(start))
        return cut_short(n, err);
    rc = source_read(s, 0, start, sizeof(start), err);
    if (rc != 0)
        return rc;
    n->major = start[6];
    if (memcmp(start, "\x93NUMPY", 6) != 0)
        return damaged(n, "no magic number", err);
    if (n->major < 1 || n->major > 3)
        return damaged(n, "an unknown version", err);
    before = n->major == 1 ? 10 : 12;
    len = start[8] | (size_t)start[9] << 8;
    if (n->major > 1)
        len |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    if (len > HEADER_MAX)
        return damaged(n, "a length of more than 1 MiB", err);
    if (len > s->size - before)
        return cut_short(n, err);
    n->text = mem_try_alloc(len);
    if (n->text == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "%s: no memory for its header", s->name);
    rc = source_read(s, before, n->text, len, err);
    if (rc != 0)
        return rc;
    n->data = before + len;
    wrong = npy_head_parse(&n->head, n->text, len);
    return wrong != NULL ? damaged(n, wrong, err) : 0;
}

/* Can it be cut, and is all of it there? */
static int measure(struct npy *n, struct dlc_err *err)
{
    const struct npy_head *h = &n->head;
    uint64_t total, there = n->scan->source->size - n->data;

    if (h->objects)
        return refuse(n,
                      "has Python objects in it (pickled data), which could run code when read; "
                      "save it with a fixed dtype",
                      err);
    if (h->fortran && h->n_dims > 1)
        return refuse(n,
                      "is in Fortran order, so rows do not lie together; save it with "
                      "numpy.ascontiguousarray",
                      err);
    n->rows = h->n_dims == 0 ? 1 : h->dims[0];
    n->row = h->item;
    for (unsigned i = 1; i < h->n_dims; i++)
        if (__builtin_mul_overflow(n->row, h->dims[i], &n->row))
            return damaged(n, "a shape that is too large", err);
    if (__builtin_mul_overflow(n->row, n->rows, &total) || total > there)
        return cut_short(n, err);
    if (total < there)
        return refuse(n, "has bytes after its array; one array to a file, please", err);
    return 0;
}

static uint64_t rows_per_partition(const struct npy *n)
{
    uint64_t limit = scan_partition_bytes(n->scan);
    struct buf header = BUF_INIT;
    size_t len;

    if (n->row == 0)
        return n->rows;
    npy_head_make(&header, &n->head, n->major, n->rows);
    len = header.len;
    buf_release(&header);
    return limit <= len ? 1 : DLC_MAX((limit - len) / n->row, 1u);
}

static int cut(struct npy *n, struct dlc_err *err)
{
    uint64_t step = rows_per_partition(n);
    struct buf header = BUF_INIT;
    int rc = 0;

    for (uint64_t at = 0, m; rc == 0 && at < n->rows; at += m) {
        struct piece pieces[2] = {{.kind = PIECE_INLINE}, {.kind = PIECE_OBJECT}};

        m = DLC_MIN(step, n->rows - at);
        buf_clear(&header);
        npy_head_make(&header, &n->head, n->major, m);
        pieces[0].bytes = header.data;
        pieces[0].length = header.len;
        pieces[1].offset = n->data + at * n->row;
        pieces[1].length = m * n->row;
        rc = scan_found_rows(n->scan, at, at + m - 1, pieces, n->row == 0 ? 1 : 2, err);
    }
    buf_release(&header);
    return rc;
}

/* An array without dimensions is one element: the file as it is. */
static int whole(struct npy *n, struct dlc_err *err)
{
    struct piece p = {.kind = PIECE_OBJECT, .length = n->scan->source->size};

    return scan_found_rows(n->scan, 0, 0, &p, 1, err);
}

static int run(struct scan *s, struct dlc_err *err)
{
    struct npy n = {.scan = s};
    int rc;

    rc = read_header(&n, err);
    if (rc == 0)
        rc = measure(&n, err);
    if (rc == 0)
        rc = n.head.n_dims == 0 ? whole(&n, err) : cut(&n, err);
    mem_free(&n.text);
    return rc;
}

static const char *const suffixes[] = {".npy", NULL};
const struct scanner scanner_npy = {"npy", suffixes, .tabular = true, .run = run};
