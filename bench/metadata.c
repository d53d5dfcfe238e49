// SPDX-License-Identifier: Apache-2.0
/*
 * What a store of metadata does in a second, through the front as the manager uses it.
 *
 *     bench-metadata chunks URL N [BATCH [NODES]]   register N chunks of one dataset as heart-beats
 *                                                   bring them, a tenth again in no order, look up
 *     bench-metadata datasets URL N M               N datasets with M chunks each, look up
 *     bench-metadata drop URL                       forget the chunks of the first
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
#include "manager/store/store.h"

#define LOOKS     2000 /* of each query */
#define CLASSES   1000
#define MOST_SUMS 64

static struct dlc_err err;

static int give_up(const char *what)
{
    fprintf(stderr, "bench-metadata: %s: %s\n", what, err.text);
    exit(1);
}

/* ---- a dataset like ImageNet ---- */

static const char *key_of(uint64_t i, char out[static 64])
{
    unsigned wnid = 1440764 + (unsigned)(i % CLASSES) * 13007;

    snprintf(out, 64, "train/n%08u/n%08u_%06u.JPEG", wnid, wnid, (unsigned)(i / CLASSES));
    return out;
}

/* Number of the s-th of n in the order of the keys. */
static uint64_t sorted(uint64_t s, uint64_t n)
{
    uint64_t each = n / CLASSES;

    return s % each * CLASSES + s / each;
}

static unsigned node_of(uint64_t i, unsigned nodes)
{
    struct rng r = {i ^ 0x9e3779b97f4a7c15};

    return (unsigned)rng_below(&r, nodes);
}

struct batch {
    struct store_chunk *c;
    char (*keys)[64], (*etags)[36], (*nodes)[16];
};

static struct batch batch_new(size_t n)
{
    return (struct batch){mem_zero(n * sizeof(struct store_chunk)), mem_zero(n * 64),
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
    snprintf(b->nodes[k], sizeof(b->nodes[k]), "node-%02u", node_of(i, nodes));
    b->c[k] = (struct store_chunk){.dataset = dataset,
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

static void write_batch(struct store *m, const struct batch *b, size_t n)
{
    if (n > 0 && store_chunks_put(m, b->c, n, &err) < 0)
        give_up("register");
}

/* Each node in turn tells its next batch, in the order of its catalog. Rows per second. */
static double register_all(struct store *m, uint64_t n, size_t batch, unsigned nodes)
{
    struct batch b = batch_new(batch);
    uint64_t *at = mem_zero(nodes * sizeof(*at)), written = 0;
    struct dlc_mono t = dlc_mono_now();
    double s;

    for (unsigned node = 0; written < n; node = (node + 1) % nodes) {
        size_t k = 0;

        for (; at[node] < n && k < batch; at[node]++) {
            uint64_t i = sorted(at[node], n);

            if (node_of(i, nodes) == node)
                batch_set(&b, k++, "imagenet", i, nodes);
        }
        write_batch(m, &b, k);
        written += k;
    }
    s = seconds_since(t);
    mem_free(&at);
    batch_free(&b);
    return (double)n / s;
}

/* A tenth of them, from anywhere, with another cost. Rows per second. */
static double register_again(struct store *m, uint64_t n, size_t batch, unsigned nodes)
{
    struct batch b = batch_new(batch);
    struct dlc_mono t = dlc_mono_now();
    struct rng r = {3};
    double s;

    for (uint64_t done = 0; done < n / 10;) {
        size_t k = 0;

        for (; k < batch && done < n / 10; k++, done++) {
            batch_set(&b, k, "imagenet", rng_below(&r, n), nodes);
            b.c[k].cost = 2;
        }
        write_batch(m, &b, k);
    }
    s = seconds_since(t);
    batch_free(&b);
    return (double)(n / 10) / s;
}

/* ---- looking up ---- */

struct look {
    struct store *m;
    struct rng r;
    uint64_t n;  /* chunks, or datasets */
    size_t each; /* chunks of a dataset */
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void look(const char *name, struct look *l, void (*once)(struct look *l), size_t times)
{
    static double us[LOOKS];

    for (size_t i = 0; i < times; i++) {
        struct dlc_mono t = dlc_mono_now();

        once(l);
        us[i] = seconds_since(t) * 1e6;
    }
    qsort(us, times, sizeof(*us), by_value);
    printf(", \"%s_us\": %.1f, \"%s_p99_us\": %.1f, \"%s_max_us\": %.1f", name, us[times / 2], name,
           us[times * 99 / 100], name, us[times - 1]);
    fflush(stdout);
}

/* One chunk by its key. */
static void find_key(struct store *m, const char *dataset, const char *key)
{
    struct store_chunk_query q = {.dataset = dataset, .prefix = key, .state = -1, .max = 1};
    struct store_chunk_page p;

    if (store_chunks_query(m, &q, &p, &err) < 0)
        give_up("query");
    if (p.n != 1 || strcmp(p.chunks[0].key, key) != 0) {
        fprintf(stderr, "bench-metadata: %s is not found\n", key);
        exit(1);
    }
    store_chunk_page_release(&p);
}

static void by_key(struct look *l)
{
    char key[64];

    find_key(l->m, "imagenet", key_of(rng_below(&l->r, l->n), key));
}

/* 100 chunks from somewhere in the middle. */
static void page(struct look *l, const char *node, int state)
{
    char key[64], after[160]; /* a cursor is the hex of key, NUL, node */
    struct store_chunk_query q = {
        .dataset = "imagenet", .node = node, .state = state, .after = after, .max = 100};
    struct store_chunk_page p;

    key_of(rng_below(&l->r, l->n), key);
    str_hex(key, strlen(key) + 1, after);
    if (store_chunks_query(l->m, &q, &p, &err) < 0)
        give_up("query");
    store_chunk_page_release(&p);
}

static void page_of_all(struct look *l)
{
    page(l, NULL, -1);
}

static void page_of_node(struct look *l)
{
    page(l, "node-00", -1);
}

static void page_of_state(struct look *l)
{
    page(l, NULL, 3);
}

static uint64_t count_chunks(struct store *m, const char *dataset)
{
    struct store_sum sums[MOST_SUMS];
    uint64_t total = 0;
    size_t got;

    if (store_chunks_sums(m, dataset, sums, MOST_SUMS, &got, &err) < 0)
        give_up("sums");
    for (size_t i = 0; i < got; i++)
        total += sums[i].chunks;
    return total;
}

static void sums(struct look *l)
{
    uint64_t total = count_chunks(l->m, "imagenet");

    if (total != l->n) {
        fprintf(stderr, "bench-metadata: sums say %" PRIu64 " chunks, not %" PRIu64 "\n", total,
                l->n);
        exit(1);
    }
}

static void chunks(struct store *m, uint64_t n, size_t batch, unsigned nodes)
{
    struct look l = {.m = m, .r = {5}, .n = n};
    double first = register_all(m, n, batch, nodes), again = register_again(m, n, batch, nodes);

    printf("{\"store\": \"%s\", \"chunks\": %" PRIu64
           ", \"nodes\": %u, \"rows_per_s\": %.0f, \"again_rows_per_s\": %.0f",
           store_backend(m), n, nodes, first, again);
    look("key", &l, by_key, LOOKS);
    look("page", &l, page_of_all, LOOKS);
    look("node_page", &l, page_of_node, LOOKS);
    look("rare_state_page", &l, page_of_state, LOOKS / 20);
    look("sums", &l, sums, LOOKS);
    printf("}\n");
}

static void drop(struct store *m)
{
    struct dlc_mono t = dlc_mono_now();

    if (store_chunks_drop(m, "imagenet", NULL, &err) < 0)
        give_up("drop");
    printf("{\"drop_s\": %.3f}\n", seconds_since(t));
}

/* ---- many datasets ---- */

static const char *name_of(uint64_t i, char out[static 32])
{
    snprintf(out, 32, "dataset-%06" PRIu64, i);
    return out;
}

static const char *any_name(struct look *l, char out[static 32])
{
    return name_of(rng_below(&l->r, l->n), out);
}

static void make_dataset(struct look *l, uint64_t i, struct batch *b)
{
    char name[32];
    struct store_doc d = {.id = mem_str(name_of(i, name)),
                          .tenant = mem_fmt("tenant-%02" PRIu64, i % 50)};

    d.body = json_pack("{s:s, s:[], s:I}", "url", "s3://bucket/prefix/", "splits", "created_ms",
                       (json_int_t)1700000000000);
    if (store_put(l->m, STORE_DATASET, &d, STORE_NEW, &err) < 0)
        give_up("a dataset");
    for (size_t k = 0; k < l->each; k++)
        batch_set(b, k, d.id, k, 4);
    write_batch(l->m, b, l->each);
    store_doc_release(&d);
}

static void get(struct look *l)
{
    struct store_doc d;
    char name[32];

    if (store_get(l->m, STORE_DATASET, any_name(l, name), &d, &err) < 0)
        give_up("get");
    store_doc_release(&d);
}

/* Read, change, write, as the API does. */
static void change(struct look *l)
{
    struct store_doc d;
    char name[32];

    if (store_get(l->m, STORE_DATASET, any_name(l, name), &d, &err) < 0 ||
        store_put(l->m, STORE_DATASET, &d, d.version, &err) < 0)
        give_up("change");
    store_doc_release(&d);
}

static void list_of(struct look *l, const char *tenant)
{
    struct store_doc docs[100];
    char after[32];
    size_t got;

    if (store_list(l->m, STORE_DATASET, tenant, any_name(l, after), 100, docs, &got, &err) < 0)
        give_up("list");
    for (size_t i = 0; i < got; i++)
        store_doc_release(&docs[i]);
}

static void list_all(struct look *l)
{
    list_of(l, NULL);
}

static void list_tenant(struct look *l)
{
    list_of(l, "tenant-07");
}

static void count(struct look *l)
{
    uint64_t n;

    if (store_count(l->m, STORE_DATASET, NULL, &n, &err) < 0)
        give_up("count");
}

static void one_key(struct look *l)
{
    char name[32], key[64];

    find_key(l->m, any_name(l, name), key_of(rng_below(&l->r, l->each), key));
}

static void sums_of_any(struct look *l)
{
    char name[32];

    (void)count_chunks(l->m, any_name(l, name));
}

static void event(struct look *l)
{
    char name[32];

    if (store_event(l->m, "tenant-07", json_pack("{s:s}", "dataset", any_name(l, name)), &err) < 0)
        give_up("event");
}

static void events(struct look *l)
{
    json_t *got = NULL;

    if (store_events(l->m, "tenant-07", rng_below(&l->r, LOOKS), 100, &got, &err) < 0)
        give_up("events");
    json_decref(got);
}

static void datasets(struct store *m, uint64_t n, size_t each)
{
    struct look l = {.m = m, .r = {9}, .n = n, .each = each};
    struct batch b = batch_new(each + 1);
    struct dlc_mono t = dlc_mono_now();

    for (uint64_t i = 0; i < n; i++)
        make_dataset(&l, i, &b);
    printf("{\"store\": \"%s\", \"datasets\": %" PRIu64
           ", \"chunks_each\": %zu, \"datasets_per_s\": %.0f",
           store_backend(m), n, each, (double)n / seconds_since(t));
    look("get", &l, get, LOOKS);
    look("list", &l, list_all, LOOKS / 4);
    look("tenant_list", &l, list_tenant, LOOKS / 4);
    look("count", &l, count, LOOKS);
    look("change", &l, change, LOOKS / 4);
    look("event", &l, event, LOOKS);
    look("events", &l, events, LOOKS / 4);
    if (each > 0)
        look("key", &l, one_key, LOOKS);
    look("sums", &l, sums_of_any, LOOKS);
    printf("}\n");
    batch_free(&b);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    struct store *m = NULL;
    uint64_t n = 0, a = 2000, b = 4;
    bool is_drop = strcmp(mode, "drop") == 0, is_chunks = strcmp(mode, "chunks") == 0;
    bool good = is_drop ? argc == 3
                        : argc >= 4 && argc <= 6 && str_parse_u64(argv[3], &n) && n > 0 &&
                              (argc < 5 || str_parse_u64(argv[4], &a)) &&
                              (argc < 6 || (str_parse_u64(argv[5], &b) && b > 0 && b <= MOST_SUMS));

    if (!good || (!is_drop && !is_chunks && strcmp(mode, "datasets") != 0) ||
        (is_chunks && (n % CLASSES != 0 || a == 0))) {
        fprintf(stderr, "usage: bench-metadata chunks URL N [BATCH [NODES]] | datasets URL N M |"
                        " drop URL   (N chunks: thousands)\n");
        return 2;
    }
    if (store_open(argv[2], &m, &err) < 0)
        give_up("open");
    if (is_drop)
        drop(m);
    else if (is_chunks)
        chunks(m, n, (size_t)a, (unsigned)b);
    else
        datasets(m, n, (size_t)a);
    store_close(&m);
    return 0;
}
