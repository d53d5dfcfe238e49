// SPDX-License-Identifier: Apache-2.0
/*
 * tar: V7, ustar, GNU long names, pax (path, size).
 *
 *     member = [extension header, its data]... header, data
 *     each padded to 512 bytes; a block of zeros ends the archive
 *
 * Regular files are samples. Directories, links and devices are skipped: a link's bytes are those
 * of another member. Sparse files are refused, because their bytes do not lie in the archive as
 * they would be read. An archive without the end block is refused as cut short: nothing else tells
 * a whole one from one that lost its tail.
 *
 * Not here: names and groups (archive_members.c), the block itself (tar_header.c), decompression
 * (decompress.c).
 */
#include "catalog/archives/tar_i.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "catalog/archives/archive_members_i.h"
#include "catalog/archives/scan_i.h"
#include "catalog/archives/tar_header_i.h"

#define EXTENSION_MAX ((uint64_t)1 << 20) /* bytes of one extension header */

struct tar {
    struct scan *scan;
    struct stream *in;
    enum piece_kind kind;
    struct members members;
    uint64_t at; /* of the header that is looked at */
    /* Said by extension headers about the member that comes. */
    bool extended, has_path, has_size, sparse;
    uint64_t head; /* of the first of them */
    uint64_t size;
    struct buf path;
};

static int cut_short(const struct tar *t, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECORRUPT,
                       "%s: the tar ends after %" PRIu64
                       " bytes, inside a member or without an end block; it was cut short",
                       t->scan->source->name, t->in->pos);
}

static int damaged(const struct tar *t, const char *what, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECORRUPT, "%s: %s at byte %" PRIu64 "; it is damaged or not a tar",
                       t->scan->source->name, what, t->at);
}

/* The next len bytes into buf; NULL: over them. */
static int take(struct tar *t, void *buf, uint64_t len, struct dlc_err *err)
{
    uint64_t got;
    int rc = t->in->read(t->in, buf, len, &got, err);

    if (rc != 0)
        return rc;
    return got < len ? cut_short(t, err) : 0;
}

static int refuse_sparse(const struct tar *t, const char *name, size_t len, struct dlc_err *err)
{
    char shown[SCAN_SHOWN];

    return dlc_err_set(err, DLC_EINVAL,
                       "%s: member '%s' is a sparse file; pack it without --sparse",
                       t->scan->source->name, scan_shown(name, len, shown));
}

static bool key_is(const struct pax_record *r, const char *key)
{
    return r->key_len == strlen(key) && memcmp(r->key, key, r->key_len) == 0;
}

static bool parse_decimal(const char *p, size_t len, uint64_t *v)
{
    *v = 0;
    if (len == 0 || len > 18)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        *v = *v * 10 + (unsigned)(p[i] - '0');
    }
    return true;
}

static int apply_pax(struct tar *t, const struct buf *data, bool global, struct dlc_err *err)
{
    struct pax_record r;
    size_t next = 0;
    bool bad;

    while (pax_next(data->data, data->len, &next, &r, &bad)) {
        bool path = key_is(&r, "path"), size = key_is(&r, "size");

        if (global && (path || size))
            return damaged(t, "a global pax header that sets a path or a size", err);
        if (r.key_len > 10 && memcmp(r.key, "GNU.sparse", 10) == 0)
            t->sparse = true;
        if (path) {
            t->has_path = true;
            buf_clear(&t->path);
            buf_add(&t->path, r.value, r.value_len);
        } else if (size) {
            t->has_size = true;
            if (!parse_decimal(r.value, r.value_len, &t->size))
                return damaged(t, "a pax header with a bad size", err);
        }
    }
    return bad ? damaged(t, "a bad pax header", err) : 0;
}

static int read_extension(struct tar *t, const struct tar_head *h, struct dlc_err *err)
{
    uint64_t padded = TAR_PADDED(h->size);
    struct buf data = BUF_INIT;
    int rc;

    if (h->type != 'g' && !t->extended) {
        t->extended = true;
        t->head = t->at;
    }
    if (h->type == 'K')
        return take(t, NULL, padded, err);
    if (h->size > EXTENSION_MAX)
        return damaged(t, "an extension header of more than 1 MiB", err);
    buf_reserve(&data, (size_t)padded);
    rc = take(t, data.data, padded, err);
    data.len = (size_t)h->size;
    if (rc == 0 && h->type == 'L') {
        t->has_path = true;
        buf_clear(&t->path);
        buf_add(&t->path, data.data, strnlen(data.data, data.len));
    } else if (rc == 0) {
        rc = apply_pax(t, &data, h->type == 'g', err);
    }
    buf_release(&data);
    return rc;
}

static void forget_extensions(struct tar *t)
{
    t->extended = t->has_path = t->has_size = t->sparse = false;
    buf_clear(&t->path);
}

static int regular(struct tar *t, const char *name, size_t name_len, uint64_t size,
                   struct dlc_err *err)
{
    struct member m = {name, name_len, t->kind, t->extended ? t->head : t->at, t->in->pos, size};
    int rc;

    /* First the bytes, so that a member that was cut off is never a sample. */
    rc = take(t, NULL, TAR_PADDED(size), err);
    return rc != 0 ? rc : members_add(&t->members, m, err);
}

static int read_member(struct tar *t, const struct tar_head *h, struct dlc_err *err)
{
    uint64_t size = t->has_size ? t->size : h->size;
    const char *name = t->has_path ? buf_str(&t->path) : h->name;
    size_t name_len = t->has_path ? t->path.len : strlen(h->name);
    bool folder = name_len > 0 && name[name_len - 1] == '/';
    int rc;

    if (h->type == 'S' || t->sparse)
        return refuse_sparse(t, name, name_len, err);
    switch (h->type) {
    case '\0':
    case '0':
    case '7':
        if (!folder) {
            rc = regular(t, name, name_len, size, err);
            break;
        }
        rc = members_skip(&t->members, err); /* V7's form of a directory */
        break;
    case '1': /* a link's size says how large its target is: no bytes follow */
    case '2':
    case '3':
    case '4':
    case '5':
    case '6': rc = members_skip(&t->members, err); break;
    default:
        rc = take(t, NULL, TAR_PADDED(size), err);
        if (rc == 0)
            rc = members_skip(&t->members, err);
    }
    forget_extensions(t);
    return rc;
}

/* The next header and what belongs to it. */
static int step(struct tar *t, bool *end, struct dlc_err *err)
{
    unsigned char block[TAR_BLOCK];
    struct tar_head h;
    int rc;

    t->at = t->in->pos;
    rc = take(t, block, TAR_BLOCK, err);
    if (rc != 0)
        return rc;
    *end = tar_block_is_zero(block);
    if (*end)
        return t->extended ? damaged(t, "an extension header without a member", err) : 0;
    if (!tar_head_parse(block, &h))
        return damaged(t, "a bad header", err);
    if (strchr("xgLK", h.type) != NULL && h.type != '\0')
        return read_extension(t, &h, err);
    return read_member(t, &h, err);
}

int tar_scan(struct scan *s, struct stream *in, enum piece_kind kind, struct dlc_err *err)
{
    struct tar t = {.scan = s, .in = in, .kind = kind, .path = BUF_INIT};
    bool end = false;
    int rc = 0;

    members_init(&t.members, s);
    while (rc == 0 && !end)
        rc = step(&t, &end, err);
    if (rc == 0)
        rc = members_finish(&t.members, err);
    members_release(&t.members);
    buf_release(&t.path);
    return rc;
}

static int run(struct scan *s, struct dlc_err *err)
{
    struct source_stream in;
    int rc;

    source_stream_init(&in, s->source);
    rc = tar_scan(s, &in.base, PIECE_OBJECT, err);
    source_stream_release(&in);
    return rc;
}

static const char *const suffixes[] = {".tar", NULL};
const struct scanner scanner_tar = {.name = "tar", .suffixes = suffixes, .run = run};
