// SPDX-License-Identifier: Apache-2.0
/*
 * Building a catalog.
 *
 * Entries are kept in one growing arena, already encoded but for the front coding, with 16 bytes of
 * reference each: about 80 bytes per typical sample. finish() sorts the references and streams the
 * file out, so no second copy of the data exists; only the block table (half a byte per sample) is
 * held back until its place is known.
 *
 * Of several entries of one key the one added last is kept: a listing shows a key twice only when
 * the object was written meanwhile.
 *
 * Not here: the bytes (format_i.h), sorting (sort.c).
 */
#include "catalog/catalog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/os.h"
#include "catalog/format_i.h"
#include "catalog/sort_i.h"

#define BUILDER_TAG  DLC_TAG4('c', 't', 'l', 'b')
#define OUT_BYTES    ((size_t)1 << 20)
#define RECORD_MAX   (RECORD_HEAD + CATALOG_KEY_MAX + CATALOG_TAIL_MAX)
#define FIRST_ARENA  ((size_t)64 << 10)
#define FIRST_RECORD ((size_t)1 << 10)

static_assert(CATALOG_TAIL_MAX <= 255, "a record keeps the length of its tail in one byte");
static_assert(CATALOG_TAIL_MAX >= 2 * CATALOG_VARINT + 1 + CATALOG_ETAG_MAX, "tail");

struct catalog_builder {
    uint32_t tag;
    bool sorted; /* so far every key was greater than the one before */
    unsigned char *arena;
    size_t arena_len, arena_cap;
    struct record_ref *refs;
    size_t n, refs_cap;
};

static void builder_check(const struct catalog_builder *b)
{
    dlc_check(b != NULL && b->tag == BUILDER_TAG);
}

struct catalog_builder *catalog_builder_new(void)
{
    struct catalog_builder *b = mem_new(struct catalog_builder);

    b->tag = BUILDER_TAG;
    b->sorted = true;
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
    mem_free(&b);
}

uint64_t catalog_builder_count(const struct catalog_builder *b)
{
    builder_check(b);
    return b->n;
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
    return dlc_err_set(err, DLC_ENOMEM, "no memory for a catalog of more than %zu samples", b->n);
}

static int compare_keys(const unsigned char *a, const unsigned char *b)
{
    size_t la = RECORD_KEY_LEN(a), lb = RECORD_KEY_LEN(b);
    int order = memcmp(RECORD_KEY(a), RECORD_KEY(b), DLC_MIN(la, lb));

    return order != 0 ? order : (la > lb) - (la < lb);
}

static const unsigned char *record_at(const struct catalog_builder *b, size_t i)
{
    return b->arena + b->refs[i].off;
}

int catalog_builder_add(struct catalog_builder *b, const char *key, size_t key_len, uint64_t size,
                        const char *etag, struct dlc_err *err)
{
    unsigned char *p;
    size_t tail_len;

    builder_check(b);
    if (key_len == 0)
        return dlc_err_set(err, DLC_EINVAL, "an object with an empty key cannot be a sample");
    if (key_len > CATALOG_KEY_MAX)
        return dlc_err_set(err, DLC_EINVAL, "key %.60s... has %zu bytes; at most %d are allowed",
                           key, key_len, CATALOG_KEY_MAX);
    if (memchr(key, '\0', key_len) != NULL)
        return dlc_err_set(err, DLC_EINVAL, "key %.60s... holds a NUL byte", key);
    if (etag == NULL)
        etag = "";
    if (strlen(etag) >= CATALOG_ETAG_MAX)
        return dlc_err_set(err, DLC_EINVAL, "ETag of %.*s has %zu bytes; at most %d are allowed",
                           (int)DLC_MIN(key_len, 200u), key, strlen(etag), CATALOG_ETAG_MAX - 1);
    if (reserve(b, err) < 0)
        return DLC_ENOMEM;
    p = b->arena + b->arena_len;
    p[0] = (unsigned char)key_len;
    p[1] = (unsigned char)(key_len >> 8);
    memcpy(RECORD_KEY(p), key, key_len);
    tail_len = catalog_put_tail(RECORD_TAIL(p), size, etag);
    p[2] = (unsigned char)tail_len;
    if (b->n > 0 && b->sorted)
        b->sorted = compare_keys(record_at(b, b->n - 1), p) < 0;
    b->refs[b->n++] = (struct record_ref){.off = b->arena_len};
    b->arena_len += RECORD_HEAD + key_len + tail_len;
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

/* The file being written. */
struct writer {
    int fd;
    unsigned char *buf; /* OUT_BYTES and room for one entry */
    size_t len;
    uint64_t at;         /* offset in the file of buf[0] */
    XXH3_state_t *state; /* of the section being written */
    struct catalog_header h;
    unsigned n_sections;
};

static int flush(struct writer *w)
{
    if (w->len > 0 && os_pwrite_all(w->fd, w->buf, w->len, w->at) < 0)
        return -1;
    w->at += w->len;
    w->len = 0;
    return 0;
}

static int emit(struct writer *w, const void *data, size_t len)
{
    const unsigned char *p = data;

    XXH3_64bits_update(w->state, data, len);
    while (len > 0) {
        size_t n = DLC_MIN(len, OUT_BYTES - w->len);

        memcpy(w->buf + w->len, p, n);
        w->len += n;
        p += n;
        len -= n;
        if (w->len == OUT_BYTES && flush(w) < 0)
            return -1;
    }
    return 0;
}

static struct catalog_section *begin_section(struct writer *w, uint32_t id)
{
    struct catalog_section *s = &w->h.sections[w->n_sections++];

    s->id = id;
    s->off = w->at + w->len;
    XXH3_64bits_reset(w->state);
    return s;
}

static void end_section(struct writer *w, struct catalog_section *s)
{
    s->len = w->at + w->len - s->off;
    s->checksum = XXH3_64bits_digest(w->state);
}

static size_t shared_prefix(const unsigned char *a, const unsigned char *b)
{
    size_t max = DLC_MIN(RECORD_KEY_LEN(a), RECORD_KEY_LEN(b)), n = 0;

    while (n < max && RECORD_KEY(a)[n] == RECORD_KEY(b)[n])
        n++;
    return n;
}

/* Encode entries [first, first + n) as one block; returns its length. */
static size_t encode_block(struct catalog_builder *b, size_t first, size_t n, unsigned char *out,
                           uint64_t *bytes)
{
    const unsigned char *prev = NULL;
    size_t len = 0;

    for (size_t i = first; i < first + n; i++) {
        const unsigned char *r = record_at(b, i);
        size_t shared = prev == NULL ? 0 : shared_prefix(prev, r);
        size_t more = RECORD_KEY_LEN(r) - shared;
        struct catalog_cursor tail = {RECORD_TAIL(r), RECORD_TAIL(r) + RECORD_TAIL_LEN(r)};
        uint64_t size = 0;

        if (i + 4 < first + n)
            __builtin_prefetch(record_at(b, i + 4));
        len += catalog_put_varint(out + len, shared);
        len += catalog_put_varint(out + len, more);
        memcpy(out + len, RECORD_KEY(r) + shared, more);
        len += more;
        memcpy(out + len, tail.p, RECORD_TAIL_LEN(r));
        len += RECORD_TAIL_LEN(r);
        dlc_check(catalog_get_varint(&tail, &size));
        if (__builtin_add_overflow(*bytes, size, bytes))
            *bytes = UINT64_MAX;
        prev = r;
    }
    return len;
}

static int write_entries(struct writer *w, struct catalog_builder *b, struct catalog_block *table,
                         unsigned char *block)
{
    struct catalog_section *s = begin_section(w, CATALOG_SEC_ENTRIES);
    uint64_t off = 0;

    for (size_t i = 0; i < b->n; i += CATALOG_BLOCK) {
        size_t n = DLC_MIN(b->n - i, (size_t)CATALOG_BLOCK), number = i / CATALOG_BLOCK;
        size_t len = encode_block(b, i, n, block, &w->h.bytes);

        table[number] = (struct catalog_block){
            .off = off,
            .len = (uint32_t)len,
            .checksum = catalog_block_checksum(block, len, number),
        };
        if (emit(w, block, len) < 0)
            return -1;
        off += len;
    }
    end_section(w, s);
    w->h.snapshot = s->checksum;
    return 0;
}

static int write_section(struct writer *w, uint32_t id, const void *data, size_t len)
{
    struct catalog_section *s = begin_section(w, id);

    if (emit(w, data, len) < 0)
        return -1;
    end_section(w, s);
    return 0;
}

static int write_header(struct writer *w, uint64_t count)
{
    w->h.magic = CATALOG_MAGIC;
    w->h.ver_major = CATALOG_MAJOR;
    w->h.ver_minor = CATALOG_MINOR;
    w->h.file_size = w->at;
    w->h.count = count;
    w->h.created = dlc_wall_seconds();
    w->h.block_entries = CATALOG_BLOCK;
    w->h.checksum = catalog_header_checksum(&w->h);
    return os_pwrite_all(w->fd, &w->h, sizeof(w->h), 0);
}

/* Write everything to fd. -1 with errno. */
static int write_file(int fd, struct catalog_builder *b, const char *url)
{
    size_t n_blocks = (b->n + CATALOG_BLOCK - 1) / CATALOG_BLOCK;
    struct catalog_block *table = mem_try_alloc(n_blocks * sizeof(*table));
    unsigned char *block = mem_try_alloc(CATALOG_BLOCK_MAX);
    struct writer w = {.fd = fd, .at = sizeof(struct catalog_header)};
    int rc = -1;

    w.buf = mem_try_alloc(OUT_BYTES);
    w.state = XXH3_createState();
    if (table == NULL || block == NULL || w.buf == NULL || w.state == NULL) {
        errno = ENOMEM;
        goto out;
    }
    if (write_entries(&w, b, table, block) < 0 ||
        write_section(&w, CATALOG_SEC_BLOCKS, table, n_blocks * sizeof(*table)) < 0 ||
        write_section(&w, CATALOG_SEC_URL, url, strlen(url)) < 0 || flush(&w) < 0 ||
        write_header(&w, b->n) < 0 || os_fsync(fd) < 0)
        goto out;
    rc = 0;
out:
    XXH3_freeState(w.state);
    mem_free(&w.buf);
    mem_free(&block);
    mem_free(&table);
    return rc;
}

int catalog_builder_finish(struct catalog_builder *b, const char *path, const char *url,
                           struct dlc_err *err)
{
    static _Atomic unsigned serial; /* relaxed: only has to differ between two builders */
    char *tmp;
    int fd, rc = 0;

    builder_check(b);
    if (strlen(url) > CATALOG_URL_MAX)
        return dlc_err_set(err, DLC_EINVAL, "URL of the dataset is longer than %d bytes",
                           CATALOG_URL_MAX);
    if (!b->sorted) {
        catalog_sort(b->arena, b->refs, b->n);
        drop_duplicates(b);
        b->sorted = true;
    }
    tmp = mem_fmt("%s.%d.%u.tmp", path, (int)getpid(),
                  atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed));
    fd = os_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write_file(fd, b, url) < 0 || os_rename(tmp, path) < 0) {
        rc = dlc_err_sys(err, "cannot write catalog %s", path);
        if (fd >= 0)
            unlink(tmp);
    }
    os_close(&fd);
    mem_free(&tmp);
    return rc;
}
