// SPDX-License-Identifier: Apache-2.0
/* Write-behind: merged, in batches, kept while the store is away, bounded, never in the way. */
#include "metadata/meta_unit.h"

#include <pthread.h>

#include "metadata/each_store.h"
#include "metadata/meta_i.h"
#include "metadata/writer.h"

static struct meta_writer_figures figures(struct meta_writer *w)
{
    struct meta_writer_figures f;

    meta_writer_figures(w, &f);
    return f;
}

static void say(struct meta_writer *w, const char *key, uint64_t size)
{
    struct meta_chunk c = chunk("d", "n", key, size);

    meta_writer_put(w, &c);
}

static void test_merge(void **state)
{
    struct meta *m = meta_of(state);
    struct meta_writer *w = meta_writer_new(m, 100, 1000);

    for (unsigned i = 0; i < 5; i++) {
        say(w, "a", i);
        say(w, "b", 10);
        say(w, "c", 1);
    }
    meta_writer_gone(w, "d", "n", "c");
    ok(meta_writer_flush(w, DLC_SEC(20), &err));
    expect_sums(m, "d", "n 2 14,");
    assert_int_equal(figures(w).waiting, 0);
    assert_in_range(figures(w).written, 3, 16);
    meta_writer_gone(w, "d", "n", "a");
    say(w, "c", 7);
    say(w, "a", 2); /* it is back before anybody was told that it went */
    meta_writer_gone(w, "d", "n", "b");
    ok(meta_writer_flush(w, DLC_SEC(20), &err));
    expect_sums(m, "d", "n 2 9,");
    ok(meta_writer_flush(w, DLC_MS(1), &err)); /* nothing waits */
    assert_int_equal(figures(w).failures, 0);
    assert_int_equal(figures(w).forgotten, 0);
    meta_writer_free(&w);
    assert_null(w);
}

/* Ended in good order, it has written everything. */
static void test_end(void **state)
{
    struct meta *m = meta_of(state);
    struct meta_writer *w = meta_writer_new(m, 7, 1000);
    char key[16];

    for (unsigned i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "%u", i);
        say(w, key, 1);
    }
    meta_writer_free(&w);
    expect_sums(m, "d", "n 100 100,");
}

static void test_bad_chunks(void **state)
{
    struct meta *m = meta_of(state);
    struct meta_writer *w = meta_writer_new(m, 7, 1000);
    char longest[META_KEY_MAX + 2];

    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    say(w, longest, 1);
    say(w, "", 1);
    say(w, "good", 1);
    ok(meta_writer_flush(w, DLC_SEC(20), &err));
    expect_sums(m, "d", "n 1 1,");
    meta_writer_free(&w);
}

struct teller {
    struct meta_writer *w;
    unsigned number;
};

static void *teller_main(void *arg)
{
    struct teller *t = arg;
    struct dlc_err e;
    char key[16];

    for (unsigned i = 0; i < 300; i++) {
        snprintf(key, sizeof(key), "%u", i % 60);
        if ((i + t->number) % 7 == 0)
            meta_writer_gone(t->w, "d", "n", key);
        else
            say(t->w, key, t->number * 1000 + i);
        if (i % 100 == 0)
            (void)meta_writer_flush(t->w, DLC_SEC(20), &e);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct meta *m = meta_of(state);
    struct meta_writer *w = meta_writer_new(m, 16, 100000);
    struct teller t[4];
    pthread_t threads[4];
    char key[16];

    for (unsigned i = 0; i < 4; i++) {
        t[i] = (struct teller){w, i};
        assert_int_equal(pthread_create(&threads[i], NULL, teller_main, &t[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < 60; i++) { /* the last word */
        snprintf(key, sizeof(key), "%u", i);
        say(w, key, 2);
    }
    ok(meta_writer_flush(w, DLC_SEC(20), &err));
    expect_sums(m, "d", "n 60 120,");
    meta_writer_free(&w);
}

/* A store that fails as told. */
struct broken {
    struct meta m;
    struct meta *real;
    _Atomic int rc; /* 0: works */
    _Atomic unsigned calls;
};

static int broken_put(struct meta *m, const struct meta_chunk *c, size_t n, struct dlc_err *e)
{
    struct broken *b = (struct broken *)m;

    b->calls++;
    if (b->rc != 0)
        return dlc_err_set(e, b->rc, "told to fail");
    return meta_chunks_put(b->real, c, n, e);
}

static int broken_drop(struct meta *m, const char *dataset, const char *node,
                       const char *const *keys, size_t n, struct dlc_err *e)
{
    struct broken *b = (struct broken *)m;

    if (b->rc != 0)
        return dlc_err_set(e, b->rc, "told to fail");
    return meta_chunks_drop_keys(b->real, dataset, node, keys, n, e);
}

static const struct meta_ops broken_ops = {.chunks_put = broken_put,
                                           .chunks_drop_keys = broken_drop};

static void test_away(void **state)
{
    struct broken b = {.m = {META_TAG, &broken_ops, 0}, .real = meta_of(state), .rc = DLC_EBUCKET};
    struct meta_writer *w = meta_writer_new(&b.m, 10, 1000);
    char key[16];

    for (unsigned i = 0; i < 25; i++) {
        snprintf(key, sizeof(key), "%u", i);
        say(w, key, 1);
    }
    assert_int_equal(meta_writer_flush(w, DLC_MS(300), &err), DLC_ETIMEDOUT);
    assert_non_null(strstr(err.text, "told to fail"));
    assert_int_equal(figures(w).waiting, 25);
    assert_true(figures(w).failures > 0);
    say(w, "0", 5); /* a newer word than the one that failed */
    meta_writer_gone(w, "d", "n", "1");
    b.rc = 0;
    ok(meta_writer_flush(w, DLC_SEC(20), &err));
    expect_sums(b.real, "d", "n 24 28,");
    assert_int_equal(figures(w).forgotten, 0);
    meta_writer_free(&w);
}

static void test_too_much(void **state)
{
    struct broken b = {.m = {META_TAG, &broken_ops, 0}, .real = meta_of(state), .rc = DLC_EBUCKET};
    struct meta_writer *w = meta_writer_new(&b.m, 10, 50);
    struct dlc_mono t;
    char key[16];

    for (unsigned i = 0; i < 200; i++) {
        snprintf(key, sizeof(key), "%03u", i);
        say(w, key, 1);
    }
    assert_true(figures(w).waiting <= 50);
    assert_true(figures(w).forgotten >= 140); /* a batch that comes back finds its room taken */
    b.rc = 0;
    ok(meta_writer_flush(w, DLC_SEC(20), &err));
    assert_int_equal(figures(w).written + figures(w).forgotten, 200);
    {
        struct meta_chunk_query q = any("d");
        struct meta_chunk_page p;

        q.prefix = "199"; /* the newest are there */
        q.max = 1;
        ok(meta_chunks_query(b.real, &q, &p, &err));
        assert_int_equal(p.n, 1);
        meta_chunk_page_release(&p);
    }
    b.rc = DLC_EBUCKET; /* a store that never comes back does not keep us */
    say(w, "late", 1);
    t = dlc_mono_now();
    meta_writer_free(&w);
    assert_true(dlc_mono_since(t).ns < 5000000000);
}

int main(void)
{
    static const struct each_case cases[] = {
        {"merged", test_merge},         {"ended", test_end}, {"bad chunks", test_bad_chunks},
        {"many threads", test_threads}, {"away", test_away}, {"too much", test_too_much},
    };

    return each_store(cases, unit_count(cases));
}
