// SPDX-License-Identifier: Apache-2.0
// timeout: 120
/* The asynchronous server under load and in need: clients that are slow or many, limits, disks that
 * hang, calls that fail, its end. */
#include <dirent.h>
#include <sys/socket.h>

#include "async_test_server.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "raw.h"

/* ---- slow clients ---- */

static void test_slow_clients_end(void **state)
{
    const struct async_server_config c = {
        .idle = DLC_MS(200), .head = DLC_MS(200), .progress = DLC_MS(200)};
    int idle, head, reader;
    char data[64];

    (void)state;
    start(&c);
    idle = raw_connect(s.address);
    head = raw_connect(s.address);
    reader = raw_connect(s.address);
    say(head, "GET /data/1 HTTP/1.1\r\nHo");
    say(reader, GET("/data/" LONG ""));
    assert_true(recv(reader, data, sizeof(data), 0) > 0);
    raw_rest(idle, NULL);
    raw_rest(head, NULL);
    WAIT_FOR(figures().connections == 0); /* the reader has taken 64 bytes */
    assert_int_equal(figures().late, 2);
    assert_int_equal(s.begun, s.done);
    os_close(&idle);
    os_close(&head);
    os_close(&reader);
    stop();
}

/* One that is slow, but takes its share, gets everything. */
static void test_a_steady_reader_ends(void **state)
{
    const struct async_server_config c = {.progress = DLC_SEC(1)};
    static char data[256 << 10];
    size_t got = 0;
    ssize_t n;
    int fd, size = 65536;

    (void)state;
    start(&c);
    fd = raw_connect(s.address);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    say(fd, "GET /data/" LONG " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    while ((n = recv(fd, data, sizeof(data), 0)) > 0) {
        got += (size_t)n;
        if (got < (2u << 20))
            poll(NULL, 0, 20);
    }
    assert_true(n == 0 && got > (16u << 20));
    assert_int_equal(figures().late, 0);
    os_close(&fd);
    stop();
}

/* ---- many clients ---- */

static unsigned threads_of_process(void)
{
    DIR *d = opendir("/proc/self/task");
    unsigned n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 2;
}

/* 100 peers with 16 connections each; some of them never read. No further thread is started. */
static void test_a_hundred_peers(void **state)
{
    enum { PEERS = 100, EACH = 16, ALL = PEERS * EACH, ROUNDS = 3, SLOW = 20 };
    static int fds[ALL];
    struct buf b = BUF_INIT;
    int slow[SLOW];
    unsigned threads;

    (void)state;
    start(NULL);
    for (int i = 0; i < SLOW; i++) {
        slow[i] = connect_from(200);
        say(slow[i], GET("/data/" LONG ""));
    }
    threads = threads_of_process();
    for (int i = 0; i < ALL; i++)
        fds[i] = connect_from(i / EACH);
    for (int k = 0; k < ROUNDS; k++) {
        for (int i = 0; i < ALL; i++)
            say(fds[i], GET("/data/20000"));
        for (int i = 0; i < ALL; i++) {
            assert_int_equal(raw_answer(fds[i], &b), 200);
            assert_true(has_body(&b, 0, 20000));
        }
    }
    assert_int_equal(figures().connections, ALL + SLOW);
    assert_int_equal(figures().refused + figures().shed + figures().late, 0);
    assert_int_equal(threads_of_process(), threads);
    assert_int_equal(s.begun, ROUNDS * ALL + SLOW);
    WAIT_FOR(s.done == ROUNDS * ALL);
    for (int i = 0; i < ALL; i++)
        os_close(&fds[i]);
    for (int i = 0; i < SLOW; i++)
        os_close(&slow[i]);
    buf_release(&b);
    stop();
}

static void test_limits(void **state)
{
    const struct async_server_config c = {.connections = 8, .per_address = 6, .loops = 1};
    int fds[8], extra;

    (void)state;
    start(&c);
    for (int i = 0; i < 6; i++) {
        fds[i] = connect_from(1);
        say(fds[i], GET("/held/1"));
    }
    extra = connect_from(1); /* a seventh of one address */
    assert_int_equal(raw_answer(extra, NULL), 503);
    os_close(&extra);
    fds[6] = connect_from(2);
    say(fds[6], GET("/data/1"));
    assert_int_equal(raw_answer(fds[6], NULL), 200); /* it is idle now */
    fds[7] = connect_from(2);
    say(fds[7], GET("/held/1"));
    WAIT_FOR(s.n_held == 7);
    extra = connect_from(3); /* takes the place of the idle one */
    say(extra, GET("/data/1"));
    assert_int_equal(raw_answer(extra, NULL), 200);
    raw_rest(fds[6], NULL);
    assert_int_equal(figures().shed, 1);
    say(extra, GET("/held/1"));
    WAIT_FOR(s.n_held == 8);
    os_close(&fds[6]);
    fds[6] = connect_from(4); /* and now nobody is idle */
    assert_int_equal(raw_answer(fds[6], NULL), 503);
    assert_int_equal(figures().refused, 2);
    release_held();
    for (int i = 0; i < 8; i++)
        os_close(&fds[i]);
    os_close(&extra);
    WAIT_FOR(figures().connections == 0);
    expect_alive();
    stop();
}

/* A disk that hangs holds up nobody else, and not the end of the server either. */
static void test_a_disk_hangs(void **state)
{
    const struct fault_plan plan = {
        .calls = FAULT_CALL(read), .nth = 1, .times = 100, .mode = FAULT_HANG};
    struct dlc_err err = DLC_ERR_INIT;
    int fds[3];

    (void)state;
    assert_int_equal(try_start(NULL, &plan, &err), 0);
    for (int i = 0; i < 3; i++) {
        fds[i] = raw_connect(s.address);
        say(fds[i], GET("/file/100000"));
    }
    WAIT_FOR(fault_hanging() == 2); /* there are two workers */
    expect_alive();
    os_close(&fds[0]);
    WAIT_FOR(s.begun == 4);
    async_server_close(&s.server); /* though the reads hang */
    assert_int_equal(s.begun, s.done);
    fault_disarm();
    for (int i = 1; i < 3; i++)
        os_close(&fds[i]);
    pool_free(&s.pool);
    os_close(&s.file);
}

/* ---- its end ---- */

static void *close_main(void *arg)
{
    (void)arg;
    async_server_close(&s.server);
    return NULL;
}

static void test_closes_while_busy(void **state)
{
    int waiting, slow, idle, half;
    pthread_t closer;

    (void)state;
    start(NULL);
    waiting = raw_connect(s.address);
    slow = raw_connect(s.address);
    idle = raw_connect(s.address);
    half = raw_connect(s.address);
    say(waiting, GET("/held/1"));
    say(slow, GET("/data/" LONG ""));
    say(half, "GET /");
    WAIT_FOR(s.n_held == 1 && s.begun == 1 && figures().connections == 4);
    assert_int_equal(pthread_create(&closer, NULL, close_main, NULL), 0);
    raw_rest(idle, NULL); /* at once */
    raw_rest(half, NULL);
    assert_int_equal(release_held(), 1);
    assert_int_equal(raw_answer(waiting, NULL), 200); /* who waits still gets it */
    pthread_join(closer, NULL);
    os_close(&waiting);
    os_close(&slow);
    os_close(&idle);
    os_close(&half);
    stop();
}

/* ---- faults ---- */

/* With one call that fails, the server does not open and says why, or one connection may end. */
static bool serves_with(const struct fault_plan *plan)
{
    struct dlc_err err = DLC_ERR_INIT;
    bool fired;
    int fd;

    if (try_start(NULL, plan, &err) < 0) {
        assert_true(fault_disarm() && err.code < 0 && err.text[0] != '\0');
        stop();
        return true;
    }
    fd = raw_connect(s.address);
    say(fd, "GET /file/300000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    raw_rest(fd, NULL);
    fired = fault_disarm();
    os_close(&fd);
    expect_alive();
    WAIT_FOR(figures().connections == 0 && s.begun == s.done);
    stop();
    return fired;
}

static void test_faults(void **state)
{
    static const uint64_t calls[] = {FAULT_CALL(accept),  FAULT_CALL(recvmsg),
                                     FAULT_CALL(sendmsg), FAULT_CALL(epoll_ctl),
                                     FAULT_CALL(read),    FAULT_CALL(thread)};

    (void)state;
    for (size_t k = 0; k < unit_count(calls); k++) {
        struct fault_plan plan = {.calls = calls[k], .nth = 1};

        while (plan.nth < 20 && serves_with(&plan))
            plan.nth++;
        assert_in_range(plan.nth, 2, 19);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_clients_end), cmocka_unit_test(test_a_steady_reader_ends),
        cmocka_unit_test(test_a_hundred_peers),  cmocka_unit_test(test_limits),
        cmocka_unit_test(test_a_disk_hangs),     cmocka_unit_test(test_closes_while_busy),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, prepare, clean);
}
