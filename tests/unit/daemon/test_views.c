// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon ends a connection, or is short of something, while the client holds a view: the view
 * keeps its bytes until the client lets go. One case for each reason. The client is played by hand,
 * because the library does not misbehave.
 */
// timeout: 180
#include "daemon.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/fault.h"
#include "ipc/pin_reader.h"
#include "ipc/shm.h"

#define N    60u
#define SIZE 100000u /* ten of them fit into memory */
#define HELD 7u

static struct daemon d;
static char url[512];
static struct dlc_dataset *other;

static int setup(void **state)
{
    (void)state;
    fault_share();
    daemon_init(&d, "d", "1MB", false);
    daemon_start(&d);
    other = open_at(&d, dataset("v", N, SIZE, "", url), 5000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dlc_close(&other);
    daemon_end(&d);
    return 0;
}

/* ---- a client ---- */

struct client {
    int sock, doorbell;
    const struct shm_segment_hdr *header;
    char *segment;
    const char *index;
    size_t header_size, segment_size, index_size;
    struct shm_session_hdr *h;
    _Atomic uint32_t *ring;
    struct shm_cell *cells;
    struct shm_pin_block *block;
    const char *bytes; /* of HELD */
    uint32_t len;
};

static void *map_of(struct msg *m, unsigned i, size_t size, bool writable)
{
    int fd = msg_take_fd(m, i);
    void *p = os_map(fd, 0, size, writable);

    assert_non_null(p);
    os_close(&fd);
    return p;
}

static void ring_bell(const struct client *c)
{
    uint64_t one = 1;

    assert_int_equal(write(c->doorbell, &one, sizeof(one)), sizeof(one));
}

static bool pin(struct client *c)
{
    const struct shm_slot *slots = (const void *)(c->index + SHM_HDR_SIZE);
    uint64_t offset = 0;
    bool there = shm_read(slots, N, c->block, 0, HELD, c->segment_size, &offset, &c->len);

    c->bytes = c->segment + offset;
    return there;
}

static bool holds(const struct client *c)
{
    const struct dlc_view v = {c->bytes, c->len, {0}};

    return c->len == SIZE && is_sample(&v, HELD);
}

/* All of them, as the library does when it meets a sample in one. */
static void map_extents(struct client *c)
{
    uint64_t one = (uint64_t)1 << c->header->extent_shift;
    json_int_t k = 0;

    for (unsigned n = 1; n > 0; k++) {
        struct msg m = MSG_INIT;

        tell(c->sock, json_pack("{s:s, s:I}", "op", "extents", "from", k), &m);
        n = m.n_fds;
        for (unsigned i = 0; i < n; i++) {
            k = json_integer_value(
                json_array_get(json_array_get(json_object_get(m.body, "extents"), i), 0));
            assert_non_null(os_map_at(c->segment + (uint64_t)k * one, m.fds[i],
                                      DLC_MIN(one, c->segment_size - (uint64_t)k * one), false));
        }
        msg_release(&m);
    }
}

/* A session that holds a view of sample HELD. */
static void attach(struct client *c)
{
    struct msg m = MSG_INIT;

    c->sock = dial_greeted(&d);
    tell(c->sock, json_pack("{s:s, s:s}", "op", "open", "url", url), &m);
    assert_true(json_is_true(json_object_get(m.body, "ok")));
    c->header_size = (size_t)json_integer_value(json_object_get(m.body, "segment_size"));
    c->index_size = (size_t)json_integer_value(json_object_get(m.body, "index_size"));
    c->header = map_of(&m, 0, c->header_size, false);
    c->segment_size = c->header->size;
    c->segment = os_reserve(NULL, c->segment_size);
    assert_non_null(c->segment);
    c->index = map_of(&m, 1, c->index_size, false);
    c->h = map_of(&m, 2, SHM_SESSION_SIZE, true);
    c->doorbell = msg_take_fd(&m, 3);
    msg_release(&m);
    c->ring = (_Atomic uint32_t *)((char *)c->h + SHM_RING_OFF);
    c->cells = (struct shm_cell *)((char *)c->h + SHM_CELLS_OFF);
    c->block = (struct shm_pin_block *)((char *)c->h + SHM_BLOCKS_OFF);
    atomic_store(&c->h->blocks_high, 1);
    atomic_store(&c->block->in_use, 1);
    until((read_one(other, HELD), pin(c))); /* it may be evicted between the two */
    map_extents(c);
    assert_true(holds(c));
}

static void let_go(struct client *c)
{
    shm_unpin(c->block, 0);
    os_unmap(c->header, c->header_size);
    os_unmap(c->segment, c->segment_size);
    os_unmap(c->index, c->index_size);
    os_unmap(c->h, SHM_SESSION_SIZE);
    os_close(&c->doorbell);
    os_close(&c->sock);
}

static void evict_what_can_be(void)
{
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < N; i++) {
            if (i != HELD) /* it would not be evicted */
                read_one(other, i);
        }
    }
}

static bool hung_up(const struct client *c)
{
    struct pollfd p = {.fd = c->sock, .events = POLLRDHUP};

    return poll(&p, 1, 0) > 0 && (p.revents & POLLRDHUP) != 0;
}

static json_int_t zombies(void)
{
    return stat_of(&d, "daemon", "zombies");
}

/* ---- the daemon ends the connection ---- */

static void ring_nonsense(struct client *c)
{
    atomic_store(&c->ring[0], SHM_CELLS);
    atomic_store(&c->h->tail, 1);
    ring_bell(c);
}

static void ring_too_long(struct client *c)
{
    atomic_store(&c->h->tail, SHM_RING_LEN + 1);
    ring_bell(c);
}

static void no_such_sample(struct client *c)
{
    c->cells[0].op = SHM_OP_FETCH;
    c->cells[0].sample = N;
    atomic_store(&c->ring[0], 0);
    atomic_store(&c->h->tail, 1);
    ring_bell(c);
}

static void not_a_message(struct client *c)
{
    assert_int_equal(os_write_all(c->sock, "GET / HTTP/1.1\r\n", 16), 0);
}

static void not_json(struct client *c)
{
    static const uint32_t frame[] = {0x31636c64u, 4, 0, 0};

    assert_int_equal(os_write_all(c->sock, frame, sizeof(frame)), 0);
    assert_int_equal(os_write_all(c->sock, "nope", 4), 0);
}

static void promises_a_descriptor(struct client *c)
{
    static const uint32_t frame[] = {0x31636c64u, 2, 1, 0};

    assert_int_equal(os_write_all(c->sock, frame, sizeof(frame)), 0);
    assert_int_equal(os_write_all(c->sock, "{}", 2), 0);
}

/* Asks until the daemon has enough of it, and reads nothing. */
static void never_reads(struct client *c)
{
    json_t *ask = json_pack("{s:s}", "op", "dump");
    struct msg_writer w = MSG_WRITER_INIT;
    struct dlc_err err;

    until((w.n == 0 ? msg_writer_add(&w, c->sock, ask, NULL, 0, &err) : 0,
           msg_writer_flush(&w, c->sock, &err), hung_up(c)));
    msg_writer_release(&w);
    json_decref(ask);
}

/* A failure for which there is no remedy. */
static void read_fails(struct client *c)
{
    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(recvmsg), .nth = 1, .error = EINVAL, .pid = d.pid});
    assert_int_equal(os_write_all(c->sock, "d", 1), 0);
    until(hung_up(c));
    assert_true(fault_disarm());
}

static void write_fails(struct client *c)
{
    json_t *ask = json_pack("{s:s}", "op", "stat");

    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(sendmsg), .nth = 1, .error = EINVAL, .pid = d.pid});
    assert_int_equal(msg_send(c->sock, ask, NULL, 0, NULL), 0);
    json_decref(ask);
    until(hung_up(c));
    assert_true(fault_disarm());
}

static void test_views_outlive_the_connection(void **state)
{
    static const struct {
        const char *name;
        void (*misbehave)(struct client *c);
    } reasons[] = {
        {"nonsense in the ring", ring_nonsense},
        {"a ring that is too long", ring_too_long},
        {"no such sample", no_such_sample},
        {"not a message", not_a_message},
        {"not JSON", not_json},
        {"a descriptor that does not come", promises_a_descriptor},
        {"answers that are not read", never_reads},
        {"recvmsg fails", read_fails},
        {"sendmsg fails", write_fails},
    };
    json_int_t ended = stat_of(&d, "counters", "sessions_ended");

    (void)state;
    for (unsigned k = 0; k < unit_count(reasons); k++) {
        struct client c;

        print_message("%s\n", reasons[k].name);
        attach(&c);
        reasons[k].misbehave(&c);
        until(hung_up(&c)); /* the client can notice */
        assert_int_equal(zombies(), 1);
        assert_int_equal(stat_of(&d, "daemon", "sessions"), 1);
        assert_int_equal(stat_of(&d, "datasets", "pins"), 1);
        evict_what_can_be();
        assert_true(holds(&c));
        /* It may pin others before it notices: those count, too. */
        atomic_store(&c.block->pins[1], 1);
        assert_int_equal(stat_of(&d, "datasets", "pins"), 2);
        let_go(&c);
        until(zombies() == 0);
        until(stat_of(&d, "datasets", "pins") == 0);
        ended++;
        assert_int_equal(stat_of(&d, "counters", "sessions_ended"), ended);
    }
    evict_what_can_be(); /* and the memory is used again */
}

/* ---- the daemon is short of something ---- */

static void test_a_shortage_ends_nothing(void **state)
{
    static const struct {
        uint64_t call;
        int error, times;
    } rows[] = {
        {FAULT_CALL(recvmsg), 0, 1},         {FAULT_CALL(recvmsg), ENOBUFS, 3},
        {FAULT_CALL(sendmsg), 0, 1},         {FAULT_CALL(sendmsg), ENOMEM, 3},
        {FAULT_CALL(sendmsg), ETOOMANYREFS}, {FAULT_CALL(sendmsg), EAGAIN, 2},
        {FAULT_CALL(epoll_ctl), 0, 3},
    };
    struct client c;

    (void)state;
    attach(&c);
    for (unsigned k = 0; k < unit_count(rows); k++) {
        struct msg m = MSG_INIT;

        fault_plan(&(struct fault_plan){.calls = rows[k].call | FAULT_CALL(epoll_ctl),
                                        .nth = 1,
                                        .times = rows[k].times,
                                        .error = rows[k].error,
                                        .pid = d.pid});
        tell(c.sock, json_pack("{s:s}", "op", "stat"), &m);
        assert_true(json_is_true(json_object_get(m.body, "ok")));
        msg_release(&m);
        fault_disarm();
        assert_false(hung_up(&c));
    }
    assert_int_equal(zombies(), 0);
    evict_what_can_be();
    assert_true(holds(&c));
    let_go(&c);
    until(stat_of(&d, "daemon", "sessions") == 1);
}

/* The list of an order is lost on its way: the request fails, and says what to do. */
static void test_lost_descriptors_fail_the_request(void **state)
{
    json_t *ask = json_pack("{s:s, s:s, s:i}", "op", "order", "kind", "explicit", "epochs", 1);
    json_int_t before = stat_of(&d, "counters", "descriptor_shortages");
    const uint64_t list[] = {1, 2, 3};
    struct dlc_err err = DLC_ERR_INIT;
    struct client c;
    int fd = os_memfd("list");

    (void)state;
    assert_int_equal(os_write_all(fd, list, sizeof(list)), 0);
    seal_list(fd);
    attach(&c);
    for (unsigned k = 0; k < 2; k++) {
        struct msg m = MSG_INIT;

        if (k == 0)
            fault_plan(
                &(struct fault_plan){.calls = FAULT_CALL(descriptors), .nth = 1, .pid = d.pid});
        assert_int_equal(msg_send(c.sock, ask, &fd, 1, &err), 0);
        assert_int_equal(msg_recv(c.sock, &m, DLC_SEC(30), &err), 0);
        assert_int_equal(json_is_true(json_object_get(m.body, "ok")), k);
        if (k == 0) {
            assert_int_equal(json_integer_value(json_object_get(m.body, "code")), DLC_EBUSY);
            assert_non_null(
                strstr(json_string_value(json_object_get(m.body, "error")), "ulimit -n"));
        }
        msg_release(&m);
        fault_disarm();
    }
    assert_int_equal(stat_of(&d, "counters", "descriptor_shortages"), before + 1);
    assert_int_equal(zombies(), 0);
    evict_what_can_be();
    assert_true(holds(&c));
    json_decref(ask);
    os_close(&fd);
    let_go(&c);
}

/* Every call that a new session takes fails once: the client is told, and the next try succeeds. */
static void test_a_session_that_cannot_be_made(void **state)
{
    static const uint64_t calls[] = {FAULT_CALL(memfd), FAULT_CALL(eventfd), FAULT_CALL(epoll_ctl),
                                     FAULT_CALL(mmap), FAULT_CALL(sendmsg)};

    (void)state;
    for (unsigned k = 0; k < unit_count(calls); k++) {
        int sock = dial_greeted(&d);
        struct msg m = MSG_INIT;

        fault_plan(&(struct fault_plan){.calls = calls[k], .nth = 1, .pid = d.pid});
        tell(sock, json_pack("{s:s, s:s}", "op", "open", "url", url), &m);
        assert_true(fault_disarm());
        assert_false(json_is_true(json_object_get(m.body, "ok")));
        assert_int_equal(json_integer_value(json_object_get(m.body, "code")), DLC_EBUSY);
        msg_release(&m);
        tell(sock, json_pack("{s:s, s:s}", "op", "open", "url", url), &m); /* on the same */
        assert_true(json_is_true(json_object_get(m.body, "ok")));
        assert_int_equal(m.n_fds, 6);
        msg_release(&m);
        os_close(&sock);
    }
    until(stat_of(&d, "daemon", "sessions") == 1);
}

/* accept4 fails with EMFILE: the client is told why at once, and the next one comes in. */
static void test_a_client_is_turned_away(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct msg m = MSG_INIT;
    int sock;

    (void)state;
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(accept), .nth = 1, .pid = d.pid});
    sock = dial(&d);
    assert_int_equal(msg_recv(sock, &m, DLC_SEC(30), &err), 0);
    assert_int_equal(json_integer_value(json_object_get(m.body, "code")), DLC_EBUSY);
    assert_non_null(strstr(json_string_value(json_object_get(m.body, "error")), "ulimit -n"));
    msg_release(&m);
    os_close(&sock);
    assert_true(fault_disarm());
    /* Not even by the reserve: it waits, and comes in by the next tick. */
    fault_plan(
        &(struct fault_plan){.calls = FAULT_CALL(accept), .nth = 1, .times = 2, .pid = d.pid});
    sock = dial_greeted(&d);
    os_close(&sock);
    assert_true(fault_disarm());
    /* The library tries again by itself. */
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(accept), .nth = 1, .pid = d.pid});
    struct dlc_dataset *ds = open_at(&d, url, 5000);
    assert_true(fault_disarm());
    read_one(ds, 1);
    dlc_close(&ds);
}

/* ---- hostile ---- */

/* A process that breaks the rules again and again, and holds on to what it has: it gets no more
 * sessions, others do, and its views stay. */
static void test_too_many_zombies(void **state)
{
    struct client c[16];
    struct dlc_dataset *ds = NULL;
    const struct dlc_options opt = {.socket = d.socket, .no_spawn = 1};
    pid_t pid;
    int status;

    (void)state;
    for (unsigned k = 0; k < unit_count(c); k++) {
        attach(&c[k]);
        not_a_message(&c[k]);
        until(hung_up(&c[k]));
    }
    assert_int_equal(zombies(), unit_count(c));
    assert_int_equal(dlc_open(url, &opt, &ds), DLC_EBUSY);
    assert_non_null(strstr(dlc_last_error(), "put those views"));
    read_one(other, 1); /* sessions that it has are served */
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        struct dlc_view v;
        bool good = dlc_open(url, &opt, &ds) == 0 && dlc_get(ds, 3, &v) == 0 && is_sample(&v, 3);

        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    evict_what_can_be();
    for (unsigned k = 0; k < unit_count(c); k++) {
        assert_true(holds(&c[k]));
        let_go(&c[k]);
    }
    until(zombies() == 0);
    ds = open_at(&d, url, 5000);
    dlc_close(&ds);
}

/* A client that dies with a zombie: nothing of it stays. */
static void test_a_zombie_dies(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        struct client c;

        other = open_at(&d, url, 5000);
        attach(&c);
        ring_nonsense(&c);
        until(hung_up(&c));
        _exit(zombies() == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    until(zombies() == 0 && stat_of(&d, "datasets", "pins") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views_outlive_the_connection),
        cmocka_unit_test(test_a_shortage_ends_nothing),
        cmocka_unit_test(test_lost_descriptors_fail_the_request),
        cmocka_unit_test(test_a_session_that_cannot_be_made),
        cmocka_unit_test(test_a_client_is_turned_away),
        cmocka_unit_test(test_too_many_zombies),
        cmocka_unit_test(test_a_zombie_dies),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
