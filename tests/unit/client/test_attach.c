// SPDX-License-Identifier: Apache-2.0
/* Attaching to a daemon that answers strangely: a thread of the test plays it, and every answer but
 * a good one is refused before anything of it is used. */
#include "unit.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/syscalls.h"
#include "catalog/catalog.h"
#include "client/attach.h"
#include "dlcache.h"
#include "ipc/frame.h"

#define N       10u
#define EXTENTS 16u

/* What a daemon sends for `open`, before somebody changes it. */
struct answer {
    struct shm_segment_hdr segment;
    struct shm_index_hdr index;
    struct shm_session_hdr session;
    json_int_t segment_size, index_size; /* what it says */
    unsigned n_fds;
    const char *catalog; /* the file */
};

static struct {
    struct sockaddr_un addr;
    int listener;
    pthread_t thread;
    struct answer answer;
    json_t *refusal;   /* not NULL: the answer to `open` */
    unsigned progress; /* messages before the answer */
    unsigned hang_ups; /* calls that get no greeting */
    _Atomic unsigned calls, opens;
    json_t *question; /* the last `open` */
    char catalog[256], other_catalog[256];
} fake;

/* ---- the daemon ---- */

static int file_of(const void *header, size_t len, uint64_t size)
{
    int fd = os_memfd("fake");

    if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || pwrite(fd, header, len, 0) != (ssize_t)len)
        return -1;
    return fd;
}

static void send_all(int sock, const struct answer *a)
{
    json_t *body = json_pack("{s:b, s:I, s:I}", "ok", 1, "segment_size", a->segment_size,
                             "index_size", a->index_size);
    int fds[6] = {
        file_of(&a->segment, sizeof(a->segment), SHM_HDR_SIZE + EXTENTS * sizeof(uint32_t)),
        file_of(&a->index, sizeof(a->index), SHM_HDR_SIZE + N * sizeof(struct shm_slot)),
        file_of(&a->session, sizeof(a->session), SHM_SESSION_SIZE),
        os_eventfd(),
        os_open(a->catalog, O_RDONLY, 0),
        os_eventfd(),
    };

    msg_send(sock, body, fds, a->n_fds, NULL);
    json_decref(body);
    for (unsigned i = 0; i < 6; i++)
        os_close(&fds[i]);
}

static void send_json(int sock, json_t *body)
{
    msg_send(sock, body, NULL, 0, NULL);
    json_decref(body);
}

static void answer_open(int sock, json_t *question)
{
    atomic_fetch_add(&fake.opens, 1);
    json_decref(fake.question);
    fake.question = json_incref(question);
    for (unsigned i = 0; i < fake.progress; i++)
        send_json(sock, json_pack("{s:i}", "progress", (int)i));
    if (fake.refusal != NULL)
        send_json(sock, json_incref(fake.refusal));
    else
        send_all(sock, &fake.answer);
}

static void serve(int sock)
{
    struct msg m = MSG_INIT;

    while (msg_recv(sock, &m, DLC_SEC(30), NULL) == 0) {
        const char *op = json_string_value(json_object_get(m.body, "op"));

        if (strcmp(op, "hello") == 0)
            send_json(sock, json_pack("{s:b}", "ok", 1));
        else if (strcmp(op, "open") == 0)
            answer_open(sock, m.body);
        else if (strcmp(op, "extents") == 0) /* it has none yet */
            send_json(sock, json_pack("{s:b, s:[]}", "ok", 1, "extents"));
        msg_release(&m);
    }
}

static void *fake_main(void *arg)
{
    int sock;

    (void)arg;
    while ((sock = accept(fake.listener, NULL, NULL)) >= 0) {
        if (atomic_fetch_add(&fake.calls, 1) >= fake.hang_ups)
            serve(sock);
        close(sock);
    }
    return NULL;
}

static void make_catalog(const char *path, unsigned n)
{
    struct catalog_builder *b = catalog_builder_new();
    char key[16];

    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "s%03u", i);
        assert_int_equal(catalog_builder_add(b, key, strlen(key), 100, "e", NULL), 0);
    }
    assert_int_equal(catalog_builder_finish(b, path, "file:///fake/", NULL), 0);
    catalog_builder_free(&b);
}

static void good_answer(void)
{
    struct answer *a = &fake.answer;

    *a = (struct answer){.n_fds = 6, .catalog = fake.catalog};
    a->segment.magic = SHM_SEGMENT_MAGIC;
    a->index.magic = SHM_INDEX_MAGIC;
    a->session.magic = SHM_SESSION_MAGIC;
    a->segment.version = a->index.version = a->session.version = SHM_VERSION;
    a->segment.size = (uint64_t)EXTENTS << 16;
    a->segment.extent_shift = 16;
    a->segment.n_extents = EXTENTS;
    a->index.n_slots = N;
    a->index.slots_off = SHM_HDR_SIZE;
    a->index.snapshot = 77;
    a->segment_size = SHM_HDR_SIZE + EXTENTS * sizeof(uint32_t);
    a->index_size = SHM_HDR_SIZE + N * sizeof(struct shm_slot);
}

static int setup(void **state)
{
    char path[256];

    (void)state;
    unit_path("catalog", fake.catalog);
    unit_path("catalog-11", fake.other_catalog);
    make_catalog(fake.catalog, N);
    make_catalog(fake.other_catalog, N + 1);
    fake.addr.sun_family = AF_UNIX;
    snprintf(fake.addr.sun_path, sizeof(fake.addr.sun_path), "%.100s",
             unit_path("fake.sock", path));
    unlink(fake.addr.sun_path);
    fake.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake.listener, (const struct sockaddr *)&fake.addr, sizeof(fake.addr)),
                     0);
    assert_int_equal(listen(fake.listener, 8), 0);
    fake.progress = fake.hang_ups = 0;
    fake.calls = fake.opens = 0;
    good_answer();
    assert_int_equal(pthread_create(&fake.thread, NULL, fake_main, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    shutdown(fake.listener, SHUT_RDWR);
    pthread_join(fake.thread, NULL);
    os_close(&fake.listener);
    json_decref(fake.refusal);
    json_decref(fake.question);
    fake.refusal = fake.question = NULL;
    return 0;
}

/* What becomes of dlc_open(). */
static int opened(uint64_t snapshot)
{
    const struct dlc_options opt = {
        .socket = fake.addr.sun_path, .no_spawn = 1, .snapshot = snapshot};
    struct dlc_dataset *ds = NULL;
    int rc = dlc_open("file:///fake/", &opt, &ds);

    if (rc == 0)
        assert_int_equal(dlc_count(ds), N);
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
    good_answer();
}

static void test_sizes(void **state)
{
    struct answer *a = &fake.answer;

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
    a->index.n_slots = N + 1;
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
    struct answer *a = &fake.answer;

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
    assert_int_equal(opened(78), DLC_ECHANGED);
    assert_non_null(strstr(dlc_last_error(), "000000000000004d"));
}

static void test_extents(void **state)
{
    struct answer *a = &fake.answer;

    (void)state;
    a->segment.extent_shift = 11;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.extent_shift = 49;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.extent_shift = 64;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.n_extents = 0;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.n_extents = EXTENTS + 1; /* the table has no room for it */
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.n_extents = EXTENTS - 1; /* they do not cover it */
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
    send_json(l->end, json_pack("{s:b, s:i}", "ok", 1, "n", 1));
    take_question(l);
    send_json(l->end, json_pack("{s:b, s:i}", "ok", 1, "n", 2));
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
        send_json(l->end, json_pack("{s:b, s:i}", "ok", 0, "code", DLC_EBUSY));
    call(l, l, DLC_SEC(30));
    assert_int_equal(l->rc, DLC_EBUSY);
    for (unsigned i = 0; i < 6; i++)
        take_question(l);
    send_json(l->end, json_pack("{s:b, s:i}", "ok", 1, "n", 3));
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
    send_json(l->end, json_pack("{s:b, s:i, s:s}", "ok", 0, "code", DLC_ENOTFOUND, "error", "no"));
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

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

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
