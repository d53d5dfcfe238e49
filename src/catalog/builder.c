// SPDX-License-Identifier: Apache-2.0
/*
 * Building a catalog.
 *
 * Entries are kept in one growing arena, already encoded but for the front coding, with 16 bytes of
 * reference each: about 80 bytes per typical object. settle() sorts the references; write.c streams
 * the file out from there, so no second copy of the data exists.
 *
 * Of several entries of one key the one added last is kept: a listing shows a key twice only when
 * the object was written meanwhile.
 *
 * Not here: samples (build_samples.c), the file (write.c), the bytes (format_i.h), sorting
 * (key_sort.c).
 */
#include "catalog/builder_i.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#define RECORD_MAX   (RECORD_HEAD + CATALOG_KEY_MAX + 1 + CATALOG_TAIL_MAX)
#define FIRST_ARENA  ((size_t)64 << 10)
#define FIRST_RECORD ((size_t)1 << 10)

static_assert(CATALOG_TAIL_MAX <= 255, "a record keeps the length of its tail in one byte");
static_assert(CATALOG_TAIL_MAX >= 2 * CATALOG_VARINT + 1 + CATALOG_ETAG_MAX, "tail");

struct catalog_builder *catalog_builder_new(void)
{
    struct catalog_builder *b = mem_new(struct catalog_builder);

    b->tag = BUILDER_TAG;
    b->sorted = b->whole = true;
    b->visible = UINT64_MAX;
    return b;
}

void catalog_builder_free(struct catalog_builder **bp)
{
    struct catalog_builder *b = *bp;

    *bp = NULL;
    if (b == NULL)
        return;
    builder_check(b);
    b->tag = 0;
    mem_free(&b->arena);
    mem_free(&b->refs);
    builder_release_samples(b);
    mem_free(&b);
}

uint64_t catalog_builder_count(const struct catalog_builder *b)
{
    builder_check(b);
    return b->n;
}

int builder_no_memory(const struct catalog_builder *b, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ENOMEM,
                       "no memory for a catalog of more than %zu objects and %llu samples", b->n,
                       (unsigned long long)b->n_samples);
}

void catalog_builder_limit(struct catalog_builder *b, uint64_t objects, uint64_t bytes)
{
    builder_check(b);
    b->max_objects = objects;
    b->max_bytes = bytes;
}

bool catalog_builder_is_full(const struct catalog_builder *b)
{
    builder_check(b);
    return b->full;
}

static uint64_t builder_bytes(const struct catalog_builder *b)
{
    return b->arena_len + b->n * sizeof(b->refs[0]) + b->samples.data.len + b->samples.table.len +
           b->texts.data.len + b->texts.table.len + b->names.len + b->inlined.len + b->derived.len +
           b->labels.len + b->targets.len;
}

/* Before one more is added. */
int builder_check_limits(struct catalog_builder *b, struct dlc_err *err)
{
    bool objects = b->max_objects != 0 && b->n >= b->max_objects && !b->settled;
    bool bytes = b->max_bytes != 0 && builder_bytes(b) >= b->max_bytes;
    char size[24];

    b->full = objects || bytes;
    if (objects)
        return dlc_err_set(err, DLC_ENOSPACE,
                           "the listing has more than %llu objects, the most that a dataset may "
                           "have here: open a longer prefix, or raise the daemon's --max-objects",
                           (unsigned long long)b->max_objects);
    if (bytes)
        return dlc_err_set(err, DLC_ENOSPACE,
                           "the catalog takes more than %s of memory after %zu objects and %llu "
                           "samples: open a longer prefix, or raise the daemon's --max-catalog",
                           str_size(b->max_bytes, size), b->n, (unsigned long long)b->n_samples);
    return 0;
}

int builder_bad_name(const char *what, const char *name, size_t len, struct dlc_err *err)
{
    if (len > CATALOG_KEY_MAX)
        return dlc_err_set(err, DLC_EINVAL, "%s %.60s... has %zu bytes; at most %d are allowed",
                           what, name, len, CATALOG_KEY_MAX);
    if (memchr(name, '\0', len) != NULL)
        return dlc_err_set(err, DLC_EINVAL, "%s %.60s... holds a NUL byte", what, name);
    return 0;
}

/* Room for one more entry; grows by half, so that realloc's slack stays small. */
static int reserve(struct catalog_builder *b, struct dlc_err *err)
{
    if (b->arena_cap - b->arena_len < RECORD_MAX) {
        size_t cap = b->arena_cap == 0 ? FIRST_ARENA : b->arena_cap + b->arena_cap / 2;
        unsigned char *p = mem_try_grow(b->arena, cap);

        if (p == NULL)
            goto none;
        b->arena = p;
        b->arena_cap = cap;
    }
    if (b->n == b->refs_cap) {
        size_t cap = b->refs_cap == 0 ? FIRST_RECORD : b->refs_cap + b->refs_cap / 2;
        struct record_ref *p = mem_try_grow(b->refs, cap * sizeof(*p));

        if (p == NULL)
            goto none;
        b->refs = p;
        b->refs_cap = cap;
    }
    return 0;
none:
    return builder_no_memory(b, err);
}

static int compare_keys(const unsigned char *a, const unsigned char *b)
{
    size_t la = RECORD_KEY_LEN(a), lb = RECORD_KEY_LEN(b);
    int order = memcmp(RECORD_KEY(a), RECORD_KEY(b), DLC_MIN(la, lb));

    return order != 0 ? order : (la > lb) - (la < lb);
}

int catalog_builder_add(struct catalog_builder *b, const char *key, size_t key_len, uint64_t size,
                        const char *etag, struct dlc_err *err)
{
    unsigned char *p;
    size_t tail_len;

    builder_check(b);
    dlc_check(!b->settled);
    if (key_len == 0)
        return dlc_err_set(err, DLC_EINVAL, "an object with an empty key cannot be a sample");
    if (builder_bad_name("key", key, key_len, err) < 0)
        return DLC_EINVAL;
    if (etag == NULL)
        etag = "";
    if (strlen(etag) >= CATALOG_ETAG_MAX)
        return dlc_err_set(err, DLC_EINVAL, "ETag of %.*s has %zu bytes; at most %d are allowed",
                           (int)DLC_MIN(key_len, 200u), key, strlen(etag), CATALOG_ETAG_MAX - 1);
    for (const char *c = etag; *c != '\0'; c++)
        if ((unsigned char)*c < ' ')
            return dlc_err_set(err, DLC_EINVAL, "the ETag of %.*s holds a control character",
                               (int)DLC_MIN(key_len, 200u), key);
    if (builder_check_limits(b, err) < 0)
        return DLC_ENOSPACE;
    if (reserve(b, err) < 0)
        return DLC_ENOMEM;
    p = b->arena + b->arena_len;
    p[0] = (unsigned char)key_len;
    p[1] = (unsigned char)(key_len >> 8);
    memcpy(RECORD_KEY(p), key, key_len);
    RECORD_KEY(p)[key_len] = '\0';
    tail_len = catalog_put_tail(RECORD_TAIL(p), size, etag);
    p[2] = (unsigned char)tail_len;
    if (b->n > 0 && b->sorted)
        b->sorted = compare_keys(record_at(b, b->n - 1), p) < 0;
    b->refs[b->n++] = (struct record_ref){.off = b->arena_len};
    b->arena_len += RECORD_HEAD + key_len + 1 + tail_len;
    return 0;
}

/* Keep the last added of each key. */
static void drop_duplicates(struct catalog_builder *b)
{
    size_t kept = 0;

    for (size_t i = 0; i < b->n; i++) {
        if (kept > 0 && compare_keys(record_at(b, kept - 1), record_at(b, i)) == 0)
            b->refs[kept - 1].off = DLC_MAX(b->refs[kept - 1].off, b->refs[i].off);
        else
            b->refs[kept++] = b->refs[i];
    }
    b->n = kept;
}

void catalog_builder_settle(struct catalog_builder *b)
{
    builder_check(b);
    if (!b->sorted) {
        catalog_sort(b->arena, b->refs, b->n);
        drop_duplicates(b);
        b->sorted = true;
    }
    b->settled = true;
}

void catalog_builder_object(const struct catalog_builder *b, uint64_t j, struct catalog_object *out)
{
    const unsigned char *r;
    struct catalog_cursor tail;

    builder_check(b);
    dlc_check(b->settled && j < b->n);
    r = record_at(b, j);
    tail = (struct catalog_cursor){RECORD_TAIL(r), RECORD_TAIL(r) + RECORD_TAIL_LEN(r)};
    out->key = (const char *)RECORD_KEY(r);
    out->key_len = RECORD_KEY_LEN(r);
    dlc_check(catalog_get_varint(&tail, &out->size));
}

void catalog_builder_etag(const struct catalog_builder *b, uint64_t j,
                          char etag[static CATALOG_ETAG_MAX])
{
    const unsigned char *r;
    struct catalog_cursor tail;
    uint64_t size;

    builder_check(b);
    dlc_check(b->settled && j < b->n);
    r = record_at(b, j);
    tail = (struct catalog_cursor){RECORD_TAIL(r), RECORD_TAIL(r) + RECORD_TAIL_LEN(r)};
    dlc_check(catalog_get_tail(&tail, &size, etag));
}

uint64_t catalog_builder_seek(const struct catalog_builder *b, const char *key, size_t key_len)
{
    size_t lo = 0, hi = b->n;

    builder_check(b);
    dlc_check(b->settled);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2, len = RECORD_KEY_LEN(record_at(b, mid));
        int order = memcmp(RECORD_KEY(record_at(b, mid)), key, DLC_MIN(len, key_len));

        if (order < 0 || (order == 0 && len < key_len))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int catalog_builder_find(const struct catalog_builder *b, const char *key, size_t key_len,
                         uint64_t *j)
{
    uint64_t at = catalog_builder_seek(b, key, key_len);
    struct catalog_object o;

    if (at == b->n)
        return DLC_ENOTFOUND;
    catalog_builder_object(b, at, &o);
    if (o.key_len != key_len || memcmp(o.key, key, key_len) != 0)
        return DLC_ENOTFOUND;
    *j = at;
    return 0;
}
