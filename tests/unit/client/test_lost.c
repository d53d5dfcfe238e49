// SPDX-License-Identifier: Apache-2.0
/* The daemon dies, hangs, stops and comes back under a reader. */
#include "daemon.h"

#include <pthread.h>

#include "client/dataset.h"
#include "client/attachment.h"
#include "client/large_samples.h"
#include "listener.h"

#define N    60u
#define SIZE 20000u

static struct daemon d;

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "1MB", true);
    daemon_start(&d);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

static void test_killed_and_back(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("k", N, SIZE, "", url), 0);
    struct dlc_view v;
    struct dlc_stats st, after;
    const struct attachment *old;

    (void)state;
    assert_int_equal(dlc_get(ds, 0, &v), 0);
    daemon_kill(&d);
    assert_true(is_sample(&v, 0));
    for (unsigned i = 0; i < N; i++)
        read_one(ds, i); /* from the bucket */
    dlc_dataset_stats(ds, &st);
    assert_true(st.bypasses > 0);
    assert_int_equal(st.reconnects, 0);
    daemon_start(&d);
    until((read_one(ds, 5), dlc_dataset_stats(ds, &st), st.reconnects == 1));
    assert_true(is_sample(&v, 0));
    assert_int_equal(segments_of(getpid()), 2); /* the old one for the view's sake */
    old = dlc_container(ds->retired.next, struct attachment, link);
    assert_int_equal(old->session->magic, SHM_SESSION_MAGIC);
    dlc_dataset_stats(ds, &st);
    dlc_put(ds, &v);
    assert_int_equal(segments_of(getpid()), 1);
    assert_int_equal(old->session->magic, 0); /* its pages went back, */
    dlc_dataset_stats(ds, &after);
    assert_int_equal(after.misses, st.misses); /* its figures did not */
    assert_int_equal(after.bytes, st.bytes);
    for (unsigned i = 0; i < N; i++)
        read_one(ds, i);
    dlc_close(&ds);
    assert_int_equal(segments_of(getpid()), 0);
}

/* Who puts the last view sees the attachment in use, who retires it sees the pin: nobody unmaps. */
static void test_missed_reap(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("r", N, SIZE, "", url), 0);
    struct dlc_view v;
    struct dlc_stats st;

    (void)state;
    assert_int_equal(dlc_get(ds, 0, &v), 0);
    daemon_kill(&d);
    daemon_start(&d);
    until((read_one(ds, 5), dlc_dataset_stats(ds, &st), st.reconnects == 1));
    assert_int_equal(segments_of(getpid()), 2);
    atomic_store((_Atomic uint64_t *)(uintptr_t)v.priv[0], 0); /* as dlc_put() that saw the old */
    for (unsigned i = 0; i < N; i++)
        read_one(ds, i); /* more than memory holds: misses */
    assert_int_equal(segments_of(getpid()), 1);
    dlc_close(&ds);
}

/* Whatever was asked of a daemon that is lost, its memory goes. */
static void test_unmapped_after_hints(void **state)
{
    const uint64_t ahead[] = {3, 4};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("h", N, SIZE, "", url), 0);
    struct dlc_view v[2];
    struct dlc_stats st;

    (void)state;
    assert_int_equal(dlc_prefetch(ds, ahead, 2), 0);
    assert_int_equal(dlc_get_many(ds, ahead, 2, v, NULL), 0);
    dlc_put(ds, &v[0]);
    dlc_put(ds, &v[1]);
    assert_int_equal(segments_of(getpid()), 1);
    daemon_kill(&d);
    daemon_start(&d);
    until((read_one(ds, 5), dlc_dataset_stats(ds, &st), st.reconnects == 1));
    until((read_one(ds, 6), segments_of(getpid()) == 1)); /* the new one */
    dlc_close(&ds);
    assert_int_equal(segments_of(getpid()), 0);
}

struct reader {
    struct dlc_dataset *ds;
    _Atomic uint64_t reads;
    _Atomic bool stop;
};

static void *reads_on(void *arg)
{
    struct reader *r = arg;

    for (uint64_t k = 0; !r->stop; k++) {
        struct dlc_view v;

        if (dlc_get(r->ds, k % N, &v) < 0 || !is_sample(&v, k % N))
            return (void *)(uintptr_t)1;
        dlc_put(r->ds, &v);
        r->reads++;
    }
    return NULL;
}

/* Four readers while the daemon is killed or stopped, and started, several times. */
static void come_and_go(bool killed)
{
    char url[512];
    struct reader r = {open_at(&d, dataset("m", N, SIZE, "?latency=2ms", url), 0), 0, false};
    struct dlc_stats st;
    pthread_t t[4];
    void *wrong;

    for (unsigned k = 0; k < 4; k++)
        assert_int_equal(pthread_create(&t[k], NULL, reads_on, &r), 0);
    for (unsigned turn = 0; turn < 3; turn++) {
        uint64_t before = r.reads;

        until(r.reads > before + 20);
        if (killed)
            daemon_kill(&d);
        else
            daemon_stop(&d);
        before = r.reads;
        until(r.reads > before + 20);
        daemon_start(&d);
        until((dlc_dataset_stats(r.ds, &st), st.reconnects == turn + 1));
    }
    r.stop = true;
    for (unsigned k = 0; k < 4; k++) {
        pthread_join(t[k], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(segments_of(getpid()), 1);
    dlc_close(&r.ds);
}

static void test_killed_mid_read(void **state)
{
    (void)state;
    come_and_go(true);
}

static void test_stopped_mid_read(void **state)
{
    (void)state;
    come_and_go(false);
}

static void test_hung(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("h", N, SIZE, "", url), 300);
    uint64_t idx[N];
    struct dlc_view v;

    (void)state;
    read_one(ds, 0);
    daemon_signal(&d, SIGSTOP);
    read_one(ds, 1); /* from the bucket, when the daemon has had half of the time */
    assert_int_equal(dlc_try_get(ds, 0, &v), 0); /* what is resident is not the daemon's to delay */
    dlc_put(ds, &v);
    for (unsigned i = 0; i < N; i++)
        idx[i] = i;
    for (unsigned k = 0; k < 257; k++) { /* fills all cells, and does not wait for one */
        struct dlc_mono start = dlc_mono_now();

        assert_int_equal(dlc_prefetch(ds, idx, N), 0);
        assert_true(dlc_dur_seconds(dlc_mono_since(start)) < 5);
    }
    daemon_signal(&d, SIGCONT);
    until(dlc_get(ds, 1, &v) == 0);
    assert_true(is_sample(&v, 1));
    dlc_put(ds, &v);
    dlc_close(&ds);
}

/* An attachment given up while its daemon lives: views stay good, since the daemon still sees their
 * pins, and the session ends with the last of them. */
static void test_given_up(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("h", N, SIZE, "", url), 0);
    struct attachment *a = dataset_attached(ds);
    struct dlc_view v[2];

    (void)state;
    assert_int_equal(dlc_get(ds, 3, &v[0]), 0);
    dataset_lost(ds, a);
    dataset_detach(ds, a);
    assert_int_equal(dlc_get(ds, 4, &v[1]), 0);
    for (unsigned i = 0; i < N; i++)
        read_one(ds, i);
    assert_true(is_sample(&v[0], 3) && is_sample(&v[1], 4));
    assert_int_equal(stat_of(&d, "daemon", "sessions"), 2);
    dlc_put(ds, &v[0]);
    until(stat_of(&d, "daemon", "sessions") == 1);
    dlc_put(ds, &v[1]);
    dlc_close(&ds);
}

/* A daemon that does not answer `map`. */
static void test_map_in_time(void **state)
{
    static struct shm_segment_hdr no_heartbeat;
    struct attachment a = {.header = &no_heartbeat};
    struct dlc_err err = DLC_ERR_INIT;
    struct dlc_view v;
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    a.sock = fds[0];
    dlc_mtx_init(&a.rpc, LCK_rpc);
    assert_int_equal(miss_map(&a, 1, dlc_mono_add(dlc_mono_now(), DLC_MS(50)), &v, &err),
                     DLC_ETIMEDOUT);
    os_close(&fds[1]);
    assert_int_equal(miss_map(&a, 1, dlc_mono_add(dlc_mono_now(), DLC_SEC(50)), &v, &err),
                     DLC_ENODAEMON);
    dlc_mtx_release(&a.rpc);
    os_close(&fds[0]);
}

/* A daemon that takes the call and hangs up is no daemon; and this bucket cannot be listed without
 * one. */
static void *hangs_up(void *arg)
{
    int listener = *(int *)arg, fd;

    while ((fd = accept(listener, NULL, NULL)) >= 0)
        close(fd);
    return NULL;
}

static void test_hangs_up(void **state)
{
    struct sockaddr_un addr;
    struct dlc_options opt = {.socket = addr.sun_path, .no_spawn = 1};
    struct dlc_dataset *ds;
    char path[256];
    pthread_t t;
    int fd = listener_open(unit_path("hang.sock", path), 8, &addr);

    (void)state;
    assert_int_equal(pthread_create(&t, NULL, hangs_up, &fd), 0);
    assert_int_equal(dlc_open("file:///no/such/directory", &opt, &ds), DLC_ENODAEMON);
    shutdown(fd, SHUT_RDWR);
    pthread_join(t, NULL);
    os_close(&fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_and_back),
        cmocka_unit_test(test_killed_mid_read),
        cmocka_unit_test(test_stopped_mid_read),
        cmocka_unit_test(test_hung),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_map_in_time),
        cmocka_unit_test(test_hangs_up),
        cmocka_unit_test(test_missed_reap),
        cmocka_unit_test(test_unmapped_after_hints),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
