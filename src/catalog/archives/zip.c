// SPDX-License-Identifier: Apache-2.0
/*
 * zip: stored members are ranges of the file; deflated ones (also bzip2 and zstd) are decoded one
 * after the other into the unpacked copy, each checked against its size and CRC.
 *
 * Members are taken in the order of their places, so the file is read once from front to back. A
 * member's data begins after its local header, whose length only the header itself says. Data may
 * not reach into the next member, which refuses a bomb that counts the same bytes many times; and
 * the sizes in the directory are checked against the limits before anything is decoded.
 *
 * Not here: the directory (zip_directory.c).
 */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "catalog/archives/decompress_i.h"
#include "catalog/archives/archive_members_i.h"
#include "catalog/archives/scan_i.h"
#include "catalog/archives/zip_i.h"

#define LOCAL_SIGNATURE 0x04034b50u
#define OUT_BYTES       ((size_t)256 << 10)

struct zip {
    struct scan *scan;
    struct reader reader;
    struct zip_dir dir;
    struct members members;
    unsigned char *out;
};

/* A decoder for the methods that have one; NULL otherwise. */
static const struct codec *codec_of(unsigned method)
{
    switch (method) {
    case 8: return &codec_deflate;
    case 12: return &codec_bzip2;
    case 93: return &codec_zstd;
    default: return NULL;
    }
}

static const char *name_of(const struct zip *z, const struct zip_entry *e,
                           char shown[static SCAN_SHOWN])
{
    return scan_shown(z->dir.names + e->name_at, e->name_len, shown);
}

static int damaged(const struct zip *z, const struct zip_entry *e, const char *what,
                   struct dlc_err *err)
{
    char shown[SCAN_SHOWN];

    return dlc_err_set(err, DLC_ECORRUPT, "%s: member '%s' %s; the zip is damaged",
                       z->scan->source->name, name_of(z, e, shown), what);
}

static int check_entry(const struct zip *z, const struct zip_entry *e, struct dlc_err *err)
{
    char shown[SCAN_SHOWN];

    if (e->encrypted)
        return dlc_err_set(err, DLC_EINVAL,
                           "%s: member '%s' is encrypted; decrypt the zip before it is used",
                           z->scan->source->name, name_of(z, e, shown));
    if (e->method != 0 && codec_of(e->method) == NULL)
        return dlc_err_set(
            err, DLC_EINVAL,
            "%s: member '%s' is compressed by method %u; only stored, deflate, bzip2 "
            "and zstd are known",
            z->scan->source->name, name_of(z, e, shown), (unsigned)e->method);
    if (e->method == 0 && e->packed != e->size)
        return damaged(z, e, "is stored, but has two sizes", err);
    return 0;
}

/* Refuse what can be refused before anything is decoded. */
static int check_entries(const struct zip *z, struct dlc_err *err)
{
    uint64_t total = 0;
    int rc;

    for (size_t i = 0; i < z->dir.n; i++) {
        const struct zip_entry *e = &z->dir.entries[i];

        if (!e->is_file)
            continue;
        rc = check_entry(z, e, err);
        if (rc != 0)
            return rc;
        total += e->method == 0 ? 0 : e->size;
        rc = derived_check(z->scan, total, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Where the member's bytes begin. They end before the next member. */
static int find_data(struct zip *z, size_t i, uint64_t *data, struct dlc_err *err)
{
    const struct zip_entry *e = &z->dir.entries[i];
    uint64_t end = i + 1 < z->dir.n ? z->dir.entries[i + 1].at : z->dir.begin;
    const unsigned char *v;
    size_t len;
    int rc;

    rc = reader_view(&z->reader, e->at, ZIP_LOCAL, &v, &len, err);
    if (rc != 0)
        return rc;
    if (get32(v) != LOCAL_SIGNATURE)
        return damaged(z, e, "does not lie where the directory says", err);
    *data = e->at + ZIP_LOCAL + get16(v + 26) + get16(v + 28);
    if (*data > end || e->packed > end - *data)
        return damaged(z, e, "reaches into the next", err);
    return 0;
}

struct unpack {
    struct decoder decoder;
    uint64_t in_pos, in_end;
    uint64_t left; /* bytes that may still come out */
    unsigned long crc;
    bool ended;
};

static int unpack_step(struct zip *z, const struct zip_entry *e, struct unpack *u,
                       struct dlc_err *err)
{
    const unsigned char *in;
    struct decoder_io io;
    char shown[SCAN_SHOWN];
    size_t len, made;
    int rc;

    rc = reader_view(&z->reader, u->in_pos, 1, &in, &len, err);
    if (rc != 0)
        return rc;
    len = (size_t)DLC_MIN((uint64_t)len, u->in_end - u->in_pos);
    io = (struct decoder_io){in, len, z->out, OUT_BYTES};
    rc = decoder_step(&u->decoder, &io);
    if (rc < 0)
        return decoder_error(rc, u->decoder.codec, z->scan->source->name, name_of(z, e, shown),
                             err);
    u->ended = rc == DECODER_END;
    u->in_pos += len - io.in_len;
    made = OUT_BYTES - io.out_len;
    if (made > u->left || (!u->ended && made == 0 && io.in_len == len))
        return damaged(z, e, "has not the size that the directory says", err);
    u->left -= made;
    u->crc = crc32(u->crc, z->out, (unsigned)made);
    return derived_write(z->scan, z->out, made, err);
}

static int unpack(struct zip *z, const struct zip_entry *e, uint64_t data, struct dlc_err *err)
{
    struct unpack u = {.in_pos = data, .in_end = data + e->packed, .left = e->size};
    char shown[SCAN_SHOWN];
    int rc;

    decoder_init(&u.decoder, codec_of(e->method));
    rc = decoder_begin(&u.decoder);
    if (rc != 0)
        rc = decoder_error(rc, u.decoder.codec, z->scan->source->name, name_of(z, e, shown), err);
    while (rc == 0 && !u.ended)
        rc = unpack_step(z, e, &u, err);
    if (rc == 0 && (u.left != 0 || u.in_pos != u.in_end))
        rc = damaged(z, e, "has not the size that the directory says", err);
    if (rc == 0 && u.crc != e->crc)
        rc = damaged(z, e, "has another CRC than the directory says", err);
    decoder_release(&u.decoder);
    return rc;
}

static int take_member(struct zip *z, size_t i, struct dlc_err *err)
{
    const struct zip_entry *e = &z->dir.entries[i];
    struct member m = {.name = z->dir.names + e->name_at,
                       .name_len = e->name_len,
                       .kind = e->method == 0 ? PIECE_OBJECT : PIECE_DERIVED,
                       .head = MEMBER_NO_HEAD,
                       .size = e->size};
    uint64_t data = 0;
    int rc;

    if (!e->is_file)
        return members_skip(&z->members, err);
    rc = find_data(z, i, &data, err);
    m.offset = e->method == 0 ? data : z->scan->derived_size;
    if (rc == 0 && e->method != 0 && (e->packed != 0 || e->size != 0))
        rc = unpack(z, e, data, err);
    return rc != 0 ? rc : members_add(&z->members, m, err);
}

static int run(struct scan *s, struct dlc_err *err)
{
    struct zip z = {.scan = s};
    int rc;

    dlc_check(s->sink != NULL);
    reader_init(&z.reader, s->source);
    members_init(&z.members, s);
    z.out = mem_try_alloc(OUT_BYTES);
    rc = z.out != NULL ? 0
                       : dlc_err_set(err, DLC_ENOMEM, "%s: no memory to scan it", s->source->name);
    if (rc == 0)
        rc = zip_dir_read(&z.dir, s, &z.reader, err);
    if (rc == 0)
        rc = check_entries(&z, err);
    for (size_t i = 0; rc == 0 && i < z.dir.n; i++)
        rc = take_member(&z, i, err);
    if (rc == 0)
        rc = members_finish(&z.members, err);
    members_release(&z.members);
    zip_dir_release(&z.dir);
    reader_release(&z.reader);
    mem_free(&z.out);
    return rc;
}

static const char *const suffixes[] = {".zip", NULL};
const struct scanner scanner_zip = {"zip", suffixes, .derives = true, .run = run};
