// SPDX-License-Identifier: Apache-2.0
/* What include/dlcache.h promises of a dataset while its daemon lives. */
#include "daemon.h"

#include <pthread.h>

#include "single_step.h"

#define N    200u
#define SIZE 5000u

static struct daemon d;

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "8MB", true);
    daemon_start(&d);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

static void test_catalog(void **state)
{
    char url[512], key[64];
    struct dlc_dataset *ds;
    uint64_t i;

    (void)state;
    ds = open_at(&d, dataset("plain", N, SIZE, "", url), 0);
    assert_int_equal(dlc_count(ds), N);
    assert_int_equal(dlc_key(ds, 7, key, sizeof(key)), 7);
    assert_string_equal(key, "s000007");
    memset(key, 'x', sizeof(key));
    assert_int_equal(dlc_key(ds, 7, key, 7), 7); /* no room for the NUL: untouched */
    assert_int_equal(key[0], 'x');
    assert_int_equal(dlc_key(ds, 7, NULL, 0), 7);
    assert_true(dlc_key(ds, N, key, sizeof(key)) < 0);
    assert_int_equal(dlc_size(ds, 7), SIZE);
    assert_true(dlc_size(ds, N) < 0);
    assert_int_equal(dlc_find(ds, "s000042", &i), 0);
    assert_int_equal(i, 42);
    assert_int_equal(dlc_find(ds, "nobody", &i), DLC_ENOTFOUND);
    assert_non_null(strstr(dlc_last_error(), "nobody"));
    dlc_close(&ds);
    assert_null(ds);
    dlc_close(&ds);
}

static void test_get_and_stats(void **state)
{
    char url[512];
    struct dlc_dataset *ds;
    struct dlc_stats st;
    struct dlc_view v;

    (void)state;
    ds = open_at(&d, dataset("stats", N, SIZE, "", url), 0);
    assert_int_equal(dlc_try_get(ds, 3, &v), DLC_EMISS);
    assert_null(v.data);
    assert_true(strlen(dlc_last_error()) > 0);
    read_one(ds, 3);
    assert_int_equal(dlc_try_get(ds, 3, &v), 0);
    assert_int_equal(v.len, SIZE);
    assert_true(is_sample(&v, 3));
    dlc_put(ds, &v);
    assert_null(v.data);
    dlc_put(ds, &v); /* a zeroed view */
    read_one(ds, 3);
    dlc_dataset_stats(ds, &st);
    assert_int_equal(st.hits, 2);
    assert_int_equal(st.misses, 1);
    assert_int_equal(st.bypasses, 0);
    assert_int_equal(st.bytes, 3 * SIZE);
    assert_true(st.stall_ns > 0);
    assert_int_equal(st.reconnects, 0);
    assert_int_equal(dlc_get(ds, N, &v), DLC_EINVAL);
    assert_null(v.data);
    assert_int_equal(dlc_try_get(ds, N, &v), DLC_EINVAL);
    dlc_close(&ds);
}

static void test_read(void **state)
{
    char url[512];
    unsigned char buf[SIZE];
    struct dlc_dataset *ds = open_at(&d, dataset("plain", N, SIZE, "", url), 0);

    (void)state;
    assert_int_equal(dlc_read(ds, 9, buf, sizeof(buf)), SIZE);
    assert_int_equal(buf[100], byte_of(9, 100));
    buf[0] = 0xaa;
    assert_int_equal(dlc_read(ds, 10, buf, SIZE - 1), SIZE); /* too small: untouched */
    assert_int_equal(buf[0], 0xaa);
    assert_int_equal(dlc_read(ds, N, buf, sizeof(buf)), DLC_EINVAL);
    until(stat_of(&d, "datasets", "pins") == 0); /* it holds no view */
    dlc_close(&ds);
}

static void test_get_many(void **state)
{
    char url[512];
    struct dlc_dataset *ds;
    struct dlc_view v[N];
    struct dlc_stats st;
    uint64_t idx[N];
    size_t bad = 99;
    struct dlc_mono start = dlc_mono_now();

    (void)state;
    /* 200 samples of 100 ms each would take 20 s one after the other */
    ds = open_at(&d, dataset("many", N, SIZE, "?latency=100ms", url), 0);
    for (unsigned k = 0; k < N; k++)
        idx[k] = (k * 7) % N;
    assert_int_equal(dlc_get_many(ds, idx, N, v, NULL), 0);
    assert_true(dlc_dur_seconds(dlc_mono_since(start)) < 15);
    for (unsigned k = 0; k < N; k++) {
        assert_true(is_sample(&v[k], idx[k]));
        dlc_put(ds, &v[k]);
    }
    dlc_dataset_stats(ds, &st);
    assert_int_equal(st.misses, N); /* none was resident when it was asked for */
    assert_int_equal(st.hits, 0);
    assert_int_equal(st.bytes, N * SIZE);
    idx[5] = idx[6]; /* twice the same is allowed */
    assert_int_equal(dlc_get_many(ds, idx, N, v, NULL), 0);
    for (unsigned k = 0; k < N; k++)
        dlc_put(ds, &v[k]);
    idx[70] = N; /* all or nothing */
    assert_int_equal(dlc_get_many(ds, idx, N, v, &bad), DLC_EINVAL);
    assert_int_equal(bad, 70);
    for (unsigned k = 0; k < N; k++)
        assert_null(v[k].data);
    assert_int_equal(dlc_get_many(ds, idx, 0, NULL, NULL), 0);
    until(stat_of(&d, "datasets", "pins") == 0);
    dlc_close(&ds);
}

static void test_prefetch(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("ahead", N, SIZE, "?latency=1ms", url), 0);
    uint64_t idx[N];
    struct dlc_view v;

    (void)state;
    for (unsigned k = 0; k < N; k++)
        idx[k] = k;
    assert_int_equal(dlc_prefetch(ds, idx, N), 0);
    for (unsigned k = 0; k < N; k++) {
        until(dlc_try_get(ds, k, &v) == 0);
        assert_true(is_sample(&v, k));
        dlc_put(ds, &v);
    }
    idx[1] = N;
    assert_int_equal(dlc_prefetch(ds, idx, 2), DLC_EINVAL);
    assert_int_equal(dlc_prefetch(ds, NULL, 0), 0);
    dlc_close(&ds);
}

/* A miss leaves no view of before behind: who puts it does no harm. */
static void test_try_get_missed(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("tried", 10, 100, "", url), 0);
    struct dlc_view v, stale;

    (void)state;
    assert_int_equal(dlc_get(ds, 3, &v), 0);
    stale = v;
    assert_int_equal(dlc_try_get(ds, 4, &stale), DLC_EMISS);
    assert_null(stale.data);
    assert_int_equal(stale.len, 0);
    dlc_put(ds, &stale);
    assert_int_equal(*(uint64_t *)(uintptr_t)v.priv[0], 3 + 1); /* v's pin stays */
    stale = v;
    assert_int_equal(dlc_try_get(ds, 10, &stale), DLC_EINVAL);
    assert_null(stale.data);
    stale = v;
    assert_int_equal(dlc_get(ds, 10, &stale), DLC_EINVAL);
    assert_null(stale.data);
    assert_true(is_sample(&v, 3));
    dlc_put(ds, &v);
    assert_null(v.data);
    dlc_close(&ds);
}

static void test_empty_samples(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("empty", 30, 0, "", url), 0);
    struct dlc_view v[30];
    uint64_t idx[30];

    (void)state;
    for (unsigned k = 0; k < 30; k++)
        idx[k] = k;
    assert_int_equal(dlc_get_many(ds, idx, 30, v, NULL), 0);
    for (unsigned k = 0; k < 30; k++) {
        assert_non_null(v[k].data);
        assert_int_equal(v[k].len, 0);
        dlc_put(ds, &v[k]);
    }
    dlc_close(&ds);
}

/* More views than a block has pins, then more than all reasonable ones; all stay good while their
 * samples are evicted under them. */
static void hold(struct dlc_dataset *ds, unsigned views, unsigned samples)
{
    struct dlc_view *v = mem_alloc(views * sizeof(*v));

    for (unsigned k = 0; k < views; k++) {
        if (dlc_get(ds, k % samples, &v[k]) < 0)
            fail_msg("view %u: %s", k, dlc_last_error());
    }
    for (unsigned k = 0; k < views; k++) {
        assert_true(is_sample(&v[k], k % samples));
        dlc_put(ds, &v[k]);
    }
    mem_free(&v);
}

static void test_many_views(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("plain", N, SIZE, "", url), 0);
    struct dlc_stats before, after;

    (void)state;
    hold(ds, 57, N);
    dlc_dataset_stats(ds, &before);
    hold(ds, 12000, N);
    dlc_dataset_stats(ds, &after);
    assert_int_equal(after.bypasses, before.bypasses); /* all through the cache */
    until(stat_of(&d, "datasets", "pins") == 0);
    hold(ds, 57500, 4); /* more than there are pins: the rest is read from the bucket */
    dlc_close(&ds);
}

static void *reads_two(void *arg)
{
    struct dlc_dataset *ds = arg;
    struct dlc_view v[2];

    for (uint64_t i = 0; i < 2; i++)
        if (dlc_get(ds, i, &v[i]) < 0 || !is_sample(&v[i], i))
            return arg;
    dlc_put(ds, &v[0]);
    dlc_put(ds, &v[1]);
    return NULL;
}

/* A thread for which there is no block of pins, and then not even a pin of another one's. */
static void test_thread_without_a_block(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("plain", N, SIZE, "", url), 0);
    const unsigned all = 57344; /* pins of a session */
    struct dlc_view *v = mem_alloc(all * sizeof(*v));
    struct dlc_stats before, after;
    pthread_t t;
    void *wrong;

    (void)state;
    for (unsigned k = 0; k < all; k++)
        assert_int_equal(dlc_get(ds, k % 4, &v[k]), 0);
    for (unsigned bypassed = 2; bypassed <= 2; bypassed -= 2) { /* with all held, and with none */
        dlc_dataset_stats(ds, &before);
        assert_int_equal(pthread_create(&t, NULL, reads_two, ds), 0);
        pthread_join(t, &wrong);
        assert_null(wrong);
        dlc_dataset_stats(ds, &after);
        assert_int_equal(after.bypasses - before.bypasses, bypassed);
        for (unsigned k = 0; k < all; k++)
            dlc_put(ds, &v[k]);
    }
    mem_free(&v);
    dlc_close(&ds);
}

#ifdef SINGLE_STEP
struct hit {
    struct dlc_dataset *ds;
    struct dlc_view v;
    int rc;
};

static void hit_3(void *arg)
{
    struct hit *h = arg;

    h->rc = dlc_try_get(h->ds, 3, &h->v);
}

/* (SHM-1): a reader pins before it looks at the slot, and the daemon sees it so. */
static void test_reader_pins_with_barrier(void **state)
{
    char url[512];
    struct hit h = {.ds = open_at(&d, dataset("plain", N, SIZE, "", url), 0)};

    (void)state;
    read_one(h.ds, 3);
    assert_int_equal(dlc_try_get(h.ds, 3, &h.v), 0);
    uint64_t pin = h.v.priv[0];
    dlc_put(h.ds, &h.v);
    /* it takes the pins in turn: the next one */
    assert_true(stores_with_barrier((void *)(uintptr_t)(pin + 8), hit_3, &h));
    assert_int_equal(h.rc, 0);
    assert_int_equal(h.v.priv[0], pin + 8);
    dlc_put(h.ds, &h.v);
    dlc_close(&h.ds);
}
#endif

static void test_views_outlive_eviction(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("large", 40, 600000, "", url), 0);
    struct dlc_view v[4];

    (void)state;
    for (unsigned k = 0; k < 4; k++)
        assert_int_equal(dlc_get(ds, k, &v[k]), 0);
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 4; i < 40; i++)
            read_one(ds, i);
    }
    for (unsigned k = 0; k < 4; k++) {
        assert_true(is_sample(&v[k], k));
        dlc_put(ds, &v[k]);
    }
    dlc_close(&ds);
}

/* Larger than a quarter of memory: by way of a file. */
static void test_large_sample(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("huge", 2, 3000000, "", url), 0);
    struct dlc_stats st;
    struct dlc_view v;

    (void)state;
    read_one(ds, 0);
    assert_int_equal(dlc_get(ds, 1, &v), 0);
    dlc_dataset_stats(ds, &st);
    assert_int_equal(st.hits + st.bypasses, 0);
    assert_int_equal(st.misses, 2);
    assert_int_equal(st.bytes, 6000000);
    read_one(ds, 0);
    dlc_dataset_stats(ds, &st);
    assert_int_equal(st.reconnects + st.bypasses, 0); /* always through the same daemon */
    assert_int_equal(st.misses, 3);
    dlc_close(&ds);
    assert_true(is_sample(&v, 1)); /* a file of its own: not the dataset's memory */
    dlc_put(ds, &v);
}

static void test_failures(void **state)
{
    const struct dlc_options opt = {.socket = d.socket, .no_spawn = 1};
    const struct dlc_options nobody = {.socket = "/tmp/dlt-nobody-here", .no_spawn = 1};
    const struct dlc_options both = {
        .socket = d.socket, .no_spawn = 1, .snapshot = 5, .refresh = 1};
    const struct dlc_options anew = {.socket = d.socket, .no_spawn = 1, .refresh = 1};
    const uint64_t order[] = {2, 1, 0};
    struct dlc_view many[3];
    size_t bad = 0;
    struct dlc_dataset *ds = NULL;
    struct dlc_view v;
    char url[512], path[600];

    (void)state;
    assert_int_equal(dlc_open("ftp://x/y", &opt, &ds), DLC_EINVAL);
    assert_null(ds);
    assert_int_equal(dlc_open(NULL, &opt, &ds), DLC_EINVAL);
    assert_int_equal(dlc_open("file:///tmp", &both, &ds), DLC_EINVAL); /* old, and listed anew */
    assert_non_null(strstr(dlc_last_error(), "exclude each other"));
    assert_int_equal(dlc_open(dataset("gone", 3, 100, "", url), &anew, &ds), 0);
    dlc_close(&ds);
    assert_int_equal(dlc_open("file:///nowhere/at/all", &opt, &ds), DLC_ENOTFOUND);
    assert_int_equal(dlc_open("file:///tmp", &nobody, &ds), DLC_ENODAEMON);
    ds = open_at(&d, dataset("gone", 3, 100, "", url), 0);
    snprintf(path, sizeof(path), "%s/s000001", url + strlen("file://"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(dlc_get(ds, 1, &v), DLC_ENOTFOUND);
    assert_non_null(strstr(dlc_last_error(), "s000001"));
    for (unsigned k = 0; k < 3; k++)
        many[k] = (struct dlc_view){.len = 1};
    assert_int_equal(dlc_get_many(ds, order, 3, many, &bad), DLC_ENOTFOUND);
    assert_int_equal(bad, 1);
    assert_non_null(strstr(dlc_last_error(), "s000001"));
    for (unsigned k = 0; k < 3; k++)
        assert_null(many[k].data); /* all or nothing */
    read_one(ds, 2);
    dlc_close(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef SINGLE_STEP
        cmocka_unit_test(test_reader_pins_with_barrier),
#endif
        cmocka_unit_test(test_thread_without_a_block),
        cmocka_unit_test(test_catalog),
        cmocka_unit_test(test_get_and_stats),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_get_many),
        cmocka_unit_test(test_prefetch),
        cmocka_unit_test(test_empty_samples),
        cmocka_unit_test(test_many_views),
        cmocka_unit_test(test_views_outlive_eviction),
        cmocka_unit_test(test_large_sample),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_try_get_missed),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
