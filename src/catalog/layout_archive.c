// SPDX-License-Identifier: Apache-2.0
/*
 * Layouts whose objects are containers: archives, and tables large enough to be cut. Samples are
 * named by the object's key, '/', and what the scanner calls them. A table that is not larger than
 * a partition, or turns out to be a single one, stays the object it is.
 *
 * Objects are scanned several at once (layout.parallel), because a scan waits for the bucket most
 * of the time. Samples are added in the order of the objects: a thread adds those that it finds
 * while it is its object's turn, and keeps them until then, up to DEFERRED_MAX.
 *
 *     take the next object --> scan --> wait for the turn --> add deferred samples --> next turn
 *
 * (TURN-1) The builder is changed by the thread whose turn it is, and by no other.
 * (TURN-2) Objects are taken in order, so that the one whose turn it is, is being scanned.
 * (TURN-3) The failure of the first object in order is reported, as if there were one thread.
 */
#include "catalog/layout_i.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/host_limits.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/syscalls.h"
#include "catalog/member_classes_i.h"

#define PROBE_MEMBERS 1000 /* looked at to see whether members group */
#define PROBE_ENOUGH  1    /* what found() returns to end the probe */

#define DEFERRED_MAX ((size_t)4 << 20) /* bytes of samples that one object keeps until its turn */
#define AT_ONCE      64                /* objects, at most */

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

/* ---- turns ---- */

/* The objects of one part, and the threads that scan them. */
struct crew {
    struct plan *p;
    const struct part *part;
    bool tables;
    struct member_classes *classes; /* of members that are samples; NULL: tables, groups */
    const struct member_sink *sink; /* gets the members; NULL: they are samples */
    uint64_t done, total;           /* objects before this part, and of all parts */

    struct dlc_mtx mtx;   /* rank LCK_crew */
    struct dlc_cond cond; /* the turn, or `over`, changed */
    uint64_t next;        /* G: mtx: object that nobody has taken */
    uint64_t turn;        /* G: mtx: object whose samples are added */
    _Atomic bool over;    /* W under mtx, R any, relaxed: a late look costs one sample */
    int rc;               /* G: mtx: of the first that failed */
    struct dlc_err err;   /* G: mtx */
};

static bool crew_is_over(struct crew *c)
{
    return atomic_load_explicit(&c->over, memory_order_relaxed);
}

/* False: the crew has ended. */
static bool crew_wait(struct crew *c, uint64_t j)
{
    bool mine;

    dlc_mtx_lock(&c->mtx);
    while (c->turn != j && !crew_is_over(c))
        dlc_cond_wait(&c->cond, &c->mtx);
    mine = c->turn == j && !crew_is_over(c);
    dlc_mtx_unlock(&c->mtx);
    return mine;
}

static bool crew_has_turn(struct crew *c, uint64_t j)
{
    bool mine;

    dlc_mtx_lock(&c->mtx);
    mine = c->turn == j;
    dlc_mtx_unlock(&c->mtx);
    return mine;
}

/* It was j's turn. */
static void crew_pass(struct crew *c, uint64_t j, int rc, const struct dlc_err *err)
{
    dlc_mtx_lock(&c->mtx);
    c->turn = j + 1;
    if (rc < 0 && !crew_is_over(c)) {
        c->rc = rc;
        c->err = *err;
        atomic_store_explicit(&c->over, true, memory_order_relaxed);
    }
    dlc_cond_broadcast(&c->cond);
    dlc_mtx_unlock(&c->mtx);
}

static bool crew_take(struct crew *c, uint64_t *j)
{
    bool ok;

    dlc_mtx_lock(&c->mtx);
    ok = !crew_is_over(c) && c->next < c->part->end;
    *j = ok ? c->next++ : 0;
    dlc_mtx_unlock(&c->mtx);
    return ok;
}

/* ---- one object ---- */

struct scanning {
    struct crew *crew;
    struct plan *p;
    uint64_t object;
    struct buf name; /* key and '/', then the member */
    size_t key_len;
    struct piece *pieces; /* with the object's number */
    size_t cap;
    uint64_t n;
    bool tabular;
    bool mine;        /* it is the object's turn */
    struct buf first; /* tabular: the name of the first partition, until there is a second */
    struct piece *first_pieces;
    size_t n_first;
    struct buf first_bytes;
    struct buf deferred; /* of each: deferred_sample, name, pieces, bytes of inline pieces */
};

/* A sample that was found before the turn of its object: its header in `deferred`. */
struct deferred_sample {
    size_t name_len, n_pieces;
};

/* Of g->pieces. */
static int add_now(struct scanning *g, const char *name, size_t len, size_t n, struct dlc_err *err)
{
    const struct member_sink *k = g->crew->sink;
    struct catalog_new_sample s = {.n_pieces = n, .label = SAMPLE_NO_LABEL};

    for (size_t i = 0; i < n; i++) {
        g->pieces[i].object = g->object;
        if (g->pieces[i].kind == PIECE_DERIVED && g->pieces[i].length == 0)
            g->pieces[i] = (struct piece){.object = g->object}; /* needs no unpacked copy */
    }
    if (k != NULL)
        return k->found(k, name, len, g->pieces, err);
    if (g->crew->classes != NULL && member_classes_add(g->crew->classes, name, len) < 0)
        return builder_no_memory(g->p->l->builder, err);
    g->name.len = g->key_len;
    buf_add(&g->name, name, len);
    s.name = buf_str(&g->name);
    s.name_len = g->name.len;
    s.pieces = g->pieces;
    return catalog_builder_sample(g->p->l->builder, &s, err);
}

static void set_pieces(struct scanning *g, const void *pieces, size_t n)
{
    if (n > g->cap) {
        g->cap = n;
        g->pieces = mem_grow(g->pieces, n * sizeof(*g->pieces));
    }
    if (n > 0)
        memcpy(g->pieces, pieces, n * sizeof(*g->pieces));
}

static void defer_sample(struct scanning *g, const char *name, size_t len,
                         const struct piece *pieces, size_t n)
{
    struct deferred_sample k = {len, n};

    buf_add(&g->deferred, &k, sizeof(k));
    buf_add(&g->deferred, name, len);
    buf_add(&g->deferred, pieces, n * sizeof(*pieces));
    for (size_t i = 0; i < n; i++)
        if (pieces[i].kind == PIECE_INLINE)
            buf_add(&g->deferred, pieces[i].bytes, pieces[i].length);
}

/* It is the turn of this object: add the samples that were found before. */
static int add_deferred(struct scanning *g, struct dlc_err *err)
{
    const char *p = buf_str(&g->deferred), *end = p + g->deferred.len;
    int rc = 0;

    while (p < end && rc == 0) {
        const char *name;
        struct deferred_sample k;

        memcpy(&k, p, sizeof(k));
        name = p + sizeof(k);
        set_pieces(g, name + k.name_len, k.n_pieces);
        p = name + k.name_len + k.n_pieces * sizeof(*g->pieces);
        for (size_t i = 0; i < k.n_pieces; i++)
            if (g->pieces[i].kind == PIECE_INLINE) {
                g->pieces[i].bytes = p;
                p += g->pieces[i].length;
            }
        rc = add_now(g, name, k.name_len, k.n_pieces, err);
    }
    buf_release(&g->deferred);
    return rc;
}

static int over(struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECANCELED, "another object failed");
}

static int add_sample(struct scanning *g, const char *name, size_t len, const struct piece *pieces,
                      size_t n, struct dlc_err *err)
{
    int rc = 0;

    if (crew_is_over(g->crew))
        return over(err);
    g->mine = g->mine || crew_has_turn(g->crew, g->object);
    if (!g->mine && g->deferred.len < DEFERRED_MAX) {
        defer_sample(g, name, len, pieces, n);
        return 0;
    }
    if (!g->mine && !crew_wait(g->crew, g->object))
        return over(err);
    if (g->deferred.len > 0)
        rc = add_deferred(g, err);
    set_pieces(g, pieces, n);
    return rc < 0 ? rc : add_now(g, name, len, n, err);
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
    buf_release(&g->deferred);
    mem_free(&g->pieces);
    mem_free(&g->first_pieces);
}

/* Without a place for an unpacked copy: archives that need none are scanned all the same. */
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
    scan.limits.group = l->group == 1 && g->crew->sink == NULL;
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
    if (!crew_wait(g->crew, g->object))
        return over(err);
    if (rc == 0)
        rc = add_deferred(g, err);
    if (rc == 0 && scan.derived_size > 0)
        rc = catalog_builder_derived(l->builder, g->object, scan.derived_size, err);
    if (rc == 0 && g->tabular && g->n == 1)
        rc = layout_add_whole(p, g->object, SAMPLE_NO_LABEL, err);
    return rc;
}

static int scan_object(struct crew *c, const struct scanner *scanner, uint64_t j,
                       struct dlc_err *err)
{
    struct plan *p = c->p;
    struct scanning g = {.crew = c, .p = p, .object = j, .tabular = scanner->tabular};
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

static const char *phase_of(bool tables)
{
    return tables ? "reading tables" : "reading archives";
}

/* The caller passes the turn on. */
static int add_object(struct crew *c, uint64_t j, struct dlc_err *err)
{
    struct layout *l = c->p->l;
    const struct scanner *scanner;
    struct seen s;

    if (c->sink != NULL && !c->sink->wants(c->sink, j))
        return 0;
    if (l->progress != NULL &&
        l->progress(l, phase_of(c->tables), c->done + (j - c->part->first), c->total) < 0)
        return dlc_err_set(err, DLC_ECANCELED, "given up while %s", phase_of(c->tables));
    plan_see(c->p, c->part, j, &s);
    if (seen_is_junk(&s))
        return 0;
    scanner = scanner_of(s.o.key);
    if (scanner == NULL || scanner->tabular != c->tables)
        return dlc_err_set(err, DLC_EINVAL,
                           "%.300s is no %s; ?layout=flat takes each object as a sample", s.o.key,
                           c->tables ? "table (csv, npy, parquet)" : "archive (tar, zip)");
    if (!c->tables || s.o.size > partition_of(c->p))
        return scan_object(c, scanner, j, err);
    return crew_wait(c, j) ? layout_add_whole(c->p, j, SAMPLE_NO_LABEL, err) : over(err);
}

static void *crew_work(void *arg)
{
    struct crew *c = arg;
    uint64_t j;

    while (crew_take(c, &j)) {
        struct dlc_err err = DLC_ERR_INIT;
        int rc = add_object(c, j, &err);

        if (!crew_wait(c, j))
            break;
        crew_pass(c, j, rc, &err);
    }
    return NULL;
}

/* Those that are unpacked need a processor each, the others wait for the bucket. */
static unsigned crew_size(const struct crew *c)
{
    uint64_t n = c->part->end - c->part->first, most = DLC_CLAMP(c->p->l->parallel, 1u, AT_ONCE);

    for (uint64_t j = c->part->first; j < c->part->end && most > 1; j++) {
        const struct scanner *scanner;
        struct seen s;

        if (c->sink != NULL && !c->sink->wants(c->sink, j))
            continue;
        plan_see(c->p, c->part, j, &s);
        scanner = scanner_of(s.o.key);
        if (scanner != NULL && scanner->derives)
            most = DLC_MIN(most, host_cores());
    }
    return (unsigned)DLC_MIN(n, most);
}

static int crew_run(struct crew *c, struct dlc_err *err)
{
    unsigned n = crew_size(c), started = 0;
    pthread_t threads[AT_ONCE];

    dlc_mtx_init(&c->mtx, LCK_crew);
    dlc_cond_init(&c->cond);
    c->next = c->turn = c->part->first;
    while (started + 1 < n && os_thread(&threads[started], crew_work, c) == 0)
        started++; /* where there are no more threads, fewer do it */
    crew_work(c);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    dlc_cond_release(&c->cond);
    dlc_mtx_release(&c->mtx);
    if (c->rc < 0 && err != NULL)
        *err = c->err;
    return c->rc;
}

/* Look into the first archive of a part, unless it is known how members group. */
static int find_groups_of(struct plan *p, const struct part *part, struct dlc_err *err)
{
    for (uint64_t j = part->first; j < part->end && p->l->group < 0; j++) {
        const struct scanner *scanner;
        struct seen s;

        plan_see(p, part, j, &s);
        if (seen_is_junk(&s))
            continue;
        scanner = scanner_of(s.o.key);
        return scanner == NULL || scanner->tabular ? 0 : find_groups(p, scanner, j, err);
    }
    return 0;
}

int layout_containers(struct plan *p, bool tables, struct dlc_err *err)
{
    struct member_classes classes = {.off = false};
    uint64_t total = 0, done = 0;
    int rc = 0;

    for (size_t k = 0; k < p->n_parts; k++)
        total += p->parts[k].end - p->parts[k].first;
    for (size_t k = 0; k < p->n_parts && rc == 0; k++) {
        struct crew c = {
            .p = p, .part = &p->parts[k], .tables = tables, .done = done, .total = total};

        rc = layout_begin_part(p, c.part, err);
        if (rc == 0 && !tables)
            rc = find_groups_of(p, c.part, err);
        if (!tables && p->l->group == 0)
            c.classes = &classes;
        if (rc == 0)
            rc = crew_run(&c, err);
        done += c.part->end - c.part->first;
    }
    if (rc == 0)
        rc = member_classes_finish(&classes, p->l->builder, err);
    member_classes_release(&classes);
    return rc;
}

int layout_read_members(struct plan *p, const struct member_sink *k, struct dlc_err *err)
{
    struct part part = {.first = UINT64_MAX};
    struct crew c = {.p = p, .part = &part, .sink = k};

    for (uint64_t j = 0; j < p->n; j++) {
        if (k->wants(k, j)) {
            part.first = DLC_MIN(part.first, j);
            part.end = j + 1;
        }
    }
    if (part.end == 0)
        return 0;
    c.total = part.end - part.first;
    return crew_run(&c, err);
}
