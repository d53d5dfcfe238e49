// SPDX-License-Identifier: Apache-2.0
/*
 * Writing a catalog to its file: objects are front-coded on the way out, everything else was
 * encoded by build_samples.c. Sections that would be empty are left out.
 */
#include "catalog/builder_i.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/syscalls.h"

#define OUT_BYTES ((size_t)1 << 20)

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

static int write_records(struct writer *w, uint32_t id, const struct records *r)
{
    if (r->n == 0)
        return 0;
    if (write_section(w, id, r->data.p, r->data.len) < 0)
        return -1;
    return write_section(w, id + 1, r->table.p, r->table.len);
}

/* Elements of `width` bytes, in pages. */
static int write_pages(struct writer *w, uint32_t id, const struct grown *g, uint32_t width)
{
    size_t per = catalog_per_page(width) * width;
    struct catalog_section *s;

    if (g->len == 0)
        return 0;
    s = begin_section(w, id);
    s->width = width;
    for (size_t at = 0; at < g->len; at += per) {
        size_t n = DLC_MIN(g->len - at, per);
        uint64_t sum = catalog_page_checksum(g->p + at, n, id, at / per);

        if (emit(w, g->p + at, n) < 0 || emit(w, &sum, sizeof(sum)) < 0)
            return -1;
    }
    end_section(w, s);
    return 0;
}

/* As narrow as the number of classes allows; all ones: no label. Narrows them in place. */
static int write_labels(struct writer *w, struct catalog_builder *b)
{
    uint32_t width = b->n_classes < UINT8_MAX ? 1 : b->n_classes < UINT16_MAX ? 2 : 4;
    size_t n = b->labels.len / sizeof(uint32_t);

    for (size_t i = 0; i < n; i++) /* little-endian: the low bytes come first */
        memmove(b->labels.p + i * width, b->labels.p + i * sizeof(uint32_t), width);
    b->labels.len = n * width;
    return write_pages(w, CATALOG_SEC_LABELS, &b->labels, width);
}

static void put_short_name(struct buf *out, const char *name)
{
    unsigned char v[CATALOG_VARINT];

    buf_add(out, v, catalog_put_varint(v, strlen(name)));
    buf_adds(out, name);
}

static int write_splits(struct writer *w, const struct catalog_builder *b)
{
    unsigned char v[CATALOG_VARINT];
    struct buf out = BUF_INIT;
    int rc;

    if (b->n_splits == 0 && b->n_columns == 0)
        return 0;
    buf_add(&out, v, catalog_put_varint(v, b->n_splits));
    for (size_t k = 0; k < b->n_splits; k++) {
        buf_add(&out, v, catalog_put_varint(v, b->splits[k].first));
        buf_add(&out, v, catalog_put_varint(v, b->splits[k].count));
        buf_addc(&out, b->splits[k].hidden ? 1 : 0);
        put_short_name(&out, b->splits[k].name);
    }
    buf_add(&out, v, catalog_put_varint(v, b->n_columns));
    for (size_t k = 0; k < b->n_columns; k++)
        put_short_name(&out, b->columns[k]);
    rc = write_section(w, CATALOG_SEC_SPLITS, out.data, out.len);
    buf_release(&out);
    return rc;
}

static int write_samples(struct writer *w, struct catalog_builder *b)
{
    if (!b->whole) {
        w->h.bytes = b->bytes;
        if (write_records(w, CATALOG_SEC_SAMPLES, &b->samples) < 0 ||
            write_pages(w, CATALOG_SEC_NAMES, &b->names, sizeof(uint64_t)) < 0)
            return -1;
    }
    if (b->inlined.len > 0 &&
        write_section(w, CATALOG_SEC_INLINE, b->inlined.p, b->inlined.len) < 0)
        return -1;
    if (write_pages(w, CATALOG_SEC_DERIVED, &b->derived, 2 * sizeof(uint64_t)) < 0 ||
        write_labels(w, b) < 0 || write_records(w, CATALOG_SEC_TEXTS, &b->texts) < 0 ||
        write_splits(w, b) < 0)
        return -1;
    return write_pages(w, CATALOG_SEC_TARGETS, &b->targets, sizeof(uint32_t));
}

static int write_header(struct writer *w, const struct catalog_builder *b)
{
    w->h.magic = CATALOG_MAGIC;
    w->h.ver_major = CATALOG_MAJOR;
    w->h.ver_minor = CATALOG_MINOR;
    w->h.file_size = w->at;
    w->h.count = b->n_samples;
    w->h.visible = b->visible;
    w->h.n_objects = b->n;
    w->h.n_classes = b->n_classes;
    w->h.created = dlc_wall_seconds();
    w->h.block_entries = CATALOG_BLOCK;
    w->h.snapshot = catalog_header_snapshot(&w->h);
    w->h.checksum = catalog_header_checksum(&w->h);
    return os_pwrite_all(w->fd, &w->h, sizeof(w->h), 0);
}

static int write_sections(struct writer *w, struct catalog_builder *b, const char *url)
{
    size_t n_blocks = (b->n + CATALOG_BLOCK - 1) / CATALOG_BLOCK;
    struct catalog_block *table = mem_try_alloc(n_blocks * sizeof(*table));
    unsigned char *block = mem_try_alloc(CATALOG_BLOCK_MAX);
    int rc = -1;

    if (table == NULL || block == NULL)
        errno = ENOMEM;
    else if (write_entries(w, b, table, block) == 0 &&
             write_section(w, CATALOG_SEC_BLOCKS, table, n_blocks * sizeof(*table)) == 0 &&
             write_section(w, CATALOG_SEC_URL, url, strlen(url)) == 0)
        rc = write_samples(w, b);
    mem_free(&block);
    mem_free(&table);
    return rc;
}

/* Write everything to fd. -1 with errno. */
static int write_file(int fd, struct catalog_builder *b, const char *url)
{
    struct writer w = {.fd = fd, .at = sizeof(struct catalog_header)};
    int rc = -1;

    w.buf = mem_try_alloc(OUT_BYTES);
    w.state = XXH3_createState();
    if (w.buf == NULL || w.state == NULL)
        errno = ENOMEM;
    else if (write_sections(&w, b, url) == 0 && flush(&w) == 0 && write_header(&w, b) == 0)
        rc = os_fsync(fd);
    XXH3_freeState(w.state);
    mem_free(&w.buf);
    return rc;
}

int catalog_builder_finish(struct catalog_builder *b, const char *path, const char *url,
                           struct dlc_err *err)
{
    static _Atomic unsigned serial; /* relaxed: only has to differ between two builders */
    char *tmp;
    int fd, rc;

    builder_check(b);
    if (strlen(url) > CATALOG_URL_MAX)
        return dlc_err_set(err, DLC_EINVAL, "URL of the dataset is longer than %d bytes",
                           CATALOG_URL_MAX);
    rc = builder_seal(b, err);
    if (rc < 0)
        return rc;
    tmp = mem_fmt("%s.%d.%u.tmp", path, (int)getpid(),
                  atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed));
    fd = os_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write_file(fd, b, url) < 0 || os_rename(tmp, path) < 0) {
        rc = dlc_err_sys(err, "cannot write catalog %s", path);
        if (fd >= 0)
            os_unlink(tmp);
    }
    os_close(&fd);
    mem_free(&tmp);
    return rc;
}
