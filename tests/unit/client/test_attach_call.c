// SPDX-License-Identifier: Apache-2.0
/* Questions over the socket of an attachment: each gets its own answer, in time or not at all. */
#include "fake_daemon.h"

#include <errno.h>
#include <poll.h>
#include <sys/stat.h>

#include "base/cancel.h"
#include "base/fault.h"
#include "client/attach.h"
#include "dlcache.h"
#include "lock_held.h"

#define ROUNDS 100u
#define MOMENT DLC_SEC(8) /* on a busy machine */

/* A connection whose other end the test plays. */
struct line {
    struct shm_segment_hdr header; /* without a heartbeat */
    struct attachment a;
    int end;
    _Atomic bool called;
    struct msg answer;
    struct dlc_err err;
    int rc;
};

static struct line *line_new(void)
{
    struct line *l = test_calloc(1, sizeof(*l));
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    l->a.header = &l->header;
    l->a.sock = fds[0];
    l->end = fds[1];
    l->answer = (struct msg)MSG_INIT;
    dlc_mtx_init(&l->a.rpc, LCK_rpc);
    return l;
}

static void line_free(struct line *l)
{
    os_close(&l->a.sock);
    os_close(&l->end);
    msg_release(&l->answer);
    dlc_mtx_release(&l->a.rpc);
    test_free(l);
}

static void call(struct line *from, struct line *l, struct dlc_dur limit)
{
    json_t *ask = json_pack("{s:s}", "op", "any");

    atomic_store(&l->called, true);
    l->rc =
        attach_call(&from->a, ask, -1, dlc_mono_add(dlc_mono_now(), limit), &l->answer, &l->err);
    json_decref(ask);
}

struct caller {
    struct line *over, *result;
};

static void *caller_main(void *arg)
{
    struct caller *c = arg;

    call(c->over, c->result, DLC_SEC(30));
    return NULL;
}

static void take_question(struct line *l)
{
    struct msg m = MSG_INIT;

    assert_int_equal(msg_recv(l->end, &m, DLC_SEC(30), NULL), 0);
    assert_string_equal(json_string_value(json_object_get(m.body, "op")), "any");
    msg_release(&m);
}

/* Each thread gets the answer to its own question: the second is not sent before the first answer
 * has come. */
static void test_one_question_at_a_time(void **state)
{
    struct line *l = line_new(), *second = line_new();
    struct caller c[2] = {{l, l}, {l, second}};
    struct pollfd p = {.fd = l->end, .events = POLLIN};
    pthread_t t[2];

    (void)state;
    assert_int_equal(pthread_create(&t[0], NULL, caller_main, &c[0]), 0);
    take_question(l);
    assert_int_equal(pthread_create(&t[1], NULL, caller_main, &c[1]), 0);
    while (!atomic_load(&second->called))
        sched_yield();
    assert_int_equal(poll(&p, 1, 100), 0);
    fake_send(l->end, json_pack("{s:b, s:i}", "ok", 1, "n", 1));
    take_question(l);
    fake_send(l->end, json_pack("{s:b, s:i}", "ok", 1, "n", 2));
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(c[i].result->rc, 0);
        assert_int_equal(json_integer_value(json_object_get(c[i].result->answer.body, "n")), i + 1);
    }
    line_free(second);
    line_free(l);
}

/* Six times, with pauses; then the caller is told. */
static void test_call_busy(void **state)
{
    struct line *l = line_new();

    (void)state;
    for (unsigned i = 0; i < 6 + 1; i++) /* one is left for the call after it */
        fake_send(l->end, json_pack("{s:b, s:i}", "ok", 0, "code", DLC_EBUSY));
    call(l, l, DLC_SEC(30));
    assert_int_equal(l->rc, DLC_EBUSY);
    for (unsigned i = 0; i < 6; i++)
        take_question(l);
    fake_send(l->end, json_pack("{s:b, s:i}", "ok", 1, "n", 3));
    call(l, l, DLC_SEC(30));
    assert_int_equal(l->rc, 0);
    assert_int_equal(json_integer_value(json_object_get(l->answer.body, "n")), 3);
    line_free(l);
}

static void test_call_fails(void **state)
{
    struct line *l = line_new();
    struct dlc_mono start = dlc_mono_now();

    (void)state;
    fake_send(l->end, json_pack("{s:b, s:i, s:s}", "ok", 0, "code", DLC_ENOTFOUND, "error", "no"));
    call(l, l, DLC_SEC(30));
    assert_int_equal(l->rc, DLC_ENOTFOUND);
    assert_string_equal(l->err.text, "no");
    call(l, l, DLC_MS(100));
    assert_int_equal(l->rc, DLC_ETIMEDOUT);
    assert_true(dlc_mono_since(start).ns >= DLC_MS(100).ns);
    os_close(&l->end);
    call(l, l, DLC_SEC(30));
    assert_int_equal(l->rc, DLC_ENODAEMON);
    line_free(l);
}

/* ---- descriptors ---- */

static void send_descriptor(struct line *l, int fd)
{
    json_t *ask = json_pack("{s:s}", "op", "any");

    fake_send(l->end, json_pack("{s:b}", "ok", 1));
    assert_int_equal(
        attach_call(&l->a, ask, fd, dlc_mono_add(dlc_mono_now(), DLC_SEC(30)), &l->answer, &l->err),
        0);
    json_decref(ask);
}

/* A question takes one descriptor along, 0 like any other, or none. */
static void test_takes_a_descriptor_along(void **state)
{
    struct line *l = line_new();
    int file = os_memfd("sent"), given[] = {file, 0};
    struct msg m = MSG_INIT;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct stat mine, theirs;

        send_descriptor(l, given[i]);
        assert_int_equal(msg_recv(l->end, &m, DLC_SEC(30), NULL), 0);
        assert_int_equal(m.n_fds, 1);
        assert_int_equal(fstat(given[i], &mine), 0);
        assert_int_equal(fstat(m.fds[0], &theirs), 0);
        assert_int_equal(theirs.st_ino, mine.st_ino);
        msg_release(&m);
    }
    send_descriptor(l, -1);
    assert_int_equal(msg_recv(l->end, &m, DLC_SEC(30), NULL), 0);
    assert_int_equal(m.n_fds, 0);
    msg_release(&m);
    os_close(&file);
    line_free(l);
}

/* ---- time ---- */

/* A daemon whose heart does not beat is given up long before the deadline, signals or not. */
static void test_daemon_hangs(void **state)
{
    struct line *l = line_new();

    (void)state;
    l->header.heartbeat = 5;
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(poll), .nth = 1, .error = EINTR});
    errno = 0;
    call(l, l, DLC_SEC(20));
    assert_true(fault_disarm());
    assert_int_equal(l->rc, DLC_ETIMEDOUT);
    assert_string_equal(l->err.text, "the daemon hangs");
    line_free(l);
}

static void send_part(struct line *l, const void *bytes, size_t len)
{
    assert_int_equal(send(l->end, bytes, len, 0), len);
}

/* The bytes of {"ok":true}, as they go over a socket. */
static size_t good_bytes(char buf[static 256])
{
    ssize_t n;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    fake_send(fds[0], json_pack("{s:b}", "ok", 1));
    n = recv(fds[1], buf, 256, 0);
    assert_true(n > 4 && n < 256);
    os_close(&fds[0]);
    os_close(&fds[1]);
    return (size_t)n;
}

/* An answer that has begun must end in time, too. */
static void test_half_an_answer(void **state)
{
    struct line *l = line_new();
    struct dlc_mono start = dlc_mono_now();
    char bytes[256];

    (void)state;
    good_bytes(bytes);
    send_part(l, bytes, 3);
    call(l, l, DLC_MS(50));
    assert_int_equal(l->rc, DLC_ETIMEDOUT);
    assert_true(dlc_mono_since(start).ns < MOMENT.ns);
    line_free(l);
    l = line_new();
    send_part(l, bytes, 3);
    call(l, l, (struct dlc_dur){-DLC_SEC(1).ns}); /* no time is left to begin with */
    assert_int_equal(l->rc, DLC_ETIMEDOUT);
    assert_true(dlc_mono_since(start).ns < MOMENT.ns);
    line_free(l);
}

struct rest {
    struct line *l;
    pid_t reader;
    const char *bytes;
    size_t len;
};

static void *sends_rest(void *arg)
{
    struct rest *r = arg;

    while (thread_state(r->reader) != 'S') /* it waits for the rest */
        sched_yield();
    send_part(r->l, r->bytes, r->len);
    return NULL;
}

static void test_answer_in_two_parts(void **state)
{
    struct line *l = line_new();
    char bytes[256];
    size_t n = good_bytes(bytes);
    struct rest r = {l, gettid(), bytes + 3, n - 3};
    pthread_t t;

    (void)state;
    send_part(l, bytes, 3);
    assert_int_equal(pthread_create(&t, NULL, sends_rest, &r), 0);
    call(l, l, DLC_SEC(30));
    pthread_join(t, NULL);
    assert_int_equal(l->rc, 0);
    line_free(l);
}

static bool at_once(struct interrupt *i)
{
    (void)i;
    return true;
}

/* Who is busy is asked again only while there is time, and a caller. */
static void test_busy_and_no_time(void **state)
{
    struct interrupt asks = {.ask = at_once};
    struct line *l = line_new();
    struct pollfd p = {.fd = l->end, .events = POLLIN};

    (void)state;
    fake_send(l->end, json_pack("{s:b, s:i}", "ok", 0, "code", DLC_EBUSY));
    call(l, l, (struct dlc_dur){0});
    assert_int_equal(l->rc, DLC_EBUSY);
    take_question(l);
    fake_send(l->end, json_pack("{s:b, s:i}", "ok", 0, "code", DLC_EBUSY));
    interrupt_asked = &asks;
    call(l, l, DLC_SEC(30));
    interrupt_asked = NULL;
    assert_int_equal(l->rc, DLC_EBUSY);
    take_question(l);
    assert_int_equal(poll(&p, 1, 0), 0);
    line_free(l);
}

static void test_busy_answers_leave_nothing_behind(void **state)
{
    struct line *l = line_new();
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 2 * ROUNDS; i++) {
        if (i == ROUNDS)
            before = unit_heap();
        fake_send(l->end, json_pack("{s:b, s:i}", "ok", 0, "code", DLC_EBUSY));
        fake_send(l->end, json_pack("{s:b, s:i}", "ok", 1, "n", 1));
        call(l, l, DLC_SEC(30));
        assert_int_equal(l->rc, 0);
        take_question(l);
        take_question(l);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
    line_free(l);
}

/* ---- views ---- */

/* Every pin of every block that was ever used counts, and no other memory. */
static void test_counts_the_pins_that_are_held(void **state)
{
    struct shm_session_hdr session = {0};
    struct shm_pin_block *blocks = test_calloc(SHM_BLOCKS + 1, sizeof(*blocks));
    const struct attachment a = {.session = &session, .blocks = blocks};

    (void)state;
    atomic_store(&blocks[0].pins[0], 1);
    atomic_store(&blocks[0].pins[SHM_PINS - 1], 8);
    atomic_store(&blocks[1].pins[3], 2);
    atomic_store(&blocks[SHM_BLOCKS].pins[0], 9);
    assert_int_equal(attachment_held(&a), 0);
    session.blocks_high = 1;
    assert_int_equal(attachment_held(&a), 2);
    session.blocks_high = 2;
    assert_int_equal(attachment_held(&a), 3);
    session.blocks_high = UINT32_MAX; /* whatever stands there */
    assert_int_equal(attachment_held(&a), 3);
    test_free(blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_question_at_a_time),
        cmocka_unit_test(test_call_busy),
        cmocka_unit_test(test_call_fails),
        cmocka_unit_test(test_takes_a_descriptor_along),
        cmocka_unit_test(test_daemon_hangs),
        cmocka_unit_test(test_half_an_answer),
        cmocka_unit_test(test_answer_in_two_parts),
        cmocka_unit_test(test_busy_and_no_time),
        cmocka_unit_test(test_busy_answers_leave_nothing_behind),
        cmocka_unit_test(test_counts_the_pins_that_are_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
