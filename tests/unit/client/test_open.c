// SPDX-License-Identifier: Apache-2.0
/* Opening a dataset while the daemon hangs: who can list the bucket does, who cannot waits. */
// timeout: 120
#include "daemon.h"
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "listener.h"

#define ROUNDS 200u
#define N      20u
#define SIZE   5000u

static struct daemon d;

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "1MB", false);
    daemon_start(&d);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

static void reads_all(struct dlc_dataset *ds)
{
    assert_int_equal(dlc_count(ds), N);
    for (unsigned i = 0; i < N; i++)
        read_one(ds, i);
}

/* It is stopped before: the call is taken by the kernel, and nobody answers. */
static void test_stopped(void **state)
{
    struct dlc_mono start = dlc_mono_now();
    struct dlc_dataset *ds, *same;
    struct dlc_stats st;
    char url[512];

    (void)state;
    dataset("a", N, SIZE, "", url);
    daemon_signal(&d, SIGSTOP);
    ds = open_at(&d, url, 0);
    assert_true(dlc_dur_seconds(dlc_mono_since(start)) < 15);
    reads_all(ds);
    dlc_dataset_stats(ds, &st);
    assert_int_equal(st.without_daemon, N);
    daemon_signal(&d, SIGCONT);
    until((read_one(ds, 1), dlc_dataset_stats(ds, &st), st.hits > 0)); /* through the daemon */
    same = open_at(&d, url, 0);
    assert_int_equal(dlc_snapshot(same), dlc_snapshot(ds));
    reads_all(ds);
    dlc_close(&same);
    dlc_close(&ds);
}

/* ---- a daemon that answers what it is told to ---- */

struct mute {
    struct sockaddr_un addr;
    int listener;
    pthread_t thread;
};

/* Takes calls and says nothing. */
static void *takes_calls(void *arg)
{
    const struct mute *m = arg;
    int fds[64], n = 0, fd;

    while ((fd = accept(m->listener, NULL, NULL)) >= 0 && n < 64)
        fds[n++] = fd;
    while (n > 0)
        close(fds[--n]);
    return NULL;
}

static void mute_start(struct mute *m)
{
    char path[256];

    m->listener = listener_open(unit_path("mute.sock", path), 8, &m->addr);
    assert_int_equal(pthread_create(&m->thread, NULL, takes_calls, m), 0);
}

static void mute_stop(struct mute *m)
{
    shutdown(m->listener, SHUT_RDWR);
    pthread_join(m->thread, NULL);
    os_close(&m->listener);
    unlink(m->addr.sun_path);
}

static void test_mute(void **state)
{
    struct mute m;
    const struct dlc_options opt = {.socket = m.addr.sun_path, .no_spawn = 1};
    struct dlc_dataset *ds = NULL;
    char url[512];

    (void)state;
    mute_start(&m);
    dataset("b", N, SIZE, "", url);
    assert_int_equal(dlc_open(url, &opt, &ds), 0);
    reads_all(ds);
    dlc_close(&ds);
    mute_stop(&m);
}

/* ---- who cannot list ---- */

static void *goes_on(void *arg)
{
    const struct stat *before = arg;
    struct stat st;
    const char *tmp = getenv("TMPDIR");

    /* The listing is made there: it has begun. */
    do {
        if (stat(tmp, &st) != 0)
            return (void *)(uintptr_t)1;
        poll(NULL, 0, 1);
    } while (st.st_mtim.tv_sec == before->st_mtim.tv_sec &&
             st.st_mtim.tv_nsec == before->st_mtim.tv_nsec);
    return (void *)(uintptr_t)(kill(d.pid, SIGCONT) != 0);
}

/* The bucket has another snapshot by now than the one that is asked for: only the daemon has it. */
static void test_waits(void **state)
{
    struct dlc_options opt = {.socket = d.socket, .no_spawn = 1};
    char url[512], path[256], more[300], tmp[256];
    struct dlc_dataset *ds = open_at(&d, dataset("c", N, SIZE, "", url), 0), *again = NULL;
    struct stat before;
    pthread_t t;
    void *wrong;
    int fd;

    (void)state;
    opt.snapshot = dlc_snapshot(ds);
    snprintf(more, sizeof(more), "%s/t", unit_path("c", path));
    fd = open(more, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    os_close(&fd);
    assert_int_equal(mkdir(unit_path("tmp", tmp), 0700), 0);
    assert_int_equal(setenv("TMPDIR", tmp, 1), 0);
    assert_int_equal(stat(tmp, &before), 0);
    daemon_signal(&d, SIGSTOP);
    assert_int_equal(pthread_create(&t, NULL, goes_on, &before), 0);
    assert_int_equal(dlc_open(url, &opt, &again), 0);
    pthread_join(t, &wrong);
    assert_null(wrong);
    unsetenv("TMPDIR");
    assert_int_equal(dlc_snapshot(again), opt.snapshot);
    reads_all(again);
    dlc_close(&again);
    dlc_close(&ds);
}

/* Nothing is there: neither of both can open it, and the daemon is not waited for when the caller's
 * words are wrong. */
static void test_wrong_words(void **state)
{
    const struct dlc_options both = {
        .socket = d.socket, .no_spawn = 1, .refresh = 1, .snapshot = 7};
    struct dlc_dataset *ds;
    struct dlc_mono start;

    (void)state;
    daemon_signal(&d, SIGSTOP);
    start = dlc_mono_now();
    assert_int_equal(dlc_open("nonsense", &both, &ds), DLC_EINVAL);
    assert_int_equal(dlc_open("file:///tmp", &both, &ds), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "exclude"));
    assert_null(ds);
    assert_true(dlc_dur_seconds(dlc_mono_since(start)) < 4);
    daemon_signal(&d, SIGCONT);
}

/* A URL that was refused leaves nothing behind. */
static void test_refused_and_forgotten(void **state)
{
    const struct dlc_options both = {
        .socket = d.socket, .no_spawn = 1, .refresh = 1, .snapshot = 7};
    struct dlc_dataset *ds;
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 2 * ROUNDS; i++) {
        if (i == ROUNDS)
            before = unit_heap();
        assert_int_equal(dlc_open("s3://bucket/a/long/enough/prefix/", &both, &ds), DLC_EINVAL);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_mute),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_wrong_words),
        cmocka_unit_test(test_refused_and_forgotten),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
