// SPDX-License-Identifier: Apache-2.0
/*
 * The layout of a manifest: each row is a sample, the object or the member of an archive that its
 * key column names (manifest_refs_i.h). A column of target files names the target of each
 * (manifest_targets_i.h). Several manifests, of one split each, make one dataset.
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
#include "catalog/manifest_refs_i.h"
#include "catalog/manifest_targets_i.h"

#define NO_COLUMN SIZE_MAX

struct row {
    uint64_t ref;          /* of manifest_refs_i.h */
    uint32_t label, split; /* numbers of words */
    uint64_t cells;        /* offset in texts: a varint length and bytes for each other column */
};

struct reading {
    struct plan *p;
    struct rows rows;
    struct refs refs; /* its `manifest` is the one that is read */
    const char *of;   /* the split of all its rows; NULL: not said */
    char **columns;   /* of all manifests */
    size_t n_columns;
    bool has_splits;
    struct targets targets;
    size_t key, label, split, target;
    struct name_table labels, splits;
    struct grown kept, texts; /* struct row; cells */
    unsigned char *used;      /* a bit for each object that is a sample */
    uint64_t faults;
    struct dlc_err first; /* fault */
};

/* ---- finding it ---- */

bool layout_find_manifest(struct plan *p, uint64_t *j)
{
    static const char *const usual[] = {"manifest.csv", "manifest.jsonl", "manifest.tsv",
                                        "metadata.csv", "metadata.jsonl", NULL};
    bool found = false;

    for (const char *const *name = usual; p->n >= 2 && *name != NULL && !found; name++) {
        char *key = mem_fmt("%s%s", p->l->root, *name);

        found = catalog_builder_find(p->l->builder, key, strlen(key), j) == 0;
        mem_free(&key);
    }
    return found;
}

/* ---- columns ---- */

/* The key of a manifest, for messages. */
static const char *name_of(const struct reading *g, uint64_t manifest)
{
    struct catalog_object o;

    catalog_builder_object(g->p->l->builder, manifest, &o);
    return o.key;
}

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

static int find_columns(struct reading *g, struct dlc_err *err)
{
    static const char *const keys[] = {"key",      "path",      "file", "image",
                                       "filename", "file_name", NULL};
    static const char *const labels[] = {"label", "class", "target", NULL};
    static const char *const splits[] = {"split", NULL};
    static const char *const targets[] = {"target_file", "target_path", NULL};
    struct rows *r = &g->rows;

    g->key = column_named(r, keys);
    if (g->key == NO_COLUMN && !r->json && refs_is_known(&g->refs, rows_field(r, 0))) {
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
    g->target = column_named(r, targets);
    for (size_t a = 0; a < r->n_columns; a++) {
        for (size_t b = a + 1; b < r->n_columns; b++) {
            if (strcmp(r->columns[a], r->columns[b]) == 0)
                return dlc_err_set(err, DLC_EINVAL, "%s has two columns named '%.100s'",
                                   r->source->name, r->columns[a]);
        }
    }
    if (g->split != NO_COLUMN && g->of != NULL)
        return dlc_err_set(err, DLC_EINVAL,
                           "%s has a column named split, and is said to be of the split '%s': name "
                           "it without a split",
                           r->source->name, g->of);
    if (g->split == NO_COLUMN && g->of == NULL && g->p->l->split != NULL)
        return dlc_err_set(err, DLC_EINVAL, "%s has no column named split, and split=%s is wanted",
                           r->source->name, g->p->l->split);
    return 0;
}

/* ---- rows ---- */

static void fault_at(struct reading *g, uint64_t manifest, uint64_t line, const char *column,
                     struct catalog_text text, const char *what)
{
    struct buf shown = BUF_INIT;

    if (g->faults++ > 0)
        return;
    str_printable(text.s, DLC_MIN(text.len, 150u), &shown);
    if (text.len > 0)
        dlc_err_set(&g->first, DLC_EINVAL, "%s, line %llu: %s '%s': %s", name_of(g, manifest),
                    (unsigned long long)line, column, buf_str(&shown), what);
    else
        dlc_err_set(&g->first, DLC_EINVAL, "%s, line %llu: %s", name_of(g, manifest),
                    (unsigned long long)line, what);
    buf_release(&shown);
}

static void fault(struct reading *g, const char *what, struct catalog_text key)
{
    fault_at(g, g->refs.manifest, g->rows.line, "key", key, what);
}

static bool other_column(const struct reading *g, size_t k)
{
    return k != g->key && k != g->label && k != g->split && k != g->target;
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
    struct catalog_text t = {g->of, g->of == NULL ? 0 : strlen(g->of)};
    char name[CATALOG_NAME_MAX];

    if (g->of == NULL)
        t = rows_field(&g->rows, g->split);

    split_name(t.s, t.len, name);
    return name_table_add(&g->splits, name, strlen(name));
}

/* A sample for each object and each member, at most. */
static bool use_once(struct reading *g, uint64_t ref)
{
    struct member_ref *m;
    unsigned char *byte = &g->used[ref / 8];
    bool used;

    if ((ref & REF_MEMBER) != 0) {
        m = refs_member(&g->refs, ref);
        used = m->used;
        m->used = true;
        return !used;
    }
    used = (*byte >> ref % 8 & 1) != 0;
    *byte = (unsigned char)(*byte | 1 << ref % 8);
    return !used;
}

static int keep_target(struct reading *g, uint32_t split, struct dlc_err *err)
{
    const char *column = g->columns[g->target];
    struct catalog_text t = rows_field(&g->rows, g->target);
    uint64_t ref = REF_NONE;
    bool no_memory;

    if (t.len > 0 && !refs_find(&g->refs, t, g->rows.line, column, &ref))
        fault_at(g, g->refs.manifest, g->rows.line, column, t, "there is no such object");
    else if (ref == g->refs.manifest)
        fault_at(g, g->refs.manifest, g->rows.line, column, t, "that is the manifest itself");
    else if (!targets_add_row(&g->targets, split, ref, &no_memory))
        fault_at(g, g->refs.manifest, g->rows.line, "key", rows_field(&g->rows, g->key),
                 "rows of its split both have a target file and have none");
    else if (no_memory)
        return builder_no_memory(g->p->l->builder, err);
    return 0;
}

/* The row is good: keep it. */
static int keep_row(struct reading *g, uint64_t ref, struct dlc_err *err)
{
    struct row row = {.ref = ref, .label = SAMPLE_NO_LABEL, .cells = g->texts.len};
    unsigned char *out = grown_reserve(&g->kept, sizeof(row));
    int rc = 0;

    if (out == NULL)
        return builder_no_memory(g->p->l->builder, err);
    if (g->label != NO_COLUMN) {
        struct catalog_text t = rows_field(&g->rows, g->label);

        if (t.len > 0)
            row.label = name_table_add(&g->labels, t.s, t.len);
    }
    if (g->has_splits)
        row.split = split_of(g);
    memcpy(out, &row, sizeof(row));
    g->kept.len += sizeof(row);
    if (g->target != NO_COLUMN)
        rc = keep_target(g, row.split, err);
    return rc < 0 ? rc : keep_cells(g, err);
}

/* Is the row of a split that is left out? Its members need no archive read. */
static bool is_left_out(const struct reading *g)
{
    char want[CATALOG_NAME_MAX], name[CATALOG_NAME_MAX];
    const char *split = g->p->l->split;
    struct catalog_text t;

    if (split == NULL || g->split == NO_COLUMN || g->refs.n_archives == 0)
        return false;
    t = rows_field(&g->rows, g->split);
    return strcmp(split_name(split, strlen(split), want), split_name(t.s, t.len, name)) != 0;
}

static int take_row(struct reading *g, struct dlc_err *err)
{
    struct catalog_text key = {"", 0}, none = {"", 0};
    uint64_t ref;

    if (g->rows.fault[0] != '\0') {
        fault(g, g->rows.fault, g->rows.n > g->key ? rows_field(&g->rows, g->key) : none);
        return 0;
    }
    key = rows_field(&g->rows, g->key);
    if (key.len == 0)
        fault(g, "the key is empty", none);
    else if (g->split != NO_COLUMN && rows_field(&g->rows, g->split).len == 0)
        fault(g, "the split is empty", key);
    else if (is_left_out(g))
        return 0;
    else if (!refs_find(&g->refs, key, g->rows.line, "key", &ref))
        fault(g, "there is no such object", key);
    else if (ref == g->refs.manifest)
        fault(g, "that is the manifest itself", key);
    else if (!use_once(g, ref))
        fault(g, "the key is there twice", key);
    else
        return keep_row(g, ref, err);
    return 0;
}

/* Of members that rows name. */
static void note_member_faults(struct reading *g)
{
    for (size_t i = 0; i < g->refs.n; i++) {
        const struct member_ref *m = &g->refs.members[i];
        struct catalog_text name = {g->refs.names.data + m->name, m->len};
        struct catalog_object a, b;
        char *what = NULL;

        if (!m->found && m->archive == REF_NONE) {
            what = mem_str("there is no such object, and no archive has such a member");
        } else if (!m->found) {
            catalog_builder_object(g->p->l->builder, m->archive, &a);
            what = mem_fmt("%.300s has no such member", a.key);
        } else if (m->also_in != REF_NONE && m->archive == REF_NONE) {
            catalog_builder_object(g->p->l->builder, m->also_in, &a);
            catalog_builder_object(g->p->l->builder, m->piece.object, &b);
            what =
                mem_fmt("%.200s and %.200s have such a member: write ARCHIVE/MEMBER", a.key, b.key);
        } else if (m->same < i && m->used && g->refs.members[m->same].used) {
            what = mem_str("the key is there twice");
        }
        if (what != NULL)
            fault_at(g, m->manifest, m->line, m->column, name, what);
        mem_free(&what);
    }
}

static int report_faults(const struct reading *g, struct dlc_err *err)
{
    if (g->faults == 1)
        return dlc_err_set(err, DLC_EINVAL, "%s", g->first.text);
    if (g->faults > 1)
        return dlc_err_set(err, DLC_EINVAL, "%s (the first of %llu faults)", g->first.text,
                           (unsigned long long)g->faults);
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
    return rc;
}

/* All manifests have the same columns, and all have splits or none has. */
static int check_columns(struct reading *g, struct dlc_err *err)
{
    const struct rows *r = &g->rows;
    bool splits = g->of != NULL || g->split != NO_COLUMN, same = r->n_columns == g->n_columns;

    if (g->columns == NULL) {
        g->has_splits = splits;
        g->n_columns = r->n_columns;
        g->columns = mem_zero((r->n_columns + 1) * sizeof(*g->columns));
        for (size_t k = 0; k < r->n_columns; k++)
            g->columns[k] = mem_str(r->columns[k]);
        return 0;
    }
    for (size_t k = 0; k < r->n_columns && same; k++)
        same = strcmp(r->columns[k], g->columns[k]) == 0;
    if (!same)
        return dlc_err_set(err, DLC_EINVAL, "%s has other columns than the manifest before it",
                           r->source->name);
    if (splits != g->has_splits)
        return dlc_err_set(err, DLC_EINVAL, "%s: of several manifests all have splits, or none has",
                           r->source->name);
    return 0;
}

static int read_manifest(struct reading *g, const struct manifest_source *m, struct dlc_err *err)
{
    struct layout *l = g->p->l;
    struct source source;
    int rc = l->open(l, m->object, &source, err);

    if (rc < 0)
        return rc;
    g->refs.manifest = m->object;
    g->of = m->split;
    rc = rows_open(&g->rows, &source, err);
    if (rc == 0)
        rc = find_columns(g, err);
    if (rc == 0)
        rc = check_columns(g, err);
    if (rc == 0)
        rc = read_rows(g, err);
    rows_close(&g->rows);
    l->close(l, &source);
    return rc;
}

static int find_members(struct reading *g, struct dlc_err *err)
{
    int rc = report_faults(g, err);

    if (rc == 0)
        rc = refs_read_archives(&g->refs, err);
    if (rc < 0)
        return rc;
    note_member_faults(g);
    return report_faults(g, err);
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
    struct catalog_new_sample s = {.label = SAMPLE_NO_LABEL, .cells = cells};
    struct catalog_cursor cur = {NULL, NULL};
    size_t n = 0;

    if (g->texts.len > 0) /* else there is no other column, and texts.p is NULL */
        cur = (struct catalog_cursor){g->texts.p + row->cells, g->texts.p + g->texts.len};
    for (size_t k = 0; k < g->n_columns; k++) {
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
    return refs_add_sample(&g->refs, row->ref, &s, err);
}

static int add_split(struct reading *g, uint32_t split, const uint32_t *order, struct dlc_err *err)
{
    struct catalog_text cells[CATALOG_COLUMNS_MAX];
    int rc = 0;

    if (g->has_splits)
        rc = catalog_builder_split(g->p->l->builder, g->splits.v[split], false, err);
    for (size_t at = 0; at < g->kept.len && rc == 0; at += sizeof(struct row)) {
        struct row row;

        memcpy(&row, g->kept.p + at, sizeof(row));
        if (g->has_splits && row.split != split)
            continue;
        if (targets_add_sample(&g->targets, at / sizeof(row),
                               catalog_builder_samples(g->p->l->builder)) < 0)
            rc = builder_no_memory(g->p->l->builder, err);
        if (rc == 0)
            rc = add_row(g, &row, order, cells, err);
    }
    return rc;
}

static int add_splits(struct reading *g, const uint32_t *order, struct dlc_err *err)
{
    char want[CATALOG_NAME_MAX] = "";
    uint32_t only = 0;
    int rc = 0;

    if (!g->has_splits)
        return add_split(g, 0, order, err);
    if (g->p->l->split != NULL) {
        split_name(g->p->l->split, strlen(g->p->l->split), want);
        if (!name_table_find(&g->splits, want, strlen(want), &only))
            return dlc_err_set(err, DLC_EINVAL, "%s has no rows of the split '%s'",
                               name_of(g, g->refs.manifest), want);
        return add_split(g, only, order, err);
    }
    if (g->splits.n > CATALOG_SPLITS_MAX)
        return dlc_err_set(err, DLC_EINVAL, "%s has %zu different splits; at most %d are allowed",
                           name_of(g, g->refs.manifest), g->splits.n, CATALOG_SPLITS_MAX);
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

    for (size_t k = 0; k < g->n_columns && rc == 0; k++) {
        if (other_column(g, k) || (k == g->label && form == LABEL_VALUES))
            rc = catalog_builder_column(g->p->l->builder, g->columns[k], err);
    }
    if (form != LABEL_VALUES) {
        order = mem_alloc(DLC_MAX(g->labels.n, 1u) * sizeof(*order));
        if (rc == 0)
            rc = add_classes(g, form, max, order, err);
    }
    if (rc == 0)
        rc = add_splits(g, order, err);
    if (rc == 0)
        rc = targets_finish(&g->targets, &g->refs, err);
    mem_free(&order);
    return rc;
}

int layout_manifests(struct plan *p, const struct manifest_source *v, size_t n, struct dlc_err *err)
{
    struct reading g = {.p = p};
    int rc = 0;

    refs_init(&g.refs, p);
    g.used = mem_zero(p->n / 8 + 1);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = read_manifest(&g, &v[i], err);
    if (rc == 0)
        rc = find_members(&g, err);
    if (rc == 0)
        rc = add_samples(&g, err);
    for (size_t k = 0; k < g.n_columns; k++)
        mem_free(&g.columns[k]);
    mem_free(&g.columns);
    name_table_release(&g.labels);
    name_table_release(&g.splits);
    mem_free(&g.kept.p);
    mem_free(&g.texts.p);
    mem_free(&g.used);
    refs_release(&g.refs);
    targets_release(&g.targets);
    return rc;
}
