// SPDX-License-Identifier: Apache-2.0
/*
 * No daemon, and nobody who starts one in time: a reader goes to the bucket within moments, looks
 * for a daemon again within 30 s, and its other threads wait for none of that.
 */
// timeout: 120
#include "daemon.h"

#include <pthread.h>
#include <sys/file.h>

#include "base/cancel.h"
#include "client/dataset.h"
#include "listener.h"

#define N     20u
#define SIZE  2000u
#define LIMIT DLC_SEC(8) /* a moment, on a busy machine; what it replaces took 30 s and more */

static struct daemon d;
static char url[512], starts[256];

/* What is run as `dlcache serve`: it notes that, and does something. */
static void use_program(const char *does)
{
    char path[256];
    FILE *f = fopen(unit_path("program", path), "we");

    assert_non_null(f);
    fprintf(f, "#!/bin/sh\necho x >> %s\n%s\n", starts, does);
    fclose(f);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(setenv("DLCACHE_PROGRAM", path, 1), 0);
    unlink(starts);
}

static unsigned times_started(void)
{
    struct stat st;

    return stat(starts, &st) == 0 ? (unsigned)st.st_size / 2 : 0;
}

static int setup(void **state)
{
    (void)state;
    unit_path("starts", starts);
    daemon_init(&d, "d", "1MB", false);
    dataset("a", N, SIZE, "", url);
    return 0;
}

/* Before each test. */
static int with_daemon(void **state)
{
    (void)state;
    if (d.pid > 0)
        daemon_kill(&d); /* a test that failed */
    interrupt_asked = NULL;
    unlink(d.socket);
    daemon_start(&d);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

static struct dlc_dataset *open_spawning(uint32_t timeout_ms)
{
    const struct dlc_options opt = {.socket = d.socket, .timeout_ms = timeout_ms};
    struct dlc_dataset *ds = NULL;

    if (dlc_open(url, &opt, &ds) < 0)
        fail_msg("%s", dlc_last_error());
    return ds;
}

/* All of them for want of a daemon. */
static uint64_t bypasses(struct dlc_dataset *ds)
{
    struct dlc_stats st;

    dlc_dataset_stats(ds, &st);
    assert_int_equal(st.without_daemon, st.bypasses);
    return st.bypasses;
}

/* As if the time until the next look had passed. */
static void look_now(struct dlc_dataset *ds)
{
    dlc_mtx_lock(&ds->mtx);
    ds->try_again = (struct dlc_mono){0};
    dlc_mtx_unlock(&ds->mtx);
}

static bool within(struct dlc_mono at, struct dlc_dur most)
{
    return dlc_mono_sub(at, dlc_mono_now()).ns <= most.ns;
}

/* A daemon that was told to stop: who did so has 30 s to start another, then readers do. */
static void test_stopped(void **state)
{
    struct dlc_dataset *ds = open_spawning(0);

    (void)state;
    use_program("exit 1");
    read_one(ds, 0);
    daemon_stop(&d);
    for (unsigned i = 0; i < N; i++) {
        look_now(ds);
        read_one(ds, i);
        assert_true(within(ds->try_again, DLC_SEC(30)));
    }
    assert_int_equal(times_started(), 0);
    assert_true(bypasses(ds) >= N);
    assert_true(within(ds->spawn_from, DLC_SEC(30)));
    assert_true(ds->try_again.ns <= ds->spawn_from.ns);

    ds->spawn_from = dlc_mono_now();
    look_now(ds);
    read_one(ds, 0);
    assert_int_equal(times_started(), 1);
    dlc_close(&ds);
}

/* A program that cannot start: readers try again within 30 s, for ever. */
static void test_back_off(void **state)
{
    struct dlc_dataset *ds = open_spawning(0);

    (void)state;
    use_program("exit 1");
    daemon_kill(&d);
    for (unsigned k = 1; k <= 12; k++) {
        look_now(ds);
        read_one(ds, k);
        assert_int_equal(times_started(), k);
        read_one(ds, k); /* too early to look again */
        assert_int_equal(times_started(), k);
        assert_true(within(ds->try_again, DLC_SEC(30)));
    }
    assert_int_equal(ds->patience.ns, DLC_SEC(30).ns);
    dlc_close(&ds);
}

static void *reads_first(void *arg)
{
    struct dlc_mono start = dlc_mono_now();

    read_one(arg, 1);
    return dlc_mono_since(start).ns < LIMIT.ns ? NULL : (void *)(uintptr_t)1;
}

/* One thread starts a daemon that does not come; it and the others read the bucket. */
static void test_starting_takes_long(void **state)
{
    struct dlc_dataset *ds = open_spawning(0);
    struct dlc_mono start;
    pthread_t t;
    void *late;

    (void)state;
    use_program("exec sleep 60");
    daemon_kill(&d);
    assert_int_equal(pthread_create(&t, NULL, reads_first, ds), 0);
    until(times_started() == 1);
    start = dlc_mono_now();
    for (unsigned i = 2; i < N; i++)
        read_one(ds, i);
    assert_true(dlc_mono_since(start).ns < LIMIT.ns);
    pthread_join(t, &late);
    assert_null(late);
    assert_int_equal(bypasses(ds), N - 1);
    dlc_close(&ds);
}

/* Another process holds the lock of who starts a daemon, and hangs. */
static void test_starter_hangs(void **state)
{
    struct dlc_dataset *ds = open_spawning(0);
    char path[300];
    int fd;

    (void)state;
    use_program("exit 1");
    daemon_kill(&d);
    snprintf(path, sizeof(path), "%s.start", d.socket);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_null(reads_first(ds));
    assert_int_equal(times_started(), 0);
    os_close(&fd);
    look_now(ds);
    read_one(ds, 1);
    assert_int_equal(times_started(), 1);
    dlc_close(&ds);
}

static bool gives_up(struct interrupt *i)
{
    (void)i;
    return times_started() > 0;
}

/* Ctrl-C while a daemon is being started. */
static void test_interrupted(void **state)
{
    struct dlc_dataset *ds = open_spawning(0);
    struct interrupt asks = {.ask = gives_up};
    struct dlc_mono start = dlc_mono_now();
    struct dlc_view v;

    (void)state;
    use_program("exec sleep 60");
    daemon_kill(&d);
    interrupt_asked = &asks;
    assert_int_equal(dlc_get(ds, 1, &v), DLC_ECANCELED);
    interrupt_asked = NULL;
    assert_true(dlc_mono_since(start).ns < LIMIT.ns);
    dlc_close(&ds);
}

/* Somebody listens and takes no calls: a daemon that is stopped, with a full queue. */
static void test_takes_no_calls(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 0);
    struct sockaddr_un addr;
    int fd, calls[8];

    (void)state;
    daemon_kill(&d);
    fd = listener_open(d.socket, 0, &addr);
    for (unsigned k = 0; k < unit_count(calls); k++) {
        calls[k] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(calls[k], (const struct sockaddr *)&addr, sizeof(addr)); /* the last ones fail */
    }
    assert_null(reads_first(ds));
    assert_int_equal(bypasses(ds), 1);
    for (unsigned k = 0; k < unit_count(calls); k++)
        os_close(&calls[k]);
    os_close(&fd);
    unlink(d.socket);
    dlc_close(&ds);
}

/* Only the daemon has the files: a reader that finds none waits for it. */
static void test_bucket_is_elsewhere(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 60000);
    char here[256], away[256];
    pthread_t t;
    void *late;

    (void)state;
    daemon_kill(&d);
    assert_int_equal(rename(unit_path("a", here), unit_path("elsewhere", away)), 0);
    assert_int_equal(pthread_create(&t, NULL, reads_first, ds), 0);
    until(atomic_load(&ds->said));
    assert_int_equal(rename(away, here), 0);
    daemon_start(&d);
    pthread_join(t, &late);
    assert_null(late);
    assert_int_equal(bypasses(ds), 0);
    dlc_close(&ds);
}

#define T(f) cmocka_unit_test_setup(f, with_daemon)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_stopped),
        T(test_back_off),
        T(test_starting_takes_long),
        T(test_starter_hangs),
        T(test_interrupted),
        T(test_takes_no_calls),
        T(test_bucket_is_elsewhere),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
