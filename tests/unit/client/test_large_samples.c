// SPDX-License-Identifier: Apache-2.0
/* Samples that the daemon hands over as files. The test plays the daemon: what it answers lies in the
 * socket before it is asked. */
#include "proc_self.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/socket.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "client/large_samples.h"
#include "ipc/frame.h"

#define MB   ((uint64_t)1 << 20)
#define SIZE ((uint64_t)1500000) /* some blocks, the last one shorter */
#define MOST (2 * MB + 1)

struct line {
    struct shm_segment_hdr header;
    struct attachment a;
    int end;
    char *bytes;
    struct dlc_view v;
    struct dlc_err err;
};

static int setup(void **state)
{
    struct line *l = test_calloc(1, sizeof(*l));
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    log_threshold = LOG_ERROR;
    l->a.header = &l->header;
    l->a.sock = fds[0];
    l->end = fds[1];
    l->bytes = mem_alloc(MOST);
    for (uint64_t i = 0; i < MOST; i++)
        l->bytes[i] = (char)(i * 7 + i / 1000);
    dlc_mtx_init(&l->a.rpc, LCK_rpc);
    *state = l;
    return 0;
}

static int teardown(void **state)
{
    struct line *l = *state;

    os_close(&l->a.sock);
    os_close(&l->end);
    mem_free(&l->bytes);
    dlc_mtx_release(&l->a.rpc);
    test_free(l);
    return 0;
}

/* Answer with a file of `len` bytes, of which it says `size` and `checksum`. */
static void answer(struct line *l, uint64_t len, json_int_t size, uint64_t checksum)
{
    int fd = os_memfd("file");
    char hex[17];
    json_t *body;

    snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)checksum);
    body = json_pack("{s:b, s:I, s:s}", "ok", 1, "size", size, "checksum", hex);
    assert_int_equal(os_write_all(fd, l->bytes, len), 0);
    assert_int_equal(msg_send(l->end, body, &fd, 1, NULL), 0);
    json_decref(body);
    os_close(&fd);
}

static void answer_right(struct line *l)
{
    answer(l, SIZE, (json_int_t)SIZE, hash64(l->bytes, SIZE));
}

static void answer_wrong(struct line *l)
{
    answer(l, SIZE, (json_int_t)SIZE, hash64(l->bytes, SIZE) + 1);
}

static void answer_json(struct line *l, json_t *body)
{
    assert_int_equal(msg_send(l->end, body, NULL, 0, NULL), 0);
    json_decref(body);
}

static int map(struct line *l)
{
    l->err = (struct dlc_err)DLC_ERR_INIT;
    return miss_map(&l->a, 5, dlc_mono_add(dlc_mono_now(), DLC_SEC(5)), &l->v, &l->err);
}

/* What was asked: as many questions, the last of which suspects the file or not. */
static void assert_asked(struct line *l, unsigned n, bool suspects)
{
    for (unsigned i = 0; i < n; i++) {
        struct msg m = MSG_INIT;

        assert_int_equal(msg_recv(l->end, &m, DLC_SEC(30), NULL), 0);
        assert_string_equal(json_string_value(json_object_get(m.body, "op")), "map");
        assert_int_equal(json_integer_value(json_object_get(m.body, "sample")), 5);
        assert_int_equal(json_is_true(json_object_get(m.body, "suspects")), i > 0);
        assert_true(json_is_true(json_object_get(m.body, "compares")));
        assert_int_equal(m.n_fds, 0);
        assert_true(i + 1 < n || json_is_true(json_object_get(m.body, "suspects")) == suspects);
        msg_release(&m);
    }
}

static void put(struct line *l)
{
    assert_int_equal(l->v.priv[1], VIEW_MAPPED);
    large_free((void *)(uintptr_t)l->v.data, l->v.priv[0]);
}

static void test_right(void **state)
{
    struct line *l = *state;

    answer_right(l);
    assert_int_equal(map(l), 0);
    assert_asked(l, 1, false); /* no need to verify it first */
    assert_int_equal(l->v.len, SIZE);
    assert_memory_equal(l->v.data, l->bytes, SIZE);
    put(l);
}

/* Read a sample of so many bytes; was its memory made for it? */
static bool made_memory(struct line *l, uint64_t size)
{
    int made;

    answer(l, size, (json_int_t)size, hash64(l->bytes, size));
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(mmap), .nth = 1000}); /* only counts */
    assert_int_equal(map(l), 0);
    made = fault_calls();
    fault_disarm();
    assert_memory_equal(l->v.data, l->bytes, size);
    assert_int_equal(l->v.priv[0] % (2 * MB), 0);
    assert_in_range(l->v.priv[0], size, 4 * MB);
    put(l);
    return made > 0;
}

/* The memory of a view that was put is that of the next one, if it is about as large. */
static void test_memory_is_used_again(void **state)
{
    struct line *l = *state;
    unsigned long before;

    made_memory(l, SIZE);
    before = proc_pages();
    assert_int_equal(l->v.priv[0], 2 * MB);
    assert_false(made_memory(l, SIZE - 1));
    assert_int_equal(l->v.priv[0], 2 * MB);
    assert_false(made_memory(l, 2 * MB)); /* just large enough */
    assert_int_equal(l->v.priv[0], 2 * MB);
    assert_false(made_memory(l, MB)); /* half of it is not wasted */
    assert_true(made_memory(l, MB - 1));
    assert_int_equal(l->v.priv[0], 2 * MB);
    assert_true(made_memory(l, 2 * MB + 1));
    assert_int_equal(l->v.priv[0], 4 * MB);
    for (unsigned i = 0; i < 20; i++) { /* one is kept, also when the file is wrong */
        assert_true(made_memory(l, 1000));
        answer_wrong(l);
        answer_wrong(l);
        assert_int_equal(map(l), DLC_EBYPASS);
    }
    if (!UNIT_SANITIZED) /* a sanitizer maps memory of its own */
        assert_true(proc_pages() <= before);
}

/* The kernel may reclaim what is kept. */
static void test_kept_memory_may_be_reclaimed(void **state)
{
    struct line *l = *state;

    answer_right(l);
    assert_int_equal(map(l), 0);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(advise), .nth = 1000}); /* only counts */
    put(l);
    assert_int_equal(fault_calls(), 1);
    fault_disarm();
}

/* Views that are held at once have memory of their own; one of them is kept when they are put. */
static void test_two_views(void **state)
{
    struct line *l = *state;
    unsigned long before = 0;

    for (unsigned i = 0; i < 20; i++) {
        struct dlc_view first;

        answer_right(l);
        assert_int_equal(map(l), 0);
        first = l->v;
        answer(l, 2 * MB, 2 * MB, hash64(l->bytes, 2 * MB));
        assert_int_equal(map(l), 0);
        assert_int_equal(l->v.priv[0], 2 * MB); /* not a byte more than it needs */
        assert_memory_equal(first.data, l->bytes, SIZE);
        assert_memory_equal(l->v.data, l->bytes, 2 * MB);
        put(l);
        l->v = first;
        put(l);
        before = i == 0 ? proc_pages() : before;
    }
    if (!UNIT_SANITIZED)
        assert_true(proc_pages() <= before);
}

static void test_wrong_once(void **state)
{
    struct line *l = *state;

    answer_wrong(l);
    answer_right(l);
    assert_int_equal(map(l), 0);
    assert_asked(l, 2, true);
    assert_memory_equal(l->v.data, l->bytes, SIZE);
    put(l);
}

/* The daemon finds it right, and we do not. */
static void test_wrong_twice(void **state)
{
    struct line *l = *state;

    answer_wrong(l);
    answer_wrong(l);
    assert_int_equal(map(l), DLC_EBYPASS);
    assert_asked(l, 2, true);
}

/* The daemon finds it wrong, too. */
static void test_dropped(void **state)
{
    struct line *l = *state;

    answer_wrong(l);
    answer_json(l, json_pack("{s:b, s:i, s:s}", "ok", 0, "code", DLC_ECORRUPT, "error", "wrong"));
    assert_int_equal(map(l), DLC_ECORRUPT);
    assert_asked(l, 2, true);
    answer(l, SIZE - 1, (json_int_t)SIZE, 0); /* cut short */
    answer_json(l, json_pack("{s:b, s:i, s:s}", "ok", 0, "code", DLC_EIO, "error", "device"));
    assert_int_equal(map(l), DLC_ECORRUPT); /* gone as well */
    assert_asked(l, 2, true);
}

static void test_refused(void **state)
{
    struct line *l = *state;

    answer_json(l, json_pack("{s:b, s:i, s:s}", "ok", 0, "code", DLC_ENOTFOUND, "error", "no"));
    assert_int_equal(map(l), DLC_ENOTFOUND);
    assert_asked(l, 1, false);
}

static void test_nonsense(void **state)
{
    struct line *l = *state;
    int fd = os_memfd("file");
    json_t *no_sum = json_pack("{s:b, s:i}", "ok", 1, "size", 10);
    json_t *bad_sum = json_pack("{s:b, s:i, s:s}", "ok", 1, "size", 10, "checksum", "abc");

    answer_json(l, json_pack("{s:b, s:i, s:s}", "ok", 1, "size", 10, "checksum",
                             "0123456789abcdef")); /* no file */
    assert_int_equal(map(l), DLC_EPROTO);
    assert_int_equal(msg_send(l->end, no_sum, &fd, 1, NULL), 0);
    assert_int_equal(map(l), DLC_EPROTO);
    assert_int_equal(msg_send(l->end, bad_sum, &fd, 1, NULL), 0);
    assert_int_equal(map(l), DLC_EPROTO);
    answer(l, 10, -1, 0);
    assert_int_equal(map(l), DLC_EPROTO);
    assert_non_null(strstr(l->err.text, "without file, size or checksum"));
    json_decref(no_sum);
    json_decref(bad_sum);
    os_close(&fd);
}

static void test_empty(void **state)
{
    struct line *l = *state;

    answer(l, 0, 0, hash64("", 0));
    assert_int_equal(map(l), 0);
    assert_int_equal(l->v.len, 0);
    assert_int_equal(l->v.priv[1], VIEW_HEAP);
    free((void *)(uintptr_t)l->v.data);
}

/* Nothing is left open, standard input included, and nothing leaks. */
static void test_nothing_is_left(void **state)
{
    struct line *l = *state;
    unsigned before = proc_descriptors();
    size_t used = 0;

    for (unsigned i = 0; i < 101; i++) {
        answer(l, 10, 10, hash64(l->bytes, 10));
        assert_int_equal(map(l), 0);
        put(l);
        answer(l, 10, -1, 0);
        assert_int_equal(map(l), DLC_EPROTO);
        answer_json(l, json_pack("{s:b, s:i}", "ok", 0, "code", DLC_ENOTFOUND));
        assert_int_equal(map(l), DLC_ENOTFOUND);
        assert_asked(l, 1, false);
        assert_asked(l, 1, false);
        assert_asked(l, 1, false);
        used = i == 0 ? mallinfo2().uordblks : used;
    }
    assert_int_equal(proc_descriptors(), before);
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
    assert_true(mallinfo2().uordblks < used + 3200);
}

/* Standard input was closed: 0 is a descriptor like any other. */
static void test_descriptor_0(void **state)
{
    struct line *l = *state;
    int input = dup(STDIN_FILENO);

    close(STDIN_FILENO);
    answer_right(l);
    assert_int_equal(map(l), 0);
    put(l);
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_right),
        T(test_memory_is_used_again),
        T(test_kept_memory_may_be_reclaimed),
        T(test_two_views),
        T(test_wrong_once),
        T(test_wrong_twice),
        T(test_dropped),
        T(test_refused),
        T(test_nonsense),
        T(test_empty),
        T(test_nothing_is_left),
        T(test_descriptor_0),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
