// SPDX-License-Identifier: Apache-2.0
#include "manager/store/chunk_merge_i.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"

void chunk_stream_init(struct chunk_stream *s, const char *node, uint64_t number)
{
    *s = (struct chunk_stream){.node = mem_str(node), .number = number};
}

static void chunk_stream_release(struct chunk_stream *s)
{
    mem_free(&s->node);
    mem_free(&s->rows);
    buf_release(&s->from);
    buf_release(&s->texts);
}

void chunk_stream_add(struct chunk_stream *s, const char *key, size_t key_len, const char *etag,
                      size_t etag_len, const struct store_chunk *c)
{
    struct chunk_row *row;

    mem_reserve(s->rows, s->n, s->cap);
    row = &s->rows[s->n++];
    row->c = *c;
    row->key = s->texts.len;
    buf_add(&s->texts, key, key_len);
    buf_addc(&s->texts, '\0');
    row->etag = s->texts.len;
    buf_add(&s->texts, etag, etag_len);
    buf_addc(&s->texts, '\0');
}

/* ---- cursors ---- */

char *page_cursor(const char *key, const char *node)
{
    size_t k = strlen(key) + 1, n = strlen(node);
    char *out = mem_alloc(2 * (k + n) + 1);

    str_hex(key, k, out);
    str_hex(node, n, out + 2 * k);
    return out;
}

bool page_cursor_parse(const char *text, char **key, char **node)
{
    size_t len = strlen(text), k;
    char *raw;

    if (len % 2 != 0 || len > 2 * (STORE_KEY_MAX + 1 + STORE_ID_MAX))
        return false;
    raw = mem_alloc(len / 2 + 1);
    raw[len / 2] = '\0';
    if (!str_unhex(text, len, raw) || (k = strlen(raw)) == 0 || k > STORE_KEY_MAX ||
        k + 1 > len / 2 || strlen(raw + k + 1) != len / 2 - k - 1 ||
        len / 2 - k - 1 > STORE_ID_MAX) {
        mem_free(&raw);
        return false;
    }
    *key = mem_str(raw);
    *node = mem_str(raw + k + 1);
    mem_free(&raw);
    return true;
}

/* ---- the merge ---- */

struct merge {
    struct store *m;
    const struct store_chunk_query *q;
    struct page_range range;
    struct buf to;
    struct chunk_stream *streams;
    size_t n;
    size_t limit;   /* rows for each stream that is asked */
    size_t scanned; /* rows looked at */
    bool dry;       /* some stream may be empty and not done */
    struct buf last_key;
    const char *last_node;
};

static const char *row_key(const struct chunk_stream *s, size_t i)
{
    return s->texts.data + s->rows[i].key;
}

/* The smallest text that is larger than all that begin with prefix; empty: there is none. */
static void successor(const char *prefix, struct buf *out)
{
    buf_adds(out, prefix);
    while (out->len > 0 && (unsigned char)out->data[out->len - 1] == 0xff)
        out->len--;
    if (out->len > 0)
        out->data[out->len - 1]++;
}

static int merge_begin(struct merge *g, struct dlc_err *err)
{
    const char *prefix = g->q->prefix != NULL ? g->q->prefix : "";
    char *key = NULL, *node = NULL;

    if (g->q->after != NULL && !page_cursor_parse(g->q->after, &key, &node))
        return dlc_err_set(
            err, DLC_EINVAL,
            "this is not a cursor of a list of chunks; pass 'next' of the previous page");
    successor(prefix, &g->to);
    if (g->to.len > 0)
        g->range = (struct page_range){g->to.data, g->to.len};
    for (size_t i = 0; i < g->n; i++) {
        struct chunk_stream *s = &g->streams[i];

        if (key != NULL && strcmp(key, prefix) >= 0) {
            buf_adds(&s->from, key);
            s->beyond = strcmp(s->node, node) <= 0;
        } else {
            buf_adds(&s->from, prefix);
        }
    }
    g->limit = DLC_MIN(g->q->max + 1, g->n == 0 ? 1 : 2 * g->q->max / g->n + 8);
    mem_free(&key);
    mem_free(&node);
    return 0;
}

/* Let the stream go on behind its last row; its rows are used up. */
static void stream_rewind(struct chunk_stream *s)
{
    if (s->n > 0) {
        buf_clear(&s->from);
        buf_adds(&s->from, row_key(s, s->n - 1));
        s->beyond = true;
    }
    s->n = s->at = 0;
    buf_clear(&s->texts);
}

/* Every stream that is not done has a row to show. */
static int merge_fill(struct merge *g, struct dlc_err *err)
{
    struct chunk_stream **dry;
    size_t n = 0;
    int rc = 0;

    if (!g->dry)
        return 0;
    g->dry = false;
    dry = mem_alloc((g->n + 1) * sizeof(struct chunk_stream *));
    for (size_t i = 0; i < g->n; i++) {
        struct chunk_stream *s = &g->streams[i];

        if (s->at == s->n && !s->done) {
            stream_rewind(s);
            dry[n++] = s;
        }
    }
    if (n > 0) {
        rc = g->m->ops->fetch(g->m, g->q->dataset, &g->range, dry, n, g->limit, err);
        for (size_t i = 0; rc == 0 && i < n; i++)
            dry[i]->done = dry[i]->n < g->limit;
        g->limit = DLC_MIN(g->limit * 2, (size_t)PAGE_SCAN);
    }
    mem_free(&dry);
    return rc;
}

/* The stream with the smallest (key, node); NULL: all are at their end. */
static struct chunk_stream *merge_least(const struct merge *g)
{
    struct chunk_stream *best = NULL;

    for (size_t i = 0; i < g->n; i++) {
        struct chunk_stream *s = &g->streams[i];
        int order;

        if (s->at == s->n)
            continue;
        order = best == NULL ? -1 : strcmp(row_key(s, s->at), row_key(best, best->at));
        if (order < 0 || (order == 0 && strcmp(s->node, best->node) < 0))
            best = s;
    }
    return best;
}

/* Where the texts of chunk i begin: node, key, etag. */
struct where {
    size_t node, key, etag;
};

struct gathered {
    struct where *at;
    struct buf texts;
};

static size_t keep_text(struct buf *b, const char *s)
{
    size_t at = b->len;

    buf_add(b, s, strlen(s) + 1);
    return at;
}

static void merge_take(struct merge *g, struct chunk_stream *s, struct gathered *texts,
                       struct store_chunk_page *out)
{
    const struct chunk_row *row = &s->rows[s->at];
    const char *key = row_key(s, s->at);

    if (g->q->state < 0 || row->c.state == g->q->state) {
        texts->at[out->n] =
            (struct where){keep_text(&texts->texts, s->node), keep_text(&texts->texts, key),
                           keep_text(&texts->texts, s->texts.data + row->etag)};
        out->chunks[out->n++] = row->c;
    }
    buf_clear(&g->last_key);
    buf_adds(&g->last_key, key);
    g->last_node = s->node;
    g->scanned++;
    s->at++;
    g->dry = g->dry || s->at == s->n;
}

static int merge_run(struct merge *g, struct store_chunk_page *out, struct dlc_err *err)
{
    size_t cap = g->q->max, dataset;
    struct gathered texts = {mem_alloc((cap + 1) * sizeof(struct where)), BUF_INIT};
    struct chunk_stream *s;
    int rc;

    out->chunks = mem_zero((cap + 1) * sizeof(*out->chunks));
    dataset = keep_text(&texts.texts, g->q->dataset);
    for (;;) {
        rc = merge_fill(g, err);
        if (rc < 0)
            break;
        s = merge_least(g);
        if (s == NULL)
            break;
        if (out->n == cap || g->scanned >= PAGE_SCAN) {
            out->next = page_cursor(buf_str(&g->last_key), g->last_node);
            break;
        }
        merge_take(g, s, &texts, out);
    }
    out->texts = buf_take(&texts.texts);
    for (size_t i = 0; i < out->n; i++) {
        out->chunks[i].dataset = out->texts + dataset;
        out->chunks[i].node = out->texts + texts.at[i].node;
        out->chunks[i].key = out->texts + texts.at[i].key;
        out->chunks[i].etag = out->texts + texts.at[i].etag;
    }
    mem_free(&texts.at);
    return rc;
}

int page_query(struct store *m, const struct store_chunk_query *q, struct store_chunk_page *out,
               struct dlc_err *err)
{
    struct merge g = {.m = m, .q = q, .dry = true};
    int rc = m->ops->streams(m, q->dataset, q->node, &g.streams, &g.n, err);

    if (rc < 0)
        goto out;
    rc = merge_begin(&g, err);
    if (rc < 0)
        goto out;
    rc = merge_run(&g, out, err);
    if (rc < 0)
        store_chunk_page_release(out);
out:
    for (size_t i = 0; i < g.n; i++)
        chunk_stream_release(&g.streams[i]);
    mem_free(&g.streams);
    buf_release(&g.last_key);
    buf_release(&g.to);
    return rc;
}

void store_chunk_page_release(struct store_chunk_page *p)
{
    mem_free(&p->chunks);
    mem_free(&p->texts);
    mem_free(&p->next);
    p->n = 0;
}
