// SPDX-License-Identifier: Apache-2.0
/* Fetches as readers and counters see them: why readers waited, who joined, and what a fetch that
 * failed leaves behind. */
#include "daemon.h"

#include <pthread.h>

#define N    6000u /* more fetches than may be under way at once */
#define SIZE 1000u

static struct daemon d;

static json_int_t counter(const char *name)
{
    return stat_of(&d, "counters", name);
}

static void start(const char *memory, bool disk)
{
    daemon_init(&d, "d", memory, disk);
    daemon_start(&d);
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

struct stalls {
    json_int_t client, latency, disk, memory;
};

static struct stalls stalls(void)
{
    return (struct stalls){counter("stall_client_ns"), counter("stall_latency_ns"),
                           counter("stall_disk_ns"), counter("stall_memory_ns")};
}

/* A wait is put down to one cause. */
static void test_why_readers_wait(void **state)
{
    const struct dlc_order order = {.kind = DLC_SEQUENTIAL};
    struct dlc_dataset *ds;
    struct stalls was, is;
    char url[512];

    (void)state;
    start("1MB", true);
    ds = open_at(&d, dataset("slow", 20, 100000, "?latency=20ms", url), 0);
    read_one(ds, 0); /* nobody has said what comes */
    is = stalls();
    assert_true(is.client >= 20000000);
    assert_int_equal(is.latency + is.disk + is.memory, 0);
    for (unsigned i = 1; i < 20; i++)
        read_one(ds, i); /* more than memory holds */
    was = stalls();
    assert_int_equal(was.latency + was.disk + was.memory, 0);
    until(counter("disk_stores") >= 10); /* what was evicted can be had from there */
    for (unsigned i = 0; i < 10; i++)
        read_one(ds, i);
    is = stalls();
    assert_true(is.disk > 0);
    assert_int_equal(is.latency + is.memory, 0);
    dlc_close(&ds);
    ds = open_at(&d, dataset("told", 200, 100, "?latency=20ms", url), 0);
    was = stalls();
    assert_int_equal(dlc_follow(ds, &order, 0, 0), 0);
    for (unsigned i = 0; i < 200; i++)
        read_one(ds, i); /* faster than one at a time comes: the order is known */
    is = stalls();
    assert_true(is.latency > was.latency);
    assert_int_equal(is.client, was.client);
    dlc_close(&ds);
}

static void *get_one(void *arg)
{
    struct dlc_dataset *ds = arg;
    struct dlc_view v;
    bool good = dlc_get(ds, 3, &v) == 0 && is_sample(&v, 3);

    dlc_put(ds, &v);
    return good ? NULL : arg;
}

/* Many ask for one sample: it comes once, and all are told. */
static void test_joined(void **state)
{
    struct dlc_dataset *ds[4];
    pthread_t t[4];
    char url[512];
    void *wrong;

    (void)state;
    start("8MB", false);
    dataset("joined", 5, SIZE, "?latency=300ms", url);
    for (unsigned i = 0; i < 4; i++)
        ds[i] = open_at(&d, url, 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, get_one, ds[i]), 0);
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(t[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(counter("mem_fills"), 1);
    assert_int_equal(counter("requests_joined"), 3);
    read_one(ds[0], 3);
    assert_int_equal(counter("requests_joined"), 3);
    for (unsigned i = 0; i < 4; i++)
        dlc_close(&ds[i]);
}

/* More than one turn of the loop starts: all of it comes, and fetches that fail cost nothing. */
static void test_prefetch_much(void **state)
{
    char url[512], path[600];
    struct dlc_dataset *ds;
    uint64_t idx[N];
    struct dlc_view v;

    (void)state;
    start("8MB", false); /* less may be on its way than is asked for */
    ds = open_at(&d, dataset("much", N, SIZE, "", url), 0);
    for (unsigned i = 0; i < N; i++)
        idx[i] = N - 1 - i;
    for (unsigned i = 0; i < N / 2; i++) {
        snprintf(path, sizeof(path), "%s/s%06u", url + strlen("file://"), i);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(dlc_prefetch(ds, idx + N / 2, N / 2), 0); /* these are gone */
    assert_int_equal(dlc_get(ds, 0, &v), DLC_ENOTFOUND);
    assert_int_equal(dlc_prefetch(ds, idx, N / 2), 0);
    for (unsigned i = N / 2; i < N; i++) {
        until(dlc_try_get(ds, i, &v) == 0);
        assert_true(is_sample(&v, i));
        dlc_put(ds, &v);
    }
    assert_int_equal(counter("mem_fills"), N / 2);
    assert_int_equal(dlc_get(ds, 1, &v), DLC_ENOTFOUND);
    dlc_close(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_why_readers_wait, teardown),
        cmocka_unit_test_teardown(test_joined, teardown),
        cmocka_unit_test_teardown(test_prefetch_much, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
