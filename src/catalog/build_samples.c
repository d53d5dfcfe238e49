// SPDX-License-Identifier: Apache-2.0
/*
 * The samples of a catalog under construction. They keep the order they are added in, so they are
 * encoded at once into the blocks of the file; only the index of names waits to be sorted.
 *
 * A sample is coded against the one before it in its block: the name by what it shares, the object
 * by its distance, the offset by its distance from the end of the last piece. A member of a tar
 * costs about eight bytes and the part of its name that is its own.
 */
#include "catalog/builder_i.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/mem.h"

#define FIRST_BYTES ((size_t)4 << 10)

/* ---- what grows ---- */

unsigned char *grown_reserve(struct grown *g, size_t more)
{
    size_t cap = g->cap == 0 ? FIRST_BYTES : g->cap;
    unsigned char *p;

    if (more > SIZE_MAX / 4 - g->len)
        return NULL;
    while (cap - g->len < more)
        cap += cap / 2;
    if (cap != g->cap) {
        p = mem_try_grow(g->p, cap);
        if (p == NULL)
            return NULL;
        g->p = p;
        g->cap = cap;
    }
    return g->p + g->len;
}

static int grown_add(struct grown *g, const void *data, size_t len)
{
    unsigned char *p = grown_reserve(g, len);

    if (p == NULL)
        return -1;
    memcpy(p, data, len);
    g->len += len;
    return 0;
}

/* The last block. */
static int records_close(struct records *r)
{
    struct catalog_block row = {.off = r->start, .len = (uint32_t)(r->data.len - r->start)};
    uint64_t number = r->table.len / sizeof(row);

    if (r->data.len == r->start)
        return 0;
    row.checksum = catalog_block_checksum(r->data.p + r->start, row.len, number);
    if (grown_add(&r->table, &row, sizeof(row)) < 0)
        return -1;
    r->start = r->data.len;
    return 0;
}

/* The record was written at data.p + data.len: len bytes. -1: no memory, and nothing was added. */
static int records_add(struct records *r, size_t len)
{
    r->data.len += len;
    if ((r->n + 1) % CATALOG_BLOCK == 0 && records_close(r) < 0) {
        r->data.len -= len;
        return -1;
    }
    r->n++;
    return 0;
}

static void records_release(struct records *r)
{
    mem_free(&r->data.p);
    mem_free(&r->table.p);
}

void builder_release_samples(struct catalog_builder *b)
{
    records_release(&b->samples);
    records_release(&b->texts);
    mem_free(&b->names.p);
    mem_free(&b->inlined.p);
    mem_free(&b->derived.p);
    mem_free(&b->labels.p);
    mem_free(&b->targets.p);
    map_release(&b->inline_seen);
    mem_free(&b->splits);
    mem_free(&b->columns);
}

/* ---- classes, columns, splits ---- */

static int add_text(struct catalog_builder *b, const char *s, size_t len, struct dlc_err *err)
{
    unsigned char *p = grown_reserve(&b->texts.data, CATALOG_VARINT + len);
    size_t n;

    if (p == NULL)
        return builder_no_memory(b, err);
    n = catalog_put_varint(p, len);
    if (len > 0)
        memcpy(p + n, s, len);
    return records_add(&b->texts, n + len) < 0 ? builder_no_memory(b, err) : 0;
}

int catalog_builder_class(struct catalog_builder *b, const char *name, size_t len,
                          struct dlc_err *err)
{
    builder_check(b);
    dlc_check(b->labels.len == 0 && (b->n_samples == 0 || b->n_columns == 0));
    if (builder_bad_name("class", name, len, err) < 0)
        return DLC_EINVAL;
    if (b->n_classes == SAMPLE_NO_LABEL - 1)
        return dlc_err_set(err, DLC_EINVAL, "more than %u classes", SAMPLE_NO_LABEL - 1);
    if (add_text(b, name, len, err) < 0)
        return DLC_ENOMEM;
    b->n_classes++;
    return 0;
}

static int check_short_name(const char *what, const char *name, struct dlc_err *err)
{
    if (strlen(name) >= CATALOG_NAME_MAX)
        return dlc_err_set(err, DLC_EINVAL, "%s '%.60s...' has a name of more than %d bytes", what,
                           name, CATALOG_NAME_MAX - 1);
    return 0;
}

int catalog_builder_column(struct catalog_builder *b, const char *name, struct dlc_err *err)
{
    builder_check(b);
    dlc_check(b->n_samples == 0);
    if (b->n_columns == CATALOG_COLUMNS_MAX)
        return dlc_err_set(err, DLC_EINVAL, "more than %d columns", CATALOG_COLUMNS_MAX);
    if (check_short_name("column", name, err) < 0)
        return DLC_EINVAL;
    mem_reserve(b->columns, b->n_columns, b->columns_cap);
    memcpy(b->columns[b->n_columns++], name, strlen(name) + 1);
    return 0;
}

int catalog_builder_split(struct catalog_builder *b, const char *name, bool hidden,
                          struct dlc_err *err)
{
    struct catalog_split *s;

    builder_check(b);
    if (b->n_splits == CATALOG_SPLITS_MAX)
        return dlc_err_set(err, DLC_EINVAL, "more than %d splits", CATALOG_SPLITS_MAX);
    if (check_short_name("split", name, err) < 0)
        return DLC_EINVAL;
    mem_reserve(b->splits, b->n_splits, b->splits_cap);
    s = &b->splits[b->n_splits++];
    *s = (struct catalog_split){.first = b->n_samples, .hidden = hidden};
    memcpy(s->name, name, strlen(name) + 1);
    if (hidden)
        b->visible = DLC_MIN(b->visible, b->n_samples);
    return 0;
}

/* ---- pieces ---- */

/* Where these bytes lie among the inline ones; equal bytes lie there once. */
static int inline_place(struct catalog_builder *b, const struct piece *p, uint64_t *off,
                        struct dlc_err *err)
{
    uint64_t hash = XXH3_64bits(p->bytes, p->length);
    uintptr_t seen = (uintptr_t)map_get(&b->inline_seen, hash);

    if (seen != 0 && p->length <= b->inlined.len - (seen - 1) &&
        memcmp(b->inlined.p + seen - 1, p->bytes, p->length) == 0) {
        *off = seen - 1;
        return 0;
    }
    *off = b->inlined.len;
    if (grown_add(&b->inlined, p->bytes, p->length) < 0)
        return builder_no_memory(b, err);
    map_set(&b->inline_seen, hash, (void *)(uintptr_t)(*off + 1));
    return 0;
}

static size_t put_head(struct sample_state *s, const struct piece *p, unsigned char *out)
{
    size_t n = catalog_put_varint(out, catalog_zigzag(s->object, p->object) << 2 | p->kind);

    if (s->object != p->object)
        s->end = 0;
    s->object = p->object;
    return n;
}

static size_t put_range(struct sample_state *s, const struct piece *p, unsigned char *out)
{
    size_t n = put_head(s, p, out);

    n += catalog_put_varint(out + n, catalog_zigzag(s->end, p->offset));
    n += catalog_put_varint(out + n, p->length);
    s->end = p->offset + p->length;
    return n;
}

static size_t put_inline(struct sample_state *s, const struct piece *p, uint64_t off,
                         unsigned char *out)
{
    uint32_t sum = catalog_block_checksum(p->bytes, p->length, off);
    size_t n = catalog_put_varint(out, PIECE_INLINE);

    n += catalog_put_varint(out + n, catalog_zigzag(s->inline_off, off));
    n += catalog_put_varint(out + n, p->length);
    memcpy(out + n, &sum, sizeof(sum));
    s->inline_off = off;
    return n + sizeof(sum);
}

static int check_piece(const struct catalog_builder *b, const struct catalog_new_sample *s,
                       const struct piece *p, struct dlc_err *err)
{
    struct catalog_object o;
    uint64_t end;

    if (p->kind == PIECE_INLINE)
        return 0;
    if (p->object < b->n && !__builtin_add_overflow(p->offset, p->length, &end)) {
        catalog_builder_object(b, p->object, &o);
        if (p->kind == PIECE_DERIVED || end <= o.size)
            return 0;
    }
    return dlc_err_set(err, DLC_EINVAL, "sample %.*s has a piece outside of its object",
                       (int)DLC_MIN(s->name_len, 200u), s->name);
}

static int put_pieces(struct catalog_builder *b, const struct catalog_new_sample *s,
                      struct sample_state *state, unsigned char *out, size_t *n, uint64_t *size,
                      struct dlc_err *err)
{
    for (size_t i = 0; i < s->n_pieces; i++) {
        const struct piece *p = &s->pieces[i];
        uint64_t off;
        int rc = check_piece(b, s, p, err);

        if (rc < 0)
            return rc;
        if (__builtin_add_overflow(*size, p->length, size))
            return dlc_err_set(err, DLC_EINVAL, "a sample of more than 2^64 bytes");
        if (p->kind != PIECE_INLINE) {
            *n += put_range(state, p, out + *n);
            continue;
        }
        rc = inline_place(b, p, &off, err);
        if (rc < 0)
            return rc;
        *n += put_inline(state, p, off, out + *n);
    }
    return 0;
}

/* ---- samples ---- */

static size_t put_name(struct sample_state *state, const struct catalog_new_sample *s,
                       unsigned char *out)
{
    size_t shared = 0, max = DLC_MIN(state->name_len, s->name_len), n;

    while (shared < max && state->name[shared] == s->name[shared])
        shared++;
    n = catalog_put_varint(out, shared);
    n += catalog_put_varint(out + n, s->name_len - shared);
    memcpy(out + n, s->name + shared, s->name_len - shared);
    memcpy(state->name, s->name, s->name_len);
    state->name_len = s->name_len;
    return n + s->name_len - shared;
}

/* The record at the end of the data; *n bytes. */
static int encode(struct catalog_builder *b, const struct catalog_new_sample *s, size_t *n,
                  uint64_t *size, struct dlc_err *err)
{
    size_t most = CATALOG_KEY_MAX + (3 + s->n_pieces * 4) * CATALOG_VARINT;
    unsigned char *out = grown_reserve(&b->samples.data, most);
    struct catalog_object o;

    if (out == NULL)
        return builder_no_memory(b, err);
    if (records_at_start(&b->samples))
        b->last = (struct sample_state){.object = 0};
    if (s->name != NULL) {
        *n = catalog_put_varint(out, s->n_pieces);
        *n += put_name(&b->last, s, out + *n);
        return put_pieces(b, s, &b->last, out, n, size, err);
    }
    *n = catalog_put_varint(out, 0);
    *n += put_head(&b->last, &(struct piece){.object = s->object}, out + *n);
    catalog_builder_object(b, s->object, &o);
    b->last.end = 0;
    *size = o.size;
    return 0;
}

static int add_cells(struct catalog_builder *b, const struct catalog_new_sample *s,
                     struct dlc_err *err)
{
    for (size_t k = 0; k < b->n_columns; k++) {
        struct catalog_text t = s->cells == NULL ? (struct catalog_text){"", 0} : s->cells[k];

        if (t.len > CATALOG_CELL_MAX)
            return dlc_err_set(err, DLC_EINVAL, "column %s: a text of %zu bytes; at most %zu",
                               b->columns[k], t.len, CATALOG_CELL_MAX);
        if (add_text(b, t.s, t.len, err) < 0)
            return DLC_ENOMEM;
    }
    return 0;
}

static int add_numbers(struct catalog_builder *b, const struct catalog_new_sample *s,
                       struct dlc_err *err)
{
    struct catalog_object o = {.key = s->name, .key_len = s->name_len};
    uint64_t index;

    if (s->name == NULL)
        catalog_builder_object(b, s->object, &o);
    index = XXH3_64bits(o.key, o.key_len) >> 32 << 32 | b->n_samples;
    if (grown_add(&b->names, &index, sizeof(index)) < 0)
        return builder_no_memory(b, err);
    if (b->n_classes > 0 && grown_add(&b->labels, &s->label, sizeof(s->label)) < 0)
        return builder_no_memory(b, err);
    return 0;
}

static int check_sample(const struct catalog_builder *b, const struct catalog_new_sample *s,
                        struct dlc_err *err)
{
    dlc_check(b->settled && (s->name != NULL || s->object < b->n));
    dlc_check(s->name == NULL || (s->n_pieces > 0 && s->n_pieces <= SAMPLE_PIECES_MAX));
    dlc_check(s->label == SAMPLE_NO_LABEL || s->label < b->n_classes);
    if (b->n_samples >= CATALOG_SAMPLES_MAX)
        return dlc_err_set(err, DLC_EINVAL, "more than %u samples", CATALOG_SAMPLES_MAX);
    if (s->name != NULL && s->name_len == 0)
        return dlc_err_set(err, DLC_EINVAL, "a sample with an empty name");
    return s->name != NULL ? builder_bad_name("sample", s->name, s->name_len, err) : 0;
}

int catalog_builder_sample(struct catalog_builder *b, const struct catalog_new_sample *s,
                           struct dlc_err *err)
{
    uint64_t size = 0;
    size_t n = 0;
    int rc;

    builder_check(b);
    rc = check_sample(b, s, err);
    if (rc == 0)
        rc = builder_check_limits(b, err);
    if (rc == 0)
        rc = encode(b, s, &n, &size, err);
    if (rc == 0)
        rc = add_numbers(b, s, err);
    if (rc == 0)
        rc = add_cells(b, s, err);
    if (rc == 0 && records_add(&b->samples, n) < 0)
        rc = builder_no_memory(b, err);
    if (rc < 0)
        return rc;
    b->whole = b->whole && s->name == NULL && s->object == b->n_samples;
    b->n_samples++;
    if (b->visible == UINT64_MAX && __builtin_add_overflow(b->bytes, size, &b->bytes))
        b->bytes = UINT64_MAX;
    return 0;
}

uint64_t catalog_builder_samples(const struct catalog_builder *b)
{
    builder_check(b);
    return b->n_samples;
}

int catalog_builder_labels(struct catalog_builder *b, const void *labels, size_t n,
                           struct dlc_err *err)
{
    builder_check(b);
    dlc_check(n == b->n_samples && b->labels.len == 0 && b->n_columns == 0);
    return grown_add(&b->labels, labels, n * sizeof(uint32_t)) < 0 ? builder_no_memory(b, err) : 0;
}

int catalog_builder_derived(struct catalog_builder *b, uint64_t j, uint64_t size,
                            struct dlc_err *err)
{
    uint64_t pair[2] = {j, size};

    builder_check(b);
    dlc_check(b->settled && j < b->n);
    return grown_add(&b->derived, pair, sizeof(pair)) < 0 ? builder_no_memory(b, err) : 0;
}

int catalog_builder_target(struct catalog_builder *b, uint64_t i, uint64_t target,
                           struct dlc_err *err)
{
    const uint32_t none = UINT32_MAX, t = (uint32_t)target;

    builder_check(b);
    dlc_check(i < CATALOG_SAMPLES_MAX && target < CATALOG_SAMPLES_MAX);
    while (b->targets.len / sizeof(t) <= i) {
        if (grown_add(&b->targets, &none, sizeof(none)) < 0)
            return builder_no_memory(b, err);
    }
    memcpy(b->targets.p + i * sizeof(t), &t, sizeof(t));
    return 0;
}

/* ---- the end ---- */

static int by_number(const void *a, const void *b)
{
    uint64_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

static void close_splits(struct catalog_builder *b)
{
    for (size_t k = 0; k < b->n_splits; k++) {
        uint64_t end = k + 1 < b->n_splits ? b->splits[k + 1].first : b->n_samples;

        b->splits[k].count = end - b->splits[k].first;
    }
}

int builder_seal(struct catalog_builder *b, struct dlc_err *err)
{
    const uint32_t none = UINT32_MAX;

    catalog_builder_settle(b);
    b->whole = b->whole && (b->n_samples == b->n || b->n_samples == 0);
    if (b->n_samples == 0) /* every object is one */
        b->n_samples = b->n;
    b->visible = DLC_MIN(b->visible, b->n_samples);
    close_splits(b);
    if (records_close(&b->samples) < 0 || records_close(&b->texts) < 0)
        return builder_no_memory(b, err);
    while (b->targets.len > 0 && b->targets.len / sizeof(none) < b->n_samples) {
        if (grown_add(&b->targets, &none, sizeof(none)) < 0)
            return builder_no_memory(b, err);
    }
    if (b->names.len > 0 && !b->whole)
        qsort(b->names.p, b->names.len / sizeof(uint64_t), sizeof(uint64_t), by_number);
    if (b->derived.len > 0)
        qsort(b->derived.p, b->derived.len / (2 * sizeof(uint64_t)), 2 * sizeof(uint64_t),
              by_number);
    return 0;
}
