// SPDX-License-Identifier: Apache-2.0
/* Many threads on one dataset: every byte checked while memory is too small for all. */
#include "daemon.h"

#include <pthread.h>
#include <sys/time.h>

#include "base/rng.h"
#include "client/process.h"

#define N       300u
#define SIZE    20000u
#define THREADS 16
#define READS   150

static struct daemon d;
static struct dlc_dataset *ds;

static int setup(void **state)
{
    char url[512];

    (void)state;
    daemon_init(&d, "d", "1MB", false);
    daemon_start(&d);
    ds = open_at(&d, dataset("t", N, SIZE, "", url), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dlc_close(&ds);
    daemon_end(&d);
    return 0;
}

/* cmocka's asserts are for the main thread: a thread returns what went wrong. */
static const char *read_some(uint64_t seed, unsigned reads)
{
    struct rng r = {seed};

    for (unsigned k = 0; k < reads; k++) {
        uint64_t i = rng_below(&r, N);
        struct dlc_view v;

        if (dlc_get(ds, i, &v) < 0)
            return "dlc_get failed";
        if (v.len != SIZE || !is_sample(&v, i))
            return "wrong bytes";
        dlc_put(ds, &v);
    }
    return NULL;
}

static void *random_reader(void *arg)
{
    return (void *)(uintptr_t)read_some((uintptr_t)arg, READS);
}

static void *batch_reader(void *arg)
{
    struct rng r = {(uintptr_t)arg};

    for (unsigned turn = 0; turn < 20; turn++) {
        struct dlc_view v[8];
        uint64_t idx[8];

        for (unsigned k = 0; k < 8; k++)
            idx[k] = rng_below(&r, N);
        dlc_prefetch(ds, idx, 8);
        if (dlc_get_many(ds, idx, 8, v, NULL) < 0)
            return (void *)(uintptr_t) "dlc_get_many failed";
        for (unsigned k = 0; k < 8; k++) {
            if (!is_sample(&v[k], idx[k]))
                return (void *)(uintptr_t) "wrong bytes in a batch";
            dlc_put(ds, &v[k]);
        }
    }
    return NULL;
}

static void start_and_join(pthread_t *t, unsigned n, void *(*f)(void *))
{
    void *wrong;

    for (unsigned k = 0; k < n; k++)
        assert_int_equal(pthread_create(&t[k], NULL, f, (void *)(uintptr_t)(k + 1)), 0);
    for (unsigned k = 0; k < n; k++) {
        pthread_join(t[k], &wrong);
        if (wrong != NULL)
            fail_msg("%s", (const char *)wrong);
    }
}

static void test_random_reads(void **state)
{
    pthread_t t[THREADS];
    struct dlc_stats before, after;

    (void)state;
    dlc_dataset_stats(ds, &before);
    start_and_join(t, THREADS, random_reader);
    dlc_dataset_stats(ds, &after);
    assert_int_equal(after.hits + after.misses + after.bypasses -
                         (before.hits + before.misses + before.bypasses),
                     THREADS * READS);
    assert_int_equal(after.bytes - before.bytes, (uint64_t)THREADS * READS * SIZE);
    assert_true(stat_of(&d, "counters", "mem_evictions") > 0);
}

static void test_batches(void **state)
{
    pthread_t t[THREADS];

    (void)state;
    start_and_join(t, THREADS, batch_reader);
    until(stat_of(&d, "datasets", "pins") == 0);
}

static void *one_read(void *arg)
{
    return (void *)(uintptr_t)read_some((uintptr_t)arg, 1);
}

/* 1,100 threads, more than there are pin blocks, one after the other and each with a block. */
static void test_thread_churn(void **state)
{
    struct dlc_stats before, after;
    pthread_t t;

    (void)state;
    dlc_dataset_stats(ds, &before);
    for (unsigned k = 0; k < 1100; k++)
        start_and_join(&t, 1, one_read);
    dlc_dataset_stats(ds, &after);
    assert_int_equal(after.bypasses, before.bypasses);
}

static pthread_key_t late_key;

/* Runs when the library has already taken the thread's block back, or before: both must do. */
static void read_late(void *arg)
{
    const char **wrong = arg;

    *wrong = read_some(5, 3);
}

static void *reads_in_destructor(void *arg)
{
    const char *wrong = read_some(6, 3);

    pthread_setspecific(late_key, arg);
    return (void *)(uintptr_t)wrong;
}

static void test_read_in_destructor(void **state)
{
    const char *wrong = "did not run";
    void *result;
    pthread_t t;

    (void)state;
    assert_int_equal(pthread_key_create(&late_key, read_late), 0);
    assert_int_equal(pthread_create(&t, NULL, reads_in_destructor, &wrong), 0);
    pthread_join(t, &result);
    assert_null(result);
    assert_null(wrong);
    pthread_key_delete(late_key);
}

/* A view got by one thread, put by another after the first has ended. */
static void *get_view(void *arg)
{
    return dlc_get(ds, 11, arg) < 0 ? (void *)(uintptr_t) "dlc_get failed" : NULL;
}

static void test_put_by_another(void **state)
{
    struct dlc_view v;
    void *wrong;
    pthread_t t;

    (void)state;
    assert_int_equal(pthread_create(&t, NULL, get_view, &v), 0);
    pthread_join(t, &wrong);
    assert_null(wrong);
    for (unsigned i = 0; i < N; i++)
        read_one(ds, i);
    assert_true(is_sample(&v, 11));
    dlc_put(ds, &v);
    until(stat_of(&d, "datasets", "pins") == 0);
}

static void on_alarm(int sig)
{
    (void)sig;
}

/* Signals a thousand times a second must not keep a waiting thread from its deadline. */
static void test_signals(void **state)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction sa = {.sa_handler = on_alarm}, old;
    struct dlc_dataset *slow;
    struct dlc_view v;
    char url[512];

    (void)state;
    slow = open_at(&d, dataset("slow", 3, 10, "?latency=2s", url), 300);
    sigaction(SIGALRM, &sa, &old);
    setitimer(ITIMER_REAL, &often, NULL);
    assert_int_equal(dlc_get(slow, 0, &v), DLC_ETIMEDOUT);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    dlc_close(&slow);
}

static unsigned counted;

static void *counts(void *arg)
{
    for (unsigned i = 0; i < 300; i++) {
        client_lock();
        unsigned seen = counted;
        sched_yield(); /* to whoever comes in */
        counted = seen + 1;
        client_unlock();
    }
    return arg;
}

/* One thread at a time has the process-wide lock. */
static void test_lock(void **state)
{
    pthread_t t[4];

    (void)state;
    for (unsigned k = 0; k < 4; k++)
        assert_int_equal(pthread_create(&t[k], NULL, counts, NULL), 0);
    for (unsigned k = 0; k < 4; k++)
        pthread_join(t[k], NULL);
    assert_int_equal(counted, 4 * 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_random_reads),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_thread_churn),
        cmocka_unit_test(test_read_in_destructor),
        cmocka_unit_test(test_put_by_another),
        cmocka_unit_test(test_signals),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
