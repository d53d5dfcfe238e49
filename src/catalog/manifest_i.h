// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of a manifest, read as a stream: CSV (RFC 4180, also with LF, CRLF, a BOM, tabs for .tsv) or
 * JSON lines. Every byte is hostile.
 *
 * A fault of a single row (too few fields, not JSON) is reported in `fault`, and reading continues;
 * a fault that makes the rest unreadable ends it with DLC_EINVAL.
 */
#ifndef DLC_CATALOG_MANIFEST_I_H
#define DLC_CATALOG_MANIFEST_I_H

#include "base/buf.h"
#include "catalog/catalog.h"
#include "catalog/archives/scan.h"

#define MANIFEST_ROW_MAX    ((size_t)16 << 20)
#define MANIFEST_FIELDS_MAX (CATALOG_COLUMNS_MAX + 4) /* key, label, split and target are not */
#define MANIFEST_VALUES_MAX 65536 /* in a line of JSON: each takes up to 60 bytes */

struct rows {
    struct source *source;
    uint64_t at; /* of the source: where the next chunk begins */
    char *chunk;
    size_t pos, len;
    uint64_t next_line;
    bool json;
    char delimiter;

    char **columns;
    size_t n_columns, cap_columns;
    bool pending; /* the first row is also a row of data */

    /* the row */
    uint64_t line;   /* where it begins; the first is 1 */
    struct buf text; /* its fields, one after the other */
    size_t *ends;    /* where each ends in text */
    size_t n, cap;
    char fault[200]; /* "": none */
};

/* Read the names of the columns; the first line of JSON lines has them. Close also on failure. */
int rows_open(struct rows *r, struct source *s, struct dlc_err *err);
/* CSV: the first row was not a header. The columns are named key, label, column3 and so on. */
void rows_no_header(struct rows *r);
/* 1: a row; 0: the end; or DLC_E*. A row without fault has a field for each column. */
int rows_next(struct rows *r, struct dlc_err *err);
struct catalog_text rows_field(const struct rows *r, size_t column);
void rows_close(struct rows *r);

int rows_fill(struct rows *r, struct dlc_err *err); /* 1: there are more bytes; 0: end; DLC_E* */
void rows_end_field(struct rows *r);
int rows_next_csv(struct rows *r, struct dlc_err *err);
int rows_next_json(struct rows *r, struct dlc_err *err);

#endif
