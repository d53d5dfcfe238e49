// SPDX-License-Identifier: Apache-2.0
#include "catalog/manifest_i.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/mem.h"

#define CHUNK ((size_t)1 << 20)

static bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);

    return n >= m && strcasecmp(s + n - m, suffix) == 0;
}

int rows_fill(struct rows *r, struct dlc_err *err)
{
    size_t n;
    int rc;

    if (r->pos < r->len)
        return 1;
    n = (size_t)DLC_MIN(r->source->size - r->at, CHUNK);
    if (n == 0)
        return 0;
    rc = source_read(r->source, r->at, r->chunk, n, err);
    if (rc < 0)
        return rc;
    r->at += n;
    r->pos = 0;
    r->len = n;
    return 1;
}

void rows_end_field(struct rows *r)
{
    mem_reserve(r->ends, r->n, r->cap);
    r->ends[r->n++] = r->text.len;
}

struct catalog_text rows_field(const struct rows *r, size_t column)
{
    size_t from = column == 0 ? 0 : r->ends[column - 1];

    dlc_check(column < r->n);
    return (struct catalog_text){buf_str(&r->text) + from, r->ends[column] - from};
}

static int skip_bom(struct rows *r, struct dlc_err *err)
{
    int rc = rows_fill(r, err);

    if (rc == 1 && r->len >= 3 && memcmp(r->chunk, "\xef\xbb\xbf", 3) == 0)
        r->pos = 3;
    return rc;
}

static int name_columns(struct rows *r, struct dlc_err *err)
{
    int rc = rows_next_csv(r, err);

    if (rc < 0)
        return rc;
    if (rc == 0)
        return dlc_err_set(err, DLC_EINVAL, "%s is empty: it needs a row of column names",
                           r->source->name);
    for (size_t k = 0; k < r->n; k++) {
        struct catalog_text t = rows_field(r, k);

        mem_reserve(r->columns, r->n_columns, r->cap_columns);
        r->columns[r->n_columns++] = mem_strn(t.s, t.len);
    }
    return 0;
}

int rows_open(struct rows *r, struct source *s, struct dlc_err *err)
{
    int rc;

    *r = (struct rows){.source = s, .next_line = 1, .delimiter = ','};
    r->json = ends_with(s->name, ".jsonl") || ends_with(s->name, ".ndjson") ||
              ends_with(s->name, ".json");
    if (ends_with(s->name, ".tsv"))
        r->delimiter = '\t';
    r->chunk = mem_alloc(CHUNK);
    rc = skip_bom(r, err);
    if (rc < 0)
        return rc;
    if (!r->json)
        return name_columns(r, err);
    rc = rows_next_json(r, err);
    if (rc < 0)
        return rc;
    if (rc == 0 || r->fault[0] != '\0')
        return dlc_err_set(err, DLC_EINVAL, "%s: its first line must be a JSON object%s%s",
                           r->source->name, r->fault[0] != '\0' ? ": " : "", r->fault);
    r->pending = true;
    return 0;
}

void rows_no_header(struct rows *r)
{
    for (size_t k = 0; k < r->n_columns; k++) {
        mem_free(&r->columns[k]);
        r->columns[k] = k == 0   ? mem_str("key")
                        : k == 1 ? mem_str("label")
                                 : mem_fmt("column%zu", k + 1);
    }
    r->pending = true;
}

int rows_next(struct rows *r, struct dlc_err *err)
{
    int rc;

    if (r->pending) {
        r->pending = false;
        return 1;
    }
    r->fault[0] = '\0';
    rc = r->json ? rows_next_json(r, err) : rows_next_csv(r, err);
    if (rc == 1 && r->fault[0] == '\0' && r->n != r->n_columns)
        snprintf(r->fault, sizeof(r->fault), "%zu fields, and there are %zu columns", r->n,
                 r->n_columns);
    return rc;
}

void rows_close(struct rows *r)
{
    for (size_t k = 0; k < r->n_columns; k++)
        mem_free(&r->columns[k]);
    mem_free(&r->columns);
    mem_free(&r->chunk);
    mem_free(&r->ends);
    buf_release(&r->text);
}
