// SPDX-License-Identifier: Apache-2.0
/*
 * The central directory of a zip.
 *
 *     members ... | directory | [zip64 end, zip64 locator] | end, comment
 *
 * The end record is found from the back, because a comment of up to 64 KiB follows it. Its contents
 * are checked against the size of the file, and each member against the start of the directory.
 *
 * (ZIP-DIRECTORY-1) Entries are sorted by offset, and no two have the same one.
 */
#include "catalog/archives/zip_i.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/mem.h"
#include "catalog/archives/scan_i.h"

#define END_SIGNATURE     0x06054b50u
#define END_SIZE          22u
#define LOCATOR_SIGNATURE 0x07064b50u
#define LOCATOR_SIZE      20u
#define END64_SIGNATURE   0x06064b50u
#define END64_SIZE        56u
#define ENTRY_SIGNATURE   0x02014b50u
#define ENTRY_SIZE        46u
#define COMMENT_MAX       65535u /* also of a name */
#define FLAG_ENCRYPTED    0x0001u
#define FLAG_STRONG       0x0040u
#define FLAG_MASKED       0x2000u /* the directory itself is encrypted */
#define METHOD_AES        99
#define MADE_ON_UNIX      3
#define IN_ZIP64          0xffffffffu

struct dir_place {
    uint64_t at, size, count;
    uint64_t end; /* where the directory must have ended */
};

static int damaged(const struct scan *s, const char *what, uint64_t at, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECORRUPT, "%s: %s at byte %" PRIu64 "; it is damaged or not a zip",
                       s->source->name, what, at);
}

static int no_end(const struct scan *s, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECORRUPT,
                       "%s: no directory at its end; it was cut short or is not a zip",
                       s->source->name);
}

/* zip64: a second end record of larger fields, found by a locator right before the first. */
static int read_end64(struct scan *s, struct reader *r, uint64_t end_at, struct dir_place *p,
                      struct dlc_err *err)
{
    const unsigned char *v;
    uint64_t at;
    size_t len;
    int rc;

    if (end_at < LOCATOR_SIZE)
        return 0;
    rc = reader_view(r, end_at - LOCATOR_SIZE, LOCATOR_SIZE, &v, &len, err);
    if (rc != 0 || get32(v) != LOCATOR_SIGNATURE)
        return rc;
    at = get64(v + 8);
    if (end_at - LOCATOR_SIZE < END64_SIZE || at > end_at - LOCATOR_SIZE - END64_SIZE)
        return damaged(s, "a bad zip64 locator", end_at - LOCATOR_SIZE, err);
    rc = reader_view(r, at, END64_SIZE, &v, &len, err);
    if (rc != 0)
        return rc;
    if (get32(v) != END64_SIGNATURE || get32(v + 16) != 0 || get32(v + 20) != 0)
        return damaged(s, "a bad zip64 end record", at, err);
    *p = (struct dir_place){get64(v + 48), get64(v + 40), get64(v + 32), at};
    return 0;
}

static int find_end(struct scan *s, struct reader *r, struct dir_place *p, struct dlc_err *err)
{
    uint64_t size = s->source->size;
    size_t tail = (size_t)DLC_MIN(size, (uint64_t)END_SIZE + COMMENT_MAX), len;
    const unsigned char *v;
    uint64_t end_at;
    int rc;

    rc = reader_view(r, size - tail, tail, &v, &len, err);
    if (rc != 0)
        return rc;
    for (size_t i = tail; i >= END_SIZE; i--) {
        const unsigned char *e = v + i - END_SIZE;

        if (get32(e) != END_SIGNATURE || get16(e + 20) != tail - i)
            continue;
        if (get16(e + 4) != 0 || get16(e + 6) != 0)
            return dlc_err_set(err, DLC_EINVAL, "%s: a zip in several parts; join them",
                               s->source->name);
        end_at = size - tail + i - END_SIZE;
        *p = (struct dir_place){get32(e + 16), get32(e + 12), get16(e + 10), end_at};
        return read_end64(s, r, end_at, p, err);
    }
    return no_end(s, err);
}

/* Sizes and offset that did not fit are in an extra field, in this order, only those. */
static bool apply_zip64(struct zip_entry *e, const unsigned char *extra, size_t len)
{
    uint64_t *const fields[] = {&e->size, &e->packed, &e->at};

    while (len >= 4) {
        size_t n = get16(extra + 2);
        const unsigned char *p = extra + 4;

        if (n > len - 4)
            return false;
        for (size_t i = 0, left = n; get16(extra) == 1 && i < DLC_COUNT(fields); i++) {
            if (*fields[i] != IN_ZIP64)
                continue;
            if (left < 8)
                return false;
            *fields[i] = get64(p);
            p += 8;
            left -= 8;
        }
        extra += 4 + n;
        len -= 4 + n;
    }
    return true;
}

/* No directory, link or device. What was zipped from a pipe is marked as one, and is a file. */
static bool is_file(const unsigned char *v, const char *name, size_t name_len)
{
    unsigned type = get32(v + 38) >> 16 & S_IFMT;

    if (name_len > 0 && (name[name_len - 1] == '/' || name[name_len - 1] == '\\'))
        return false;
    return v[5] != MADE_ON_UNIX || type == 0 || type == S_IFREG || type == S_IFIFO;
}

/* Room for one more; false: no memory. */
static bool reserve(struct zip_dir *d, size_t name_len)
{
    if (d->n == d->cap) {
        size_t cap = d->cap == 0 ? 64 : d->cap * 2;
        struct zip_entry *p = mem_try_grow(d->entries, cap * sizeof(*p));

        if (p == NULL)
            return false;
        d->entries = p;
        d->cap = cap;
    }
    if (d->names == NULL || name_len > d->names_cap - d->names_len) {
        size_t cap = d->names_cap * 2 + COMMENT_MAX;
        char *p = mem_try_grow(d->names, cap);

        if (p == NULL)
            return false;
        d->names = p;
        d->names_cap = cap;
    }
    return true;
}

static int add_entry(struct zip_dir *d, const struct scan *s, const unsigned char *v, uint64_t at,
                     struct dlc_err *err)
{
    const unsigned char *name = v + ENTRY_SIZE;
    unsigned flags = get16(v + 8);
    struct zip_entry e = {.at = get32(v + 42),
                          .packed = get32(v + 20),
                          .size = get32(v + 24),
                          .crc = get32(v + 16),
                          .name_at = d->names_len,
                          .name_len = get16(v + 28),
                          .method = get16(v + 10)};

    e.encrypted = (flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED)) || e.method == METHOD_AES;
    e.is_file = is_file(v, (const char *)name, e.name_len);
    if (!apply_zip64(&e, name + e.name_len, get16(v + 30)))
        return damaged(s, "a bad extra field", at, err);
    if (e.at > d->begin || d->begin - e.at < ZIP_LOCAL || e.packed > d->begin - e.at - ZIP_LOCAL ||
        e.size > (uint64_t)1 << 62)
        return damaged(s, "an entry of a member that lies outside", at, err);
    if (!reserve(d, e.name_len))
        return dlc_err_set(err, DLC_ENOMEM, "%s: no memory for more than %zu members",
                           s->source->name, d->n);
    if (e.name_len > 0)
        memcpy(d->names + d->names_len, name, e.name_len);
    d->names_len += e.name_len;
    d->entries[d->n++] = e;
    return 0;
}

static int read_entries(struct zip_dir *d, struct scan *s, struct reader *r,
                        const struct dir_place *p, struct dlc_err *err)
{
    uint64_t at = p->at, end = p->at + p->size, n;
    const unsigned char *v;
    size_t len;
    int rc;

    for (n = 0; at < end; n++) {
        size_t want = ENTRY_SIZE;

        if (end - at < want)
            return damaged(s, "a directory that ends early", at, err);
        rc = reader_view(r, at, want, &v, &len, err);
        if (rc != 0)
            return rc;
        if (get32(v) != ENTRY_SIGNATURE)
            return damaged(s, "a bad directory entry", at, err);
        want += (size_t)get16(v + 28) + get16(v + 30) + get16(v + 32);
        if (end - at < want)
            return damaged(s, "a directory that ends early", at, err);
        rc = reader_view(r, at, want, &v, &len, err);
        if (rc == 0)
            rc = add_entry(d, s, v, at, err);
        if (rc != 0)
            return rc;
        at += want;
    }
    /* Without zip64 some writers let the count of many members wrap around. */
    if ((n & 0xffff) != (p->count & 0xffff))
        return damaged(s, "a directory with another number of entries than it says", p->at, err);
    return 0;
}

static int compare_places(const void *a, const void *b)
{
    const struct zip_entry *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

int zip_dir_read(struct zip_dir *d, struct scan *s, struct reader *r, struct dlc_err *err)
{
    struct dir_place p = {0};
    int rc;

    *d = (struct zip_dir){0};
    rc = find_end(s, r, &p, err);
    if (rc != 0)
        return rc;
    if (p.at > p.end || p.size > p.end - p.at)
        return damaged(s, "a directory that lies outside", p.at, err);
    d->begin = p.at;
    rc = read_entries(d, s, r, &p, err);
    if (rc != 0)
        return rc;
    if (d->n > 0)
        qsort(d->entries, d->n, sizeof(*d->entries), compare_places);
    for (size_t i = 1; i < d->n; i++)
        if (d->entries[i].at == d->entries[i - 1].at)
            return damaged(s, "two entries of the same member", d->entries[i].at, err);
    return 0;
}

void zip_dir_release(struct zip_dir *d)
{
    mem_free(&d->entries);
    mem_free(&d->names);
    *d = (struct zip_dir){0};
}
