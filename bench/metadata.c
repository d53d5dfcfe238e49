// SPDX-License-Identifier: Apache-2.0
/*
 * What a store of metadata does in a second, through the front as nodes and managers use it.
 *
 *     bench-metadata chunks URL N [BATCH [NODES]]  register N chunks of one dataset, in batches and
 * in the order they come (not sorted), then look up bench-metadata datasets URL N M              N
 * datasets with M chunks each, then look up
 *
 * Prints one line of JSON: rows per second, and for each query median, p99 and worst, in
 * microseconds.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "metadata/metadata.h"

#define LOOKS 2000 /* of each query */

static struct dlc_err err;

static int give_up(const char *what)
{
    fprintf(stderr, "bench-metadata: %s: %s\n", what, err.text);
    exit(1);
}

/* ---- a dataset like ImageNet ---- */

static const char *key_of(uint64_t i, char out[static 64])
{
    unsigned wnid = 1440764 + (unsigned)(i % 1000) * 13007;

    snprintf(out, 64, "train/n%08u/n%08u_%06u.JPEG", wnid, wnid, (unsigned)(i / 1000));
    return out;
}

struct batch {
    struct meta_chunk *c;
    char (*keys)[64], (*etags)[36], (*nodes)[16];
};

static struct batch batch_new(size_t n)
{
    return (struct batch){mem_zero(n * sizeof(struct meta_chunk)), mem_zero(n * 64),
                          mem_zero(n * 36), mem_zero(n * 16)};
}

static void batch_free(struct batch *b)
{
    mem_free(&b->c);
    mem_free(&b->keys);
    mem_free(&b->etags);
    mem_free(&b->nodes);
}

/* Chunk number i of the dataset as the k-th of a batch. */
static void batch_set(struct batch *b, size_t k, const char *dataset, uint64_t i, unsigned nodes)
{
    struct rng r = {i};

    snprintf(b->etags[k], sizeof(b->etags[k]), "%016" PRIx64 "%016" PRIx64, rng_next(&r),
             rng_next(&r));
    snprintf(b->nodes[k], sizeof(b->nodes[k]), "node-%02u", (unsigned)rng_below(&r, nodes));
    b->c[k] = (struct meta_chunk){.dataset = dataset,
                                  .node = b->nodes[k],
                                  .key = key_of(i, b->keys[k]),
                                  .etag = b->etags[k],
                                  .size = 20000 + rng_below(&r, 200000),
                                  .cost = rng_unit(&r),
                                  .references = 1,
                                  .state = i % 1000 == 7 ? 3 : 1,
                                  .changed_ms = 1700000000000 + (int64_t)i};
}

static double seconds_since(struct dlc_mono t)
{
    return dlc_dur_seconds(dlc_mono_since(t));
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
    return b == 0 ? a : divisor(b, a % b);
}

/* Rows per second. */
static double fill(struct meta *m, uint64_t n, size_t batch, unsigned nodes, bool again)
{
    struct batch b = batch_new(batch);
    struct dlc_mono t = dlc_mono_now();
    uint64_t odd = 48271; /* has no divisor in common with n: i * odd % n visits all */
    uint64_t count = again ? n / 10 : n;
    double s;

    while (divisor(odd, n) != 1)
        odd += 2;
    for (uint64_t at = 0; at < count;) {
        size_t k = 0;

        for (; k < batch && at < count; k++, at++)
            batch_set(&b, k, "imagenet", at * odd % n, nodes);
        if (meta_chunks_put(m, b.c, k, &err) < 0)
            give_up("register");
    }
    s = seconds_since(t);
    batch_free(&b);
    return (double)count / s;
}

/* ---- looking up ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void report(const char *name, double *us, size_t n)
{
    qsort(us, n, sizeof(*us), by_value);
    printf(", \"%s_us\": %.1f, \"%s_p99_us\": %.1f, \"%s_max_us\": %.1f", name, us[n / 2], name,
           us[n * 99 / 100], name, us[n - 1]);
}

static struct meta_chunk_page query(struct meta *m, struct meta_chunk_query q)
{
    struct meta_chunk_page p;

    if (meta_chunks_query(m, &q, &p, &err) < 0)
        give_up("query");
    return p;
}

/* One chunk by its key. */
static void by_key(struct meta *m, struct rng *r, const char *dataset, uint64_t n)
{
    char key[64];
    struct meta_chunk_page p = query(
        m, (struct meta_chunk_query){
               .dataset = dataset, .prefix = key_of(rng_below(r, n), key), .state = -1, .max = 1});

    if (p.n != 1 || strcmp(p.chunks[0].key, key) != 0) {
        fprintf(stderr, "bench-metadata: %s is not found\n", key);
        exit(1);
    }
    meta_chunk_page_release(&p);
}

enum page_kind { PAGE_ANY, PAGE_NODE, PAGE_STATE };

/* 100 chunks from somewhere in the middle. */
static double page(struct meta *m, struct rng *r, uint64_t n, enum page_kind kind)
{
    char key[64];
    struct meta_chunk_query q = {.dataset = "imagenet"};
    struct meta_chunk_page p;
    struct dlc_mono t;
    char *after;
    double us;

    key_of(rng_below(r, n), key);
    after = mem_alloc(2 * strlen(key) + 3); /* a cursor is the hex of key, NUL, node */
    str_hex(key, strlen(key) + 1, after);
    q.after = after;
    q.max = 100;
    q.node = kind == PAGE_NODE ? "node-00" : NULL;
    q.state = kind == PAGE_STATE ? 3 : -1;
    t = dlc_mono_now();
    p = query(m, q);
    us = seconds_since(t) * 1e6;
    meta_chunk_page_release(&p);
    mem_free(&after);
    return us;
}

static void look_up(struct meta *m, uint64_t n)
{
    static double us[LOOKS];
    struct meta_sum sums[64];
    struct rng r = {5};
    size_t got;

    for (size_t i = 0; i < LOOKS; i++) {
        struct dlc_mono t = dlc_mono_now();

        by_key(m, &r, "imagenet", n);
        us[i] = seconds_since(t) * 1e6;
    }
    report("key", us, LOOKS);
    for (size_t i = 0; i < LOOKS; i++)
        us[i] = page(m, &r, n, PAGE_ANY);
    report("page", us, LOOKS);
    for (size_t i = 0; i < LOOKS; i++)
        us[i] = page(m, &r, n, PAGE_NODE);
    report("node_page", us, LOOKS);
    for (size_t i = 0; i < LOOKS / 20; i++)
        us[i] = page(m, &r, n, PAGE_STATE);
    report("rare_state_page", us, LOOKS / 20);
    for (size_t i = 0; i < LOOKS; i++) {
        struct dlc_mono t = dlc_mono_now();

        if (meta_chunks_sums(m, "imagenet", sums, 64, &got, &err) < 0)
            give_up("sums");
        us[i] = seconds_since(t) * 1e6;
    }
    report("sums", us, LOOKS);
}

static void chunks(struct meta *m, uint64_t n, size_t batch, unsigned nodes)
{
    struct meta_sum sums[64];
    struct dlc_mono t;
    uint64_t total = 0;
    size_t got;
    double put = fill(m, n, batch, nodes, false), again = fill(m, n, batch, nodes, true);

    printf("{\"store\": \"%s\", \"chunks\": %" PRIu64
           ", \"nodes\": %u, \"rows_per_s\": %.0f, \"again_rows_per_s\": %.0f",
           meta_kind_of_store(m), n, nodes, put, again);
    look_up(m, n);
    if (meta_chunks_sums(m, "imagenet", sums, 64, &got, &err) < 0)
        give_up("sums");
    for (size_t i = 0; i < got; i++)
        total += sums[i].chunks;
    if (total != n) {
        fprintf(stderr, "bench-metadata: sums say %" PRIu64 " chunks, not %" PRIu64 "\n", total, n);
        exit(1);
    }
    t = dlc_mono_now();
    if (meta_chunks_drop(m, "imagenet", NULL, &err) < 0)
        give_up("drop");
    printf(", \"drop_s\": %.3f}\n", seconds_since(t));
}

/* ---- many datasets ---- */

static void one_dataset(struct meta *m, uint64_t i, struct batch *b, size_t chunks_each)
{
    struct meta_doc d = {.id = mem_fmt("dataset-%06" PRIu64, i),
                         .tenant = mem_fmt("tenant-%02" PRIu64, i % 50)};

    d.body = json_pack("{s:s,s:s,s:i}", "url", "s3://bucket/prefix/", "state", "ready", "samples",
                       (int)chunks_each);
    if (meta_put(m, META_DATASET, &d, META_NEW, &err) < 0)
        give_up("a dataset");
    for (size_t k = 0; k < chunks_each; k++)
        batch_set(b, k, d.id, k, 4);
    if (chunks_each > 0 && meta_chunks_put(m, b->c, chunks_each, &err) < 0)
        give_up("chunks of a dataset");
    meta_doc_release(&d);
}

static double list_once(struct meta *m, struct rng *r, uint64_t n, const char *tenant)
{
    static struct meta_doc docs[100];
    char after[32];
    struct dlc_mono t;
    size_t got;
    double us;

    snprintf(after, sizeof(after), "dataset-%06" PRIu64, rng_below(r, n));
    t = dlc_mono_now();
    if (meta_list(m, META_DATASET, tenant, after, 100, docs, &got, &err) < 0)
        give_up("list");
    us = seconds_since(t) * 1e6;
    for (size_t i = 0; i < got; i++)
        meta_doc_release(&docs[i]);
    return us;
}

static void look_at_datasets(struct meta *m, uint64_t n, size_t each)
{
    static double us[LOOKS];
    struct rng r = {9};
    struct meta_sum sums[64];
    struct meta_doc d;
    char name[32];
    size_t got;

    for (size_t i = 0; i < LOOKS; i++) {
        struct dlc_mono t = dlc_mono_now();

        snprintf(name, sizeof(name), "dataset-%06" PRIu64, rng_below(&r, n));
        if (meta_get(m, META_DATASET, name, &d, &err) < 0)
            give_up("get");
        us[i] = seconds_since(t) * 1e6;
        meta_doc_release(&d);
    }
    report("get", us, LOOKS);
    for (size_t i = 0; i < LOOKS / 4; i++)
        us[i] = list_once(m, &r, n, NULL);
    report("list", us, LOOKS / 4);
    for (size_t i = 0; i < LOOKS / 4; i++)
        us[i] = list_once(m, &r, n, "tenant-07");
    report("tenant_list", us, LOOKS / 4);
    for (size_t i = 0; i < LOOKS && each > 0; i++) {
        struct dlc_mono t = dlc_mono_now();

        snprintf(name, sizeof(name), "dataset-%06" PRIu64, rng_below(&r, n));
        by_key(m, &r, name, each);
        us[i] = seconds_since(t) * 1e6;
    }
    report("key", us, LOOKS);
    for (size_t i = 0; i < LOOKS; i++) {
        struct dlc_mono t = dlc_mono_now();

        snprintf(name, sizeof(name), "dataset-%06" PRIu64, rng_below(&r, n));
        if (meta_chunks_sums(m, name, sums, 64, &got, &err) < 0)
            give_up("sums");
        us[i] = seconds_since(t) * 1e6;
    }
    report("sums", us, LOOKS);
}

static void datasets(struct meta *m, uint64_t n, size_t each)
{
    struct batch b = batch_new(each + 1);
    struct dlc_mono t = dlc_mono_now();
    double s;

    for (uint64_t i = 0; i < n; i++)
        one_dataset(m, i, &b, each);
    s = seconds_since(t);
    printf("{\"store\": \"%s\", \"datasets\": %" PRIu64 ", \"chunks_each\": %zu"
           ", \"datasets_per_s\": %.0f",
           meta_kind_of_store(m), n, each, (double)n / s);
    look_at_datasets(m, n, each);
    printf("}\n");
    batch_free(&b);
}

int main(int argc, char **argv)
{
    struct meta *m = NULL;
    uint64_t n = 0, a = 5000, b = 4;
    bool good = argc >= 4 && argc <= 6 && str_parse_u64(argv[3], &n) && n > 0 &&
                (argc < 5 || str_parse_u64(argv[4], &a)) &&
                (argc < 6 || str_parse_u64(argv[5], &b));

    if (!good || (strcmp(argv[1], "chunks") != 0 && strcmp(argv[1], "datasets") != 0)) {
        fprintf(stderr, "usage: bench-metadata chunks URL N [BATCH [NODES]] | datasets URL N M\n");
        return 2;
    }
    if (meta_open(argv[2], &m, &err) < 0)
        give_up("open");
    if (strcmp(argv[1], "chunks") == 0)
        chunks(m, n, (size_t)a, (unsigned)b);
    else
        datasets(m, n, (size_t)a);
    meta_close(&m);
    return 0;
}
