// SPDX-License-Identifier: Apache-2.0
/*
 * Requests to the daemon through shared memory, with the test in the daemon's place: what is
 * written into cells and ring, who gets a cell when they are scarce, and how a wait ends.
 */
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/cancel.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "client/attach.h"
#include "client/attachment.h"
#include "client/miss.h"

#define SOON DLC_MS(30)
#define LONG DLC_SEC(20)

static struct attachment *a;
static struct shm_segment_hdr *segment;
static int far_end;
static _Atomic bool ends; /* the daemon's thread */

static int set_up(void **state)
{
    char *session = mem_zero(SHM_SESSION_SIZE);
    int fds[2];

    (void)state;
    log_threshold = LOG_ERROR;
    a = mem_new(struct attachment);
    segment = mem_zero(sizeof(*segment));
    a->header = segment;
    a->session = (struct shm_session_hdr *)session;
    a->ring = (_Atomic uint32_t *)(session + SHM_RING_OFF);
    a->cells = (struct shm_cell *)(session + SHM_CELLS_OFF);
    a->blocks = (struct shm_pin_block *)(session + SHM_BLOCKS_OFF);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    a->sock = fds[0];
    far_end = fds[1];
    a->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    dlc_mtx_init(&a->mtx, LCK_session);
    dlc_mtx_init(&a->rpc, LCK_rpc);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    os_close(&a->sock);
    os_close(&a->doorbell);
    if (far_end >= 0)
        os_close(&far_end);
    dlc_mtx_release(&a->mtx);
    dlc_mtx_release(&a->rpc);
    mem_free(&a->session);
    mem_free(&segment);
    mem_free(&a);
    return 0;
}

static int ask(uint64_t sample, struct dlc_dur d, bool patient, struct dlc_err *err)
{
    return miss_wait(a, sample, dlc_mono_add(dlc_mono_now(), d), patient, err);
}

static unsigned tail(void)
{
    return atomic_load(&a->session->tail);
}

/* The cell that was submitted as the k-th. */
static struct shm_cell *asked(unsigned k)
{
    assert_true(k < tail());
    return &a->cells[atomic_load(&a->ring[k % SHM_RING_LEN])];
}

/* The daemon lets go of a cell. */
static void answer(struct shm_cell *c, int rc, const char *text)
{
    c->rc = rc;
    memset(c->text, 'x', sizeof(c->text)); /* no NUL where the client expects one */
    if (text != NULL)
        snprintf(c->text, sizeof(c->text), "%s", text);
    atomic_store_explicit(&c->state, SHM_CELL_DONE, memory_order_release);
    os_futex_wake(&c->state);
}

/* Answers each request by the number of its sample: even ones are there, odd ones fail. */
static void *daemon_thread(void *arg)
{
    unsigned head = *(unsigned *)arg;

    while (!atomic_load(&ends)) {
        for (; head < tail(); head++) {
            struct shm_cell *c = asked(head);
            bool odd = c->sample % 2 == 1;

            answer(c, odd ? DLC_ENOTFOUND : 0, odd ? "it is gone" : "");
        }
        poll(NULL, 0, 1);
    }
    return NULL;
}

static pthread_t start_daemon(unsigned *head)
{
    pthread_t t;

    atomic_store(&ends, false);
    *head = tail();
    assert_int_equal(pthread_create(&t, NULL, daemon_thread, head), 0);
    return t;
}

static void stop_daemon(pthread_t t)
{
    atomic_store(&ends, true);
    pthread_join(t, NULL);
}

/* Fill all cells with requests that nobody answers. */
static void use_up_cells(void)
{
    for (unsigned i = 0; i < SHM_CELLS; i++)
        miss_ask(a, i);
    assert_int_equal(tail(), SHM_CELLS);
}

/* ---- tests ---- */

static void test_answers(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    unsigned head;
    pthread_t t = start_daemon(&head);

    (void)state;
    for (uint64_t i = 0; i < 3 * SHM_CELLS; i++) { /* cells come back */
        int rc = ask(i, LONG, false, &err);

        assert_int_equal(rc, i % 2 == 1 ? DLC_ENOTFOUND : 0);
        if (rc < 0)
            assert_string_equal(err.text, "it is gone");
        assert_int_equal(asked((unsigned)i)->op, SHM_OP_FETCH);
        assert_int_equal(asked((unsigned)i)->sample, i);
    }
    assert_int_equal(tail(), 3 * SHM_CELLS);
    stop_daemon(t);
}

static void *answer_without_end(void *arg)
{
    (void)arg;
    while (tail() == 0)
        poll(NULL, 0, 1);
    answer(asked(0), DLC_EBUCKET, NULL);
    return NULL;
}

/* The text of a daemon that does not end it is cut. */
static void test_text_without_end(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    pthread_t t;

    (void)state;
    memset(&a->cells[1], 'y', sizeof(a->cells[1]));
    atomic_store(&a->cells[1].state, SHM_CELL_FREE);
    assert_int_equal(pthread_create(&t, NULL, answer_without_end, NULL), 0);
    assert_int_equal(ask(4, LONG, false, &err), DLC_EBUCKET);
    pthread_join(t, NULL);
    assert_int_equal(strspn(err.text, "x"), strlen(err.text));
    assert_int_equal(a->cells[0].text[sizeof(a->cells[0].text) - 1], '\0');
}

/* The doorbell is rung once, when the daemon sleeps. */
static void test_doorbell(void **state)
{
    uint64_t rings;

    (void)state;
    miss_ask(a, 1);
    assert_true(read(a->doorbell, &rings, sizeof(rings)) < 0);
    atomic_store(&a->session->need_wake, 1);
    miss_ask(a, 2);
    miss_ask(a, 3);
    assert_int_equal(read(a->doorbell, &rings, sizeof(rings)), sizeof(rings));
    assert_int_equal(rings, 1);
    assert_int_equal(atomic_load(&a->session->need_wake), 0);
}

/* A cell that its asker gave up is free again when the daemon has let go of it, not before. */
static void test_given_up(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    assert_int_equal(ask(7, SOON, false, &err), DLC_ETIMEDOUT);
    assert_non_null(strstr(err.text, "sample 7 did not come in time"));
    for (unsigned i = 1; i < SHM_CELLS; i++) {
        miss_ask(a, i);
        assert_ptr_not_equal(asked(i), asked(0));
    }
    assert_int_equal(ask(8, SOON, false, &err), DLC_ETIMEDOUT);
    assert_string_equal(err.text, "no free request cell in time");
    miss_ask(a, 9); /* a hint: nothing happens */
    assert_int_equal(tail(), SHM_CELLS);
    answer(asked(0), 0, "");
    miss_ask(a, 9);
    assert_int_equal(tail(), SHM_CELLS + 1);
    assert_ptr_equal(asked(SHM_CELLS), asked(0));
    assert_int_equal(asked(0)->sample, 9);
}

static void *free_a_cell(void *arg)
{
    (void)arg;
    poll(NULL, 0, 20);
    answer(asked(5), 0, "");
    while (tail() == SHM_CELLS)
        poll(NULL, 0, 1);
    answer(asked(SHM_CELLS), 0, "");
    return NULL;
}

/* Who finds all cells in use waits for one. */
static void test_waits_for_a_cell(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    pthread_t t;

    (void)state;
    use_up_cells();
    assert_int_equal(pthread_create(&t, NULL, free_a_cell, NULL), 0);
    assert_int_equal(ask(1000, LONG, false, &err), 0);
    pthread_join(t, NULL);
    assert_int_equal(asked(SHM_CELLS)->sample, 1000);
}

/* A wait sleeps: it looks for the daemon ten times a second, and for a cell once a millisecond. */
static void test_waits_asleep(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(poll), .nth = 1000000}); /* only counts */
    assert_int_equal(ask(7, DLC_MS(350), false, &err), DLC_ETIMEDOUT);
    assert_in_range(fault_calls(), 1, 4);
    for (unsigned i = 1; i < SHM_CELLS; i++)
        miss_ask(a, i);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(poll), .nth = 1000000});
    assert_int_equal(ask(8, SOON, false, &err), DLC_ETIMEDOUT);
    assert_in_range(fault_calls(), 1, 35);
    fault_disarm();
}

/* The daemon has gone: a wait ends soon, whether for a cell or for its answer. */
static void test_lost(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t sample = 1;

    (void)state;
    os_close(&far_end);
    assert_int_equal(ask(1, LONG, true, &err), DLC_ENODAEMON);
    assert_int_equal(tail(), 1);
    for (unsigned i = 1; i < SHM_CELLS; i++)
        miss_ask(a, i);
    assert_int_equal(ask(2, LONG, true, &err), DLC_ENODAEMON);
    assert_int_equal(tail(), SHM_CELLS);
    assert_int_equal(miss_prefetch(a, &sample, 1), DLC_ENODAEMON);
}

/* The daemon's heart stands still: who is not patient reads elsewhere, until it goes on. */
static void test_hangs(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    unsigned head;
    pthread_t t;

    (void)state;
    atomic_store(&segment->heartbeat, 5);
    assert_int_equal(ask(2, LONG, false, &err), DLC_EBYPASS);
    assert_int_equal(tail(), 1);
    assert_int_equal(ask(2, LONG, false, &err), DLC_EBYPASS); /* it is known: nobody waits */
    assert_int_equal(tail(), 1);
    assert_int_equal(ask(2, SOON, true, &err), DLC_ETIMEDOUT); /* patient */
    assert_int_equal(tail(), 2);
    atomic_store(&segment->heartbeat, 6);
    t = start_daemon(&head);
    assert_int_equal(ask(2, LONG, false, &err), 0);
    stop_daemon(t);
}

/* While all cells are in use, too. */
static void test_hangs_without_a_cell(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    use_up_cells();
    atomic_store(&segment->heartbeat, 5);
    assert_int_equal(ask(2, LONG, false, &err), DLC_EBYPASS);
    assert_string_equal(err.text, "the daemon hangs");
    assert_int_equal(ask(2, SOON, true, &err), DLC_ETIMEDOUT);
}

/* A hint is not worth waiting for a daemon that is known to hang. */
static void test_prefetch_while_it_hangs(void **state)
{
    struct dlc_mono start;
    uint64_t sample = 1;

    (void)state;
    use_up_cells();
    atomic_store(&segment->heartbeat, 5);
    atomic_store(&a->hung_at, 5);
    start = dlc_mono_now();
    for (unsigned i = 0; i < 50; i++) /* of 100 ms each, were it waited for */
        assert_int_equal(miss_prefetch(a, &sample, 1), DLC_ETIMEDOUT);
    assert_true(dlc_mono_since(start).ns < DLC_SEC(4).ns);
    assert_int_equal(tail(), SHM_CELLS);
}

/* A request over the socket, which may take as long as it takes, unless the daemon hangs. */
static void test_call_hangs(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    json_t *stat = json_pack("{s:s}", "op", "stat");
    struct msg m = MSG_INIT;

    (void)state;
    atomic_store(&segment->heartbeat, 5);
    assert_int_equal(attach_call(a, stat, -1, dlc_mono_add(dlc_mono_now(), LONG), &m, &err),
                     DLC_ETIMEDOUT);
    assert_string_equal(err.text, "the daemon hangs");
    json_decref(stat);
    msg_release(&m);
}

static bool gives_up(struct interrupt *i)
{
    (void)i;
    return true;
}

static void test_cancelled(void **state)
{
    struct interrupt i = {.ask = gives_up};
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    interrupt_asked = &i;
    assert_int_equal(ask(1, LONG, true, &err), DLC_ECANCELED);
    for (unsigned k = 1; k < SHM_CELLS; k++)
        miss_ask(a, k);
    assert_true(ask(1, LONG, true, &err) < 0); /* no cell: it does not wait for one */
    interrupt_asked = NULL;
}

static void test_prefetch(void **state)
{
    uint64_t idx[2 * SHM_CELL_BATCH + 5], one = 3;

    (void)state;
    for (unsigned i = 0; i < unit_count(idx); i++)
        idx[i] = 1000 + i;
    assert_int_equal(miss_prefetch(a, idx, unit_count(idx)), 0);
    assert_int_equal(tail(), 3);
    for (unsigned k = 0; k < 3; k++) {
        assert_int_equal(asked(k)->op, SHM_OP_PREFETCH);
        assert_int_equal(asked(k)->count, k < 2 ? SHM_CELL_BATCH : 5);
        assert_memory_equal(asked(k)->batch, idx + (size_t)k * SHM_CELL_BATCH,
                            asked(k)->count * sizeof(idx[0]));
    }
    assert_int_equal(miss_prefetch(a, idx, 0), 0);
    for (unsigned i = 3; i < SHM_CELLS; i++)
        assert_int_equal(miss_prefetch(a, &one, 1), 0);
    assert_int_equal(miss_prefetch(a, &one, 1), DLC_ETIMEDOUT); /* a daemon that takes nothing */
    assert_int_equal(tail(), SHM_CELLS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_text_without_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_doorbell, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_given_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_waits_for_a_cell, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_waits_asleep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hangs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hangs_without_a_cell, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_prefetch_while_it_hangs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_call_hangs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancelled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_prefetch, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
