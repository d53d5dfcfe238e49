// SPDX-License-Identifier: Apache-2.0
/* How an order is announced to a daemon, and where a reader of it says that it is. The test plays the
 * daemon: its answers lie in the socket before it is asked, and sample i is 64 bytes at OFFSET(i). */
#include "client/reading.h"
#include "lock_held.h"
#include "proc_self.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "client/attachment.h"
#include "client/dataset.h"
#include "client/pins.h"
#include "client/process.h"
#include "ipc/frame.h"

#define N         200u
#define OFFSET(i) (SHM_HDR_SIZE + 64 * (i))
#define SEALS     (F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE | F_SEAL_SEAL)

static struct dlc_dataset *ds;
static struct attachment *a;
static struct shm_segment_hdr *header;
static struct shm_slot *slots;
static int end;

static int setup(void **state)
{
    static uint64_t generation;
    int fds[2];

    (void)state;
    ds = mem_new(struct dlc_dataset);
    a = mem_new(struct attachment);
    header = mem_zero(SHM_HDR_SIZE + sizeof(uint32_t));
    slots = mem_zero(N * sizeof(*slots));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    a->sock = fds[0];
    end = fds[1];
    a->doorbell = a->channel = -1;
    a->generation = ++generation;
    a->overflow = UINT32_MAX;
    a->header = header;
    a->session = mem_zero(SHM_SESSION_SIZE);
    a->blocks = (struct shm_pin_block *)(void *)((char *)a->session + SHM_BLOCKS_OFF);
    a->slots = slots;
    a->n = ds->n = N;
    a->segment_size = 1 << 16;
    a->segment = mem_zero(a->segment_size);
    a->extent_shift = 16;
    a->n_extents = 1;
    a->mapped = mem_zero(sizeof(uint32_t));
    atomic_store(a->mapped, 1);
    atomic_store(shm_generations(header), 1);
    dlc_mtx_init(&a->rpc, LCK_rpc);
    dlc_mtx_init(&a->mtx, LCK_session);
    dlc_mtx_init(&ds->mtx, LCK_dataset);
    ds->timeout = DLC_SEC(5);
    ds->reading.look_again = (struct dlc_mono){INT64_MAX};
    atomic_store(&ds->cur, a);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pins_attachment_gone(a);
    reading_release(&ds->reading);
    os_close(&a->sock);
    os_close(&end);
    mem_free(&a->session);
    mem_free(&a->segment);
    mem_free(&a->mapped);
    mem_free(&a);
    mem_free(&ds);
    mem_free(&header);
    mem_free(&slots);
    return 0;
}

/* ---- the daemon ---- */

static void answer(int code)
{
    json_t *body = json_pack("{s:b, s:i}", "ok", code == 0, "code", code);

    assert_int_equal(msg_send(end, body, NULL, 0, NULL), 0);
    json_decref(body);
}

static bool asked(void)
{
    struct pollfd p = {.fd = end, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* What was asked, as text, and the numbers that came with it. */
static const char *question(uint64_t *numbers, size_t n)
{
    static char text[1024];
    struct msg m = MSG_INIT;
    struct stat st;
    char *dumped;

    assert_true(asked());
    assert_int_equal(msg_recv(end, &m, DLC_SEC(5), NULL), 0);
    dumped = json_dumps(m.body, JSON_COMPACT);
    snprintf(text, sizeof(text), "%s", dumped);
    free(dumped);
    assert_int_equal(m.n_fds, n > 0);
    if (n > 0) {
        assert_int_equal(fstat(m.fds[0], &st), 0);
        assert_int_equal(st.st_size, n * sizeof(*numbers));
        assert_int_equal(fcntl(m.fds[0], F_GET_SEALS), SEALS);
        assert_int_equal(pread(m.fds[0], numbers, n * sizeof(*numbers), 0),
                         (ssize_t)(n * sizeof(*numbers)));
    }
    msg_release(&m);
    return text;
}

static void resident(uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i <= to; i++) {
        atomic_store(&slots[i].len, 64);
        atomic_store(&slots[i].where, shm_where_make(SHM_READY, OFFSET(i), 1));
    }
}

/* ---- orders ---- */

static void use_computed(bool swaps)
{
    struct reading *r = &ds->reading;

    r->spec = (struct order_spec){
        .kind = ORDER_SHUFFLED, .n = 100, .first = 3, .seed = 7, .rank = 1, .world = 2};
    r->epoch = 4;
    r->epochs = 9;
    r->relaxed = r->swaps = swaps;
    r->schedule = schedule_new(&r->spec, r->epoch, r->epochs, NULL);
    assert_non_null(r->schedule);
}

/* Samples from, from + 1, ... */
static struct schedule_list *list_of(uint64_t from, uint64_t n)
{
    uint64_t *list = mem_alloc(n * sizeof(*list));

    for (uint64_t i = 0; i < n; i++)
        list[i] = from + i;
    return schedule_list_new(list, n, N, NULL);
}

static void use_list(uint64_t n, uint64_t epoch, uint64_t epochs)
{
    struct schedule_list *l = list_of(0, n);

    ds->reading.spec = (struct order_spec){.kind = ORDER_EXPLICIT, .n = N, .world = 1};
    ds->reading.epoch = epoch;
    ds->reading.epochs = epochs;
    ds->reading.schedule = schedule_new_list(&l, epoch, epochs, 0);
}

static int tell(void)
{
    return reading_tell(ds, a, NULL);
}

/* ---- announcing ---- */

static void test_none(void **state)
{
    (void)state;
    assert_int_equal(tell(), 0);
    assert_false(asked());
}

static void test_computed(void **state)
{
    uint64_t pairs[4];
    const char *want = "{\"op\":\"order\",\"kind\":\"shuffled\",\"n\":100,\"first\":3,\"seed\":7,"
                       "\"rank\":1,\"world\":2,\"drop_last\":false,\"epoch\":4,\"epochs\":9,"
                       "\"position\":5,\"swaps\":true,\"window\":0}";

    (void)state;
    use_computed(true);
    atomic_store(&ds->at, 5);
    answer(0);
    assert_int_equal(tell(), 0);
    assert_string_equal(question(NULL, 0), want);
    assert_true(schedule_swap(ds->reading.schedule, 10, 20));
    answer(DLC_EBUCKET);
    assert_int_equal(tell(), DLC_EBUCKET);
    assert_string_equal(question(pairs, 4), want); /* each position, and what is read there */
    assert_true(pairs[0] == 10 && pairs[2] == 20);
    assert_int_equal(pairs[1], cursor_at(&ds->reading.schedule->cursor, 10));
    ds->reading.swaps = false;
    answer(0);
    assert_int_equal(tell(), 0);
    assert_non_null(strstr(question(NULL, 0), "\"swaps\":false"));
}

static void tells(void *arg)
{
    *(int *)arg = tell();
}

/* Position and swaps are of one moment: the reader changes both under the lock. */
static void test_computed_is_locked(void **state)
{
    int rc = -1;

    (void)state;
    use_computed(true);
    answer(0); /* so that it waits for nothing else */
    assert_true(waits_for(client_lock, client_unlock, tells, &rc));
    assert_int_equal(rc, 0);
}

static void test_lists(void **state)
{
    struct schedule_list *more = list_of(100, 3);
    uint64_t list[3];

    (void)state;
    use_list(2, 4, 9);
    atomic_store(&ds->at, 1);
    answer(0);
    assert_int_equal(tell(), 0);
    assert_string_equal(question(list, 2),
                        "{\"op\":\"order\",\"kind\":\"explicit\",\"epoch\":4,\"epochs\":9,"
                        "\"begin\":0,\"position\":1,\"window\":0}");
    assert_true(list[0] == 0 && list[1] == 1);
    assert_int_equal(schedule_give(ds->reading.schedule, &more, NULL), 0);
    answer(0);
    answer(0);
    assert_int_equal(tell(), 0);
    question(list, 2);
    assert_string_equal(question(list, 3), "{\"op\":\"order\",\"more\":true}");
    assert_int_equal(list[2], 102);
    answer(DLC_EBUCKET);
    assert_int_equal(tell(), DLC_EBUCKET); /* then no more is told */
    question(list, 2);
    assert_false(asked());
    schedule_move(ds->reading.schedule, 3); /* the first has gone: one epoch less is left */
    schedule_drop(ds->reading.schedule);
    answer(0);
    assert_int_equal(tell(), 0);
    assert_non_null(strstr(question(list, 3), "\"epoch\":5,\"epochs\":8,\"begin\":2"));
    ds->reading.epochs = 0; /* no end */
    answer(0);
    assert_int_equal(tell(), 0);
    assert_non_null(strstr(question(list, 3), "\"epochs\":0"));
}

/* Whatever fails on the way: nothing is asked without its list, and nothing stays behind. */
static void test_cannot_tell(void **state)
{
    const uint64_t calls[] = {FAULT_CALL(memfd), FAULT_CALL(write), FAULT_CALL(fcntl)};
    unsigned before = proc_descriptors();
    uint64_t pairs[4];
    size_t heap = 0;

    (void)state;
    use_computed(true);
    assert_true(schedule_swap(ds->reading.schedule, 10, 20));
    for (unsigned i = 0; i < unit_count(calls); i++) {
        fault_plan(&(struct fault_plan){.calls = calls[i], .nth = 1});
        assert_true(tell() < 0);
        assert_true(fault_disarm());
        assert_false(asked());
    }
    for (unsigned i = 0; i < 101; i++) {
        answer(0);
        assert_int_equal(tell(), 0);
        question(pairs, 4);
        heap = i == 0 ? unit_heap() : heap;
    }
    assert_true(unit_heap() < heap + 1600);
    assert_int_equal(proc_descriptors(), before);
}

/* A program that has closed its standard input: the list may have that number. */
static void test_descriptor_0(void **state)
{
    uint64_t list[2];
    int input = dup(0);

    (void)state;
    use_list(2, 4, 9);
    answer(0);
    close(0);
    assert_int_equal(tell(), 0);
    assert_int_equal(fcntl(0, F_GETFD), -1);
    assert_int_equal(dup2(input, 0), 0);
    close(input);
    question(list, 2);
}

static void test_release(void **state)
{
    size_t heap = 0;

    (void)state;
    for (unsigned i = 0; i < 101; i++) {
        use_list(N, 0, 1);
        ds->reading.pos = ds->reading.dealt = 7;
        ds->reading.taken[0] = 2;
        reading_release(&ds->reading);
        heap = i == 0 ? unit_heap() : heap;
    }
    assert_true(unit_heap() < heap + 16000); /* a list has 1,600 bytes */
    assert_null(ds->reading.schedule);
    assert_true(ds->reading.pos == 0 && ds->reading.dealt == 0 && ds->reading.taken[0] == 0);
}

/* ---- reading ---- */

static void next_is(uint64_t want)
{
    struct dlc_view v;
    uint64_t sample;

    assert_int_equal(dlc_next(ds, &v, &sample), 1);
    assert_int_equal(sample, want);
    assert_ptr_equal(v.data, a->segment + OFFSET(want));
    dlc_put(ds, &v);
}

static void is_at(uint64_t pos, uint32_t overtaken)
{
    assert_int_equal(atomic_load(&ds->at), pos);
    assert_int_equal(atomic_load(&a->session->cursor), pos);
    assert_int_equal(atomic_load(&a->session->overtaken), overtaken);
}

/* Samples before their turn: which were read is kept over words of 64, and told as a number. */
static void test_overtaken(void **state)
{
    (void)state;
    use_list(N, 0, 1);
    ds->reading.relaxed = true;
    resident(1, 63);
    resident(65, 130);
    for (uint64_t i = 1; i <= 130; i++) {
        if (i != 64)
            next_is(i);
        is_at(0, (uint32_t)(i < 64 ? i : i - 1));
    }
    resident(0, 0);
    next_is(0);
    is_at(64, 66);
    resident(64, 64);
    next_is(64);
    is_at(131, 0);
    resident(133, 133);
    next_is(133);
    is_at(131, 1);
    assert_false(asked());
}

/* Forward, the daemon sees it by itself; back, it is told when there were swaps. */
static void test_advance(void **state)
{
    struct dlc_progress p = {.epoch = 4, .position = 30, .ahead = 11, .waited_ns = 12};

    (void)state;
    use_computed(false);
    assert_int_equal(dlc_advance(ds, &p), 0);
    is_at(30, 0);
    assert_int_equal(atomic_load(&a->session->ahead), 11);
    assert_int_equal(atomic_load(&a->session->waited_ns), 12);
    p.position = 20;
    assert_int_equal(dlc_advance(ds, &p), 0);
    is_at(20, 0);
    assert_false(asked());
    reading_release(&ds->reading);
    use_computed(true);
    ds->reading.look_again = (struct dlc_mono){INT64_MAX};
    p.position = 30;
    assert_int_equal(dlc_advance(ds, &p), 0);
    assert_false(asked());
    p.position = 20;
    answer(0);
    assert_int_equal(dlc_advance(ds, &p), 0);
    assert_non_null(strstr(question(NULL, 0), "\"position\":20"));
    answer(DLC_EBUCKET);
    p.position = 10;
    assert_int_equal(dlc_advance(ds, &p), DLC_EBUCKET);
}

/* One more list: the daemon is asked first. */
static void test_more(void **state)
{
    uint64_t list[3] = {5, 6, 7};

    (void)state;
    use_list(2, 0, 3);
    answer(DLC_EBUCKET);
    assert_int_equal(dlc_follow_more(ds, list, 3), DLC_EBUCKET);
    question(list, 3);
    answer(0);
    assert_int_equal(dlc_follow_more(ds, list, 3), 0);
    question(list, 3);
    assert_int_equal(dlc_follow_more(ds, list, 3), DLC_EBUSY); /* the second is still to come */
    assert_false(asked());
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_none),    T(test_computed),    T(test_computed_is_locked),
        T(test_lists),   T(test_cannot_tell), T(test_descriptor_0),
        T(test_release), T(test_overtaken),   T(test_advance),
        T(test_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
