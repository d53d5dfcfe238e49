// SPDX-License-Identifier: Apache-2.0
/* Short words for tests of the store: documents with one number, chunks, sums and pages as text. */
#ifndef DLC_TESTS_METADATA_STORE_UNIT_H
#define DLC_TESTS_METADATA_STORE_UNIT_H

#include "unit.h"

#include <inttypes.h>

#include "base/mem.h"
#include "manager/store/store.h"

static struct dlc_err err;

#define ok(call)                                                                                   \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != 0)                                                                              \
            fail_msg("%s: %d %s", #call, rc_, err.text);                                           \
    } while (0)

static inline int put(struct store *m, enum store_kind kind, const char *id, const char *tenant,
                      int value, uint64_t expect, uint64_t *version)
{
    struct store_doc d = {
        .id = mem_str(id), .tenant = mem_str(tenant), .body = json_pack("{s:i}", "value", value)};
    int rc = store_put(m, kind, &d, expect, &err);

    if (version != NULL)
        *version = d.version;
    store_doc_release(&d);
    return rc;
}

/* -1: it is not there, or cannot be read. */
static inline int value_of(struct store *m, enum store_kind kind, const char *id, uint64_t *version)
{
    struct store_doc d;
    int value = -1;

    if (store_get(m, kind, id, &d, &err) == 0) {
        value = (int)json_integer_value(json_object_get(d.body, "value"));
        assert_string_equal(d.id, id);
        if (version != NULL)
            *version = d.version;
    }
    store_doc_release(&d);
    return value;
}

static inline struct store_chunk chunk(const char *dataset, const char *node, const char *key,
                                       uint64_t size)
{
    return (struct store_chunk){.dataset = dataset,
                                .node = node,
                                .key = key,
                                .etag = "\"abc def\"",
                                .size = size,
                                .cost = 0.125,
                                .references = 3,
                                .state = 1,
                                .jobs = 2,
                                .changed_ms = 1700000000123};
}

static inline void put_chunk(struct store *m, const char *dataset, const char *node,
                             const char *key, uint64_t size)
{
    struct store_chunk c = chunk(dataset, node, key, size);

    ok(store_chunks_put(m, &c, 1, &err));
}

/* "node chunks bytes," of each node. */
static inline void expect_sums(struct store *m, const char *dataset, const char *text)
{
    struct store_sum sums[32];
    struct buf b = BUF_INIT;
    size_t n;

    ok(store_chunks_sums(m, dataset, sums, 32, &n, &err));
    for (size_t i = 0; i < n; i++)
        buf_addf(&b, "%s %" PRIu64 " %" PRIu64 ",", sums[i].node, sums[i].chunks, sums[i].bytes);
    assert_string_equal(buf_str(&b), text);
    buf_release(&b);
}

/* "key@node," of all pages of a query. */
static inline char *queried(struct store *m, struct store_chunk_query q)
{
    struct buf b = BUF_INIT;
    char *after = NULL;

    do {
        struct store_chunk_page p;

        q.after = after;
        ok(store_chunks_query(m, &q, &p, &err));
        assert_true(p.n <= q.max);
        for (size_t i = 0; i < p.n; i++) {
            assert_string_equal(p.chunks[i].dataset, q.dataset);
            buf_addf(&b, "%s@%s,", p.chunks[i].key, p.chunks[i].node);
        }
        mem_free(&after);
        after = p.next;
        p.next = NULL;
        store_chunk_page_release(&p);
    } while (after != NULL);
    return buf_take(&b);
}

#define any(dataset_) ((struct store_chunk_query){.dataset = (dataset_), .state = -1})

#endif
