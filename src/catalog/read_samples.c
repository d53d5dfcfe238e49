// SPDX-License-Identifier: Apache-2.0
/*
 * Reading samples, labels, splits and columns of a catalog. Nothing read is trusted: a block or a
 * page is verified before use, a piece is checked against its object (P1 of docs/design/0003).
 */
#include "catalog/catalog_i.h"

#include <string.h>

#include <xxhash.h>

#include "base/mem.h"

/* ---- opening ---- */

/* Are the pages there for n elements of one of the widths? */
static bool pages_fit(const struct catalog_section *s, uint64_t n, uint32_t width)
{
    return s->id == 0 ||
           (s->width == width && n <= s->len && s->len == catalog_paged_size(n, width));
}

static bool short_name(struct catalog_cursor *cur, char *out)
{
    uint64_t len;

    if (!catalog_get_varint(cur, &len) || len >= CATALOG_NAME_MAX ||
        !catalog_get_bytes(cur, out, len) || memchr(out, '\0', len) != NULL)
        return false;
    out[len] = '\0';
    return true;
}

static bool load_split(const struct catalog *c, struct catalog_cursor *cur, struct catalog_split *s)
{
    unsigned char hidden;

    if (!catalog_get_varint(cur, &s->first) || !catalog_get_varint(cur, &s->count) ||
        !catalog_get_bytes(cur, &hidden, 1) || !short_name(cur, s->name))
        return false;
    s->hidden = hidden != 0;
    return s->first <= c->h.count && s->count <= c->h.count - s->first;
}

static bool load_small(struct catalog *c)
{
    struct catalog_cursor cur = {c->map + c->small.off, c->map + c->small.off + c->small.len};
    uint64_t n;

    if (c->small.id == 0)
        return true;
    if (c->small.len > CATALOG_SMALL_MAX || XXH3_64bits(cur.p, c->small.len) != c->small.checksum)
        return false;
    if (!catalog_get_varint(&cur, &n) || n > CATALOG_SPLITS_MAX)
        return false;
    c->splits = mem_zero(DLC_MAX(n, 1u) * sizeof(*c->splits));
    for (; c->n_splits < n; c->n_splits++) {
        if (!load_split(c, &cur, &c->splits[c->n_splits]))
            return false;
    }
    if (!catalog_get_varint(&cur, &n) || n > CATALOG_COLUMNS_MAX)
        return false;
    c->columns = mem_zero(DLC_MAX(n, 1u) * sizeof(*c->columns));
    for (; c->n_columns < n; c->n_columns++) {
        if (!short_name(&cur, c->columns[c->n_columns]))
            return false;
    }
    return cur.p == cur.end;
}

static bool texts_fit(struct catalog *c)
{
    uint64_t cells, n;

    if (__builtin_mul_overflow(c->h.count, c->n_columns, &cells) ||
        __builtin_add_overflow(cells, c->h.n_classes, &n))
        return false;
    return catalog_blocks_fit(&c->texts, n, UINT32_MAX);
}

int catalog_load_samples(struct catalog *c, struct dlc_err *err)
{
    bool whole = c->samples.data.id == 0;
    uint32_t width = c->labels.width;

    if (whole ? c->h.count != c->h.n_objects
              : c->names.id == 0 || c->h.count > CATALOG_SAMPLES_MAX ||
                    !catalog_blocks_fit(&c->samples, c->h.count, UINT32_MAX))
        return catalog_corrupt(err, "the number of samples does not fit");
    if (c->h.visible > c->h.count)
        return catalog_corrupt(err, "more samples than there are");
    if (!pages_fit(&c->names, c->h.count, sizeof(uint64_t)) ||
        !pages_fit(&c->targets, c->h.count, sizeof(uint32_t)) ||
        (width != 1 && width != 2 && width != 4 && c->labels.id != 0) ||
        !pages_fit(&c->labels, c->h.count, width))
        return catalog_corrupt(err, "a section of pages has the wrong length");
    if (c->derived.id != 0 && c->derived.width != 2 * sizeof(uint64_t))
        return catalog_corrupt(err, "unknown table of unpacked copies");
    if (!load_small(c))
        return catalog_corrupt(err, "splits or columns make no sense");
    if (!texts_fit(c))
        return catalog_corrupt(err, "the texts do not fit the samples");
    return 0;
}

/* Element i of a section of pages, verified: `width` bytes in the mapping, or NULL. */
static const unsigned char *catalog_element(const struct catalog *c,
                                            const struct catalog_section *s, uint64_t i)
{
    uint64_t per = catalog_per_page(s->width), page = i / per, full, off, n;
    const unsigned char *p;
    uint64_t sum;

    full = per * s->width + sizeof(sum);
    if (page > s->len / full)
        return NULL;
    off = page * full;
    n = DLC_MIN(s->len - off, full);
    if (n < sizeof(sum) || (i % per + 1) * s->width > n - sizeof(sum))
        return NULL;
    p = c->map + s->off + off;
    memcpy(&sum, p + n - sizeof(sum), sizeof(sum));
    if (catalog_page_checksum(p, n - sizeof(sum), s->id, page) != sum)
        return NULL;
    return p + i % per * s->width;
}

/* ---- samples ---- */

static int damaged(const struct catalog *c, uint64_t i, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECORRUPT, "catalog of %s is damaged at sample %llu; make it again",
                       c->url, (unsigned long long)i);
}

static int no_sample(const struct catalog *c, uint64_t i, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_EINVAL, "no sample %llu: the dataset has %llu",
                       (unsigned long long)i, (unsigned long long)c->h.count);
}

/* What samples are coded against. */
struct decoder {
    struct catalog_cursor cur;
    uint64_t object, end, inline_off;
    size_t name_len;
    bool whole; /* the sample is object `object` under its key */
};

static bool next_name(struct decoder *d, char *name)
{
    uint64_t shared, more;

    if (!catalog_get_varint(&d->cur, &shared) || !catalog_get_varint(&d->cur, &more) ||
        shared > d->name_len || more > CATALOG_KEY_MAX - shared ||
        !catalog_get_bytes(&d->cur, name + shared, (size_t)more))
        return false;
    d->name_len = (size_t)(shared + more);
    name[d->name_len] = '\0';
    return true;
}

static bool next_head(struct decoder *d, struct piece *p)
{
    uint64_t head, object;

    if (!catalog_get_varint(&d->cur, &head) || (head & 3) > PIECE_INLINE)
        return false;
    *p = (struct piece){.kind = (enum piece_kind)(head & 3)};
    if (p->kind == PIECE_INLINE)
        return true;
    object = catalog_unzigzag(d->object, head >> 2);
    if (object != d->object)
        d->end = 0;
    p->object = d->object = object;
    return true;
}

/* The bytes of an inline piece are left for later: most samples are only passed over. */
static bool next_piece(struct decoder *d, struct piece *p, uint32_t *sum)
{
    uint64_t delta;

    if (!next_head(d, p) || !catalog_get_varint(&d->cur, &delta) ||
        !catalog_get_varint(&d->cur, &p->length))
        return false;
    if (p->kind == PIECE_INLINE) {
        p->offset = d->inline_off = catalog_unzigzag(d->inline_off, delta);
        return catalog_get_bytes(&d->cur, sum, sizeof(*sum));
    }
    p->offset = catalog_unzigzag(d->end, delta);
    return !__builtin_add_overflow(p->offset, p->length, &d->end);
}

/* The piece lies in what it refers to (SAMPLES-1). */
static bool piece_good(const struct catalog *c, struct piece *p, uint32_t sum,
                       struct catalog_entry *e, uint64_t *checked)
{
    uint64_t size;

    if (p->kind == PIECE_INLINE) {
        if (p->offset > c->inlined.len || p->length > c->inlined.len - p->offset)
            return false;
        p->bytes = c->map + c->inlined.off + p->offset;
        if (catalog_block_checksum(p->bytes, p->length, p->offset) != sum)
            return false;
        p->offset = 0;
        return true;
    }
    if (p->kind == PIECE_DERIVED) {
        if (catalog_derived(c, p->object, &size, NULL) < 0)
            return false;
        return p->offset + p->length <= size;
    }
    if (*checked != p->object && catalog_object(c, p->object, e, NULL) < 0)
        return false;
    *checked = p->object;
    return p->offset + p->length <= e->size;
}

/* Pass over the pieces of a sample, or with `out` keep them. */
static bool next_pieces(const struct catalog *c, struct decoder *d, uint64_t n,
                        struct catalog_sample *out)
{
    struct catalog_entry e;
    uint64_t checked = UINT64_MAX;
    struct piece p;
    uint32_t sum = 0;

    if (out != NULL && n > CATALOG_FEW_PIECES)
        out->pieces = mem_alloc(n * sizeof(p));
    for (uint64_t k = 0; k < n; k++) {
        if (!next_piece(d, &p, &sum))
            return false;
        if (out == NULL)
            continue;
        if (!piece_good(c, &p, sum, &e, &checked) ||
            __builtin_add_overflow(out->size, p.length, &out->size))
            return false;
        out->pieces[out->n_pieces++] = p;
    }
    return true;
}

/* The next sample of the block; its name goes to `name` unless it is a whole object's. */
static bool next_sample(const struct catalog *c, struct decoder *d, char *name,
                        struct catalog_sample *out)
{
    struct piece p;
    uint64_t n;

    if (!catalog_get_varint(&d->cur, &n) || n > SAMPLE_PIECES_MAX)
        return false;
    d->whole = n == 0;
    if (!d->whole)
        return next_name(d, name) && next_pieces(c, d, n, out);
    d->end = 0;
    return next_head(d, &p) && p.kind == PIECE_OBJECT;
}

/* The sample is an object under its key. */
static int whole_sample(const struct catalog *c, uint64_t object, struct catalog_sample *out,
                        struct dlc_err *err)
{
    struct catalog_entry e;
    int rc = catalog_object(c, object, &e, err);

    if (rc < 0)
        return DLC_ECORRUPT;
    memcpy(out->name, e.key, sizeof(out->name));
    out->size = e.size;
    out->n_pieces = 1;
    out->pieces[0] = (struct piece){.object = object, .length = e.size};
    return 0;
}

int catalog_sample(const struct catalog *c, uint64_t i, struct catalog_sample *out,
                   struct dlc_err *err)
{
    struct decoder d = {.object = 0};
    bool good;

    catalog_of(c);
    out->name[0] = '\0';
    out->size = out->n_pieces = 0;
    out->pieces = out->few;
    if (i >= c->h.count)
        return no_sample(c, i, err);
    if (catalog_is_whole(c))
        return whole_sample(c, i, out, err);
    good = catalog_open_block(c, &c->samples, i / CATALOG_BLOCK, &d.cur);
    for (uint64_t k = 0; good && k <= i % CATALOG_BLOCK; k++)
        good = next_sample(c, &d, out->name, k == i % CATALOG_BLOCK ? out : NULL);
    if (good && d.whole)
        good = whole_sample(c, d.object, out, err) == 0;
    if (good)
        return 0;
    out->name[0] = '\0';
    out->size = out->n_pieces = 0;
    return damaged(c, i, err);
}

void catalog_sample_release(struct catalog_sample *s)
{
    if (s->pieces != s->few)
        mem_free(&s->pieces);
    s->pieces = NULL;
    s->n_pieces = 0;
}

int catalog_get_sample(const struct catalog *c, uint64_t i, struct catalog_entry *out,
                       struct dlc_err *err)
{
    struct catalog_sample s;
    int rc = catalog_sample(c, i, &s, err);
    size_t k = 0;

    out->key[0] = out->etag[0] = '\0';
    out->size = 0;
    while (k < s.n_pieces && s.pieces[k].kind == PIECE_INLINE)
        k++;
    if (rc == 0 && k < s.n_pieces && catalog_object(c, s.pieces[k].object, out, err) < 0)
        rc = damaged(c, i, err);
    if (rc == 0) {
        memcpy(out->key, s.name, sizeof(out->key));
        out->size = s.size;
    }
    catalog_sample_release(&s);
    return rc;
}

/* ---- names ---- */

static int name_row(const struct catalog *c, uint64_t k, uint64_t *row)
{
    const unsigned char *p = catalog_element(c, &c->names, k);

    if (p == NULL)
        return DLC_ECORRUPT;
    memcpy(row, p, sizeof(*row));
    return 0;
}

int catalog_find_sample(const struct catalog *c, const char *name, uint64_t *i)
{
    uint64_t hash = XXH3_64bits(name, strlen(name)) >> 32 << 32, lo = 0, hi = c->h.count, row;
    struct catalog_entry e;
    int rc = 0;

    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (name_row(c, mid, &row) < 0)
            return DLC_ECORRUPT;
        if (row < hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < c->h.count; lo++) {
        if (name_row(c, lo, &row) < 0)
            return DLC_ECORRUPT;
        if (row >> 32 != hash >> 32)
            break;
        rc = catalog_get_sample(c, (uint32_t)row, &e, NULL);
        if (rc < 0)
            return DLC_ECORRUPT;
        if (strcmp(e.key, name) == 0) {
            *i = (uint32_t)row;
            return 0;
        }
    }
    return DLC_ENOTFOUND;
}

/* ---- what is said of objects and samples ---- */

int catalog_derived(const struct catalog *c, uint64_t j, uint64_t *size, struct dlc_err *err)
{
    uint64_t lo = 0, hi, pair[2];

    catalog_of(c);
    *size = 0;
    if (c->derived.id == 0)
        goto none;
    hi = c->derived.len / c->derived.width; /* a little more than there are */
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        const unsigned char *p;

        if (catalog_paged_size(mid + 1, c->derived.width) > c->derived.len) {
            hi = mid;
            continue;
        }
        p = catalog_element(c, &c->derived, mid);
        if (p == NULL)
            return dlc_err_set(err, DLC_ECORRUPT,
                               "catalog of %s is damaged at object %llu; make it again", c->url,
                               (unsigned long long)j);
        memcpy(pair, p, sizeof(pair));
        if (pair[0] == j) {
            *size = pair[1];
            return 0;
        }
        if (pair[0] < j)
            lo = mid + 1;
        else
            hi = mid;
    }
none:
    return dlc_err_set(err, DLC_ENOTFOUND, "object %llu of %s has no unpacked copy",
                       (unsigned long long)j, c->url);
}

int catalog_label(const struct catalog *c, uint64_t i, uint32_t *label, struct dlc_err *err)
{
    const unsigned char *p;
    uint32_t none;

    catalog_of(c);
    *label = SAMPLE_NO_LABEL;
    if (i >= c->h.count)
        return no_sample(c, i, err);
    if (c->labels.id == 0)
        return 0;
    p = catalog_element(c, &c->labels, i);
    if (p == NULL)
        return damaged(c, i, err);
    none = UINT32_MAX >> (32 - 8 * c->labels.width);
    *label = 0;
    memcpy(label, p, c->labels.width);
    if (*label == none)
        *label = SAMPLE_NO_LABEL;
    else if (*label >= c->h.n_classes)
        return damaged(c, i, err);
    return 0;
}

uint64_t catalog_classes(const struct catalog *c)
{
    return catalog_of(c)->h.n_classes;
}

static bool text_at(const struct catalog *c, uint64_t k, struct catalog_text *out)
{
    struct catalog_cursor cur;
    uint64_t len = 0;

    *out = (struct catalog_text){"", 0};
    if (!catalog_open_block(c, &c->texts, k / CATALOG_BLOCK, &cur))
        return false;
    for (uint64_t at = 0; at <= k % CATALOG_BLOCK; at++) {
        cur.p += len;
        if (!catalog_get_varint(&cur, &len) || len > (uint64_t)(cur.end - cur.p))
            return false;
    }
    *out = (struct catalog_text){(const char *)cur.p, (size_t)len};
    return true;
}

int catalog_class_name(const struct catalog *c, uint64_t k, struct catalog_text *out,
                       struct dlc_err *err)
{
    catalog_of(c);
    *out = (struct catalog_text){"", 0};
    if (k >= c->h.n_classes)
        return dlc_err_set(err, DLC_EINVAL, "no class %llu: the dataset has %llu",
                           (unsigned long long)k, (unsigned long long)c->h.n_classes);
    if (!text_at(c, k, out))
        return catalog_corrupt(err, "names of classes");
    return 0;
}

unsigned catalog_splits(const struct catalog *c)
{
    return catalog_of(c)->n_splits;
}

const struct catalog_split *catalog_split_at(const struct catalog *c, unsigned k)
{
    dlc_check(k < catalog_of(c)->n_splits);
    return &c->splits[k];
}

const struct catalog_split *catalog_split(const struct catalog *c, const char *name)
{
    for (unsigned k = 0; k < catalog_of(c)->n_splits; k++) {
        if (strcmp(c->splits[k].name, name) == 0)
            return &c->splits[k];
    }
    return NULL;
}

unsigned catalog_columns(const struct catalog *c)
{
    return catalog_of(c)->n_columns;
}

const char *catalog_column_name(const struct catalog *c, unsigned k)
{
    dlc_check(k < catalog_of(c)->n_columns);
    return c->columns[k];
}

int catalog_cell(const struct catalog *c, uint64_t i, unsigned column, struct catalog_text *out,
                 struct dlc_err *err)
{
    catalog_of(c);
    *out = (struct catalog_text){"", 0};
    if (i >= c->h.count)
        return no_sample(c, i, err);
    if (column >= c->n_columns)
        return dlc_err_set(err, DLC_EINVAL, "no column %u: the dataset has %u", column,
                           c->n_columns);
    return text_at(c, c->h.n_classes + i * c->n_columns + column, out) ? 0 : damaged(c, i, err);
}

int catalog_target(const struct catalog *c, uint64_t i, uint64_t *target, struct dlc_err *err)
{
    const unsigned char *p;
    uint32_t t;

    catalog_of(c);
    if (i >= c->h.count)
        return no_sample(c, i, err);
    if (c->targets.id == 0)
        goto none;
    p = catalog_element(c, &c->targets, i);
    if (p == NULL)
        return damaged(c, i, err);
    memcpy(&t, p, sizeof(t));
    if (t == UINT32_MAX)
        goto none;
    if (t >= c->h.count)
        return damaged(c, i, err);
    *target = t;
    return 0;
none:
    return dlc_err_set(err, DLC_ENOTFOUND, "sample %llu of %s has no target", (unsigned long long)i,
                       c->url);
}
