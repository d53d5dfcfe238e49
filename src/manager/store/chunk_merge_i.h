// SPDX-License-Identifier: Apache-2.0
/*
 * Pages of chunks. Stores keep chunks in runs sorted by key: SQLite one per dataset and node, Redis
 * a few. A page is the head of their merge, in the order of (key, node); its cursor is the last
 * pair.
 *
 * Runs are read a little at a time; all runs whose rows are used up are refilled in one call. So
 * the cost of a page depends on its own size, not on the number of chunks: no run is read more than
 * a few rows further than the page needs.
 *
 * (CHUNK-MERGE-1) A page looks at no more than PAGE_SCAN rows: if a filter by state finds few, the
 *                 page is short, or empty, and has a cursor.
 */
#ifndef DLC_MANAGER_STORE_CHUNK_MERGE_I_H
#define DLC_MANAGER_STORE_CHUNK_MERGE_I_H

#include "manager/store/store_i.h"

#define PAGE_SCAN 2000

struct chunk_row {
    size_t key, etag; /* where they begin in the stream's texts */
    struct store_chunk c;
};

struct chunk_stream {
    char *node;
    uint64_t number, owner; /* the store's own: which run */
    struct buf from;        /* the next row's key is at least this ... */
    bool beyond;            /* ... and not equal to it */
    bool done;              /* the store has no further rows in the range */
    struct chunk_row *rows;
    size_t n, cap, at; /* rows[at..n) are not used yet */
    struct buf texts;
};

struct page_range {
    const char *to; /* keys are smaller; NULL: no limit */
    size_t to_len;
};

void chunk_stream_init(struct chunk_stream *s, const char *node, uint64_t number);
/* For fetch(): append a row; c's numbers are copied, its texts are passed separately. */
void chunk_stream_add(struct chunk_stream *s, const char *key, size_t key_len, const char *etag,
                      size_t etag_len, const struct store_chunk *c);

int page_query(struct store *m, const struct store_chunk_query *q, struct store_chunk_page *out,
               struct dlc_err *err);

/* A cursor is the hex of key, NUL, node. */
char *page_cursor(const char *key, const char *node);
bool page_cursor_parse(const char *text, char **key, char **node);

#endif
