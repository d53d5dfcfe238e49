// SPDX-License-Identifier: Apache-2.0
/* Several at once, in every store: threads with one handle, managers with one each. */
#include "store_unit.h"

#include <pthread.h>

#include "each_store.h"

/* ---- managers ---- */

struct manager {
    const char *url;
    char name[16];
    unsigned terms;  /* locks won */
    unsigned writes; /* that had an effect */
    int rc;
};

/* Take the lock for a moment, again and again, and write under its fence, also when it is over. */
static void *manager_main(void *arg)
{
    struct manager *g = arg;
    struct store *m = NULL;
    struct dlc_err e = DLC_ERR_INIT;
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), DLC_SEC(20));

    g->rc = store_open(g->url, &m, &e);
    while (g->rc == 0 && g->terms < 10 && dlc_mono_now().ns < until.ns) {
        uint64_t fence;

        if (store_lock(m, "manager", g->name, DLC_MS(10), &fence, &e) < 0)
            continue;
        store_set_fence(m, fence);
        g->terms++;
        for (int i = 0; i < 20; i++)
            g->writes +=
                store_event(m, "", json_pack("{s:I}", "fence", (json_int_t)fence), &e) == 0;
        (void)store_unlock(m, "manager", g->name, &e); /* if it is still ours */
    }
    store_close(&m);
    return NULL;
}

static void test_managers_fight(void **state)
{
    enum { MANAGERS = 3 };
    struct manager g[MANAGERS];
    pthread_t threads[MANAGERS];
    json_int_t last = 0;
    json_t *events, *e;
    unsigned writes = 0;
    size_t i;

    for (i = 0; i < MANAGERS; i++) {
        g[i] = (struct manager){.url = url_of(state)};
        snprintf(g[i].name, sizeof(g[i].name), "m%zu", i);
        assert_int_equal(pthread_create(&threads[i], NULL, manager_main, &g[i]), 0);
    }
    for (i = 0; i < MANAGERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(g[i].rc, 0);
        assert_true(g[i].terms > 0 && g[i].writes > 0);
        writes += g[i].writes;
    }
    ok(store_events(store_of(state), NULL, 0, 1000, &events, &err));
    assert_int_equal(json_array_size(events), writes);
    json_array_foreach(events, i, e)
    {
        json_int_t fence = json_integer_value(json_object_get(e, "fence"));

        assert_true(fence >= last); /* nobody wrote after his successor began */
        last = fence;
    }
    json_decref(events);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 40 };

struct worker {
    struct store *m;
    unsigned number;
    int rc;
};

/* Add one to a document, as two people with an editor do. */
static int add_one(struct store *m, struct dlc_err *e)
{
    int rc;

    do {
        struct store_doc d = STORE_DOC_INIT;

        rc = store_get(m, STORE_MANAGER, "count", &d, e);
        if (rc == 0) {
            json_int_t v = json_integer_value(json_object_get(d.body, "value"));

            json_object_set_new(d.body, "value", json_integer(v + 1));
            rc = store_put(m, STORE_MANAGER, &d, d.version, e);
        }
        store_doc_release(&d);
    } while (rc == DLC_EBUSY);
    return rc;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct dlc_err e = DLC_ERR_INIT;
    struct store_sum sums[8];
    size_t n;

    for (unsigned i = 0; w->rc == 0 && i < ROUNDS; i++) {
        struct store_chunk c[10];
        char keys[10][16];

        for (unsigned k = 0; k < 10; k++) { /* all write the same chunks, with other sizes */
            snprintf(keys[k], sizeof(keys[k]), "%u", (i * 3 + k) % 50);
            c[k] = chunk("shared", k % 2 ? "odd" : "even", keys[k], 1 + w->number * 100 + i);
        }
        w->rc = store_chunks_put(w->m, c, 10, &e);
        if (w->rc == 0)
            w->rc = store_chunks_sums(w->m, "shared", sums, 8, &n, &e);
        if (w->rc == 0)
            w->rc = add_one(w->m, &e);
    }
    return NULL;
}

static void test_one_handle(void **state)
{
    struct store *m = store_of(state);
    struct worker w[THREADS];
    pthread_t threads[THREADS];
    struct store_sum sums[8];
    struct store_chunk_page p;
    struct store_chunk_query q = any("shared");
    uint64_t chunks = 0, bytes = 0;
    size_t n;

    ok(put(m, STORE_MANAGER, "count", "", 0, STORE_NEW, NULL));
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct worker){m, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(w[i].rc, 0);
    }
    assert_int_equal(value_of(m, STORE_MANAGER, "count", NULL), THREADS * ROUNDS);
    q.max = 1000;
    ok(store_chunks_query(m, &q, &p, &err));
    for (size_t i = 0; i < p.n; i++)
        bytes += p.chunks[i].size;
    ok(store_chunks_sums(m, "shared", sums, 8, &n, &err));
    for (size_t i = 0; i < n; i++) {
        chunks += sums[i].chunks;
        bytes -= sums[i].bytes;
    }
    assert_int_equal(n, 2);
    assert_int_equal(chunks, p.n);
    assert_int_equal(bytes, 0);
    store_chunk_page_release(&p);
}

int main(void)
{
    static const struct each_case cases[] = {
        {"managers fight", test_managers_fight},
        {"one handle, many threads", test_one_handle},
    };

    return each_store(cases, unit_count(cases));
}
