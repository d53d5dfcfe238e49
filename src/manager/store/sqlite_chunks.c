// SPDX-License-Identifier: Apache-2.0
/*
 * Chunks in SQLite: one B-tree by (dataset, node, key), so that the chunks of a dataset on a node
 * are one sorted run. Pages of a node are a range, pages of all nodes the merge of a few runs
 * (chunk_merge.c), and a node or a dataset is removed by deleting ranges. No second index: it would
 * double file size and time.
 *
 * (SQLITE-CHUNKS-1) `sum` holds for each (dataset, node) with chunks their number and bytes; the
 *                   transaction that changes chunks changes it by the difference. A row with no
 *                   chunks is removed.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "manager/store/sqlite_chunks_i.h"
#include "manager/store/chunk_merge_i.h"
#include "manager/store/sqlite_store_i.h"

#define DROP_SLICE                                                                                 \
    10000 /* chunks that one transaction deletes: others get their turn in between                 \
           */

/* The number of a name; 0: there is none, and it was not to be made. */
static int name_id(struct sq_conn *c, const char *text, bool make, int64_t *out)
{
    int rc = sq_number(c, SQ_name_get, 0, out, "t", text);

    if (rc == SQLITE_OK && *out == 0 && make) {
        rc = sq_exec(c, SQ_name_add, "t", text);
        *out = sqlite3_last_insert_rowid(c->db);
    }
    return rc;
}

/* ---- writing ---- */

/* What a transaction did to one (dataset, node). */
struct delta {
    const char *dataset_name, *node_name;
    int64_t dataset, node, chunks, bytes;
};

struct deltas {
    struct delta *d;
    size_t n, cap, last;
};

static bool delta_is(const struct delta *d, const struct store_chunk *c)
{
    return strcmp(d->dataset_name, c->dataset) == 0 && strcmp(d->node_name, c->node) == 0;
}

static int delta_find(struct sq_conn *w, struct deltas *all, const struct store_chunk *c,
                      struct delta **out)
{
    struct delta *d;
    int rc;

    for (size_t k = 0; k < all->n; k++) {
        size_t i = (all->last + k) % all->n; /* batches come sorted: usually the last one */

        if (delta_is(&all->d[i], c)) {
            all->last = i;
            *out = &all->d[i];
            return SQLITE_OK;
        }
    }
    mem_reserve(all->d, all->n, all->cap);
    all->last = all->n;
    d = &all->d[all->n++];
    *d = (struct delta){.dataset_name = c->dataset, .node_name = c->node};
    rc = name_id(w, c->dataset, true, &d->dataset);
    if (rc == SQLITE_OK)
        rc = name_id(w, c->node, true, &d->node);
    *out = d;
    return rc;
}

/* chunk_add or chunk_set. */
static int write_row(struct sq_conn *w, enum sq_id id, const struct delta *d,
                     const struct store_chunk *c)
{
    return sq_exec(w, id, "iittidiiii", d->dataset, d->node, c->key, c->etag != NULL ? c->etag : "",
                   (int64_t)c->size, c->cost, (int64_t)c->references, (int64_t)c->state,
                   (int64_t)c->jobs, c->changed_ms);
}

/* Most are new: one way down the tree for those. */
static int put_one(struct sq_conn *w, struct deltas *all, const struct store_chunk *c)
{
    struct delta *d;
    int64_t old = 0;
    bool is_new;
    int rc = delta_find(w, all, c, &d);

    if (rc == SQLITE_OK)
        rc = write_row(w, SQ_chunk_add, d, c);
    is_new = rc == SQLITE_OK && sqlite3_changes(w->db) == 1;
    if (rc == SQLITE_OK && !is_new) {
        rc = sq_number(w, SQ_chunk_size, 0, &old, "iit", d->dataset, d->node, c->key);
        if (rc == SQLITE_OK)
            rc = write_row(w, SQ_chunk_set, d, c);
    }
    if (rc == SQLITE_OK) {
        d->chunks += is_new;
        d->bytes += (int64_t)c->size - old;
    }
    return rc;
}

static int apply_deltas(struct sq_conn *w, const struct deltas *all)
{
    int rc = SQLITE_OK;

    for (size_t i = 0; rc == SQLITE_OK && i < all->n; i++) {
        const struct delta *d = &all->d[i];

        rc = sq_exec(w, SQ_sum_add, "iiii", d->dataset, d->node, d->chunks, d->bytes);
        if (rc == SQLITE_OK && d->chunks < 0)
            rc = sq_exec(w, SQ_sum_trim, "ii", d->dataset, d->node);
    }
    return rc;
}

int sqlite_chunks_put(struct store *m, const struct store_chunk *c, size_t n, uint64_t fence,
                      struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    struct deltas all = {0};
    int rc = sq_begin(&q->write, false);

    if (rc == SQLITE_OK)
        rc = sq_pass_fence(&q->write, fence, err);
    for (size_t i = 0; rc == SQLITE_OK && i < n; i++)
        rc = put_one(&q->write, &all, &c[i]);
    if (rc == SQLITE_OK)
        rc = apply_deltas(&q->write, &all);
    rc = sq_finish(&q->write, rc);
    mem_free(&all.d);
    return rc == SQLITE_OK ? 0 : sq_error(q->path, rc, "writing chunks", err);
}

int sqlite_chunks_drop_keys(struct store *m, const char *dataset, const char *node,
                            const char *const *keys, size_t n, uint64_t fence, struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    struct sq_conn *w = &q->write;
    struct delta d = {.dataset_name = dataset, .node_name = node};
    struct deltas all = {.d = &d, .n = 1};
    int rc = sq_begin(w, false);

    if (rc == SQLITE_OK)
        rc = sq_pass_fence(w, fence, err);
    if (rc == SQLITE_OK)
        rc = name_id(w, dataset, false, &d.dataset);
    if (rc == SQLITE_OK)
        rc = name_id(w, node, false, &d.node);
    for (size_t i = 0; rc == SQLITE_OK && d.dataset != 0 && d.node != 0 && i < n; i++) {
        int64_t old;

        rc = sq_number(w, SQ_chunk_size, -1, &old, "iit", d.dataset, d.node, keys[i]);
        if (rc == SQLITE_OK && old >= 0) {
            rc = sq_exec(w, SQ_chunk_delete, "iit", d.dataset, d.node, keys[i]);
            d.chunks--;
            d.bytes -= old;
        }
    }
    if (rc == SQLITE_OK && d.chunks < 0)
        rc = apply_deltas(w, &all);
    rc = sq_finish(w, rc);
    return rc == SQLITE_OK ? 0 : sq_error(q->path, rc, "deleting chunks", err);
}

/* In a transaction: the first DROP_SLICE chunks of a run, or what there is. */
static int drop_slice(struct sq_conn *w, int64_t dataset, int64_t node)
{
    sqlite3_stmt *s;
    char *edge = NULL;
    int64_t chunks = 0, bytes = 0;
    int rc = sq_query(w, SQ_chunk_edge, &s, "iii", dataset, node, (int64_t)DROP_SLICE);

    if (rc == SQLITE_ROW)
        edge = mem_str((const char *)sqlite3_column_text(s, 0));
    sq_end(&s);
    if (rc == SQLITE_DONE) {
        rc = sq_exec(w, SQ_chunk_delete_all, "ii", dataset, node);
        return rc == SQLITE_OK ? sq_exec(w, SQ_sum_delete, "ii", dataset, node) : rc;
    }
    if (rc == SQLITE_ROW) {
        rc = sq_query(w, SQ_chunk_count_to, &s, "iit", dataset, node, edge);
        if (rc == SQLITE_ROW) {
            chunks = sqlite3_column_int64(s, 0);
            bytes = sqlite3_column_int64(s, 1);
        }
        sq_end(&s);
    }
    if (rc == SQLITE_ROW)
        rc = sq_exec(w, SQ_chunk_delete_to, "iit", dataset, node, edge);
    if (rc == SQLITE_OK)
        rc = sq_exec(w, SQ_sum_add, "iiii", dataset, node, -chunks, -bytes);
    mem_free(&edge);
    return rc;
}

/* Some run that is to go; *node 0: there is none left. */
static int next_run(struct sq_conn *w, const char *dataset, const char *node, int64_t run[2])
{
    int64_t d = 0, n = 0;
    sqlite3_stmt *s = NULL;
    int rc = SQLITE_OK;

    run[0] = run[1] = 0;
    if (dataset != NULL)
        rc = name_id(w, dataset, false, &d);
    if (rc == SQLITE_OK && node != NULL)
        rc = name_id(w, node, false, &n);
    if (rc != SQLITE_OK || (dataset != NULL && d == 0) || (node != NULL && n == 0))
        return rc;
    if (dataset != NULL && node != NULL)
        rc = sq_query(w, SQ_sum_of_both, &s, "ii", d, n);
    else if (dataset != NULL)
        rc = sq_query(w, SQ_sum_of_dataset, &s, "i", d);
    else
        rc = sq_query(w, SQ_sum_of_node, &s, "i", n);
    if (rc == SQLITE_ROW) {
        run[0] = sqlite3_column_int64(s, 0);
        run[1] = sqlite3_column_int64(s, 1);
    }
    sq_end(&s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int sqlite_chunks_drop(struct store *m, const char *dataset, const char *node, uint64_t fence,
                       struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    int64_t run[2] = {0, 0};
    int rc;

    do {
        rc = sq_begin(&q->write, false);
        if (rc == SQLITE_OK)
            rc = sq_pass_fence(&q->write, fence, err);
        if (rc == SQLITE_OK)
            rc = next_run(&q->write, dataset, node, run);
        if (rc == SQLITE_OK && run[1] != 0)
            rc = drop_slice(&q->write, run[0], run[1]);
        rc = sq_finish(&q->write, rc);
    } while (rc == SQLITE_OK && run[1] != 0);
    return rc == SQLITE_OK ? 0 : sq_error(q->path, rc, "deleting chunks", err);
}

/* ---- reading ---- */

int sqlite_sums(struct store *m, const char *dataset, struct store_sum *out, size_t max, size_t *n,
                struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    sqlite3_stmt *s = NULL;
    int64_t id;
    int rc;

    dlc_mtx_lock(&q->read.mtx);
    rc = name_id(&q->read, dataset, false, &id);
    if (rc == SQLITE_OK)
        rc = sq_query(&q->read, SQ_sum_list, &s, "i", id);
    for (; rc == SQLITE_ROW && *n < max; rc = sqlite3_step(s)) {
        struct store_sum *sum = &out[(*n)++];

        snprintf(sum->node, sizeof(sum->node), "%s", (const char *)sqlite3_column_text(s, 0));
        sum->chunks = (uint64_t)sqlite3_column_int64(s, 1);
        sum->bytes = (uint64_t)sqlite3_column_int64(s, 2);
    }
    sq_end(&s);
    dlc_mtx_unlock(&q->read.mtx);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : sq_error(q->path, rc, "reading sums", err);
}

int sqlite_streams(struct store *m, const char *dataset, const char *node,
                   struct chunk_stream **out, size_t *n, struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    sqlite3_stmt *s = NULL;
    int64_t id;
    size_t cap = 0;
    int rc;

    dlc_mtx_lock(&q->read.mtx);
    rc = name_id(&q->read, dataset, false, &id);
    if (rc == SQLITE_OK)
        rc = sq_query(&q->read, SQ_sum_list, &s, "i", id);
    for (; rc == SQLITE_ROW; rc = sqlite3_step(s)) {
        const char *name = (const char *)sqlite3_column_text(s, 0);

        if (node != NULL && strcmp(name, node) != 0)
            continue;
        mem_reserve(*out, *n, cap);
        chunk_stream_init(&(*out)[*n], name, (uint64_t)sqlite3_column_int64(s, 3));
        (*out)[(*n)++].owner = (uint64_t)id;
    }
    sq_end(&s);
    dlc_mtx_unlock(&q->read.mtx);
    return rc == SQLITE_DONE ? 0 : sq_error(q->path, rc, "reading sums", err);
}

static void add_row(struct chunk_stream *stream, sqlite3_stmt *s)
{
    struct store_chunk c = {
        .size = (uint64_t)sqlite3_column_int64(s, 2),
        .cost = sqlite3_column_double(s, 3),
        .references = (uint32_t)sqlite3_column_int64(s, 4),
        .state = (uint8_t)sqlite3_column_int64(s, 5),
        .jobs = (uint32_t)sqlite3_column_int64(s, 6),
        .changed_ms = sqlite3_column_int64(s, 7),
    };
    const char *key = (const char *)sqlite3_column_text(s, 0);
    const char *etag = (const char *)sqlite3_column_text(s, 1);

    chunk_stream_add(stream, key, (size_t)sqlite3_column_bytes(s, 0), etag,
                     (size_t)sqlite3_column_bytes(s, 1), &c);
}

static int fetch_one(struct sq_conn *r, const struct page_range *range, struct chunk_stream *stream,
                     size_t limit)
{
    int64_t dataset = (int64_t)stream->owner, node = (int64_t)stream->number, max = (int64_t)limit;
    const char *from = buf_str(&stream->from);
    sqlite3_stmt *s = NULL;
    int rc;

    if (range->to == NULL)
        rc = sq_query(r, stream->beyond ? SQ_chunk_after : SQ_chunk_from, &s, "iiti", dataset, node,
                      from, max);
    else
        rc = sq_query(r, stream->beyond ? SQ_chunk_after_to : SQ_chunk_from_to, &s, "iitit",
                      dataset, node, from, max, range->to);
    for (; rc == SQLITE_ROW; rc = sqlite3_step(s))
        add_row(stream, s);
    sq_end(&s);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int sqlite_fetch(struct store *m, const char *dataset, const struct page_range *range,
                 struct chunk_stream **s, size_t n, size_t limit, struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    int rc = SQLITE_OK;

    (void)dataset;
    dlc_mtx_lock(&q->read.mtx);
    for (size_t i = 0; rc == SQLITE_OK && i < n; i++)
        rc = fetch_one(&q->read, range, s[i], limit);
    dlc_mtx_unlock(&q->read.mtx);
    return rc == SQLITE_OK ? 0 : sq_error(q->path, rc, "reading chunks", err);
}
