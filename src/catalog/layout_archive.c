// SPDX-License-Identifier: Apache-2.0
/*
 * Layouts whose objects are containers: archives, and tables large enough to be cut. Samples are
 * named by the object's key, '/', and what the scanner calls them. A table that is not larger than
 * a partition, or turns out to be a single one, stays the object it is.
 */
#include "catalog/layout_i.h"

#include <string.h>

#include "base/mem.h"

#define PROBE_MEMBERS 1000 /* looked at to see whether members group */
#define PROBE_ENOUGH  1    /* what found() returns to end the probe */

static uint64_t partition_of(const struct plan *p)
{
    return p->l->partition != 0 ? p->l->partition : LAYOUT_PARTITION;
}

bool layout_is_containers(struct plan *p, bool tables)
{
    uint64_t large = 0, n = 0;

    for (size_t k = 0; k < p->n_parts; k++) {
        for (uint64_t j = p->parts[k].first; j < p->parts[k].end; j++) {
            const struct scanner *scanner;
            struct seen s;

            plan_see(p, &p->parts[k], j, &s);
            if (seen_is_junk(&s))
                continue;
            scanner = scanner_of(s.o.key);
            if (scanner == NULL || scanner->tabular != tables)
                return false;
            n++;
            large += s.o.size > partition_of(p);
        }
    }
    return tables ? large > 0 : n > 0;
}

/* One object being scanned. */
struct scanning {
    struct plan *p;
    uint64_t object;
    struct buf name; /* key and '/', then the member */
    size_t key_len;
    struct piece *pieces; /* with the object's number */
    size_t cap;
    uint64_t n;
    bool tabular;
    struct buf first; /* tabular: the name of the first partition, until there is a second */
    struct piece *first_pieces;
    size_t n_first;
    struct buf first_bytes;
};

static int add_sample(struct scanning *g, const char *name, size_t len, const struct piece *pieces,
                      size_t n, struct dlc_err *err)
{
    struct catalog_new_sample s = {.n_pieces = n, .label = SAMPLE_NO_LABEL};

    if (n > g->cap) {
        g->cap = n;
        g->pieces = mem_grow(g->pieces, n * sizeof(*g->pieces));
    }
    for (size_t i = 0; i < n; i++) {
        g->pieces[i] = pieces[i];
        g->pieces[i].object = g->object;
        if (pieces[i].kind == PIECE_DERIVED && pieces[i].length == 0)
            g->pieces[i] = (struct piece){.object = g->object}; /* needs no derived form */
    }
    g->name.len = g->key_len;
    buf_add(&g->name, name, len);
    s.name = buf_str(&g->name);
    s.name_len = g->name.len;
    s.pieces = g->pieces;
    return catalog_builder_sample(g->p->l->builder, &s, err);
}

/* Keep a copy of the first partition, inline bytes and all. */
static void keep_first(struct scanning *g, const struct scan_sample *s)
{
    buf_add(&g->first, s->name, s->name_len);
    g->n_first = s->n_pieces;
    g->first_pieces = mem_alloc(s->n_pieces * sizeof(*g->first_pieces));
    for (size_t i = 0; i < s->n_pieces; i++) {
        g->first_pieces[i] = s->pieces[i];
        g->first_pieces[i].offset =
            s->pieces[i].kind == PIECE_INLINE ? g->first_bytes.len : s->pieces[i].offset;
        if (s->pieces[i].kind == PIECE_INLINE)
            buf_add(&g->first_bytes, s->pieces[i].bytes, s->pieces[i].length);
    }
}

static int add_first(struct scanning *g, struct dlc_err *err)
{
    for (size_t i = 0; i < g->n_first; i++) {
        if (g->first_pieces[i].kind == PIECE_INLINE)
            g->first_pieces[i].bytes = buf_str(&g->first_bytes) + g->first_pieces[i].offset;
    }
    return add_sample(g, buf_str(&g->first), g->first.len, g->first_pieces, g->n_first, err);
}

static int on_found(struct scan *scan, const struct scan_sample *s, struct dlc_err *err)
{
    struct scanning *g = scan->priv;
    int rc = 0;

    if (g->n++ == 0 && g->tabular) {
        keep_first(g, s);
        return 0;
    }
    if (g->n == 2 && g->tabular)
        rc = add_first(g, err);
    return rc < 0 ? rc : add_sample(g, s->name, s->name_len, s->pieces, s->n_pieces, err);
}

static void scanning_release(struct scanning *g)
{
    buf_release(&g->name);
    buf_release(&g->first);
    buf_release(&g->first_bytes);
    mem_free(&g->pieces);
    mem_free(&g->first_pieces);
}

/* Where there is no place for a derived form: archives that need none are scanned all the same. */
struct no_place {
    struct scan_sink sink;
    const char *name;
};

static int refuse(struct scan_sink *k, const void *data, size_t len, struct dlc_err *err)
{
    const struct no_place *n = dlc_container(k, struct no_place, sink);

    (void)data;
    (void)len;
    return dlc_err_set(err, DLC_EINVAL,
                       "%s must be decompressed once, and there is no disk tier to keep that: "
                       "give the daemon one (--disk), or store the archive as plain tar",
                       n->name);
}

static int run_scan(struct plan *p, const struct scanner *scanner, struct scanning *g,
                    struct source *source, struct dlc_err *err)
{
    struct layout *l = p->l;
    struct scan scan = {.source = source, .found = on_found, .priv = g};
    struct no_place none = {.sink = {refuse}, .name = source->name};
    int rc = 0, kept;

    scan.limits.partition_bytes = partition_of(p);
    scan.limits.group = l->group == 1;
    if (scanner->derives && l->derive == NULL)
        scan.sink = &none.sink;
    else if (scanner->derives)
        rc = l->derive(l, g->object, &scan.sink, err);
    if (rc == 0)
        rc = scanner->run(&scan, err);
    if (scan.sink != NULL && scan.sink != &none.sink) {
        kept = l->derived(l, &scan.sink, rc == 0 && scan.derived_size > 0, err);
        rc = rc < 0 ? rc : kept;
    }
    if (rc == 0 && scan.derived_size > 0)
        rc = catalog_builder_derived(l->builder, g->object, scan.derived_size, err);
    if (rc == 0 && g->tabular && g->n == 1)
        rc = layout_add_whole(p, g->object, SAMPLE_NO_LABEL, err);
    return rc;
}

static int scan_object(struct plan *p, const struct scanner *scanner, uint64_t j,
                       struct dlc_err *err)
{
    struct scanning g = {.p = p, .object = j, .tabular = scanner->tabular};
    struct catalog_object o;
    struct source source;
    int rc;

    catalog_builder_object(p->l->builder, j, &o);
    buf_add(&g.name, o.key, o.key_len);
    buf_addc(&g.name, '/');
    g.key_len = g.name.len;
    rc = p->l->open(p->l, j, &source, err);
    if (rc < 0)
        return rc;
    rc = run_scan(p, scanner, &g, &source, err);
    p->l->close(p->l, &source);
    scanning_release(&g);
    return rc;
}

/* ---- do members group? ---- */

struct probe {
    struct buf last;
    uint64_t n;
    bool groups;
};

static int probe_sink(struct scan_sink *k, const void *data, size_t len, struct dlc_err *err)
{
    (void)k, (void)data, (void)len, (void)err;
    return 0;
}

/* As WebDataset: what is before the first dot of the base name is the group. */
static size_t stem_of(const char *name, size_t len)
{
    const char *slash = memrchr(name, '/', len);
    size_t base = slash == NULL ? 0 : (size_t)(slash + 1 - name);
    const char *dot = memchr(name + base, '.', len - base);

    return dot == NULL ? 0 : (size_t)(dot - name);
}

static int on_probe(struct scan *scan, const struct scan_sample *s, struct dlc_err *err)
{
    struct probe *p = scan->priv;
    size_t n = stem_of(s->name, s->name_len);

    (void)err;
    p->groups = n > 0 && n == p->last.len && memcmp(buf_str(&p->last), s->name, n) == 0;
    buf_clear(&p->last);
    buf_add(&p->last, s->name, n);
    return p->groups || ++p->n == PROBE_MEMBERS ? PROBE_ENOUGH : 0;
}

/* Look into the first archive. */
static int find_groups(struct plan *p, const struct scanner *scanner, uint64_t j,
                       struct dlc_err *err)
{
    struct scan_sink sink = {.write = probe_sink};
    struct probe probe = {.n = 0};
    struct source source;
    struct scan scan = {.source = &source, .sink = &sink, .found = on_probe, .priv = &probe};
    int rc = p->l->open(p->l, j, &source, err);

    if (rc < 0)
        return rc;
    rc = scanner->run(&scan, err);
    p->l->close(p->l, &source);
    p->l->group = probe.groups;
    buf_release(&probe.last);
    return rc < 0 ? rc : 0;
}

/* ---- all ---- */

static int add_object(struct plan *p, const struct part *part, bool tables, uint64_t j,
                      struct dlc_err *err)
{
    const struct scanner *scanner;
    struct seen s;
    int rc = 0;

    plan_see(p, part, j, &s);
    if (seen_is_junk(&s))
        return 0;
    scanner = scanner_of(s.o.key);
    if (scanner == NULL || scanner->tabular != tables)
        return dlc_err_set(err, DLC_EINVAL,
                           "%.300s is no %s; ?layout=flat takes each object as a sample", s.o.key,
                           tables ? "table (csv, npy, parquet)" : "archive (tar, zip)");
    if (tables && s.o.size <= partition_of(p))
        return layout_add_whole(p, j, SAMPLE_NO_LABEL, err);
    if (p->l->group < 0 && !tables)
        rc = find_groups(p, scanner, j, err);
    return rc < 0 ? rc : scan_object(p, scanner, j, err);
}

int layout_containers(struct plan *p, bool tables, struct dlc_err *err)
{
    struct layout *l = p->l;
    const char *phase = tables ? "reading tables" : "reading archives";
    uint64_t total = 0, done = 0;
    int rc = 0;

    for (size_t k = 0; k < p->n_parts; k++)
        total += p->parts[k].end - p->parts[k].first;
    for (size_t k = 0; k < p->n_parts && rc == 0; k++) {
        rc = layout_begin_part(p, &p->parts[k], err);
        for (uint64_t j = p->parts[k].first; j < p->parts[k].end && rc == 0; j++) {
            if (l->progress != NULL && l->progress(l, phase, done++, total) < 0)
                return dlc_err_set(err, DLC_ECANCELED, "given up while %s", phase);
            rc = add_object(p, &p->parts[k], tables, j, err);
        }
    }
    return rc;
}
