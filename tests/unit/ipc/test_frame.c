// SPDX-License-Identifier: Apache-2.0
/* Messages: whole, in pieces, hostile; and no descriptor is ever lost. */
#include "ipc/frame.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/fault.h"
#include "base/syscalls.h"

struct wire {
    uint32_t magic, length, fds, reserved;
};
#define MAGIC 0x31636c64u /* "dlc1" */

static int s[2];
static unsigned fds_before;

static unsigned open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

static int set_up(void **state)
{
    (void)state;
    fds_before = open_fds();
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s);
}

static int tear_down(void **state)
{
    (void)state;
    os_close(&s[0]);
    os_close(&s[1]);
    return open_fds() == fds_before ? 0 : -1; /* every test: no descriptor leaked */
}

static json_t *hello(void)
{
    return json_pack("{s:s, s:i}", "op", "hello", "version", 1);
}

static void send_raw(uint32_t magic, uint32_t length, uint32_t fds, const char *text)
{
    struct wire w = {magic, length, fds, 0};

    assert_int_equal(0, os_write_all(s[0], &w, sizeof(w)));
    assert_int_equal(0, os_write_all(s[0], text, strlen(text)));
}

/* Send one byte with n descriptors. */
static void send_fds(const void *byte, unsigned n)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(64 * sizeof(int))];
    } control = {.space = {0}};
    struct iovec iov = {(void *)(uintptr_t)byte, 1};
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = CMSG_SPACE(n * sizeof(int))};
    int fds[64];

    for (unsigned i = 0; i < n; i++)
        fds[i] = s[0];
    control.align = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(n * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.align), fds, n * sizeof(int));
    assert_int_equal(1, sendmsg(s[0], &h, 0));
}

static void expect_refused(const char *says)
{
    struct msg m = MSG_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    assert_int_equal(DLC_EPROTO, msg_recv(s[1], &m, DLC_SEC(10), &err));
    if (strstr(err.text, says) == NULL)
        fail_msg("says: %s", err.text);
    assert_null(m.body);
    assert_int_equal(0, m.n_fds);
}

static void test_round_trip(void **state)
{
    json_t *body = hello();
    struct msg m = MSG_INIT;
    struct stat a, b;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), fds[2] = {null, s[0]}, fd;

    (void)state;
    assert_int_equal(0, msg_send(s[0], body, fds, 2, NULL));
    assert_int_equal(0, msg_send(s[0], body, NULL, 0, NULL)); /* must not run into the first */
    assert_int_equal(0, msg_recv(s[1], &m, DLC_SEC(10), NULL));
    assert_true(json_equal(body, m.body));
    assert_int_equal(2, m.n_fds);
    fd = msg_take_fd(&m, 0);
    assert_int_equal(-1, msg_take_fd(&m, 0));
    assert_int_equal(-1, msg_take_fd(&m, 2));
    assert_int_equal(0, fstat(fd, &a));
    assert_int_equal(0, fstat(null, &b));
    assert_true(a.st_rdev == b.st_rdev);
    assert_int_equal(FD_CLOEXEC, fcntl(fd, F_GETFD));
    os_close(&fd);
    msg_release(&m); /* closes the other */
    assert_int_equal(0, msg_recv(s[1], &m, DLC_SEC(10), NULL));
    assert_int_equal(0, m.n_fds);
    msg_release(&m);
    os_close(&null);
    json_decref(body);
}

static void test_in_pieces(void **state)
{
    static const char text[] = "{\"op\":\"stat\"}";
    struct wire w = {MAGIC, sizeof(text) - 1, 1, 0};
    struct msg_reader r = MSG_READER_INIT;
    struct msg m = MSG_INIT;
    char frame[sizeof(w) + sizeof(text) - 1];

    (void)state;
    memcpy(frame, &w, sizeof(w));
    memcpy(frame + sizeof(w), text, sizeof(text) - 1);
    send_fds(frame, 1);
    for (size_t i = 1; i < sizeof(frame); i++) {
        assert_int_equal(0, msg_reader_next(&r, s[1], &m, NULL));
        assert_int_equal(0, os_write_all(s[0], frame + i, 1));
    }
    assert_int_equal(1, msg_reader_next(&r, s[1], &m, NULL));
    assert_string_equal("stat", json_string_value(json_object_get(m.body, "op")));
    assert_int_equal(1, m.n_fds);
    msg_release(&m);
    assert_int_equal(0, msg_reader_next(&r, s[1], &m, NULL));
    msg_reader_release(&r);
}

static void test_two_at_once(void **state)
{
    struct msg_reader r = MSG_READER_INIT;
    json_t *body = hello();
    struct msg m = MSG_INIT;

    (void)state;
    assert_int_equal(0, msg_send(s[0], body, NULL, 0, NULL));
    assert_int_equal(0, msg_send(s[0], body, &s[0], 1, NULL));
    assert_int_equal(1, msg_reader_next(&r, s[1], &m, NULL));
    assert_int_equal(0, m.n_fds);
    msg_release(&m);
    assert_int_equal(1, msg_reader_next(&r, s[1], &m, NULL));
    assert_int_equal(1, m.n_fds);
    msg_release(&m);
    msg_reader_release(&r);
    json_decref(body);
}

static void test_hostile_frames(void **state)
{
    static const struct {
        uint32_t magic, length, fds;
        const char *text, *says;
    } bad[] = {
        {0x31636c65u, 2, 0, "{}", "does not speak this protocol"},
        {MAGIC, 0, 0, "", "a message of 0 bytes"},
        {MAGIC, MSG_MAX + 1, 0, "", "1 to 4194304 are allowed"},
        {MAGIC, UINT32_MAX, 0, "", "1 to 4194304 are allowed"},
        {MAGIC, 2, MSG_FDS + 1, "{}", "promises 9 descriptors"},
        {MAGIC, 2, 1, "{}", "promises 1 descriptors and brings 0"},
        {MAGIC, 2, 0, "{]", "not JSON"},
        {MAGIC, 2, 0, "[]", "not a JSON object"},
        {MAGIC, 13, 0, "{\"a\":1,\"a\":2}", "not JSON"},
        {MAGIC, 5, 0, "{\"\xff\"}", "not JSON"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        send_raw(bad[i].magic, bad[i].length, bad[i].fds, bad[i].text);
        expect_refused(bad[i].says);
        tear_down(NULL);
        set_up(NULL);
    }
}

static void test_unpromised_descriptor(void **state)
{
    struct wire w = {MAGIC, 2, 0, 0};

    (void)state;
    send_fds(&w, 1);
    assert_int_equal(0, os_write_all(s[0], (char *)&w + 1, sizeof(w) - 1));
    assert_int_equal(0, os_write_all(s[0], "{}", 2));
    expect_refused("promises 0 descriptors and brings 1");
}

static void test_too_many_descriptors(void **state)
{
    struct wire w = {MAGIC, 2, 1, 0};

    (void)state;
    send_fds(&w, MSG_FDS + 1); /* at once */
    expect_refused("more than 8 descriptors");
}

static void test_too_many_descriptors_in_pieces(void **state)
{
    struct wire w = {MAGIC, 2, 1, 0};

    (void)state;
    send_fds(&w, MSG_FDS);
    send_fds((char *)&w + 1, MSG_FDS);
    expect_refused("more than 8 descriptors");
}

static void test_dropped_halfway(void **state)
{
    struct wire w = {MAGIC, 2, 1, 0};
    struct msg_reader r = MSG_READER_INIT;
    struct msg m = MSG_INIT;

    (void)state;
    send_fds(&w, 3);
    assert_int_equal(0, msg_reader_next(&r, s[1], &m, NULL));
    msg_reader_release(&r); /* tear_down sees whether the three are closed */
}

static void test_closed(void **state)
{
    (void)state;
    os_close(&s[0]);
    expect_refused("closed the connection");
}

static void test_closed_in_the_middle(void **state)
{
    (void)state;
    send_raw(MAGIC, 100, 0, "{\"op\":");
    os_close(&s[0]);
    expect_refused("in the middle of a message");
}

static void test_send_to_closed(void **state)
{
    json_t *body = hello();
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    os_close(&s[1]);
    assert_int_equal(DLC_EPROTO, msg_send(s[0], body, NULL, 0, &err)); /* and no SIGPIPE */
    json_decref(body);
}

static void test_silence(void **state)
{
    struct msg m = MSG_INIT;

    (void)state;
    assert_int_equal(DLC_ETIMEDOUT, msg_recv(s[1], &m, DLC_MS(5), NULL));
}

static void test_too_large_to_send(void **state)
{
    static char text[MSG_MAX + 1];
    json_t *body;

    (void)state;
    memset(text, 'x', MSG_MAX);
    body = json_pack("{s:s}", "text", text);
    assert_int_equal(DLC_EINVAL, msg_send(s[0], body, NULL, 0, NULL));
    json_decref(body);
}

static void *receive_large(void *arg)
{
    struct msg m = MSG_INIT;
    int *len = arg;

    *len = msg_recv(s[1], &m, DLC_SEC(10), NULL);
    if (*len == 0)
        *len = (int)json_string_length(json_object_get(m.body, "text"));
    msg_release(&m);
    return NULL;
}

/* Larger than the socket's buffer: both sides must take turns. */
static void test_large(void **state)
{
    static char text[3 << 20];
    pthread_t reader;
    json_t *body;
    int len;

    (void)state;
    memset(text, 'y', sizeof(text) - 1);
    body = json_pack("{s:s}", "text", text);
    assert_int_equal(0, pthread_create(&reader, NULL, receive_large, &len));
    assert_int_equal(0, msg_send(s[0], body, NULL, 0, NULL));
    pthread_join(reader, NULL);
    assert_int_equal(sizeof(text) - 1, len);
    json_decref(body);
}

static void test_writer(void **state)
{
    static char text[1 << 20];
    struct msg_writer w = MSG_WRITER_INIT;
    struct msg_reader r = MSG_READER_INIT;
    struct msg m = MSG_INIT;
    unsigned got = 0;
    json_t *large;

    (void)state;
    memset(text, 'z', sizeof(text) - 1);
    large = json_pack("{s:s}", "text", text);
    for (int i = 0; i < 3; i++)
        assert_int_equal(0, msg_writer_add(&w, s[0], large, &s[0], 1, NULL));
    assert_true(w.waiting > 2 * (sizeof(text) - 1));       /* of the first, some may be gone */
    assert_int_equal(0, msg_writer_flush(&w, s[0], NULL)); /* full, and it did not wait */
    while (got < 3) {
        if (msg_reader_next(&r, s[1], &m, NULL) == 1) {
            assert_int_equal(1, m.n_fds);
            msg_release(&m);
            got++;
        }
        assert_true(msg_writer_flush(&w, s[0], NULL) >= 0);
    }
    assert_int_equal(0, w.waiting);
    assert_int_equal(1, msg_writer_flush(&w, s[0], NULL));
    assert_int_equal(0, msg_writer_add(&w, s[0], large, &s[0], 1, NULL));
    msg_writer_release(&w); /* what waits is dropped with its descriptor */
    msg_reader_release(&r);
    json_decref(large);
}

/* ---- shortages ---- */

/* Let this process open no descriptor more; or, with false, as many as before. */
static void no_more_fds(bool none)
{
    static struct rlimit before;
    struct rlimit now;

    if (!none) {
        assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &before));
        return;
    }
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &before));
    now = before;
    now.rlim_cur = (rlim_t)DLC_MAX(s[0], s[1]) + 1;
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &now));
}

/* The descriptors of one message are lost: that message says so, the next one is whole. */
static void test_descriptors_lost(void **state)
{
    struct msg_reader r = MSG_READER_INIT;
    json_t *body = hello();

    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        struct msg m = MSG_INIT;

        assert_int_equal(0, msg_send(s[0], body, s, 2, NULL));
        assert_int_equal(0, msg_send(s[0], body, s, 2, NULL));
        if (turn == 0) /* as the kernel does it */
            no_more_fds(true);
        else if (turn == 1)
            fault_plan(&(struct fault_plan){.calls = FAULT_CALL(descriptors), .nth = 1});
        assert_int_equal(1, msg_reader_next(&r, s[1], &m, NULL));
        if (turn == 0)
            no_more_fds(false);
        fault_disarm();
        assert_int_equal(turn < 2, m.fds_lost);
        assert_int_equal(turn < 2 ? 0 : 2, m.n_fds);
        msg_release(&m);
        assert_int_equal(1, msg_reader_next(&r, s[1], &m, NULL));
        assert_false(m.fds_lost);
        assert_int_equal(2, m.n_fds);
        msg_release(&m);
    }
    msg_reader_release(&r);
    json_decref(body);
}

static void test_descriptors_lost_by_a_client(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    json_t *body = hello();
    struct msg m = MSG_INIT;

    (void)state;
    assert_int_equal(0, msg_send(s[0], body, s, 2, NULL));
    assert_int_equal(0, msg_send(s[0], body, s, 2, NULL));
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(descriptors), .nth = 1});
    assert_int_equal(DLC_EBUSY, msg_recv(s[1], &m, DLC_SEC(10), &err));
    assert_true(fault_disarm());
    assert_non_null(strstr(err.text, "ulimit -n"));
    assert_int_equal(0, msg_recv(s[1], &m, DLC_SEC(10), &err));
    assert_int_equal(2, m.n_fds);
    msg_release(&m);
    json_decref(body);
}

/* A reader that could not read goes on where it was. */
static void test_shortage_in_the_middle(void **state)
{
    struct msg_reader r = MSG_READER_INIT;
    struct wire w = {MAGIC, 2, 1, 0};
    struct msg m = MSG_INIT;

    (void)state;
    send_fds(&w, 1);
    assert_int_equal(0, msg_reader_next(&r, s[1], &m, NULL));
    assert_int_equal(0, os_write_all(s[0], (char *)&w + 1, sizeof(w) - 1));
    assert_int_equal(0, os_write_all(s[0], "{}", 2));
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(recvmsg), .nth = 1});
    assert_int_equal(DLC_EBUSY, msg_reader_next(&r, s[1], &m, NULL));
    assert_true(fault_disarm());
    assert_int_equal(MSG_SHORTAGE, r.failure);
    assert_int_equal(1, msg_reader_next(&r, s[1], &m, NULL));
    assert_int_equal(1, m.n_fds);
    msg_release(&m);
    msg_reader_release(&r);
}

/* What was not sent can be sent again; descriptors are duplicated only if they must wait. */
static void test_shortage_of_a_sender(void **state)
{
    static char text[1 << 20];
    struct msg_writer w = MSG_WRITER_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *body = hello(), *large;
    struct msg m = MSG_INIT;

    (void)state;
    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(sendmsg) | FAULT_CALL(dup), .nth = 1, .error = ETOOMANYREFS});
    assert_int_equal(DLC_EBUSY, msg_send(s[0], body, s, 2, &err));
    assert_non_null(strstr(err.text, "cannot write to the socket"));
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(dup), .nth = 1, .times = 99});
    assert_int_equal(0, msg_send(s[0], body, s, 2, &err));
    assert_int_equal(0, msg_recv(s[1], &m, DLC_SEC(10), NULL));
    assert_int_equal(2, m.n_fds);
    msg_release(&m);
    memset(text, 'z', sizeof(text) - 1);
    large = json_pack("{s:s}", "text", text);
    assert_int_equal(0, msg_writer_add(&w, s[0], large, s, 1, &err)); /* begun: they are gone */
    assert_int_equal(DLC_EBUSY, msg_writer_add(&w, s[0], body, s, 1, &err));
    assert_int_equal(MSG_SHORTAGE, w.failure);
    assert_true(fault_disarm());
    assert_int_equal(1, w.n);
    msg_writer_release(&w);
    json_decref(large);
    json_decref(body);
}

static void test_string(void **state)
{
    static const struct {
        const char *in, *out;
    } t[] = {
        {"", ""},
        {"plain\n", "plain\n"},
        {"\xc3\xa9t\xc3\xa9 \xf0\x9f\x98\x80", "\xc3\xa9t\xc3\xa9 \xf0\x9f\x98\x80"},
        {"a\xff\x62", "a\xef\xbf\xbd\x62"},
        {"\xc3", "\xef\xbf\xbd"},
        {"\xed\xa0\x80!", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd!"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        json_t *j = msg_string(t[i].in);

        assert_string_equal(t[i].out, json_string_value(j));
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile_frames, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unpromised_descriptor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_many_descriptors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_many_descriptors_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dropped_halfway, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_closed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_closed_in_the_middle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_send_to_closed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_silence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_large_to_send, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_writer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_descriptors_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_descriptors_lost_by_a_client, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shortage_in_the_middle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shortage_of_a_sender, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_string, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
