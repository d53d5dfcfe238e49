// SPDX-License-Identifier: Apache-2.0
/*
 * The layout of a manifest: each row is a sample, the object that its key column names.
 *
 * Rows are kept until all are read, because the samples of a split must be neighbours and classes
 * are sorted: 24 bytes each and the texts of the other columns. All faults are counted; the first
 * is reported.
 */
#include "catalog/layout_i.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "catalog/builder_i.h"
#include "catalog/manifest_i.h"

#define NO_COLUMN SIZE_MAX

struct row {
    uint64_t object;
    uint32_t label, split; /* numbers of words */
    uint64_t cells;        /* offset in texts: a varint length and bytes for each other column */
};

struct reading {
    struct plan *p;
    struct rows rows;
    uint64_t manifest; /* object */
    size_t key, label, split;
    struct name_table labels, splits;
    struct grown kept, texts; /* struct row; cells */
    unsigned char *used;      /* a bit for each object */
    uint64_t last;            /* object of the row before */
    uint64_t faults;
    struct dlc_err first; /* fault */
};

/* ---- finding it ---- */

bool layout_find_manifest(struct plan *p, uint64_t *j)
{
    static const char *const usual[] = {"manifest.csv", "manifest.jsonl", "manifest.tsv",
                                        "metadata.csv", "metadata.jsonl", NULL};
    const char *const one[] = {p->l->manifest, NULL};
    const char *const *name = p->l->manifest != NULL ? one : usual;
    bool found = false;

    if (p->l->manifest == NULL && p->n < 2)
        return false;
    for (; *name != NULL && !found; name++) {
        char *key = mem_fmt("%s%s", p->l->root, *name);

        found = catalog_builder_find(p->l->builder, key, strlen(key), j) == 0 ||
                (p->l->manifest != NULL &&
                 catalog_builder_find(p->l->builder, *name, strlen(*name), j) == 0);
        mem_free(&key);
    }
    return found;
}

/* ---- columns ---- */

static size_t column_named(const struct rows *r, const char *const *names)
{
    for (; *names != NULL; names++) {
        for (size_t k = 0; k < r->n_columns; k++) {
            if (strcasecmp(r->columns[k], *names) == 0)
                return k;
        }
    }
    return NO_COLUMN;
}

/* An object by what the manifest calls it: from its own folder, from the root, or the whole key. */
static bool resolve(struct reading *g, struct catalog_text t, uint64_t *j)
{
    struct catalog_builder *b = g->p->l->builder;
    struct catalog_object m;
    const char *slash;
    size_t folder, root = strlen(g->p->l->root);
    char key[2 * CATALOG_KEY_MAX + 1];

    while (t.len > 2 && t.s[0] == '.' && t.s[1] == '/') {
        t.s += 2;
        t.len -= 2;
    }
    if (t.len == 0 || t.len > CATALOG_KEY_MAX || root > CATALOG_KEY_MAX)
        return false;
    catalog_builder_object(b, g->manifest, &m);
    slash = strrchr(m.key, '/');
    folder = slash == NULL ? 0 : (size_t)(slash + 1 - m.key);
    memcpy(key, m.key, folder);
    memcpy(key + folder, t.s, t.len);
    if (g->last + 1 < g->p->n) { /* rows are often in the order of keys */
        struct catalog_object next;

        catalog_builder_object(b, g->last + 1, &next);
        if (next.key_len == folder + t.len && memcmp(next.key, key, next.key_len) == 0) {
            *j = g->last + 1;
            return true;
        }
    }
    if (catalog_builder_find(b, key, folder + t.len, j) == 0)
        return true;
    memcpy(key, g->p->l->root, root);
    memcpy(key + root, t.s, t.len);
    return catalog_builder_find(b, key, root + t.len, j) == 0 ||
           catalog_builder_find(b, t.s, t.len, j) == 0;
}

static int find_columns(struct reading *g, struct dlc_err *err)
{
    static const char *const keys[] = {"key",      "path",      "file", "image",
                                       "filename", "file_name", NULL};
    static const char *const labels[] = {"label", "class", "target", NULL};
    static const char *const splits[] = {"split", NULL};
    struct rows *r = &g->rows;
    uint64_t j;

    g->key = column_named(r, keys);
    if (g->key == NO_COLUMN && !r->json && resolve(g, rows_field(r, 0), &j)) {
        rows_no_header(r);
        g->key = 0;
    }
    if (g->key == NO_COLUMN && r->json)
        return dlc_err_set(err, DLC_EINVAL,
                           "%s has no field for the key: name it key, path, file, image, filename "
                           "or file_name",
                           r->source->name);
    if (g->key == NO_COLUMN)
        g->key = 0;
    g->label = column_named(r, labels);
    g->split = column_named(r, splits);
    for (size_t a = 0; a < r->n_columns; a++) {
        for (size_t b = a + 1; b < r->n_columns; b++) {
            if (strcmp(r->columns[a], r->columns[b]) == 0)
                return dlc_err_set(err, DLC_EINVAL, "%s has two columns named '%.100s'",
                                   r->source->name, r->columns[a]);
        }
    }
    if (g->split == NO_COLUMN && g->p->l->split != NULL)
        return dlc_err_set(err, DLC_EINVAL, "%s has no column named split, and split=%s is wanted",
                           r->source->name, g->p->l->split);
    return 0;
}

/* ---- rows ---- */

static void fault(struct reading *g, const char *what, struct catalog_text key)
{
    struct buf shown = BUF_INIT;

    if (g->faults++ > 0)
        return;
    str_printable(key.s, DLC_MIN(key.len, 150u), &shown);
    dlc_err_set(&g->first, DLC_EINVAL, "line %llu: %s%s%s%s", (unsigned long long)g->rows.line,
                key.len > 0 ? "key '" : "", buf_str(&shown), key.len > 0 ? "': " : "", what);
    buf_release(&shown);
}

static bool other_column(const struct reading *g, size_t k)
{
    return k != g->key && k != g->label && k != g->split;
}

static int keep_cells(struct reading *g, struct dlc_err *err)
{
    for (size_t k = 0; k < g->rows.n_columns; k++) {
        struct catalog_text t;
        unsigned char *out;

        if (!other_column(g, k))
            continue;
        t = rows_field(&g->rows, k);
        out = grown_reserve(&g->texts, CATALOG_VARINT + t.len);
        if (out == NULL)
            return builder_no_memory(g->p->l->builder, err);
        g->texts.len += catalog_put_varint(out, t.len);
        memcpy(g->texts.p + g->texts.len, t.s, t.len);
        g->texts.len += t.len;
    }
    return 0;
}

static uint32_t split_of(struct reading *g)
{
    struct catalog_text t = rows_field(&g->rows, g->split);
    char name[CATALOG_NAME_MAX];

    split_name(t.s, t.len, name);
    return name_table_add(&g->splits, name, strlen(name));
}

/* The row is good: keep it. */
static int keep_row(struct reading *g, uint64_t j, struct dlc_err *err)
{
    struct row row = {.object = j, .label = SAMPLE_NO_LABEL, .cells = g->texts.len};
    unsigned char *out = grown_reserve(&g->kept, sizeof(row));

    if (out == NULL)
        return builder_no_memory(g->p->l->builder, err);
    if (g->label != NO_COLUMN) {
        struct catalog_text t = rows_field(&g->rows, g->label);

        if (t.len > 0)
            row.label = name_table_add(&g->labels, t.s, t.len);
    }
    if (g->split != NO_COLUMN)
        row.split = split_of(g);
    memcpy(out, &row, sizeof(row));
    g->kept.len += sizeof(row);
    g->used[j / 8] = (unsigned char)(g->used[j / 8] | 1 << j % 8);
    g->last = j;
    return keep_cells(g, err);
}

static int take_row(struct reading *g, struct dlc_err *err)
{
    struct catalog_text key = {"", 0}, none = {"", 0};
    uint64_t j;

    if (g->rows.fault[0] != '\0') {
        fault(g, g->rows.fault, g->rows.n > g->key ? rows_field(&g->rows, g->key) : none);
        return 0;
    }
    key = rows_field(&g->rows, g->key);
    if (key.len == 0)
        fault(g, "the key is empty", none);
    else if (!resolve(g, key, &j))
        fault(g, "there is no such object", key);
    else if ((g->used[j / 8] >> j % 8 & 1) != 0)
        fault(g, "the key is there twice", key);
    else if (j == g->manifest)
        fault(g, "that is the manifest itself", key);
    else if (g->split != NO_COLUMN && rows_field(&g->rows, g->split).len == 0)
        fault(g, "the split is empty", key);
    else
        return keep_row(g, j, err);
    return 0;
}

static int read_rows(struct reading *g, struct dlc_err *err)
{
    struct layout *l = g->p->l;
    uint64_t n = 0;
    int rc;

    while ((rc = rows_next(&g->rows, err)) == 1) {
        if (n++ % 65536 == 0 && l->progress != NULL &&
            l->progress(l, "reading the manifest", g->rows.at, g->rows.source->size) < 0)
            return dlc_err_set(err, DLC_ECANCELED, "given up while reading the manifest");
        rc = take_row(g, err);
        if (rc < 0)
            return rc;
    }
    if (rc == 0 && g->faults == 1)
        return dlc_err_set(err, DLC_EINVAL, "%s, %s", g->rows.source->name, g->first.text);
    if (rc == 0 && g->faults > 1)
        return dlc_err_set(err, DLC_EINVAL, "%s, %s (the first of %llu faults)",
                           g->rows.source->name, g->first.text, (unsigned long long)g->faults);
    return rc;
}

/* ---- classes ---- */

enum label_form { LABEL_NAMES, LABEL_NUMBERS, LABEL_VALUES };

/* Numbers are their own classes if they are whole; 0.37 is no class but a column. */
static enum label_form form_of(const struct name_table *w, uint64_t *max)
{
    enum label_form form = LABEL_NUMBERS;

    *max = 0;
    for (size_t i = 0; i < w->n; i++) {
        uint64_t v;
        double d;

        if (w->v[i][0] >= '0' && w->v[i][0] <= '9' && str_parse_u64(w->v[i], &v)) {
            *max = DLC_MAX(*max, v);
        } else if (str_parse_double(w->v[i], &d)) {
            form = LABEL_VALUES;
        } else {
            return LABEL_NAMES;
        }
    }
    if (form == LABEL_NUMBERS && *max >= 65536 && *max / 4 >= w->n)
        return LABEL_NAMES; /* far apart: names that happen to be numbers */
    return form;
}

/* Make the classes; order: the class of each word. */
static int add_classes(struct reading *g, enum label_form form, uint64_t max, uint32_t *order,
                       struct dlc_err *err)
{
    struct catalog_builder *b = g->p->l->builder;
    int rc = 0;

    if (form == LABEL_NUMBERS && g->labels.n > 0) {
        char name[24];

        for (uint64_t k = 0; k <= max && rc == 0; k++)
            rc = catalog_builder_class(
                b, name, (size_t)snprintf(name, sizeof(name), "%llu", (unsigned long long)k), err);
        for (size_t i = 0; i < g->labels.n; i++)
            order[i] = (uint32_t)strtoul(g->labels.v[i], NULL, 10);
    } else if (form == LABEL_NAMES) {
        name_table_sort(&g->labels, name_table_by_bytes, order);
        for (size_t i = 0; i < g->labels.n && rc == 0; i++)
            rc = catalog_builder_class(b, g->labels.v[i], strlen(g->labels.v[i]), err);
    }
    return rc;
}

/* ---- samples ---- */

static int add_row(struct reading *g, const struct row *row, const uint32_t *order,
                   struct catalog_text *cells, struct dlc_err *err)
{
    struct catalog_new_sample s = {.object = row->object, .label = SAMPLE_NO_LABEL, .cells = cells};
    struct catalog_cursor cur = {NULL, NULL};
    size_t n = 0;

    if (g->texts.len > 0) /* else there is no other column, and texts.p is NULL */
        cur = (struct catalog_cursor){g->texts.p + row->cells, g->texts.p + g->texts.len};
    for (size_t k = 0; k < g->rows.n_columns; k++) {
        uint64_t len;

        if (k == g->label && order == NULL) { /* kept as a column */
            const char *v = row->label == SAMPLE_NO_LABEL ? "" : g->labels.v[row->label];

            cells[n++] = (struct catalog_text){v, strlen(v)};
        } else if (other_column(g, k)) {
            dlc_check(catalog_get_varint(&cur, &len));
            cells[n++] = (struct catalog_text){(const char *)cur.p, (size_t)len};
            cur.p += len;
        }
    }
    if (order != NULL && row->label != SAMPLE_NO_LABEL)
        s.label = order[row->label];
    return catalog_builder_sample(g->p->l->builder, &s, err);
}

static int add_split(struct reading *g, uint32_t split, const uint32_t *order, struct dlc_err *err)
{
    struct catalog_text cells[CATALOG_COLUMNS_MAX];
    int rc = 0;

    if (g->split != NO_COLUMN)
        rc = catalog_builder_split(g->p->l->builder, g->splits.v[split], false, err);
    for (size_t at = 0; at < g->kept.len && rc == 0; at += sizeof(struct row)) {
        struct row row;

        memcpy(&row, g->kept.p + at, sizeof(row));
        if (g->split == NO_COLUMN || row.split == split)
            rc = add_row(g, &row, order, cells, err);
    }
    return rc;
}

static int add_splits(struct reading *g, const uint32_t *order, struct dlc_err *err)
{
    char want[CATALOG_NAME_MAX] = "";
    uint32_t only = 0;
    int rc = 0;

    if (g->split == NO_COLUMN)
        return add_split(g, 0, order, err);
    if (g->p->l->split != NULL) {
        split_name(g->p->l->split, strlen(g->p->l->split), want);
        if (!name_table_find(&g->splits, want, strlen(want), &only))
            return dlc_err_set(err, DLC_EINVAL, "%s has no rows of the split '%s'",
                               g->rows.source->name, want);
        return add_split(g, only, order, err);
    }
    if (g->splits.n > CATALOG_SPLITS_MAX)
        return dlc_err_set(err, DLC_EINVAL, "%s has %zu different splits; at most %d are allowed",
                           g->rows.source->name, g->splits.n, CATALOG_SPLITS_MAX);
    for (uint32_t k = 0; k < g->splits.n && rc == 0; k++)
        rc = add_split(g, k, order, err);
    return rc;
}

static int add_samples(struct reading *g, struct dlc_err *err)
{
    uint64_t max;
    enum label_form form = form_of(&g->labels, &max);
    uint32_t *order = NULL;
    int rc = 0;

    for (size_t k = 0; k < g->rows.n_columns && rc == 0; k++) {
        if (other_column(g, k) || (k == g->label && form == LABEL_VALUES))
            rc = catalog_builder_column(g->p->l->builder, g->rows.columns[k], err);
    }
    if (form != LABEL_VALUES) {
        order = mem_alloc(DLC_MAX(g->labels.n, 1u) * sizeof(*order));
        if (rc == 0)
            rc = add_classes(g, form, max, order, err);
    }
    if (rc == 0)
        rc = add_splits(g, order, err);
    mem_free(&order);
    return rc;
}

int layout_manifest(struct plan *p, uint64_t j, struct dlc_err *err)
{
    struct reading g = {.p = p, .manifest = j, .last = UINT64_MAX - 1};
    struct source source;
    int rc = p->l->open(p->l, j, &source, err);

    if (rc < 0)
        return rc;
    g.used = mem_zero(p->n / 8 + 1);
    rc = rows_open(&g.rows, &source, err);
    if (rc == 0)
        rc = find_columns(&g, err);
    if (rc == 0)
        rc = read_rows(&g, err);
    if (rc == 0)
        rc = add_samples(&g, err);
    rows_close(&g.rows);
    p->l->close(p->l, &source);
    name_table_release(&g.labels);
    name_table_release(&g.splits);
    mem_free(&g.kept.p);
    mem_free(&g.texts.p);
    mem_free(&g.used);
    return rc;
}
