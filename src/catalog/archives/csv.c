// SPDX-License-Identifier: Apache-2.0
/*
 * csv and tsv: partitions of whole rows. Each is a readable file: the first one is the file's
 * beginning, the others are the header row and a range of rows. A byte order mark is dropped.
 *
 * A row ends at a newline that is not inside quotes (RFC 4180). A quote opens only at the start of
 * a field; elsewhere it is a character like others, so that 5" does not swallow the rest of the
 * file. The delimiter of a csv is whichever of , ; | and tab its first row has most of; of a tsv
 * the tab. Blank lines are not counted as rows.
 *
 * The first row is a header unless one of its fields is a number; limits.header overrides that.
 */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/archives/readahead_i.h"
#include "catalog/archives/scan_i.h"

#define HEADER_MAX ((uint64_t)1 << 20)
#define ROW_MAX    ((uint64_t)256 << 20)

struct csv {
    struct scan *scan;
    struct reader reader;
    char delimiter;
    struct buf header; /* empty: none */
};

struct row {
    bool quoted;  /* inside quotes */
    bool closed;  /* the last byte was a quote that may have closed them */
    bool ended;   /* the newline was seen */
    char before;  /* the last byte of the view before */
    uint64_t end; /* of the row in the file */
    bool blank;
};

/* Go on with a row in v; returns how many bytes of it belong to the row. */
static size_t row_step(struct row *r, char delimiter, const char *v, size_t len)
{
    size_t i = 0, newline = 0;
    bool known = false;
    const char *p;

    while (i < len) {
        if (r->quoted) {
            p = memchr(v + i, '"', len - i);
            if (p == NULL)
                return len;
            i = (size_t)(p - v) + 1;
            r->quoted = false;
            r->closed = true;
            continue;
        }
        if (r->closed && v[i] == '"') {
            r->quoted = true;
            r->closed = false;
            i++;
            continue;
        }
        r->closed = false;
        if (!known || newline < i) {
            p = memchr(v + i, '\n', len - i);
            newline = p == NULL ? len : (size_t)(p - v);
            known = true;
        }
        p = memchr(v + i, '"', newline - i);
        if (p == NULL) {
            r->ended = newline < len;
            return newline + r->ended;
        }
        i = (size_t)(p - v) + 1;
        r->quoted = (i > 1 ? p[-1] : r->before) == delimiter;
    }
    return len;
}

/* The row that begins at `at`; there is at least one byte. */
static int find_row(struct csv *c, uint64_t at, struct row *r, struct dlc_err *err)
{
    const unsigned char *v;
    size_t len, n;
    int rc;

    *r = (struct row){.before = c->delimiter, .end = at};
    while (!r->ended && r->end < c->scan->source->size) {
        rc = reader_view(&c->reader, r->end, 2, &v, &len, err);
        if (rc != 0)
            return rc;
        n = row_step(r, c->delimiter, (const char *)v, len);
        if (r->end == at)
            r->blank = v[0] == '\n' || (n == 2 && v[0] == '\r' && v[1] == '\n');
        r->before = (char)v[n - 1];
        r->end += n;
        if (r->end - at > ROW_MAX)
            return dlc_err_set(err, DLC_EINVAL,
                               "%s: the row at byte %" PRIu64
                               " has more than 256 MiB; is a quote not closed?",
                               c->scan->source->name, at);
    }
    return 0;
}

/* Over a byte order mark. */
static int find_begin(struct csv *c, uint64_t *at, struct dlc_err *err)
{
    const unsigned char *v;
    size_t len;
    int rc;

    rc = reader_view(&c->reader, 0, 3, &v, &len, err);
    if (rc != 0)
        return rc;
    if (len >= 2 && (memcmp(v, "\xff\xfe", 2) == 0 || memcmp(v, "\xfe\xff", 2) == 0))
        return dlc_err_set(err, DLC_EINVAL, "%s: is in UTF-16; convert it to UTF-8",
                           c->scan->source->name);
    *at = len >= 3 && memcmp(v, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return 0;
}

static char find_delimiter(const char *line, size_t len)
{
    static const char candidates[] = {',', ';', '\t', '|'};
    size_t counts[sizeof(candidates)] = {0}, best = 0;
    bool quoted = false;

    for (size_t i = 0; i < len && (quoted || line[i] != '\n'); i++) {
        quoted ^= line[i] == '"';
        for (size_t k = 0; !quoted && k < sizeof(candidates); k++)
            counts[k] += line[i] == candidates[k];
    }
    for (size_t k = 1; k < sizeof(candidates); k++)
        if (counts[k] > counts[best])
            best = k;
    return candidates[best];
}

static bool is_number(const char *field, size_t len)
{
    char text[64];
    double v;

    while (len > 0 && strchr(" \r\n", field[len - 1]) != NULL)
        len--;
    while (len > 0 && *field == ' ') {
        field++;
        len--;
    }
    if (len == 0 || len >= sizeof(text) || memchr("+-.0123456789", *field, 13) == NULL)
        return false;
    memcpy(text, field, len);
    text[len] = '\0';
    return str_parse_double(text + (text[0] == '+'), &v);
}

static bool looks_like_header(const char *row, size_t len, char delimiter)
{
    bool quoted = false;
    size_t start = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && row[i] == '"')
            quoted = !quoted;
        if (i < len && (quoted || row[i] != delimiter))
            continue;
        if (is_number(row + start, i - start))
            return false;
        start = i + 1;
    }
    return true;
}

/* Over blank lines to the first row; then what delimits its fields is known. */
static int find_first(struct csv *c, uint64_t *at, struct dlc_err *err)
{
    const unsigned char *v;
    struct row r = {.blank = true};
    size_t len;
    int rc;

    while (*at < c->scan->source->size) {
        rc = find_row(c, *at, &r, err);
        if (rc != 0)
            return rc;
        if (!r.blank)
            break;
        *at = r.end;
    }
    rc = reader_view(&c->reader, *at, 1, &v, &len, err);
    if (rc == 0 && c->delimiter == 0)
        c->delimiter = find_delimiter((const char *)v, len);
    return rc;
}

static int read_header(struct csv *c, uint64_t at, struct dlc_err *err)
{
    enum scan_header want = c->scan->limits.header;
    const unsigned char *v;
    struct row r;
    size_t len, n;
    int rc;

    if (at == c->scan->source->size || want == SCAN_HEADER_NO)
        return 0;
    rc = find_row(c, at, &r, err);
    if (rc != 0)
        return rc;
    if (r.end - at > HEADER_MAX) {
        if (want == SCAN_HEADER_AUTO)
            return 0;
        return dlc_err_set(err, DLC_EINVAL, "%s: the header row has more than 1 MiB",
                           c->scan->source->name);
    }
    n = (size_t)(r.end - at);
    rc = reader_view(&c->reader, at, n, &v, &len, err);
    if (rc != 0)
        return rc;
    if (want == SCAN_HEADER_YES || looks_like_header((const char *)v, n, c->delimiter))
        buf_add(&c->header, v, n);
    return 0;
}

static int emit(struct csv *c, uint64_t begin, uint64_t end, uint64_t first, uint64_t rows,
                struct dlc_err *err)
{
    struct piece pieces[2] = {
        {.kind = PIECE_INLINE, .length = c->header.len, .bytes = c->header.data},
        {.kind = PIECE_OBJECT, .offset = begin, .length = end - begin},
    };
    bool alone = first == 0 || c->header.len == 0;

    if (rows == 0)
        return 0;
    return scan_found_rows(c->scan, first, first + rows - 1, pieces + alone, 2u - alone, err);
}

/* `begin` is that of the header, if there is one: it belongs to the first partition's range. */
static int cut(struct csv *c, uint64_t begin, struct dlc_err *err)
{
    uint64_t limit = scan_partition_bytes(c->scan), size = c->scan->source->size;
    uint64_t at = begin + c->header.len, first = 0, rows = 0, inlined = 0;
    struct row r;
    int rc = 0;

    while (at < size) {
        rc = find_row(c, at, &r, err);
        if (rc == 0 && rows > 0 && inlined + (r.end - begin) > limit) {
            rc = emit(c, begin, at, first, rows, err);
            begin = at;
            first += rows;
            rows = 0;
            inlined = c->header.len;
        }
        if (rc != 0)
            return rc;
        rows += !r.blank;
        at = r.end;
    }
    return emit(c, begin, at, first, rows, err);
}

/* delimiter 0: to be found. */
static int run(struct scan *s, char delimiter, struct dlc_err *err)
{
    struct csv c = {.scan = s, .delimiter = delimiter, .header = BUF_INIT};
    uint64_t begin = 0;
    int rc;

    reader_init(&c.reader, s->source);
    rc = find_begin(&c, &begin, err);
    if (rc == 0)
        rc = find_first(&c, &begin, err);
    if (rc == 0)
        rc = read_header(&c, begin, err);
    if (rc == 0)
        rc = cut(&c, begin, err);
    reader_release(&c.reader);
    buf_release(&c.header);
    return rc;
}

static int run_csv(struct scan *s, struct dlc_err *err)
{
    return run(s, 0, err);
}

static int run_tsv(struct scan *s, struct dlc_err *err)
{
    return run(s, '\t', err);
}

static const char *const csv[] = {".csv", NULL};
static const char *const tsv[] = {".tsv", NULL};
const struct scanner scanner_csv = {"csv", csv, .tabular = true, .run = run_csv};
const struct scanner scanner_tsv = {"tsv", tsv, .tabular = true, .run = run_tsv};
