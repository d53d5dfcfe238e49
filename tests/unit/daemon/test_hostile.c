// SPDX-License-Identifier: Apache-2.0
/* Clients that lie, flood, hang or do not read: the daemon serves the others as if they were not
 * there. */
#include "daemon.h"

#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/rng.h"
#include "cache/decoded/decoded_header.h"
#include "ipc/shm.h"

#define N    100u
#define SIZE 2000u

static struct daemon d;
static char url[512];
static struct dlc_dataset *good; /* who must not notice */

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "4MB", true);
    daemon_start(&d);
    good = open_at(&d, dataset("h", N, SIZE, "", url), 5000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dlc_close(&good);
    daemon_end(&d);
    return 0;
}

/* Does it still serve, from the bucket and from memory? */
static void serves(void)
{
    static uint64_t next;

    read_one(good, next++ % N);
    read_one(good, 0);
    assert_true(stat_of(&d, "daemon", "sessions") >= 1);
}

/* Wait until the daemon hangs up. */
static void assert_hangs_up(int sock)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct msg m = MSG_INIT;

    while (msg_recv(sock, &m, DLC_SEC(30), &err) == 0)
        msg_release(&m);
    assert_int_equal(err.code, DLC_EPROTO);
}

/* ---- messages ---- */

static void test_not_our_protocol(void **state)
{
    static const char words[][17] = {"GET / HTTP/1.1\r\n", "dlc1\xff\xff\xff\xff", "dlc1"};

    (void)state;
    for (unsigned k = 0; k < unit_count(words); k++) {
        int sock = dial(&d);

        assert_int_equal(os_write_all(sock, words[k], 16), 0);
        assert_hangs_up(sock);
        os_close(&sock);
    }
    serves();
}

static void test_wrong_greetings(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        struct msg m = MSG_INIT;
        int sock = dial(&d);

        tell(sock,
             k == 0   ? json_pack("{s:s, s:i}", "op", "hello", "version", 2)
             : k == 1 ? json_pack("{s:s}", "op", "stop")
                      : json_pack("{s:[], s:n}", "op", "version"),
             &m);
        assert_int_equal(json_integer_value(json_object_get(m.body, "code")), DLC_EPROTO);
        msg_release(&m);
        assert_hangs_up(sock);
        os_close(&sock);
    }
    serves();
}

/* A JSON value of any kind: what a field should not be. */
static json_t *any_value(struct rng *r)
{
    switch (rng_below(r, 9)) {
    case 0: return json_null();
    case 1: return json_true();
    case 2: return json_integer(INT64_MAX);
    case 3: return json_integer(INT64_MIN);
    case 4: return json_integer((json_int_t)rng_below(r, 2 * N) - N);
    case 5: return json_real(1e300);
    case 6: return json_string("memory");
    case 7: return json_pack("[i, {s:s}]", 1, "op", "stop");
    default: return json_string(url);
    }
}

static void test_wrong_types(void **state)
{
    static const char *const ops[] = {"open",  "map",  "stat",    "warm",
                                      "evict", "dump", "weights", "nothing"};
    static const char *const fields[] = {"url",     "endpoint",  "sample",  "tier", "size",
                                         "refresh", "anonymous", "decoded", "job",  "own"};
    struct rng r = {11};

    (void)state;
    for (unsigned turn = 0; turn < 20; turn++) {
        int sock = dial_greeted(&d);

        for (unsigned k = 0; k < 20; k++) {
            struct msg m = MSG_INIT;
            json_t *ask = json_pack("{s:s}", "op", ops[rng_below(&r, unit_count(ops))]);

            for (unsigned f = 0; f < 3; f++)
                json_object_set_new(ask, fields[rng_below(&r, unit_count(fields))], any_value(&r));
            tell(sock, ask, &m);
            assert_non_null(json_object_get(m.body, "ok"));
            msg_release(&m);
        }
        os_close(&sock);
    }
    serves();
}

static void test_descriptors_not_asked_for(void **state)
{
    struct msg m = MSG_INIT;
    struct dlc_err err;
    int sock = dial_greeted(&d), fds[8] = {0, 1, 2, 0, 1, 2, 0, 1};
    json_t *ask = json_pack("{s:s}", "op", "stat");

    (void)state;
    for (unsigned k = 0; k < 50; k++) {
        assert_int_equal(msg_send(sock, ask, fds, 8, &err), 0);
        assert_int_equal(msg_recv(sock, &m, DLC_SEC(30), &err), 0);
        msg_release(&m);
    }
    json_decref(ask);
    os_close(&sock);
    serves();
}

/* Asks for ever, and never reads an answer. */
static void test_never_reads(void **state)
{
    json_t *ask = json_pack("{s:s}", "op", "dump");
    struct msg_writer w = MSG_WRITER_INIT;
    struct dlc_err err;
    int sock = dial_greeted(&d), rc = 1;

    (void)state;
    until((w.n == 0 ? msg_writer_add(&w, sock, ask, NULL, 0, &err) : 0,
           rc = msg_writer_flush(&w, sock, &err), rc < 0)); /* the daemon hung up */
    msg_writer_release(&w);
    json_decref(ask);
    os_close(&sock);
    serves();
}

static void test_wrong_snapshots(void **state)
{
    static const char *const bad[] = {"\"\"",
                                      "\"0000000000000000\"",
                                      "\"123\"",
                                      "17",
                                      "null",
                                      "[]",
                                      "\"0123456789abcdeg\"",
                                      "\"0123456789abcdef0\""};
    struct msg m = MSG_INIT;
    int sock = dial_greeted(&d);

    (void)state;
    for (unsigned k = 0; k <= unit_count(bad); k++) {
        bool last = k == unit_count(bad); /* well formed, but nobody has it */
        json_t *ask = json_pack("{s:s, s:s}", "op", "open", "url", url);

        json_object_set_new(
            ask, "snapshot",
            json_loads(last ? "\"0123456789abcdef\"" : bad[k], JSON_DECODE_ANY, NULL));
        tell(sock, ask, &m);
        assert_int_equal(json_integer_value(json_object_get(m.body, "code")),
                         last ? DLC_ECHANGED : DLC_EINVAL);
        msg_release(&m);
    }
    os_close(&sock);
    serves();
}

/* Jobs for the workers by the hundred, and gone before the first is done. */
static void test_many_questions_at_once(void **state)
{
    struct dlc_err err;
    struct msg m = MSG_INIT;
    int sock = dial_greeted(&d);
    json_t *ask = json_pack("{s:s, s:i, s:b}", "op", "map", "sample", 1, "compares", 1);

    (void)state;
    tell(sock, json_pack("{s:s, s:s}", "op", "open", "url", url), &m);
    msg_release(&m);
    for (unsigned k = 0; k < 200 && msg_send(sock, ask, NULL, 0, &err) == 0; k++)
        ;
    json_decref(ask);
    os_close(&sock);
    until(stat_of(&d, "daemon", "sessions") == 1);
    serves();
}

static void test_many_connections(void **state)
{
    int sock[200];

    (void)state;
    for (unsigned k = 0; k < 200; k++)
        sock[k] = dial(&d);
    serves();
    for (unsigned k = 0; k < 200; k++)
        os_close(&sock[k]);
    serves();
}

/* ---- shared memory ---- */

struct session_of {
    int sock, doorbell;
    char *uploads; /* of a decoded cache; else NULL */
    struct shm_session_hdr *h;
    _Atomic uint32_t *ring;
    struct shm_cell *cells;
};

static void attach_to(struct session_of *s, const char *decoded)
{
    json_t *ask = json_pack("{s:s, s:s}", "op", "open", "url", url);
    struct msg m = MSG_INIT;
    int fd;

    s->sock = dial_greeted(&d);
    s->uploads = NULL;
    if (decoded != NULL)
        json_object_set_new(ask, "decoded", json_string(decoded));
    tell(s->sock, ask, &m);
    assert_int_equal(m.n_fds, decoded != NULL ? 7 : 6);
    if (decoded != NULL) {
        fd = msg_take_fd(&m, 6);
        s->uploads = os_map(fd, 0, SHM_UPLOADS_SIZE, true);
        assert_non_null(s->uploads);
        os_close(&fd);
    }
    fd = msg_take_fd(&m, 2);
    s->h = os_map(fd, 0, SHM_SESSION_SIZE, true);
    assert_non_null(s->h);
    os_close(&fd);
    s->doorbell = msg_take_fd(&m, 3);
    s->ring = (_Atomic uint32_t *)((char *)s->h + SHM_RING_OFF);
    s->cells = (struct shm_cell *)((char *)s->h + SHM_CELLS_OFF);
    msg_release(&m);
}

static void attach(struct session_of *s)
{
    attach_to(s, NULL);
}

static void detach(struct session_of *s)
{
    os_unmap(s->uploads, SHM_UPLOADS_SIZE);
    os_unmap(s->h, SHM_SESSION_SIZE);
    os_close(&s->doorbell);
    os_close(&s->sock);
}

static void ring(struct session_of *s)
{
    uint64_t one = 1;

    assert_int_equal(write(s->doorbell, &one, sizeof(one)), sizeof(one));
}

static void test_nonsense_in_the_ring(void **state)
{
    json_int_t before = stat_of(&d, "counters", "client_nonsense");

    (void)state;
    for (unsigned k = 0; k < 6; k++) {
        struct session_of s;

        attach(&s);
        s.cells[0].op = k == 1 ? 77 : k == 2 ? SHM_OP_PREFETCH : SHM_OP_FETCH;
        s.cells[0].sample = k == 3 ? UINT64_MAX : k == 4 ? N : 0;
        s.cells[0].count = k == 2 ? SHM_CELL_BATCH + 1 : 0;
        s.ring[0] = k == 0 ? SHM_CELLS : 0;
        atomic_store(&s.h->tail, k == 5 ? SHM_RING_LEN + 1 : 1);
        ring(&s);
        assert_hangs_up(s.sock);
        detach(&s);
    }
    assert_int_equal(stat_of(&d, "counters", "client_nonsense"), before + 6);
    serves();
}

/* ---- swaps ---- */

/* A session that told an order in which it may swap. */
static void attach_swapping(struct session_of *s)
{
    struct msg m = MSG_INIT;

    attach(s);
    tell(s->sock,
         json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:b}", "op", "order", "kind", "shuffled", "n",
                   (int)N, "world", 1, "epochs", 2, "position", 10, "swaps", 1),
         &m);
    msg_release(&m);
    assert_true(atomic_load(&s->h->horizon) > 0);
}

static void test_nonsense_of_swaps(void **state)
{
    static const struct {
        uint64_t p, q, tail;
    } rows[] = {
        {9, 50, 1},            /* a position that was read */
        {50, 50, 1},           /* one position */
        {60, 50, 1},           /* the wrong way round */
        {50, N + 50, 1},       /* of two epochs */
        {50, 2 * N, 1},        /* none */
        {2 * N, 2 * N + 1, 1}, /* after the end */
        {UINT64_MAX, 1, 1},
        {50, UINT64_MAX, 1},
        {50, 51, SHM_SWAPS + 1}, /* more than the ring holds */
        {50, 51, UINT64_MAX},
    };
    json_int_t before = stat_of(&d, "counters", "client_nonsense");

    (void)state;
    for (unsigned k = 0; k < unit_count(rows); k++) {
        struct session_of s;

        attach_swapping(&s);
        atomic_store(&s.h->swaps[0].p, rows[k].p);
        atomic_store(&s.h->swaps[0].q, rows[k].q);
        atomic_store(&s.h->settled, UINT64_MAX);
        atomic_store(&s.h->swaps_tail, rows[k].tail);
        until(atomic_load(&s.h->horizon) == 0); /* it may not any more */
        atomic_store(&s.h->cursor, 20);
        serves();
        detach(&s);
    }
    assert_int_equal(stat_of(&d, "counters", "client_nonsense"), before + unit_count(rows));
    until(stat_of(&d, "daemon", "sessions") == 1);
}

/* Positions that may be swapped, but by nobody who reads them: as many as there is time for. */
static void test_a_flood_of_swaps(void **state)
{
    struct session_of s;
    struct rng r = {8};

    (void)state;
    attach_swapping(&s);
    for (uint64_t tail = 0; tail < 5000;) {
        uint64_t head = atomic_load(&s.h->swaps_head);

        for (; tail - head < SHM_SWAPS; tail++) {
            uint64_t p = 10 + rng_below(&r, 40);

            atomic_store(&s.h->swaps[tail % SHM_SWAPS].p, p);
            atomic_store(&s.h->swaps[tail % SHM_SWAPS].q, p + 1 + rng_below(&r, 40));
        }
        atomic_store(&s.h->swaps_tail, tail);
        until(atomic_load(&s.h->swaps_head) == tail);
    }
    assert_true(atomic_load(&s.h->horizon) > 0);
    atomic_store(&s.h->settled, rng_next(&r));
    serves();
    detach(&s);
}

/* Swaps of epochs that are far ahead, with a cursor that follows them and one that does not. */
static void test_swaps_far_ahead(void **state)
{
    struct session_of s;

    (void)state;
    for (unsigned follows = 0; follows < 2; follows++) {
        struct msg m = MSG_INIT;

        attach(&s);
        tell(s.sock,
             json_pack("{s:s, s:s, s:i, s:i, s:b}", "op", "order", "kind", "shuffled", "n", (int)N,
                       "world", (int)N / 2, "swaps", 1), /* two positions in an epoch */
             &m);
        msg_release(&m);
        for (uint64_t k = 0; k < SHM_SWAPS; k++) {
            atomic_store(&s.h->swaps[k].p, k << 40);
            atomic_store(&s.h->swaps[k].q, (k << 40) + 1);
        }
        atomic_store(&s.h->settled, UINT64_MAX);
        atomic_store(&s.h->swaps_tail, SHM_SWAPS);
        if (follows) {
            atomic_store(&s.h->cursor, UINT64_MAX / 2);
            until(atomic_load(&s.h->swaps_head) == SHM_SWAPS);
        } else {
            until(atomic_load(&s.h->swaps_head) == 1); /* the others wait */
        }
        serves();
        assert_true(atomic_load(&s.h->horizon) > 0);
        atomic_store(&s.h->cursor, 0);
        serves();
        detach(&s);
    }
    until(stat_of(&d, "daemon", "sessions") == 1);
}

/* More of them than an epoch has: refused before they are read. */
static void test_a_giant_list_of_swaps(void **state)
{
    json_t *ask = json_pack("{s:s, s:s, s:i, s:i, s:b}", "op", "order", "kind", "shuffled", "n",
                            (int)N, "world", 1, "swaps", 1);
    static const off_t sizes[] = {(off_t)100000000 * 8, (off_t)2 * N * 16 + 16, 24};
    struct dlc_err err = DLC_ERR_INIT;
    struct session_of s;

    (void)state;
    attach(&s);
    for (unsigned k = 0; k < unit_count(sizes); k++) {
        struct msg m = MSG_INIT;
        int fd = os_memfd("swaps");

        assert_int_equal(ftruncate(fd, sizes[k]), 0); /* a hole: it costs nothing here */
        seal_list(fd);
        assert_int_equal(msg_send(s.sock, ask, &fd, 1, &err), 0);
        assert_int_equal(msg_recv(s.sock, &m, DLC_SEC(30), &err), 0);
        assert_int_equal(json_integer_value(json_object_get(m.body, "code")), DLC_EINVAL);
        assert_non_null(
            strstr(json_string_value(json_object_get(m.body, "error")), "1 to 200 pairs"));
        msg_release(&m);
        os_close(&fd);
    }
    json_decref(ask);
    serves();
    detach(&s);
}

static void test_swaps_told_with_an_order(void **state)
{
    static const uint64_t rows[][4] = {
        {50, 7, 50, 8}, {1, 7, 2, 8}, {50, N, 51, 0}, {~0ull, 7, 0, 0}};

    (void)state;
    for (unsigned k = 0; k < unit_count(rows); k++) {
        json_t *ask = json_pack("{s:s, s:s, s:i, s:i, s:i, s:b}", "op", "order", "kind", "shuffled",
                                "n", (int)N, "world", 1, "position", 10, "swaps", 1);
        int fd = os_memfd("swaps");
        struct dlc_err err = DLC_ERR_INIT;
        struct msg m = MSG_INIT;
        struct session_of s;

        attach(&s);
        assert_int_equal(os_write_all(fd, rows[k], sizeof(rows[k])), 0);
        seal_list(fd);
        assert_int_equal(msg_send(s.sock, ask, &fd, 1, &err), 0);
        assert_int_equal(msg_recv(s.sock, &m, DLC_SEC(30), &err), 0);
        assert_int_equal(json_integer_value(json_object_get(m.body, "code")), DLC_EINVAL);
        serves();
        json_decref(ask);
        msg_release(&m);
        os_close(&fd);
        detach(&s);
    }
}

static void test_random_session(void **state)
{
    struct rng r = {5};

    (void)state;
    for (unsigned turn = 0; turn < 20; turn++) {
        struct session_of s;
        unsigned char *p;

        if (turn % 2 == 0)
            attach(&s);
        else
            attach_swapping(&s);
        p = (unsigned char *)s.h;
        for (unsigned k = 0; k < 20000; k++)
            p[rng_below(&r, SHM_SESSION_SIZE)] = (unsigned char)rng_next(&r);
        atomic_store(&s.h->tail, (uint32_t)rng_below(&r, 64));
        ring(&s);
        serves();
        detach(&s);
    }
    until(stat_of(&d, "daemon", "sessions") == 1);
}

/* ---- decoded cache ---- */

static void test_nonsense_of_forms(void **state)
{
    static const struct {
        uint32_t op, cell;
        uint64_t sample, len;
    } rows[] = {
        {SHM_OP_FETCH, 0, 0, 0},
        {SHM_OP_PREFETCH, 0, 0, 0},
        {SHM_OP_UPLOAD, SHM_UPLOAD_SLOTS, 0, 100},
        {SHM_OP_UPLOAD, 0, N, 100},
        {SHM_OP_UPLOAD, 0, UINT64_MAX, 100},
        {SHM_OP_UPLOAD, 0, 0, sizeof(struct shm_decoded_hdr) - 1},
        {SHM_OP_UPLOAD, 0, 0, SHM_UPLOAD_SIZE + 1},
        {SHM_OP_UPLOAD, 0, 0, UINT64_MAX},
    };
    json_int_t before = stat_of(&d, "counters", "client_nonsense");
    struct session_of s;

    (void)state;
    for (unsigned k = 0; k < unit_count(rows); k++) {
        attach_to(&s, "x");
        s.cells[rows[k].cell].op = rows[k].op;
        s.cells[rows[k].cell].sample = rows[k].sample;
        s.cells[rows[k].cell].len = rows[k].len;
        s.ring[0] = rows[k].cell;
        atomic_store(&s.h->tail, 1);
        ring(&s);
        assert_hangs_up(s.sock);
        detach(&s);
    }
    attach(&s); /* a reader of samples uploads nothing */
    s.cells[0].op = SHM_OP_UPLOAD;
    s.cells[0].len = 100;
    s.ring[0] = 0;
    atomic_store(&s.h->tail, 1);
    ring(&s);
    assert_hangs_up(s.sock);
    detach(&s);
    assert_int_equal(stat_of(&d, "counters", "client_nonsense"), before + unit_count(rows) + 1);
    serves();
}

/* What a reader of samples may ask for is refused to one of decoded samples. */
static void test_forms_ask_for_nothing_else(void **state)
{
    static const char *const ops[] = {"map", "warm", "order", "open"};
    struct session_of s;

    (void)state;
    attach_to(&s, "x");
    for (unsigned k = 0; k < unit_count(ops); k++) {
        struct msg m = MSG_INIT;

        tell(s.sock,
             json_pack("{s:s, s:i, s:s, s:i, s:s}", "op", ops[k], "sample", 1, "kind", "sequential",
                       "n", 1, "url", url),
             &m);
        assert_int_equal(json_integer_value(json_object_get(m.body, "code")), DLC_EINVAL);
        msg_release(&m);
    }
    detach(&s);
}

/* Uploads of all kinds, changed while they are copied, from clients that leave at any time. */
static void test_random_uploads(void **state)
{
    struct rng r = {17};

    (void)state;
    for (unsigned turn = 0; turn < 30; turn++) {
        struct session_of s;
        uint32_t tail = 0;

        attach_to(&s, turn % 2 != 0 ? "x" : "y");
        for (unsigned k = 0; k < 60; k++) {
            uint32_t cell = (uint32_t)rng_below(&r, SHM_UPLOAD_SLOTS);
            size_t len = sizeof(struct shm_decoded_hdr) + rng_below(&r, 20000);
            char *upload = s.uploads + cell * SHM_UPLOAD_SIZE;

            decoded_seal(upload, rng_below(&r, N), 1, len - sizeof(struct shm_decoded_hdr));
            s.cells[cell].op = SHM_OP_UPLOAD;
            s.cells[cell].sample = rng_below(&r, N + (turn == 20));
            s.cells[cell].len = rng_below(&r, 3) == 0 ? len + rng_below(&r, 200) : len;
            s.ring[tail % SHM_RING_LEN] = cell;
            atomic_store(&s.h->tail, ++tail);
            ring(&s);
            for (unsigned n = 0; n < 50; n++)
                upload[rng_below(&r, len)] = (char)rng_next(&r);
        }
        serves();
        detach(&s);
    }
    until(stat_of(&d, "daemon", "sessions") == 1);
    assert_true(stat_of(&d, "counters", "decoded_bad") > 0);
    serves();
}

/* A doorbell that would block its reader, and rings when there is nothing to read. */
static void test_blocking_doorbell(void **state)
{
    struct session_of s;
    uint64_t n;

    (void)state;
    attach(&s);
    assert_int_equal(fcntl(s.doorbell, F_SETFL, 0), 0);
    for (unsigned k = 0; k < 500; k++) {
        ring(&s);
        assert_int_equal(read(s.doorbell, &n, sizeof(n)), sizeof(n));
    }
    serves();
    detach(&s);
}

/* A ring that is never empty: the child fills it as fast as the daemon empties it. */
static void test_endless_ring(void **state)
{
    const uint64_t one = 1;
    struct session_of s;
    int doorbell, status = 0;
    pid_t pid;

    (void)state;
    attach(&s);
    s.cells[0].op = SHM_OP_PREFETCH;
    s.cells[0].count = 1;
    s.cells[0].batch[0] = 1;
    doorbell = dup(s.doorbell); /* which children do not inherit */
    assert_true(doorbell >= 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            atomic_store(&s.h->tail, atomic_load(&s.h->head) + SHM_RING_LEN);
            if (atomic_exchange(&s.h->need_wake, 0) != 0 &&
                write(doorbell, &one, sizeof(one)) != sizeof(one))
                _exit(1);
        }
    }
    for (unsigned k = 0; k < 20; k++)
        serves();
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status)); /* it went on to the end */
    os_close(&doorbell);
    detach(&s);
}

/* All prefetches the ring can hold, again and again: memory of the daemon stays bounded, and demand
 * reads come first. */
static void test_prefetch_flood(void **state)
{
    struct session_of s;
    uint32_t tail = 0;

    (void)state;
    attach(&s);
    s.cells[0].op = SHM_OP_PREFETCH;
    s.cells[0].count = SHM_CELL_BATCH;
    for (unsigned k = 0; k < SHM_CELL_BATCH; k++)
        s.cells[0].batch[k] = k % N;
    for (unsigned turn = 0; turn < 50; turn++) {
        tail += SHM_RING_LEN;
        atomic_store(&s.h->tail, tail);
        ring(&s);
        until(atomic_load(&s.h->head) == tail);
    }
    serves();
    assert_in_range(stat_of(&d, "datasets", "backlog"), 0, 1 << 22);
    detach(&s);
}

/* All the descriptors it may have: newcomers wait, and those inside do not notice. */
static void test_out_of_descriptors(void **state)
{
    struct rlimit few, old;
    int sock[64];

    (void)state;
    assert_int_equal(prlimit(d.pid, RLIMIT_NOFILE, NULL, &old), 0);
    few = (struct rlimit){40, old.rlim_max};
    assert_int_equal(prlimit(d.pid, RLIMIT_NOFILE, &few, NULL), 0);
    for (unsigned k = 0; k < 64; k++)
        sock[k] = dial(&d);
    for (unsigned k = 0; k < 64; k++)
        os_close(&sock[k]);
    assert_int_equal(prlimit(d.pid, RLIMIT_NOFILE, &old, NULL), 0);
    serves();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_our_protocol),
        cmocka_unit_test(test_wrong_greetings),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_descriptors_not_asked_for),
        cmocka_unit_test(test_never_reads),
        cmocka_unit_test(test_wrong_snapshots),
        cmocka_unit_test(test_many_questions_at_once),
        cmocka_unit_test(test_many_connections),
        cmocka_unit_test(test_nonsense_in_the_ring),
        cmocka_unit_test(test_nonsense_of_swaps),
        cmocka_unit_test(test_a_flood_of_swaps),
        cmocka_unit_test(test_swaps_far_ahead),
        cmocka_unit_test(test_a_giant_list_of_swaps),
        cmocka_unit_test(test_swaps_told_with_an_order),
        cmocka_unit_test(test_random_session),
        cmocka_unit_test(test_blocking_doorbell),
        cmocka_unit_test(test_endless_ring),
        cmocka_unit_test(test_prefetch_flood),
        cmocka_unit_test(test_out_of_descriptors),
        cmocka_unit_test(test_nonsense_of_forms),
        cmocka_unit_test(test_forms_ask_for_nothing_else),
        cmocka_unit_test(test_random_uploads),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
