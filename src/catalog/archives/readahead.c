// SPDX-License-Identifier: Apache-2.0
#include "catalog/archives/readahead_i.h"

#include "base/check.h"
#include "base/mem.h"

#define READER_MIN ((size_t)64 << 10)

void reader_init(struct reader *r, struct source *source)
{
    *r = (struct reader){.source = source};
}

void reader_release(struct reader *r)
{
    mem_free(&r->window);
    reader_init(r, r->source);
}

/* How much to read at off, by where the last read ended. */
static size_t next_ahead(const struct reader *r, uint64_t off)
{
    uint64_t end = r->start + r->len;

    if (r->ahead == 0 || off < r->start || (off > end && off - end > READER_MAX))
        return READER_MIN;
    return DLC_MIN(r->ahead * 2, READER_MAX);
}

static int refill(struct reader *r, uint64_t off, size_t want, struct dlc_err *err)
{
    size_t ahead = next_ahead(r, off);
    size_t n = (size_t)DLC_MIN((uint64_t)DLC_MAX(ahead, want), r->source->size - off);
    int rc;

    r->len = 0;
    if (n > r->cap) {
        mem_free(&r->window);
        r->cap = 0;
        r->window = mem_try_alloc(n);
        if (r->window == NULL)
            return dlc_err_set(err, DLC_ENOMEM, "%s: no memory to read %zu bytes of it",
                               r->source->name, n);
        r->cap = n;
    }
    rc = source_read(r->source, off, r->window, n, err);
    if (rc != 0)
        return rc;
    r->start = off;
    r->len = n;
    r->ahead = ahead;
    return 0;
}

int reader_view(struct reader *r, uint64_t off, size_t want, const unsigned char **view,
                size_t *len, struct dlc_err *err)
{
    uint64_t left = off < r->source->size ? r->source->size - off : 0;
    int rc;

    dlc_check(want <= READER_MAX);
    want = (size_t)DLC_MIN((uint64_t)want, left);
    if (off < r->start || off > r->start + r->len || want > r->start + r->len - off) {
        rc = want == 0 ? 0 : refill(r, off, want, err);
        if (rc != 0)
            return rc;
    }
    *len = want == 0 ? 0 : r->len - (size_t)(off - r->start);
    *view = want == 0 ? (const unsigned char *)"" : r->window + (off - r->start);
    return 0;
}
