// SPDX-License-Identifier: Apache-2.0
/* Attaching to a daemon that answers strangely: a thread of the test plays it, and every answer but
 * a good one is refused before anything of it is used. */
#include "fake_daemon.h"

#include <limits.h>
#include <poll.h>

#include "client/attach.h"
#include "dlcache.h"

/* What becomes of dlc_open(). */
static int opened(uint64_t snapshot)
{
    const struct dlc_options opt = {
        .socket = fake.addr.sun_path, .no_spawn = 1, .snapshot = snapshot};
    struct dlc_dataset *ds = NULL;
    int rc = dlc_open("file:///fake/", &opt, &ds);

    if (rc == 0)
        assert_int_equal(dlc_count(ds), FAKE_SAMPLES);
    else
        assert_null(ds);
    dlc_close(&ds);
    return rc;
}

/* ---- opening ---- */

static void test_good(void **state)
{
    (void)state;
    fake.progress = 3;
    fake.answer.index.snapshot = 77;
    assert_int_equal(opened(0), 0);
    assert_int_equal(opened(77), 0);
    assert_int_equal(fake.opens, 2);
    assert_string_equal(json_string_value(json_object_get(fake.question, "snapshot")),
                        "000000000000004d");
}

static const char *asked(const char *name)
{
    const char *text = json_string_value(json_object_get(fake.question, name));

    return text != NULL ? text : "";
}

/* Everything that the daemon must know of the dataset, and nothing that is not set. */
static void test_question(void **state)
{
    struct dlc_options opt = {.socket = fake.addr.sun_path, .no_spawn = 1};
    struct dlc_dataset *ds;

    (void)state;
    unsetenv("DLCACHE_JOB");
    assert_int_equal(dlc_open("file:///fake/", &opt, &ds), 0);
    dlc_close(&ds);
    assert_string_equal(asked("url"), "file:///fake/");
    assert_int_equal(json_object_size(fake.question), 4);
    assert_true(json_is_false(json_object_get(fake.question, "anonymous")));
    assert_true(json_is_false(json_object_get(fake.question, "refresh")));
    opt.anonymous = opt.refresh = 1;
    opt.endpoint = "http://127.0.0.1:9";
    opt.token = "secret";
    setenv("DLCACHE_JOB", "train", 1);
    assert_int_equal(dlc_open("s3://fake/", &opt, &ds), 0);
    dlc_close(&ds);
    assert_true(json_is_true(json_object_get(fake.question, "anonymous")));
    assert_true(json_is_true(json_object_get(fake.question, "refresh")));
    assert_string_equal(asked("endpoint"), "http://127.0.0.1:9");
    assert_string_equal(asked("token"), "secret");
    assert_string_equal(asked("job"), "train");
    assert_int_equal(json_object_size(fake.question), 7);
    setenv("DLCACHE_JOB", "", 1);
    assert_int_equal(opened(0), 0);
    assert_int_equal(json_object_size(fake.question), 4);
    unsetenv("DLCACHE_JOB");
}

static void refuse_with(json_t *refusal, int code, const char *text)
{
    json_decref(fake.refusal);
    fake.refusal = refusal;
    assert_int_equal(opened(0), code);
    assert_non_null(strstr(dlc_last_error(), text));
}

/* A refusal has a negative code; whatever else it says is nonsense, and never success. */
static void test_refused(void **state)
{
    (void)state;
    fake.progress = 1;
    refuse_with(json_pack("{s:b, s:i, s:s}", "ok", 0, "code", DLC_EDENIED, "error", "not you"),
                DLC_EDENIED, "not you");
    refuse_with(json_pack("{s:b, s:i}", "ok", 0, "code", DLC_EDENIED), DLC_EDENIED, "refused");
    refuse_with(json_pack("{s:b}", "ok", 0), DLC_EPROTO, "refused");
    refuse_with(json_pack("{s:b, s:i}", "ok", 0, "code", 0), DLC_EPROTO, "refused");
    refuse_with(json_pack("{s:b, s:i}", "ok", 0, "code", 5), DLC_EPROTO, "refused");
    refuse_with(json_pack("{s:b, s:I}", "ok", 0, "code", (json_int_t)INT_MIN - 1), DLC_EPROTO,
                "refused");
    refuse_with(json_pack("{s:b, s:I}", "ok", 0, "code", (json_int_t)INT_MIN), INT_MIN, "refused");
    refuse_with(json_pack("{}"), DLC_EPROTO, "refused");
}

/* A daemon that has no descriptor left is asked six times, then no more. */
static void test_busy(void **state)
{
    struct dlc_mono start = dlc_mono_now();

    (void)state;
    refuse_with(json_pack("{s:b, s:i, s:s}", "ok", 0, "code", DLC_EBUSY, "error", "full"),
                DLC_EBUSY, "full");
    assert_int_equal(fake.opens, 6);
    assert_true(dlc_mono_since(start).ns >= DLC_MS(1500).ns); /* 50 ms, doubling */
}

/* One that is just ending greets nobody: another call, four in all. */
static void test_hangs_up(void **state)
{
    (void)state;
    fake.hang_ups = 3;
    assert_int_equal(opened(0), 0);
    assert_int_equal(fake.calls, 4);
    fake.hang_ups = UINT_MAX;
    assert_int_equal(opened(0), DLC_ENODAEMON);
    assert_int_equal(fake.calls, 8);
}

/* Sizes, versions and descriptors that do not fit together. */
static void refuses(int code, const char *text)
{
    assert_int_equal(opened(0), code);
    if (strstr(dlc_last_error(), text) == NULL)
        fail_msg("%s", dlc_last_error());
    fake_good_answer();
}

static void test_sizes(void **state)
{
    struct fake_answer *a = &fake.answer;

    (void)state;
    a->segment_size--;
    refuses(DLC_EPROTO, "does not have the size it says");
    a->index_size++;
    refuses(DLC_EPROTO, "does not have the size it says");
    a->segment_size = SHM_HDR_SIZE - 1;
    refuses(DLC_EPROTO, "lacks descriptors");
    a->index_size = SHM_HDR_SIZE - 1;
    refuses(DLC_EPROTO, "lacks descriptors");
    a->n_fds = 4;
    refuses(DLC_EPROTO, "lacks descriptors");
    a->index.n_slots = FAKE_SAMPLES + 1;
    refuses(DLC_EPROTO, "does not fit its size");
    a->index.n_slots = UINT64_MAX;
    refuses(DLC_EPROTO, "does not fit its size");
    a->index.slots_off++;
    refuses(DLC_EPROTO, "does not fit its size");
    a->catalog = fake.other_catalog;
    refuses(DLC_EPROTO, "index and catalog do not match");
    assert_int_equal(opened(0), 0);
}

static void test_versions(void **state)
{
    struct fake_answer *a = &fake.answer;

    (void)state;
    a->segment.magic++;
    refuses(DLC_EPROTO, "of another version");
    a->index.magic++;
    refuses(DLC_EPROTO, "of another version");
    a->session.magic++;
    refuses(DLC_EPROTO, "of another version");
    a->segment.version++;
    refuses(DLC_EPROTO, "of another version");
    a->index.version++;
    refuses(DLC_EPROTO, "of another version");
    a->session.version++;
    refuses(DLC_EPROTO, "of another version");
    a->index.snapshot = 77;
    assert_int_equal(opened(78), DLC_ECHANGED);
    assert_non_null(strstr(dlc_last_error(), "000000000000004d"));
}

static void test_extents(void **state)
{
    struct fake_answer *a = &fake.answer;

    (void)state;
    a->segment.extent_shift = 11;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.extent_shift = 49;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.extent_shift = 64;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.n_extents = 0;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.n_extents = FAKE_EXTENTS + 1; /* the table has no room for it */
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.n_extents = FAKE_EXTENTS - 1; /* they do not cover it */
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.size++;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.size -= 4096; /* the last one is shorter: so it may be */
    assert_int_equal(opened(0), 0);
}

/* ---- calls over the socket ---- */

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

#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_good),
        T(test_question),
        cmocka_unit_test(test_one_question_at_a_time),
        cmocka_unit_test(test_call_busy),
        cmocka_unit_test(test_call_fails),
        T(test_refused),
        T(test_busy),
        T(test_hangs_up),
        T(test_sizes),
        T(test_versions),
        T(test_extents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
