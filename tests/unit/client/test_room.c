// SPDX-License-Identifier: Apache-2.0
/* A daemon that has no room, or is away, and a bucket that only it can read: a reader waits, and is
 * told why when its time is up. */
#include "daemon.h"

#include <errno.h>
#include <pthread.h>

#include "base/fault.h"

#define N    12u
#define SIZE 200000u

static struct daemon d;
static struct dlc_dataset *ds;
static struct dlc_view held[N];
static unsigned n_held;

static uint64_t bypasses(void)
{
    struct dlc_stats st;

    dlc_dataset_stats(ds, &st);
    return st.bypasses;
}

/* Everything in memory is held. From then on this process cannot read the bucket. */
static void fill(uint32_t timeout_ms)
{
    char url[512];

    daemon_init(&d, "d", "1MB", false);
    daemon_start(&d);
    ds = open_at(&d, dataset("a", N, SIZE, "", url), timeout_ms);
    n_held = 0;
    while (bypasses() == 0) {
        assert_true(n_held < N - 2);
        assert_int_equal(dlc_get(ds, n_held, &held[n_held]), 0);
        n_held++;
    }
    dlc_put(ds, &held[--n_held]); /* it is of the bucket */
    assert_true(n_held > 1);
    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(open), .nth = 1, .times = 1000000, .error = EACCES});
}

static int teardown(void **state)
{
    (void)state;
    fault_disarm();
    while (n_held > 0)
        dlc_put(ds, &held[--n_held]);
    dlc_close(&ds);
    daemon_end(&d);
    return 0;
}

static char text_of_get[600];

static void *get_last(void *arg)
{
    struct dlc_view v;
    int *rc = arg;

    *rc = dlc_get(ds, N - 1, &v);
    if (*rc == 0 && !is_sample(&v, N - 1))
        *rc = DLC_ECORRUPT;
    snprintf(text_of_get, sizeof(text_of_get), "%s", *rc < 0 ? dlc_last_error() : "");
    dlc_put(ds, &v);
    return NULL;
}

static void test_room_comes(void **state)
{
    pthread_t t;
    int rc = 1;

    (void)state;
    fill(60000);
    assert_int_equal(pthread_create(&t, NULL, get_last, &rc), 0);
    until(fault_hits() > 0); /* it has tried the bucket */
    dlc_put(ds, &held[--n_held]);
    pthread_join(t, NULL);
    assert_int_equal(rc, 0);
}

/* The sample is gone when there is room: the daemon's answer is the answer. */
static void test_gone_meanwhile(void **state)
{
    char dir[256], path[300];
    pthread_t t;
    int rc = 1;

    (void)state;
    fill(60000);
    assert_int_equal(pthread_create(&t, NULL, get_last, &rc), 0);
    until(fault_hits() > 0);
    snprintf(path, sizeof(path), "%s/s%06u", unit_path("a", dir), N - 1);
    assert_int_equal(unlink(path), 0);
    dlc_put(ds, &held[--n_held]);
    pthread_join(t, NULL);
    assert_int_equal(rc, DLC_ENOTFOUND);
    assert_non_null(strstr(text_of_get, "s000011"));
    assert_null(strstr(text_of_get, "denied"));
}

/* No room in its time. */
static void test_no_room(void **state)
{
    struct dlc_mono start;
    struct dlc_view v;

    (void)state;
    fill(2000);
    start = dlc_mono_now();
    assert_int_equal(dlc_get(ds, N - 1, &v), DLC_ENOSPACE);
    assert_true(dlc_mono_since(start).ns >= DLC_MS(1900).ns);
    assert_null(v.data);
    assert_non_null(strstr(dlc_last_error(), "had no room for sample 11"));
    assert_non_null(strstr(dlc_last_error(), "--memory"));
    assert_non_null(strstr(dlc_last_error(), d.socket));
    assert_non_null(strstr(dlc_last_error(), "programs hold what is in memory"));
}

/* There is no daemon any more: both ways are named. */
static void test_no_daemon(void **state)
{
    struct dlc_view v;

    (void)state;
    fill(1000);
    daemon_kill(&d);
    assert_int_equal(dlc_get(ds, N - 1, &v), DLC_EDENIED);
    assert_non_null(strstr(dlc_last_error(), "; and through the cache: no daemon answers at "));
    fault_disarm();
    assert_int_equal(dlc_get(ds, N - 1, &v), 0); /* the bucket can be read again */
    assert_true(is_sample(&v, N - 1));
    dlc_put(ds, &v);
}

#define T(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_room_comes), T(test_no_room), T(test_no_daemon),
        T(test_gone_meanwhile), /* the last one: a file is missing then */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
