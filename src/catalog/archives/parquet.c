// SPDX-License-Identifier: Apache-2.0
/*
 * parquet: every row group becomes a parquet file of its own.
 *
 *     "PAR1" | pages of column chunks ... | footer | its length, 4 bytes | "PAR1"
 *
 * A sample is the magic, the ranges of the group's column chunks one after the other, and a footer
 * in which this group is the only one and the chunks' offsets are the new ones. References to what
 * is not taken along (column and offset indexes, bloom filters) are dropped; everything else in the
 * footer, known to us or not, is copied as it is.
 *
 * (PARQUET-1) The chunks of all groups together are no larger than the file, so samples are not
 *             either.
 * (PARQUET-2) The footers of all samples together are no larger than the file, or than 64 MiB.
 * (PARQUET-3) All scans of the process together have at most AT_ONCE bytes of footers in memory, and
 *             those of footers that are SMALL: hostile files of many datasets cannot fill it.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "catalog/archives/scan_i.h"
#include "catalog/archives/thrift_i.h"

#define MAGIC       "PAR1"
#define MAGIC_SIZE  4u
#define TAIL_SIZE   8u /* length and magic */
#define FOOTER_MAX  ((uint32_t)256 << 20)
#define FOOTERS_MAX ((uint64_t)64 << 20)
#define CHUNKS_MAX  (SAMPLE_PIECES_MAX - 2)

#define COPIES   3u                              /* the footer, a group of it, that of a sample */
#define AT_ONCE  ((uint64_t)FOOTER_MAX * COPIES) /* one of the largest */
#define SMALL    ((uint32_t)4 << 20)             /* waits for nobody */
#define PATIENCE DLC_SEC(60)
#define LOOK     DLC_MS(10)

/* Ids of fields in parquet.thrift. */
enum { FILE_ROWS = 3, FILE_GROUPS = 4, FILE_ENCRYPTION = 8 };
enum { GROUP_COLUMNS = 1, GROUP_ROWS = 3, GROUP_OFFSET = 5, GROUP_ORDINAL = 7 };
enum {
    CHUNK_PATH = 1,
    CHUNK_OFFSET = 2,
    CHUNK_META = 3,
    CHUNK_INDEX_FIRST = 4, /* to 7: offset index and column index */
    CHUNK_INDEX_LAST = 7,
    CHUNK_CRYPTO = 8,
    CHUNK_ENCRYPTED = 9,
};
enum {
    META_SIZE = 7,
    META_DATA = 9,
    META_INDEX = 10,
    META_DICTIONARY = 11,
    META_BLOOM = 14,
    META_BLOOM_SIZE = 15,
};

struct parquet {
    struct scan *scan;
    unsigned char *footer;
    uint64_t taken; /* of AT_ONCE */
    size_t footer_len;
    uint64_t data_end;    /* where the footer begins */
    struct thrift groups; /* at the elements of the list */
    const unsigned char *groups_end;
    size_t n_groups;
    uint64_t used;        /* bytes of all chunks so far */
    uint64_t footers;     /* bytes of all footers so far */
    uint64_t first;       /* row of the next group */
    struct piece *pieces; /* of the sample that is made */
    size_t n_pieces;
    uint64_t at;      /* in the sample */
    struct buf group; /* the new RowGroup */
    int64_t rows;     /* in it */
};

static int damaged(const struct parquet *q, const char *what, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECORRUPT, "%s: %s; it is damaged, cut short, or no parquet file",
                       q->scan->source->name, what);
}

static int encrypted(const struct parquet *q, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_EINVAL,
                       "%s: the parquet file is encrypted; decrypt it before it is used",
                       q->scan->source->name);
}

/* ---- memory for footers ---- */

static _Atomic uint64_t taken; /* by all scans */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    atomic_store(&taken, 0); /* its parent's scans are not its own */
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

static bool take(uint64_t bytes)
{
    uint64_t used = atomic_load(&taken);

    do {
        if (used > 0 && used + bytes > AT_ONCE)
            return false;
    } while (!atomic_compare_exchange_weak(&taken, &used, used + bytes));
    return true;
}

/* (PARQUET-3): workers wait. */
static int take_memory(struct parquet *q, struct dlc_err *err)
{
    struct dlc_mono end = dlc_mono_add(dlc_mono_now(), PATIENCE);
    uint64_t bytes = (uint64_t)q->footer_len * COPIES;

    if (q->footer_len <= SMALL)
        return 0;
    pthread_once(&once, watch_forks);
    while (!take(bytes)) {
        if (interrupted())
            return interrupt_err(err);
        if (dlc_mono_passed(end, dlc_mono_now()))
            return dlc_err_set(
                err, DLC_EBUSY,
                "%s: its footer of %zu bytes did not get memory: other parquet files "
                "with large footers are being read; open it again later",
                q->scan->source->name, q->footer_len);
        dlc_sleep(LOOK);
    }
    q->taken = bytes;
    return 0;
}

static int read_footer(struct parquet *q, struct dlc_err *err)
{
    struct source *s = q->scan->source;
    unsigned char tail[TAIL_SIZE];
    int rc;

    if (s->size < MAGIC_SIZE + TAIL_SIZE)
        return damaged(q, "has fewer than 12 bytes", err);
    rc = source_read(s, s->size - TAIL_SIZE, tail, TAIL_SIZE, err);
    if (rc != 0)
        return rc;
    if (memcmp(tail + 4, "PARE", MAGIC_SIZE) == 0)
        return encrypted(q, err);
    if (memcmp(tail + 4, MAGIC, MAGIC_SIZE) != 0)
        return damaged(q, "does not end with PAR1", err);
    q->footer_len =
        tail[0] | (uint32_t)tail[1] << 8 | (uint32_t)tail[2] << 16 | (uint32_t)tail[3] << 24;
    if (q->footer_len > s->size - MAGIC_SIZE - TAIL_SIZE || q->footer_len > FOOTER_MAX)
        return damaged(q, "has a footer of an impossible length", err);
    q->data_end = s->size - TAIL_SIZE - q->footer_len;
    rc = take_memory(q, err);
    if (rc < 0)
        return rc;
    q->footer = mem_try_alloc(q->footer_len);
    q->pieces = mem_try_alloc(SAMPLE_PIECES_MAX * sizeof(*q->pieces));
    if (q->footer == NULL || q->pieces == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "%s: no memory for its footer", s->name);
    return source_read(s, q->data_end, q->footer, q->footer_len, err);
}

/* Find the row groups; everything else only has to be well-formed. */
static int parse_footer(struct parquet *q, struct dlc_err *err)
{
    struct thrift t = {q->footer, q->footer + q->footer_len, false};
    struct thrift_field f = {0};
    bool found = false;

    while (thrift_field(&t, &f)) {
        if (f.id == FILE_ENCRYPTION)
            return encrypted(q, err);
        if (f.id != FILE_GROUPS) {
            thrift_skip(&t, f.type);
            continue;
        }
        if (found)
            return damaged(q, "its footer lists row groups twice", err);
        found = true;
        q->n_groups = thrift_list_of(&t, &f, THRIFT_STRUCT);
        q->groups = t;
        for (size_t i = 0; i < q->n_groups && !t.bad; i++)
            thrift_skip(&t, THRIFT_STRUCT);
        q->groups_end = t.p;
    }
    if (t.bad || t.p != t.end || !found)
        return damaged(q, "its footer cannot be read", err);
    return 0;
}

struct chunk {
    int64_t size, data, dictionary;
    uint64_t start;
    uint64_t moved; /* where it starts in the sample */
};

/* Offset of a page in the sample, or -1 when it does not lie in the chunk. */
static int64_t moved(const struct chunk *c, int64_t at)
{
    if (at < (int64_t)c->start || at - (int64_t)c->start >= c->size)
        return -1;
    return (int64_t)(c->moved + ((uint64_t)at - c->start));
}

/* Where the chunk lies. t is a copy, so that the struct can be read again. */
static int measure_chunk(struct parquet *q, struct thrift t, struct chunk *c, struct dlc_err *err)
{
    struct thrift_field f = {0};

    *c = (struct chunk){.size = -1, .data = -1, .dictionary = -1};
    while (thrift_field(&t, &f)) {
        if (f.id == META_SIZE)
            c->size = thrift_int_of(&t, &f);
        else if (f.id == META_DATA)
            c->data = thrift_int_of(&t, &f);
        else if (f.id == META_DICTIONARY)
            c->dictionary = thrift_int_of(&t, &f);
        else
            thrift_skip(&t, f.type);
    }
    if (t.bad || c->size <= 0 || c->data < MAGIC_SIZE)
        return damaged(q, "its footer has a bad column chunk", err);
    c->start = (uint64_t)c->data;
    if (c->dictionary >= MAGIC_SIZE && c->dictionary < c->data)
        c->start = (uint64_t)c->dictionary;
    if (c->start > q->data_end || (uint64_t)c->size > q->data_end - c->start)
        return damaged(q, "a column chunk lies outside of its data", err);
    q->used += (uint64_t)c->size;
    if (q->used > q->data_end)
        return damaged(q, "its column chunks overlap", err);
    return 0;
}

/* The chunk's range goes to the pieces, joined with the one before where they touch. */
static int take_chunk(struct parquet *q, struct chunk *c, struct dlc_err *err)
{
    struct piece *last = &q->pieces[q->n_pieces - 1];

    c->moved = q->at;
    q->at += (uint64_t)c->size;
    if (last->kind == PIECE_OBJECT && last->offset + last->length == c->start) {
        last->length += (uint64_t)c->size;
        return 0;
    }
    if (q->n_pieces == 1 + CHUNKS_MAX)
        return dlc_err_set(err, DLC_EINVAL,
                           "%s: a row group lies in more than %d pieces; write the file again",
                           q->scan->source->name, CHUNKS_MAX);
    q->pieces[q->n_pieces++] =
        (struct piece){.kind = PIECE_OBJECT, .offset = c->start, .length = (uint64_t)c->size};
    return 0;
}

static int copy_meta(struct parquet *q, struct thrift *t, struct dlc_err *err)
{
    struct thrift_field f = {0};
    struct buf *b = &q->group;
    struct chunk c;
    int last = 0, rc;

    rc = measure_chunk(q, *t, &c, err);
    if (rc == 0)
        rc = take_chunk(q, &c, err);
    if (rc != 0)
        return rc;
    while (thrift_field(t, &f)) {
        if (f.id == META_DATA || f.id == META_INDEX || f.id == META_DICTIONARY) {
            int64_t at = moved(&c, thrift_int_of(t, &f));

            if (at >= 0)
                thrift_put_int(b, &last, f.id, f.type, at);
            else if (f.id == META_DATA)
                return damaged(q, "a column chunk does not hold its first page", err);
        } else if (f.id == META_BLOOM || f.id == META_BLOOM_SIZE) {
            thrift_skip(t, f.type);
        } else {
            thrift_copy(t, &f, b, &last);
        }
    }
    thrift_put_stop(b);
    return 0;
}

static int copy_chunk(struct parquet *q, struct thrift *t, struct dlc_err *err)
{
    struct thrift_field f = {0};
    struct buf *b = &q->group;
    bool meta = false;
    int last = 0, rc;

    while (thrift_field(t, &f)) {
        if (f.id == CHUNK_CRYPTO || f.id == CHUNK_ENCRYPTED)
            return encrypted(q, err);
        if (f.id == CHUNK_PATH)
            return dlc_err_set(err, DLC_EINVAL,
                               "%s: its columns lie in other files, which is not supported",
                               q->scan->source->name);
        if (f.id == CHUNK_OFFSET) {
            thrift_int_of(t, &f);
            thrift_put_int(b, &last, f.id, f.type, 0); /* as the format advises */
        } else if (f.id >= CHUNK_INDEX_FIRST && f.id <= CHUNK_INDEX_LAST) {
            thrift_skip(t, f.type);
        } else if (f.id == CHUNK_META) {
            if (meta || f.type != THRIFT_STRUCT)
                return damaged(q, "its footer has a bad column chunk", err);
            meta = true;
            thrift_put_field(b, &last, f.id, f.type);
            rc = copy_meta(q, t, err);
            if (rc != 0)
                return rc;
        } else {
            thrift_copy(t, &f, b, &last);
        }
    }
    thrift_put_stop(b);
    return meta ? 0 : damaged(q, "its footer has a column chunk without a description", err);
}

static int copy_columns(struct parquet *q, struct thrift *t, const struct thrift_field *f,
                        int *last, struct dlc_err *err)
{
    size_t n = thrift_list_of(t, f, THRIFT_STRUCT);
    int rc = 0;

    thrift_put_field(&q->group, last, f->id, f->type);
    thrift_put_list(&q->group, n, THRIFT_STRUCT);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = copy_chunk(q, t, err);
    return rc;
}

/* How many rows the next group has; t is a copy. -1: it does not say. */
static int64_t rows_of(struct thrift t)
{
    struct thrift_field f = {0};
    int64_t rows = -1;

    while (thrift_field(&t, &f)) {
        if (f.id == GROUP_ROWS)
            rows = thrift_int_of(&t, &f);
        else
            thrift_skip(&t, f.type);
    }
    return t.bad ? -1 : rows;
}

/* The next row group, with its pieces. */
static int copy_group(struct parquet *q, struct thrift *t, struct dlc_err *err)
{
    struct thrift_field f = {0};
    struct buf *b = &q->group;
    int last = 0, rc = 0;

    buf_clear(b);
    q->pieces[0] = (struct piece){.kind = PIECE_INLINE, .length = MAGIC_SIZE, .bytes = MAGIC};
    q->n_pieces = 1;
    q->at = MAGIC_SIZE;
    while (rc == 0 && thrift_field(t, &f)) {
        switch (f.id) {
        case GROUP_COLUMNS: rc = copy_columns(q, t, &f, &last, err); break;
        case GROUP_OFFSET:
            thrift_int_of(t, &f);
            thrift_put_int(b, &last, f.id, f.type, MAGIC_SIZE);
            break;
        case GROUP_ORDINAL:
            thrift_int_of(t, &f);
            thrift_put_int(b, &last, f.id, f.type, 0);
            break;
        default: thrift_copy(t, &f, b, &last);
        }
    }
    thrift_put_stop(b);
    return rc == 0 && t->bad ? damaged(q, "its footer has a bad row group", err) : rc;
}

/* The file's footer with this group only, its length and the magic. */
static void make_footer(const struct parquet *q, struct buf *b)
{
    struct thrift t = {q->footer, q->footer + q->footer_len, false};
    struct thrift_field f = {0};
    int last = 0;
    size_t len;

    while (thrift_field(&t, &f)) {
        if (f.id == FILE_ROWS) {
            thrift_skip(&t, f.type);
            thrift_put_int(b, &last, f.id, THRIFT_I64, q->rows);
        } else if (f.id == FILE_GROUPS) {
            t.p = q->groups_end;
            thrift_put_field(b, &last, f.id, f.type);
            thrift_put_list(b, 1, THRIFT_STRUCT);
            buf_add(b, q->group.data, q->group.len);
        } else {
            thrift_copy(&t, &f, b, &last);
        }
    }
    thrift_put_stop(b);
    len = b->len;
    for (unsigned i = 0; i < 4; i++)
        buf_addc(b, (char)(len >> 8 * i));
    buf_adds(b, MAGIC);
}

static int emit(struct parquet *q, struct dlc_err *err)
{
    struct buf footer = BUF_INIT;
    uint64_t first = q->first, max = DLC_MAX(q->scan->source->size, FOOTERS_MAX);
    int rc;

    make_footer(q, &footer);
    q->footers += footer.len;
    if (q->footers > max) {
        rc = dlc_err_set(err, DLC_EINVAL,
                         "%s: %zu row groups, each with a large schema, would need more space for "
                         "schemas than for data; write it with larger row groups",
                         q->scan->source->name, q->n_groups);
    } else {
        q->pieces[q->n_pieces++] =
            (struct piece){.kind = PIECE_INLINE, .length = footer.len, .bytes = footer.data};
        q->first += (uint64_t)q->rows;
        rc = scan_found_rows(q->scan, first, q->first - 1, q->pieces, q->n_pieces, err);
    }
    buf_release(&footer);
    return rc;
}

static int cut(struct parquet *q, struct dlc_err *err)
{
    struct thrift t = q->groups;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < q->n_groups; i++) {
        q->rows = rows_of(t);
        if (q->rows < 0 || (uint64_t)q->rows > INT64_MAX - q->first)
            return damaged(q, "its footer has a bad number of rows", err);
        if (q->rows == 0) { /* an empty table: its offsets may say anything */
            thrift_skip(&t, THRIFT_STRUCT);
            continue;
        }
        rc = copy_group(q, &t, err);
        if (rc == 0)
            rc = emit(q, err);
    }
    return rc;
}

static int run(struct scan *s, struct dlc_err *err)
{
    struct parquet q = {.scan = s, .group = BUF_INIT};
    int rc;

    rc = read_footer(&q, err);
    if (rc == 0)
        rc = parse_footer(&q, err);
    if (rc == 0)
        rc = cut(&q, err);
    mem_free(&q.footer);
    mem_free(&q.pieces);
    buf_release(&q.group);
    atomic_fetch_sub(&taken, q.taken);
    return rc;
}

static const char *const suffixes[] = {".parquet", ".parq", ".pq", NULL};
const struct scanner scanner_parquet = {"parquet", suffixes, .tabular = true, .run = run};
