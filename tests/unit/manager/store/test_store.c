// SPDX-License-Identifier: Apache-2.0
/* What every store must do (D1-D4 of store.h), against each of them. Threads: test_threads.c. */
#include "store_unit.h"

#include "base/rng.h"
#include "each_store.h"
#include "manager/store/wall_time.h"
#include "manager/store/store_i.h"
#include "manager/store/chunk_merge_i.h"

/* ---- documents ---- */

static void test_versions(void **state)
{
    struct store *m = store_of(state);
    struct store_doc d;
    uint64_t v;

    assert_int_equal(store_get(m, STORE_DATASET, "a", &d, &err), DLC_ENOTFOUND);
    assert_non_null(strstr(err.text, "dataset 'a'"));
    assert_int_equal(put(m, STORE_DATASET, "a", "t", 1, 5, NULL), DLC_EBUSY);
    ok(put(m, STORE_DATASET, "a", "t", 1, STORE_NEW, &v));
    assert_int_equal(v, 1);
    assert_int_equal(put(m, STORE_DATASET, "a", "t", 2, STORE_NEW, NULL), DLC_EBUSY);
    assert_non_null(strstr(err.text, "exists"));
    assert_int_equal(put(m, STORE_DATASET, "a", "t", 2, 2, NULL), DLC_EBUSY);
    assert_int_equal(value_of(m, STORE_DATASET, "a", &v), 1);
    assert_int_equal(v, 1);
    ok(put(m, STORE_DATASET, "a", "t", 3, 1, &v));
    assert_int_equal(v, 2);
    ok(put(m, STORE_DATASET, "a", "t", 4, STORE_ANY, &v));
    assert_int_equal(v, 3);
    assert_int_equal(value_of(m, STORE_JOB, "a", NULL), -1); /* kinds are apart */
    assert_int_equal(store_delete(m, STORE_DATASET, "a", 2, &err), DLC_EBUSY);
    assert_int_equal(value_of(m, STORE_DATASET, "a", NULL), 4);
    ok(store_delete(m, STORE_DATASET, "a", 3, &err));
    assert_int_equal(store_delete(m, STORE_DATASET, "a", STORE_ANY, &err), DLC_ENOTFOUND);
    assert_int_equal(store_get(m, STORE_DATASET, "a", &d, &err), DLC_ENOTFOUND);
    ok(put(m, STORE_DATASET, "a", "", 9, STORE_ANY, &v));
    ok(store_delete(m, STORE_DATASET, "a", STORE_ANY, &err));
}

/* The ids of a list, one after another, with commas; in steps of `step`. */
static char *listed(struct store *m, enum store_kind kind, const char *tenant, size_t step)
{
    struct store_doc docs[16];
    struct buf b = BUF_INIT;
    char *after = NULL;
    size_t n;

    do {
        ok(store_list(m, kind, tenant, after, step, docs, &n, &err));
        assert_true(n <= step);
        for (size_t i = 0; i < n; i++) {
            buf_addf(&b, "%s,", docs[i].id);
            assert_true(docs[i].version > 0 && json_is_object(docs[i].body));
            assert_true(tenant == NULL || strcmp(tenant, docs[i].tenant) == 0);
            mem_free(&after);
            after = mem_str(docs[i].id);
            store_doc_release(&docs[i]);
        }
    } while (n == step);
    mem_free(&after);
    return buf_take(&b);
}

static void expect_list(struct store *m, enum store_kind kind, const char *tenant, const char *ids)
{
    for (size_t step = 1; step <= 7; step += 3) {
        char *got = listed(m, kind, tenant, step);

        assert_string_equal(got, ids);
        mem_free(&got);
    }
}

static void test_lists(void **state)
{
    struct store *m = store_of(state);

    expect_list(m, STORE_JOB, NULL, "");
    ok(put(m, STORE_JOB, "b", "blue", 1, STORE_NEW, NULL));
    ok(put(m, STORE_JOB, "a", "red", 1, STORE_NEW, NULL));
    ok(put(m, STORE_JOB, "ab", "red", 1, STORE_NEW, NULL));
    ok(put(m, STORE_JOB, "B", "", 1, STORE_NEW, NULL));
    ok(put(m, STORE_JOB, "c", "blue", 1, STORE_NEW, NULL));
    ok(put(m, STORE_NODE, "n", "blue", 1, STORE_NEW, NULL));
    expect_list(m, STORE_JOB, NULL, "B,a,ab,b,c,");
    expect_list(m, STORE_JOB, "red", "a,ab,");
    expect_list(m, STORE_JOB, "blue", "b,c,");
    expect_list(m, STORE_JOB, "", "B,");
    expect_list(m, STORE_JOB, "re", "");
    ok(put(m, STORE_JOB, "b", "red", 2, STORE_ANY, NULL)); /* it changes hands */
    ok(store_delete(m, STORE_JOB, "a", STORE_ANY, &err));
    expect_list(m, STORE_JOB, "red", "ab,b,");
    expect_list(m, STORE_JOB, "blue", "c,");
    expect_list(m, STORE_JOB, NULL, "B,ab,b,c,");
}

static void expect_ids(struct store *m, const char *tenant, const char *after, const char *before,
                       const char *want)
{
    struct buf b = BUF_INIT;
    char *ids[3], *last = mem_str(after);
    size_t n;

    do {
        ok(store_ids(m, STORE_WEIGHTS, tenant, last, before, 3, ids, &n, &err));
        assert_true(n <= 3);
        for (size_t i = 0; i < n; i++) {
            buf_addf(&b, "%s,", ids[i]);
            mem_free(&last);
            last = ids[i];
        }
    } while (n == 3);
    assert_string_equal(buf_str(&b), want);
    mem_free(&last);
    buf_release(&b);
}

static void test_ids(void **state)
{
    static const char *const ids[] = {"b/1", "a/2", "a/10", "a/1", "a0", "b", "a"};
    struct store *m = store_of(state);
    char *one[1], *too_long = mem_zero(257);
    size_t n = 7;

    expect_ids(m, NULL, NULL, NULL, "");
    for (int i = 0; i < (int)unit_count(ids); i++)
        ok(put(m, STORE_WEIGHTS, ids[i], i % 2 == 0 ? "red" : "", i, STORE_NEW, NULL));
    ok(put(m, STORE_JOB, "a/3", "red", 1, STORE_NEW, NULL));
    expect_ids(m, NULL, NULL, NULL, "a,a/1,a/10,a/2,a0,b,b/1,");
    expect_ids(m, "red", NULL, NULL, "a,a/10,a0,b/1,");
    expect_ids(m, NULL, "a/", "a0", "a/1,a/10,a/2,"); /* all that begin with a/ */
    expect_ids(m, "", "a/", "a0", "a/1,a/2,");
    expect_ids(m, NULL, "a/1", "a/2", "a/10,"); /* neither bound itself */
    expect_ids(m, NULL, "a0", NULL, "b,b/1,");
    expect_ids(m, NULL, NULL, "a/1", "a,");
    expect_ids(m, "re", NULL, NULL, "");
    ok(store_delete(m, STORE_WEIGHTS, "a/10", STORE_ANY, &err));
    expect_ids(m, "red", NULL, NULL, "a,a0,b/1,");
    ok(store_ids(m, STORE_WEIGHTS, NULL, NULL, NULL, 0, NULL, &n, &err));
    assert_int_equal(n, 0);
    memset(too_long, 'x', 256);
    assert_int_equal(store_ids(m, STORE_WEIGHTS, NULL, NULL, too_long, 1, one, &n, &err),
                     DLC_EINVAL);
    mem_free(&too_long);
}

static void expect_count(struct store *m, enum store_kind kind, const char *tenant, uint64_t want)
{
    uint64_t n = UINT64_MAX;

    ok(store_count(m, kind, tenant, &n, &err));
    assert_int_equal(n, want);
}

static void test_counts(void **state)
{
    struct store *m = store_of(state);
    char id[16], tenant[16];

    expect_count(m, STORE_JOB, NULL, 0);
    for (int i = 0; i < 30; i++) {
        snprintf(id, sizeof(id), "j%d", i);
        snprintf(tenant, sizeof(tenant), "t%d", i % 3);
        ok(put(m, STORE_JOB, id, i % 3 == 0 ? "" : tenant, i, STORE_NEW, NULL));
    }
    ok(put(m, STORE_JOB, "j0", "t1", 1, 1, NULL)); /* another's from now on */
    ok(put(m, STORE_NODE, "j0", "", 1, STORE_NEW, NULL));
    ok(store_delete(m, STORE_JOB, "j2", STORE_ANY, &err));
    expect_count(m, STORE_JOB, NULL, 29);
    expect_count(m, STORE_JOB, "", 9);
    expect_count(m, STORE_JOB, "t1", 11);
    expect_count(m, STORE_JOB, "t2", 9);
    expect_count(m, STORE_JOB, "nobody", 0);
    expect_count(m, STORE_NODE, NULL, 1);
    expect_count(m, STORE_DATASET, NULL, 0);
}

static void test_odd_names(void **state)
{
    static const char *const odd[] = {
        "a b",  "'; DROP TABLE doc; --",
        "{x}",  "a}b{c",
        "{}",   "}{",
        ":",    "a:b:c",
        "%",    "%00",
        "\\",   "\"",
        "*",    "?",
        "[a]",  "\xc3\xa9t\xc3\xa9",
        "\x01", "\xf0\x9f\x90\x98",
        "\n",   "(a",
        "+",    "-",
        "..",   "../../etc/passwd",
        "0",    "\xff\xfe",
        "NULL", "a'b{1}",
    };
    struct store *m = store_of(state);
    char longest[256], too_long[257];
    struct store_doc d;
    size_t n = unit_count(odd);

    memset(longest, 'x', 255);
    longest[255] = '\0';
    memset(too_long, 'x', 256);
    too_long[256] = '\0';
    for (size_t i = 0; i < n; i++)
        ok(put(m, STORE_TENANT, odd[i], odd[n - 1 - i], (int)i, STORE_NEW, NULL));
    ok(put(m, STORE_TENANT, longest, longest, 1000, STORE_NEW, NULL));
    for (size_t i = 0; i < n; i++) {
        char *own = listed(m, STORE_TENANT, odd[n - 1 - i], 3);

        assert_int_equal(value_of(m, STORE_TENANT, odd[i], NULL), i);
        assert_int_equal(strlen(own), strlen(odd[i]) + 1);
        assert_memory_equal(own, odd[i], strlen(odd[i]));
        mem_free(&own);
    }
    assert_int_equal(value_of(m, STORE_TENANT, longest, NULL), 1000);
    assert_int_equal(put(m, STORE_TENANT, too_long, "", 1, STORE_ANY, NULL), DLC_EINVAL);
    assert_int_equal(put(m, STORE_TENANT, "", "", 1, STORE_ANY, NULL), DLC_EINVAL);
    assert_int_equal(put(m, STORE_TENANT, "a", too_long, 1, STORE_ANY, NULL), DLC_EINVAL);
    assert_int_equal(store_get(m, STORE_TENANT, "", &d, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "1 to 255"));
}

static void test_large_bodies(void **state)
{
    struct store *m = store_of(state);
    struct store_doc d = {.id = mem_str("large"), .tenant = mem_str(""), .body = json_object()};
    struct store_doc back;
    char *text = mem_alloc(64 << 10);

    for (size_t i = 0; i < 64 << 10; i++)
        text[i] = (char)('!' + i % 90);
    text[(64 << 10) - 1] = '\0';
    json_object_set_new(d.body, "text", json_string(text));
    json_object_set_new(d.body, "nul", json_stringn("a\0b", 3));
    json_object_set_new(d.body, "big", json_integer(INT64_MAX));
    json_object_set_new(d.body, "real", json_real(0.1));
    ok(store_put(m, STORE_DATASET, &d, STORE_NEW, &err));
    ok(store_get(m, STORE_DATASET, "large", &back, &err));
    assert_true(json_equal(d.body, back.body));
    store_doc_release(&back);
    store_doc_release(&d);
    mem_free(&text);
}

/* ---- chunks ---- */

static void expect_chunks(struct store *m, struct store_chunk_query q, const char *text)
{
    static const size_t steps[] = {1, 2, 3, 100};

    for (size_t i = 0; i < unit_count(steps); i++) {
        char *got;

        q.max = steps[i];
        got = queried(m, q);
        assert_string_equal(got, text);
        mem_free(&got);
    }
}

static void test_chunks(void **state)
{
    struct store *m = store_of(state);
    struct store_chunk_query q = any("d");
    struct store_chunk_page p;

    expect_chunks(m, q, "");
    expect_sums(m, "d", "");
    put_chunk(m, "d", "n1", "b", 10);
    put_chunk(m, "d", "n1", "a/1", 20);
    put_chunk(m, "d", "n2", "b", 10);
    put_chunk(m, "d", "n2", "a", 5);
    put_chunk(m, "d", "n2", "a/2", 7);
    put_chunk(m, "e", "n1", "x", 1);
    expect_chunks(m, q, "a@n2,a/1@n1,a/2@n2,b@n1,b@n2,");
    expect_sums(m, "d", "n1 2 30,n2 3 22,");
    expect_sums(m, "e", "n1 1 1,");
    q.node = "n2";
    expect_chunks(m, q, "a@n2,a/2@n2,b@n2,");
    q.prefix = "a/";
    expect_chunks(m, q, "a/2@n2,");
    q.node = NULL;
    expect_chunks(m, q, "a/1@n1,a/2@n2,");
    q.prefix = "a/1";
    q.max = 10;
    ok(store_chunks_query(m, &q, &p, &err));
    assert_int_equal(p.n, 1);
    assert_null(p.next);
    assert_string_equal(p.chunks[0].etag, "\"abc def\"");
    assert_int_equal(p.chunks[0].size, 20);
    assert_true(p.chunks[0].cost == 0.125);
    assert_int_equal(p.chunks[0].references, 3);
    assert_int_equal(p.chunks[0].state, 1);
    assert_int_equal(p.chunks[0].jobs, 2);
    assert_int_equal(p.chunks[0].changed_ms, 1700000000123);
    store_chunk_page_release(&p);
    q = any("d");
    q.node = "n3";
    expect_chunks(m, q, "");
    q.after = "nonsense";
    q.max = 1;
    assert_int_equal(store_chunks_query(m, &q, &p, &err), DLC_EINVAL);
}

static void test_chunks_again(void **state)
{
    struct store *m = store_of(state);
    struct store_chunk c[3] = {chunk("d", "n", "k", 10), chunk("d", "n", "k", 30),
                               chunk("d", "n", "l", 1)};
    struct store_chunk_query q = any("d");

    for (int i = 0; i < 3; i++) { /* twice in one batch: the last one counts */
        ok(store_chunks_put(m, c, 3, &err));
        expect_sums(m, "d", "n 2 31,");
    }
    put_chunk(m, "d", "n", "k", 0);
    expect_sums(m, "d", "n 2 1,");
    put_chunk(m, "d", "n", "k", (uint64_t)1 << 50);
    put_chunk(m, "d", "n", "m", (uint64_t)1 << 50);
    expect_sums(m, "d", "n 3 2251799813685249,");
    c[0].state = 3;
    c[0].etag = NULL;
    ok(store_chunks_put(m, c, 1, &err));
    q.state = 3;
    expect_chunks(m, q, "k@n,");
    q.state = 1;
    expect_chunks(m, q, "l@n,m@n,");
    c[1].key = "";
    assert_int_equal(store_chunks_put(m, c, 2, &err), DLC_EINVAL);
}

static void test_drops(void **state)
{
    static const char *const keys[] = {"a", "nothing", "c"}, *const all[] = {"a", "b", "c"};
    struct store *m = store_of(state);

    for (int d = 0; d < 2; d++)
        for (int n = 0; n < 2; n++)
            for (int k = 0; k < 3; k++)
                put_chunk(m, d ? "d1" : "d0", n ? "n1" : "n0", all[k], 5);
    ok(store_chunks_drop_keys(m, "d0", "n0", keys, 3, &err));
    expect_sums(m, "d0", "n0 1 5,n1 3 15,");
    ok(store_chunks_drop_keys(m, "d0", "n0", keys, 3, &err));
    expect_chunks(m, any("d0"), "a@n1,b@n0,b@n1,c@n1,");
    ok(store_chunks_drop(m, "d0", "n1", &err));
    expect_chunks(m, any("d0"), "b@n0,");
    expect_sums(m, "d0", "n0 1 5,");
    ok(store_chunks_drop(m, NULL, "n0", &err));
    expect_sums(m, "d0", "");
    expect_sums(m, "d1", "n1 3 15,");
    put_chunk(m, "d1", "n0", "z", 7);
    expect_sums(m, "d1", "n0 1 7,n1 3 15,");
    ok(store_chunks_drop(m, "d1", NULL, &err));
    expect_sums(m, "d1", "");
    expect_chunks(m, any("d1"), "");
    ok(store_chunks_drop(m, "d1", NULL, &err));
    ok(store_chunks_drop(m, "never", "was", &err));
    ok(store_chunks_drop_keys(m, "never", "was", keys, 3, &err));
}

static void test_odd_keys(void **state)
{
    static const char *const odd[] = {
        "\x01", "\x01\x01", " ",  "%",    "(",   "+", "-",        "[",
        "a",    "a b",      "ab", "a~\n", "{a}", "}", "\xc3\xa9", "\xf0\x9f\x90\x98",
        "\xff", "\xff\xff",
    };
    struct store *m = store_of(state);
    struct store_chunk_query q = any("{d}:%");
    struct buf b = BUF_INIT;
    char key[4097];

    for (size_t i = 0; i < unit_count(odd); i++) {
        put_chunk(m, q.dataset, "n}{", odd[i], i);
        buf_addf(&b, "%s@n}{,", odd[i]);
    }
    expect_chunks(m, q, buf_str(&b));
    q.prefix = "\xff";
    expect_chunks(m, q, "\xff@n}{,\xff\xff@n}{,");
    q.prefix = "(";
    expect_chunks(m, q, "(@n}{,");
    memset(key, 'k', 4096);
    key[4096] = '\0';
    put_chunk(m, q.dataset, "n}{", key, 1);
    q.prefix = "kkk";
    buf_clear(&b);
    buf_addf(&b, "%s@n}{,", key);
    expect_chunks(m, q, buf_str(&b));
    buf_release(&b);
}

/* ---- chunks against a model ---- */

enum { NODES = 5, KEYS = 40 };

struct model {
    uint64_t size[NODES][KEYS]; /* 0: not there */
};

static const char *key_of(unsigned k, char out[static 16])
{
    snprintf(out, 16, "%c/%02u", 'a' + (int)(k % 3), k);
    return out;
}

static const char *node_of(unsigned n)
{
    return (const char *[NODES]){"n0", "n1", "n2", "n3", "n4"}[n];
}

static void model_check(struct store *m, const struct model *model)
{
    struct buf sums = BUF_INIT, keys = BUF_INIT;
    struct store_chunk_query q = any("model");
    char key[16];
    char *got;

    for (unsigned n = 0; n < NODES; n++) {
        uint64_t count = 0, bytes = 0;

        for (unsigned k = 0; k < KEYS; k++) {
            count += model->size[n][k] > 0;
            bytes += model->size[n][k];
        }
        if (count > 0)
            buf_addf(&sums, "%s %" PRIu64 " %" PRIu64 ",", node_of(n), count, bytes);
    }
    expect_sums(m, "model", buf_str(&sums));
    for (unsigned c = 0; c < 3; c++)
        for (unsigned k = c; k < KEYS; k += 3)
            for (unsigned n = 0; n < NODES; n++)
                if (model->size[n][k] > 0)
                    buf_addf(&keys, "%s@%s,", key_of(k, key), node_of(n));
    q.max = 7;
    got = queried(m, q);
    assert_string_equal(got, buf_str(&keys));
    mem_free(&got);
    buf_release(&sums);
    buf_release(&keys);
}

static void model_put(struct store *m, struct model *model, struct rng *r)
{
    struct store_chunk batch[20];
    char keys[20][16];
    unsigned n = 1 + (unsigned)rng_below(r, 20);

    for (unsigned i = 0; i < n; i++) {
        unsigned k = (unsigned)rng_below(r, KEYS), node = (unsigned)rng_below(r, NODES);

        model->size[node][k] = 1 + rng_below(r, 1000);
        batch[i] = chunk("model", node_of(node), key_of(k, keys[i]), model->size[node][k]);
    }
    ok(store_chunks_put(m, batch, n, &err));
}

static void test_chunks_model(void **state)
{
    struct store *m = store_of(state);
    struct model model = {0};
    struct rng r = {11};

    for (unsigned step = 0; step < 150; step++) {
        unsigned what = (unsigned)rng_below(&r, 11), node = (unsigned)rng_below(&r, NODES);

        if (what < 6) {
            model_put(m, &model, &r);
        } else if (what < 9) {
            unsigned k = (unsigned)rng_below(&r, KEYS);
            char text[16];
            const char *key = key_of(k, text);

            ok(store_chunks_drop_keys(m, "model", node_of(node), &key, 1, &err));
            model.size[node][k] = 0;
        } else {
            ok(store_chunks_drop(m, what % 2 ? "model" : NULL, node_of(node), &err));
            memset(model.size[node], 0, sizeof(model.size[node]));
        }
        model_check(m, &model);
    }
}

/* Many: more than a slice of a drop, and more than one look for a rare state. */
static void test_many_chunks(void **state)
{
    enum { MANY = 45000, BATCH = 1500 };
    struct store *m = store_of(state);
    struct store_chunk *c = mem_zero(BATCH * sizeof(*c));
    char(*keys)[16] = mem_zero(BATCH * sizeof(*keys));
    struct store_chunk_query q = any("many");
    struct store_chunk_page p;
    unsigned pages = 0;

    for (unsigned at = 0; at < MANY; at += BATCH) {
        for (unsigned i = 0; i < BATCH; i++) {
            snprintf(keys[i], sizeof(keys[i]), "%08u", at + i);
            c[i] = chunk("many", "n", keys[i], 2);
            c[i].state = at + i == MANY - 1 ? 3 : 1;
        }
        ok(store_chunks_put(m, c, BATCH, &err));
    }
    expect_sums(m, "many", "n 45000 90000,");
    put_chunk(m, "many", "other", "00000005", 1);
    q.max = 3;
    q.prefix = "0000000";
    ok(store_chunks_query(m, &q, &p, &err));
    assert_int_equal(p.n, 3);
    assert_non_null(p.next);
    store_chunk_page_release(&p);
    q.prefix = NULL;
    q.state = 3;
    for (char *after = NULL;; pages++) {
        q.after = after;
        ok(store_chunks_query(m, &q, &p, &err));
        mem_free(&after);
        after = p.next;
        p.next = NULL;
        if (after == NULL)
            break;
        assert_int_equal(p.n, 0);
        store_chunk_page_release(&p);
    }
    assert_int_equal(pages, (MANY + 1) / PAGE_SCAN); /* no page looked at all of them */
    assert_int_equal(p.n, 1);
    assert_string_equal(p.chunks[0].key, "00044999");
    store_chunk_page_release(&p);
    ok(store_chunks_drop(m, "many", "n", &err));
    expect_sums(m, "many", "other 1 1,");
    mem_free(&c);
    mem_free(&keys);
}

/* ---- locks and fences ---- */

static void test_locks(void **state)
{
    struct store *m = store_of(state);
    uint64_t a, b, again;

    ok(store_lock(m, "manager", "alice {1}", DLC_SEC(60), &a, &err));
    assert_true(a > 0);
    assert_int_equal(store_lock(m, "manager", "bob", DLC_SEC(60), &b, &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, "alice {1}"));
    ok(store_lock(m, "manager", "alice {1}", DLC_SEC(60), &again, &err));
    assert_int_equal(a, again);
    ok(store_lock(m, "another", "bob", DLC_SEC(60), &b, &err));
    assert_int_equal(store_unlock(m, "manager", "bob", &err), DLC_EBUSY);
    ok(store_unlock(m, "manager", "alice {1}", &err));
    ok(store_unlock(m, "manager", "alice {1}", &err)); /* nobody holds it: done already */
    ok(store_lock(m, "manager", "bob", DLC_SEC(60), &b, &err));
    assert_true(b > a);
    ok(store_unlock(m, "manager", "bob", &err));
    ok(store_lock(m, "manager", "bob", DLC_SEC(60), &again, &err));
    assert_true(again > b);
}

static void test_lock_expires(void **state)
{
    struct store *m = store_of(state);
    uint64_t a, b = 0, tries = 0;

    ok(store_lock(m, "l", "alice", DLC_MS(150), &a, &err));
    while (store_lock(m, "l", "bob", DLC_SEC(60), &b, &err) == DLC_EBUSY)
        tries++;
    assert_true(tries > 0);
    assert_true(b > a);
    assert_int_equal(store_lock(m, "l", "alice", DLC_MS(150), &a, &err), DLC_EBUSY);
    ok(store_unlock(m, "l", "bob", &err));
    ok(store_lock(m, "l", "alice", DLC_MS(50), &a, &err));
    while (store_lock(m, "l", "bob", DLC_MS(1), &b, &err) == DLC_EBUSY)
        ;
    assert_true(b > a);
}

static void test_fences(void **state)
{
    struct store *old = store_of(state), *new = NULL;
    json_t *events;
    uint64_t a, b;

    ok(store_open(url_of(state), &new, &err));
    ok(store_lock(old, "manager", "old", DLC_SEC(60), &a, &err));
    store_set_fence(old, a);
    ok(put(old, STORE_NODE, "n", "", 1, STORE_NEW, NULL));
    ok(store_event(old, "", json_pack("{s:s}", "what", "one"), &err));
    ok(store_unlock(old, "manager", "old", &err));
    ok(store_lock(new, "manager", "new", DLC_SEC(60), &b, &err));
    ok(put(old, STORE_NODE, "n", "", 2, STORE_ANY, NULL)); /* the new one did not begin yet */
    store_set_fence(new, b);
    assert_int_equal(put(old, STORE_NODE, "n", "", 3, STORE_ANY, NULL), DLC_EBUSY);
    assert_non_null(strstr(err.text, "another manager"));
    assert_int_equal(put(old, STORE_NODE, "m", "", 3, STORE_NEW, NULL), DLC_EBUSY);
    assert_int_equal(store_delete(old, STORE_NODE, "n", STORE_ANY, &err), DLC_EBUSY);
    assert_int_equal(store_event(old, "", json_pack("{s:s}", "what", "two"), &err), DLC_EBUSY);
    assert_int_equal(value_of(old, STORE_NODE, "n", NULL), 2);
    assert_int_equal(value_of(old, STORE_NODE, "m", NULL), -1);
    ok(put(new, STORE_NODE, "n", "", 4, 2, NULL));
    ok(store_event(new, "", json_pack("{s:s}", "what", "three"), &err));
    store_set_fence(old, a); /* is no way back */
    assert_int_equal(put(old, STORE_NODE, "n", "", 5, STORE_ANY, NULL), DLC_EBUSY);
    ok(store_events(old, NULL, 0, 10, &events, &err));
    assert_int_equal(json_array_size(events), 2);
    json_decref(events);
    store_set_fence(old, 0);
    ok(put(old, STORE_NODE, "n", "", 6, STORE_ANY, NULL));
    store_close(&new);
}

/* A manager that was held up while it wrote brings nothing back that the next one has dropped. */
static void test_fences_of_chunks(void **state)
{
    const struct store_chunk late = {.dataset = "d", .node = "n", .key = "k", .size = 1};
    const char *const keys[] = {"k"};
    struct store *old = store_of(state), *new = NULL;
    uint64_t a, b;

    ok(store_open(url_of(state), &new, &err));
    ok(store_lock(old, "manager", "old", DLC_SEC(60), &a, &err));
    store_set_fence(old, a);
    put_chunk(old, "d", "n", "k", 1);
    ok(store_unlock(old, "manager", "old", &err));
    ok(store_lock(new, "manager", "new", DLC_SEC(60), &b, &err));
    store_set_fence(new, b);
    put_chunk(new, "d", "n", "k", 2);
    assert_int_equal(store_chunks_drop_keys(old, "d", "n", keys, 1, &err), DLC_EBUSY);
    assert_int_equal(store_chunks_drop(old, "d", NULL, &err), DLC_EBUSY);
    expect_chunks(old, any("d"), "k@n,");
    ok(store_chunks_drop_keys(new, "d", "n", keys, 1, &err));
    assert_int_equal(store_chunks_put(old, &late, 1, &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, "another manager"));
    expect_chunks(old, any("d"), "");
    put_chunk(new, "d", "n", "k", 3);
    ok(store_chunks_drop(new, NULL, "n", &err));
    assert_int_equal(store_chunks_put(old, &late, 1, &err), DLC_EBUSY);
    expect_chunks(old, any("d"), "");
    store_close(&new);
}

/* ---- events ---- */

static void expect_events(struct store *m, const char *tenant, uint64_t after, size_t max,
                          const char *text)
{
    struct buf b = BUF_INIT;
    json_t *got, *e;
    size_t i;

    ok(store_events(m, tenant, after, max, &got, &err));
    json_array_foreach(got, i, e)
    {
        buf_addf(&b, "%s%d,", json_string_value(json_object_get(e, "tenant")),
                 (int)json_integer_value(json_object_get(e, "i")));
    }
    assert_string_equal(buf_str(&b), text);
    buf_release(&b);
    json_decref(got);
}

static void test_events(void **state)
{
    struct store *m = store_of(state);
    json_t *got, *e;
    json_int_t first, last;
    int64_t now = wall_ms();

    expect_events(m, NULL, 0, 10, "");
    for (int i = 0; i < 6; i++)
        ok(store_event(m, i % 2 ? "r" : "", json_pack("{s:i,s:s}", "i", i, "seq", "no"), &err));
    ok(store_events(m, NULL, 0, 4, &got, &err));
    assert_int_equal(json_array_size(got), 4);
    e = json_array_get(got, 3);
    assert_in_range(json_integer_value(json_object_get(e, "time_ms")), now - 60000, now + 60000);
    first = json_integer_value(json_object_get(json_array_get(got, 0), "seq"));
    last = json_integer_value(json_object_get(e, "seq"));
    assert_true(first > 0 && last == first + 3);
    json_decref(got);
    expect_events(m, NULL, 0, 4, "0,r1,2,r3,");
    expect_events(m, NULL, (uint64_t)last, 10, "4,r5,");
    expect_events(m, "r", (uint64_t)first + 1, 10, "r3,r5,");
    expect_events(m, "", (uint64_t)first, 10, "2,4,");
    expect_events(m, "green", 0, 10, "");
    expect_events(m, NULL, (uint64_t)last + 2, 10, "");
    expect_events(m, NULL, UINT64_MAX, 10, "");
}

static void test_old_events_go(void **state)
{
    struct store *m = store_of(state);
    json_t *got;

    store_events_kept = 50;
    ok(store_event(m, "rare", json_pack("{s:i}", "i", -1), &err));
    for (int i = 0; i < 130; i++)
        ok(store_event(m, "t", json_pack("{s:i}", "i", i), &err));
    ok(store_events(m, NULL, 0, 1000, &got, &err));
    assert_int_equal(json_array_size(got), 50);
    json_decref(got);
    expect_events(m, NULL, 0, 2, "t80,t81,");
    expect_events(m, "t", 0, 2, "t80,t81,");
    expect_events(m, "rare", 0, 1000, "");
    store_events_kept = STORE_EVENTS_MAX;
}

/* Everything is there when it is opened again. */
static void test_open_again(void **state)
{
    struct store *m = store_of(state), *other = NULL;
    uint64_t a, b, v;

    ok(put(m, STORE_TENANT, "t", "", 7, STORE_NEW, NULL));
    put_chunk(m, "d", "n", "k", 9);
    ok(store_lock(m, "l", "me", DLC_SEC(600), &a, &err));
    reopen(state);
    ok(store_open(url_of(state), &other, &err));
    m = store_of(state);
    for (int i = 0; i < 2; i++, m = other) {
        assert_int_equal(value_of(m, STORE_TENANT, "t", &v), 7);
        assert_int_equal(v, 1);
        expect_sums(m, "d", "n 1 9,");
        assert_int_equal(store_lock(m, "l", "you", DLC_SEC(600), &b, &err), DLC_EBUSY);
        ok(store_lock(m, "l", "me", DLC_SEC(600), &b, &err));
        assert_int_equal(a, b);
    }
    store_close(&other);
}

int main(void)
{
    static const struct each_case cases[] = {
        {"versions", test_versions},
        {"lists", test_lists},
        {"ids", test_ids},
        {"counts", test_counts},
        {"odd names", test_odd_names},
        {"large bodies", test_large_bodies},
        {"chunks", test_chunks},
        {"chunks written again", test_chunks_again},
        {"drops", test_drops},
        {"odd keys", test_odd_keys},
        {"chunks against a model", test_chunks_model},
        {"many chunks", test_many_chunks},
        {"locks", test_locks},
        {"a lock expires", test_lock_expires},
        {"fences", test_fences},
        {"fences of chunks", test_fences_of_chunks},
        {"events", test_events},
        {"old events go", test_old_events_go},
        {"opened again", test_open_again},
    };

    return each_store(cases, unit_count(cases));
}
