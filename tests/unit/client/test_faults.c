// SPDX-License-Identifier: Apache-2.0
/*
 * Sweeps: a client opens, reads, follows orders and closes while the nth system call fails, or ends
 * the process, in the client or in the daemon. Whatever it is: a held view keeps its bytes, every
 * sample that comes is the right one, every call that fails says why, nothing hangs, and neither
 * side keeps a descriptor, a session or a pin.
 */
// timeout: 300
#include "daemon.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/fault.h"

#define N     40u
#define SIZE  20000u
#define LARGE 400000u /* more than a quarter of memory: lies in files of the disk tier */
#define LIMIT DLC_SEC(is_hung ? 120 : 20) /* dlc_open() waits 30 s for an answer */

static bool is_long; /* the argument "long": each call, where otherwise some do */
static bool is_hung; /* a call of the daemon does not return */
static struct daemon d;
static char url[512], large_url[512];
static json_int_t fds_of_daemon;
static unsigned fds_of_client;

/* Of a daemon those of extents do not count: they are the samples in memory. */
static unsigned open_fds(pid_t pid)
{
    static const char extent[] = "/memfd:dlcache-extent";
    char path[64], to[64];
    unsigned n = 0;
    const struct dirent *e;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    assert_non_null(dir);
    while ((e = readdir(dir)) != NULL) {
        ssize_t len = readlinkat(dirfd(dir), e->d_name, to, sizeof(to));

        n += len < (ssize_t)sizeof(extent) - 1 || memcmp(to, extent, sizeof(extent) - 1) != 0;
    }
    closedir(dir);
    return n;
}

/* ---- what a client does ---- */

static int failures;     /* of calls of the library, in this session */
static int lost_samples; /* those of them that should have given one */
static char last_loss[400];

/* A call may fail, but must say what, and what to do. */
static bool went_well(int64_t rc, const char *what)
{
    if (rc >= 0)
        return true;
    failures++;
    if (strcmp(what, "get") == 0 || strcmp(what, "next") == 0) {
        lost_samples++;
        snprintf(last_loss, sizeof(last_loss), "%s", dlc_last_error());
    }
    if (strlen(dlc_last_error()) < 10)
        fail_msg("%s: code %d, and no more than \"%s\"", what, (int)rc, dlc_last_error());
    return false;
}

static void get_checked(struct dlc_dataset *ds, uint64_t i, size_t size)
{
    struct dlc_view v;

    if (!went_well(dlc_get(ds, i, &v), "get"))
        return;
    assert_int_equal(v.len, size);
    assert_true(is_sample(&v, i));
    dlc_put(ds, &v);
}

static void follows(struct dlc_dataset *ds)
{
    const uint64_t list[] = {11, 12, 13}, more[] = {14, 15}, hint[] = {20, 21, 22};
    const struct dlc_order o = {.kind = DLC_EXPLICIT, .list = list, .list_len = 3};
    struct dlc_view v;
    uint64_t sample;

    if (went_well(dlc_follow(ds, &o, 0, 0), "follow"))
        went_well(dlc_follow_more(ds, more, 2), "follow_more");
    for (unsigned k = 0; k < 2; k++) {
        if (went_well(dlc_next(ds, &v, &sample), "next") && v.data != NULL) {
            assert_true(is_sample(&v, sample));
            assert_int_equal(sample, list[k]);
            dlc_put(ds, &v);
        }
    }
    went_well(dlc_prefetch(ds, hint, 3), "prefetch");
}

static void session(void)
{
    const struct dlc_options opt = {.socket = d.socket, .no_spawn = 1, .timeout_ms = 8000};
    struct dlc_dataset *ds = NULL, *large = NULL;
    struct dlc_mono start = dlc_mono_now();
    struct dlc_view held = {0};

    failures = lost_samples = 0;
    if (went_well(dlc_open(url, &opt, &ds), "open")) {
        if (went_well(dlc_get(ds, 0, &held), "get"))
            assert_true(is_sample(&held, 0));
        get_checked(ds, 0, SIZE); /* a hit */
        follows(ds);
        for (uint64_t i = 1; i < N; i += 3)
            get_checked(ds, i, SIZE);
    }
    if (went_well(dlc_open(large_url, &opt, &large), "open")) {
        get_checked(large, 0, LARGE);
        get_checked(large, 1, LARGE);
    }
    if (held.data != NULL) {
        assert_true(is_sample(&held, 0));
        dlc_put(ds, &held);
    }
    dlc_close(&large);
    dlc_close(&ds);
    assert_true(dlc_mono_since(start).ns < LIMIT.ns);
}

/* ---- the frame ---- */

static void forget_all(void)
{
    struct msg m = MSG_INIT;
    int sock = dial_greeted(&d);

    tell(sock, json_pack("{s:s}", "op", "evict"), &m);
    msg_release(&m);
    os_close(&sock);
}

static void start(void)
{
    daemon_start(&d);
    session(); /* lists, starts threads, connects */
    assert_int_equal(failures, 0);
    forget_all();
    until(stat_of(&d, "daemon", "sessions") == 0);
    fds_of_client = open_fds(getpid());
    until(open_fds(d.pid) >= 16 + 3); /* the reserve is there */
    fds_of_daemon = open_fds(d.pid);
}

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "1MB", true);
    dataset("a", N, SIZE, "", url);
    dataset("l", 2, LARGE, "", large_url);
    start();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

static void nothing_is_left(void)
{
    until(stat_of(&d, "daemon", "sessions") == 0);
    assert_int_equal(stat_of(&d, "daemon", "zombies"), 0);
    assert_int_equal(stat_of(&d, "datasets", "pins"), 0);
    assert_int_equal(open_fds(getpid()), fds_of_client);
    until(open_fds(d.pid) <= fds_of_daemon);
    forget_all();
}

/* ---- faults in the client ---- */

static void test_each_call_of_the_client_fails(void **state)
{
    int nth = 1, seen = 0, failed = 0;
    bool fired = true;

    (void)state;
    for (; fired; nth++) {
        fault_plan(&(struct fault_plan){.calls = FAULT_ALL_CALLS, .nth = nth, .pid = getpid()});
        session();
        fired = fault_disarm();
        if (!fired)
            assert_int_equal(failures, 0);
        assert_int_equal(lost_samples, 0); /* there is always the bucket */
        seen += fired;
        failed += failures > 0;
        nothing_is_left();
    }
    print_message("%d calls, %d of them made a call of the library fail\n", seen, failed);
    assert_true(seen > 40);
}

/* Every call of one kind fails, from the nth on: the process is at its limit on open files. */
static void test_the_client_is_out_of_descriptors(void **state)
{
    uint64_t calls = FAULT_CALL(open) | FAULT_CALL(memfd) | FAULT_CALL(dup) | FAULT_CALL(eventfd) |
                     FAULT_CALL(epoll_create) | FAULT_CALL(socket) | FAULT_CALL(descriptors) |
                     FAULT_CALL(pipe);
    bool fired = true;

    (void)state;
    for (int nth = 1; fired; nth++) {
        fault_plan(
            &(struct fault_plan){.calls = calls, .nth = nth, .times = 1000000, .pid = getpid()});
        session();
        fired = fault_disarm();
        nothing_is_left();
    }
}

static void test_the_client_dies_in_each_call(void **state)
{
    bool fired = true;

    (void)state;
    for (int nth = 1; fired; nth++) {
        int status;
        pid_t pid;

        fflush(NULL);
        fault_plan(&(struct fault_plan){.calls = FAULT_ALL_CALLS,
                                        .nth = nth,
                                        .mode = nth % 2 == 0 ? FAULT_KILL : FAULT_EXIT,
                                        .pid = -1}); /* nobody yet */
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            fault_plan(&(struct fault_plan){.calls = FAULT_ALL_CALLS,
                                            .nth = nth,
                                            .mode = nth % 2 == 0 ? FAULT_KILL : FAULT_EXIT,
                                            .pid = getpid()});
            session();
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        fired = fault_disarm();
        assert_true(fired || status == 0);
        nothing_is_left();
    }
}

/* ---- a call of the client hangs ---- */

/* What acts on memory and descriptors of the process alone and waits for nobody: made under locks,
 * too. So are close() and munmap(), which FAULT_ALL_CALLS leaves out. */
#define OWN_CALLS                                                                                  \
    (FAULT_CALL(advise) | FAULT_CALL(epoll_create) | FAULT_CALL(epoll_ctl) | FAULT_CALL(thread) |  \
     FAULT_CALL(socket) | FAULT_CALL(recvmsg) | FAULT_CALL(descriptors) | FAULT_CALL(mmap_at))

static void *session_of_its_own(void *arg)
{
    const struct dlc_options opt = {.socket = d.socket, .no_spawn = 1, .timeout_ms = 8000};
    struct dlc_dataset *ds = NULL;

    (void)arg;
    if (dlc_open(url, &opt, &ds) < 0)
        return (void *)(uintptr_t)1;
    for (uint64_t i = 0; i < N; i++) {
        struct dlc_view v;

        if (dlc_get(ds, i, &v) < 0)
            return (void *)(uintptr_t)2;
        if (!is_sample(&v, i))
            return (void *)(uintptr_t)3;
        dlc_put(ds, &v);
    }
    dlc_close(&ds);
    return NULL;
}

static void *session_that_hangs(void *arg)
{
    _Atomic bool *ended = arg;

    session();
    *ended = true;
    return NULL;
}

/* A thread that hangs in a call keeps no other thread of its process from opening and reading, and
 * gets what it asked for when the call returns. */
static void test_each_call_of_the_client_hangs(void **state)
{
    bool fired = true;
    int nth = 1, seen = 0;

    (void)state;
    for (; fired; nth += is_long ? 1 : 5) {
        _Atomic bool ended = false;
        pthread_t hung, other;
        void *wrong = NULL;

        /* The calls of the other thread do not count: the plan has fired by then. */
        fault_plan(&(struct fault_plan){.calls = FAULT_ALL_CALLS & ~OWN_CALLS,
                                        .nth = nth,
                                        .mode = FAULT_HANG,
                                        .pid = getpid()});
        assert_int_equal(pthread_create(&hung, NULL, session_that_hangs, &ended), 0);
        until(fault_hanging() > 0 || ended);
        if (!ended) {
            struct timespec limit;

            clock_gettime(CLOCK_REALTIME, &limit);
            limit.tv_sec += 20;
            assert_int_equal(pthread_create(&other, NULL, session_of_its_own, NULL), 0);
            if (pthread_timedjoin_np(other, &wrong, &limit) != 0 || wrong != NULL)
                fail_msg("%s number %d hangs, and another thread could not read: %d",
                         fault_name(fault_last()), nth, (int)(uintptr_t)wrong);
        }
        fired = fault_disarm();
        pthread_join(hung, NULL);
        assert_int_equal(lost_samples, 0);
        seen += fired;
        nothing_is_left();
    }
    print_message("%d calls\n", seen);
    assert_true(seen > 10);
}

/* ---- faults in the daemon ---- */

#define CONNECTION_CALLS                                                                           \
    (FAULT_CALL(accept) | FAULT_CALL(recvmsg) | FAULT_CALL(descriptors) | FAULT_CALL(sendmsg) |    \
     FAULT_CALL(epoll_ctl) | FAULT_CALL(eventfd) | FAULT_CALL(memfd) | FAULT_CALL(dup) |           \
     FAULT_CALL(fstat) | FAULT_CALL(mmap))

/* Its loop waits, and is woken, without end: those calls would be the nth of any plan. */
#define OTHER_CALLS                                                                                \
    (FAULT_ALL_CALLS & ~(CONNECTION_CALLS | FAULT_CALL(epoll_wait) | FAULT_CALL(statvfs)))

static void sweep_daemon(uint64_t calls, int least)
{
    int seen = 0, failed = 0;
    bool fired = true;

    for (int nth = 1; fired; nth++) {
        fault_plan(&(struct fault_plan){.calls = calls, .nth = nth, .pid = d.pid});
        session();
        fired = fault_disarm();
        if (lost_samples > 0)
            fail_msg("%s number %d: %s", fault_name(fault_last()), nth, dlc_last_error());
        seen += fired;
        failed += failures > 0;
        nothing_is_left();
    }
    print_message("%d calls, %d of them made a call of the library fail\n", seen, failed);
    assert_true(seen > least);
    assert_true(failed < seen / 4); /* the others are made again, by one side or the other */
}

static void test_each_call_of_the_daemon_fails(void **state)
{
    (void)state;
    sweep_daemon(CONNECTION_CALLS, 40);
}

/* Of bucket, disk tier, catalogs and threads. */
static void test_each_file_call_of_the_daemon_fails(void **state)
{
    (void)state;
    sweep_daemon(OTHER_CALLS, 60);
}

/* The calls of its start and its end. It starts, or ends with a message. */
static void test_each_call_of_a_start_fails(void **state)
{
    int refused = 0, nth = 1;
    bool fired = true;

    (void)state;
    daemon_stop(&d);
    for (; fired; nth += is_long ? 1 : 3) {
        fault_plan(&(struct fault_plan){
            .calls = FAULT_ALL_CALLS & ~FAULT_CALL(epoll_wait), .nth = nth, .error = EIO});
        d.pid = helper_ask(&d, 0);
        fired = fault_disarm();
        assert_int_not_equal(d.pid, -2);
        refused += d.pid < 0;
        assert_true(fired || d.pid > 0);
        if (d.pid > 0) {
            session();
            assert_int_equal(lost_samples, 0);
            daemon_stop(&d);
        }
    }
    print_message("%d calls: %d times the fault kept the daemon from starting\n", nth, refused);
    assert_true(nth > 40);
    start();
}

static void test_each_call_of_an_end_fails(void **state)
{
    int status, nth = 1;
    bool fired = true;

    (void)state;
    for (; fired; nth++) {
        fault_plan(&(struct fault_plan){
            .calls = FAULT_ALL_CALLS & ~FAULT_CALL(epoll_wait), .nth = nth, .pid = d.pid});
        daemon_signal(&d, SIGTERM);
        status = daemon_wait(&d);
        fired = fault_disarm();
        assert_int_equal(status, 0);
        daemon_start(&d);
    }
    daemon_stop(&d);
    start();
}

/* It can open nothing for a while, from its nth call on. */
static void test_the_daemon_is_out_of_descriptors(void **state)
{
    uint64_t calls = FAULT_CALL(accept) | FAULT_CALL(descriptors) | FAULT_CALL(eventfd) |
                     FAULT_CALL(memfd) | FAULT_CALL(dup) | FAULT_CALL(open);

    (void)state;
    for (int nth = 1; nth <= 24; nth++) {
        fault_plan(&(struct fault_plan){.calls = calls, .nth = nth, .times = 12, .pid = d.pid});
        session();
        fault_disarm();
        nothing_is_left();
    }
}

static void kill_daemon(uint64_t calls, int stride)
{
    int nth = 1;

    for (;; nth += stride) {
        fault_plan(
            &(struct fault_plan){.calls = calls, .nth = nth, .mode = FAULT_KILL, .pid = d.pid});
        session();
        if (!fault_disarm())
            break;
        daemon_wait(&d);
        assert_int_equal(open_fds(getpid()), fds_of_client);
        start();
    }
    assert_true(nth > 30);
    nothing_is_left();
}

static void test_the_daemon_dies_in_each_call(void **state)
{
    (void)state;
    kill_daemon(CONNECTION_CALLS, is_long ? 1 : 7);
    kill_daemon(OTHER_CALLS | FAULT_SURE_CALLS, is_long ? 1 : 41);
}

/* What takes long makes nobody wait for long; and what hangs until it is let go: the client reads
 * the bucket meanwhile. */
static void slow_daemon(enum fault_mode mode, int stride)
{
    bool fired = true;

    for (int nth = 1; fired; nth += stride) {
        fault_plan(&(struct fault_plan){.calls = CONNECTION_CALLS | OTHER_CALLS | FAULT_SURE_CALLS,
                                        .nth = nth,
                                        .mode = mode,
                                        .delay_ms = 30,
                                        .pid = d.pid});
        session();
        fired = fault_disarm();
        if (lost_samples > 0)
            fail_msg("%s number %d: %d samples were refused: %s", fault_name(fault_last()), nth,
                     lost_samples, last_loss);
        nothing_is_left();
    }
}

static void test_calls_of_the_daemon_take_long(void **state)
{
    (void)state;
    slow_daemon(FAULT_DELAY, is_long ? 1 : 31);
}

/* It takes minutes: only for "long". */
static void test_calls_of_the_daemon_hang(void **state)
{
    (void)state;
    is_hung = true;
    slow_daemon(FAULT_HANG, 11);
    is_hung = false;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_of_the_client_fails),
        cmocka_unit_test(test_the_client_is_out_of_descriptors),
        cmocka_unit_test(test_the_client_dies_in_each_call),
        cmocka_unit_test(test_each_call_of_the_client_hangs),
        cmocka_unit_test(test_each_call_of_the_daemon_fails),
        cmocka_unit_test(test_each_file_call_of_the_daemon_fails),
        cmocka_unit_test(test_each_call_of_a_start_fails),
        cmocka_unit_test(test_each_call_of_an_end_fails),
        cmocka_unit_test(test_calls_of_the_daemon_take_long),
        cmocka_unit_test(test_the_daemon_is_out_of_descriptors),
        cmocka_unit_test(test_the_daemon_dies_in_each_call),
    };

    const struct CMUnitTest long_tests[] = {cmocka_unit_test(test_calls_of_the_daemon_hang)};

    fault_share();
    is_long = argc > 1 && strcmp(argv[1], "long") == 0;
    if (is_long && cmocka_run_group_tests(long_tests, setup, teardown) != 0)
        return 1;
    return cmocka_run_group_tests(tests, setup, teardown);
}
