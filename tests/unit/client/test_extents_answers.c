// SPDX-License-Identifier: Apache-2.0
/* Extents that the daemon hands over: what is not one of its own is not mapped. The test plays the
 * daemon, and its answers lie in the socket before it is asked. */
#include "extents_world.h"
#include "lock_held.h"

#include "base/cancel.h"
#include "client/process.h"

#define SHIFT   16u
#define ONE     ((uint64_t)1 << SHIFT)
#define EXTENTS 4u
#define LAST    4096u /* bytes of the last one */

/* Sample 0 lies in extent 0, sample 1 in extents 1 and 2, sample 2 in the short one at the end. */
static int setup(void **state)
{
    struct world *w = world_new(EXTENTS, SHIFT, LAST);

    assert_int_equal(extents_attach(&w->a, NULL), 0);
    world_place(w, 0, SHM_HDR_SIZE, 100);
    world_place(w, 1, 2 * ONE - 64, 128);
    world_place(w, 2, 3 * ONE, LAST);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    world_free(*state);
    return 0;
}

static void answer(struct world *w, json_int_t number, uint32_t generation, uint64_t size)
{
    world_answer(w, number, 1, generation, size);
}

static bool is_there(struct world *w, uint64_t offset, uint32_t len)
{
    return extents_are_mapped(&w->a, offset, len);
}

static void test_maps(void **state)
{
    struct world *w = *state;
    unsigned before = proc_descriptors();

    answer(w, 0, 10, ONE);
    assert_int_equal(world_map(w, 0), 0);
    assert_true(is_there(w, SHM_HDR_SIZE, 100));
    answer(w, 1, 11, ONE);
    answer(w, 2, 12, ONE);
    assert_int_equal(world_map(w, 1), 0);
    assert_true(is_there(w, 2 * ONE - 64, 128));
    answer(w, 3, 13, LAST);
    assert_int_equal(world_map(w, 2), 0);
    assert_true(is_there(w, 3 * ONE, LAST));
    assert_int_equal(proc_mapped(WORLD_EXTENT), 4);
    assert_int_equal(w->a.n_mapped, 4);
    assert_false(proc_all_have_flag(WORLD_EXTENT, "wr")); /* not to be written */
    for (json_int_t k = 0; k < 4; k++)
        assert_int_equal(world_question(w), k);
    assert_int_equal(world_map(w, 1), 0);
    assert_int_equal(world_question(w), -1); /* nothing is asked */
    assert_int_equal(proc_descriptors(), before);
}

/* A sample of no bytes at the beginning of an extent lies there, not in the one before. */
static void test_empty(void **state)
{
    struct world *w = *state;

    world_place(w, 0, ONE, 0);
    answer(w, 1, 11, ONE);
    assert_int_equal(world_map(w, 0), 0);
    assert_true(is_there(w, ONE, 0));
}

/* What a slot says before the sample is pinned may be anything. */
static void test_not_there(void **state)
{
    struct world *w = *state;

    atomic_store(&w->slots[0].where, shm_where_make(SHM_READY - 1, 0, 1));
    assert_int_equal(world_map(w, 0), 0);
    world_place(w, 0, w->a.segment_size, 10);
    assert_int_equal(world_map(w, 0), 0);
    assert_int_equal(world_question(w), -1);
    world_place(w, 0, 3 * ONE, UINT32_MAX); /* ends behind the segment */
    answer(w, 3, 13, LAST);
    assert_int_equal(world_map(w, 0), 0);
    assert_int_equal(world_question(w), 3);
    assert_int_equal(world_question(w), -1);
}

static void test_refused(void **state)
{
    struct world *w = *state;
    unsigned before = proc_descriptors();
    json_t *empty = json_pack("{s:b, s:[]}", "ok", 1, "extents");
    int fd = world_extent(ONE);

    answer(w, 0, 10, ONE - 4096);
    assert_int_equal(world_map(w, 0), DLC_EPROTO);
    answer(w, 3, 13, ONE); /* the last one is shorter */
    assert_int_equal(world_map(w, 2), DLC_EPROTO);
    answer(w, EXTENTS, 10, ONE);
    assert_int_equal(world_map(w, 0), DLC_EPROTO);
    answer(w, -1, 10, ONE);
    assert_int_equal(world_map(w, 0), DLC_EPROTO);
    assert_int_equal(msg_send(w->end, empty, &fd, 1, NULL), 0); /* memory of no extent */
    assert_int_equal(world_map(w, 0), DLC_EPROTO);
    json_decref(empty);
    os_close(&fd);
    world_refuse(w, DLC_EBYPASS);
    assert_int_equal(world_map(w, 0), DLC_EBYPASS);
    assert_int_equal(proc_mapped(WORLD_EXTENT), 0);
    assert_int_equal(w->a.n_mapped, 0);
    assert_int_equal(proc_descriptors(), before);
}

/* A kernel that refuses a mapping: the reader is told, and the next one tries again. */
static void test_cannot_map(void **state)
{
    struct world *w = *state;

    answer(w, 0, 10, ONE);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(mmap_at), .nth = 1});
    assert_true(world_map(w, 0) < 0);
    assert_true(fault_disarm());
    assert_non_null(strstr(w->err.text, "vm.max_map_count"));
    assert_false(is_there(w, SHM_HDR_SIZE, 100));
    assert_int_equal(w->a.n_mapped, 0);
    answer(w, 0, 10, ONE);
    assert_int_equal(world_map(w, 0), 0);
    assert_true(is_there(w, SHM_HDR_SIZE, 100));
}

/* One that is not there any more, as the table says, is not mapped. */
static void test_old(void **state)
{
    struct world *w = *state;

    answer(w, 0, 9, ONE);
    assert_int_equal(world_map(w, 0), 0);
    assert_false(is_there(w, SHM_HDR_SIZE, 100));
    assert_int_equal(proc_mapped(WORLD_EXTENT), 0);
    answer(w, 0, 10, ONE);
    assert_int_equal(world_map(w, 0), 0);
    atomic_store(&shm_generations(w->a.header)[0], 20); /* another one is there */
    assert_false(is_there(w, SHM_HDR_SIZE, 100));
    answer(w, 0, 20, ONE);
    assert_int_equal(world_map(w, 0), 0); /* in place of the first */
    assert_int_equal(w->a.n_mapped, 1);
    assert_int_equal(proc_mapped(WORLD_EXTENT), 1);
    atomic_store(&shm_generations(w->a.header)[0], 0);
    answer(w, 0, 0, ONE); /* no generation is none */
    assert_int_equal(world_map(w, 0), 0);
    assert_int_equal(w->a.n_mapped, 1);
    atomic_store(&header_of(w)->drops, 1);
    extents_look(&w->a);
    assert_int_equal(proc_mapped(WORLD_EXTENT), 0);
    assert_int_equal(w->a.n_mapped, 0);
    assert_int_equal(atomic_load(&w->session.drops_seen), 1); /* the daemon is told */
}

static void test_no_leak(void **state)
{
    struct world *w = *state;
    struct msg m = MSG_INIT;
    size_t used = 0;

    for (unsigned i = 0; i < 101; i++) {
        answer(w, 0, 9, ONE);
        assert_int_equal(world_map(w, 0), 0);
        assert_int_equal(msg_recv(w->end, &m, DLC_SEC(5), NULL), 0);
        msg_release(&m);
        used = i == 0 ? mallinfo2().uordblks : used;
    }
    assert_true(mallinfo2().uordblks < used + 3200);
}

/* What is mapped changes under the process-wide lock: (EXTENTS-1). */
static void test_lock(void **state)
{
    struct world *w = *state;

    answer(w, 0, 10, ONE);
    lock_watch(CALL_mmap_at, client_lock, client_unlock);
    assert_int_equal(world_map(w, 0), 0);
    assert_int_equal(lock_watch_end(), 1);
    atomic_store(&shm_generations(w->a.header)[0], 0);
    atomic_store(&header_of(w)->drops, 1);
    lock_watch(CALL_mmap_at, client_lock, client_unlock);
    extents_look(&w->a);
    assert_int_equal(lock_watch_end(), 1);
    lock_watch(CALL_recvmsg, client_lock, client_unlock);
    atomic_store(&header_of(w)->drops, 2);
    extents_look(&w->a); /* reads the channel */
    assert_int_equal(lock_watch_end(), 1);
    client_lock(); /* it is free */
    client_unlock();
}

/* ---- when the process attaches ---- */

static struct dlc_mono in_5_s(void)
{
    return dlc_mono_add(dlc_mono_now(), DLC_SEC(5));
}

/* An answer carries MSG_FDS extents: the client asks for those after them. */
static void test_ahead(void **state)
{
    struct world *w = world_new(2 * MSG_FDS + 2, 12, 4096);

    (void)state;
    assert_int_equal(extents_attach(&w->a, NULL), 0);
    world_answer(w, 0, MSG_FDS, 10, 4096);
    world_answer(w, MSG_FDS + 1, MSG_FDS, 10 + MSG_FDS + 1, 4096); /* one is not there */
    world_answer(w, 2 * MSG_FDS + 1, 1, 10 + 2 * MSG_FDS + 1, 4096);
    assert_int_equal(extents_map_ahead(&w->a, in_5_s(), NULL), 0);
    assert_int_equal(w->a.n_mapped, 2 * MSG_FDS + 1);
    assert_int_equal(proc_mapped(WORLD_EXTENT), 2 * MSG_FDS + 1);
    assert_true(extents_are_mapped(&w->a, 0, 4096));
    assert_false(extents_are_mapped(&w->a, MSG_FDS * 4096, 4096));
    assert_int_equal(world_question(w), 0);
    assert_int_equal(world_question(w), MSG_FDS);
    assert_int_equal(world_question(w), 2 * MSG_FDS + 1);
    assert_int_equal(world_question(w), -1);
    world_free(w);
}

/* It never asks for the same ones twice, whatever comes. */
static void test_ahead_comes_to_an_end(void **state)
{
    struct world *w = world_new(2 * MSG_FDS, 12, 4096);

    (void)state;
    assert_int_equal(extents_attach(&w->a, NULL), 0);
    world_answer(w, 0, MSG_FDS, 10, 4096);
    world_answer(w, 0, MSG_FDS, 10, 4096); /* again */
    assert_int_equal(extents_map_ahead(&w->a, in_5_s(), NULL), 0);
    assert_int_equal(world_question(w), 0);
    assert_int_equal(world_question(w), MSG_FDS);
    assert_int_equal(world_question(w), -1);
    world_place(w, 0, MSG_FDS * 4096, 1);
    world_answer(w, 0, MSG_FDS, 10, 4096);
    assert_int_equal(world_map(w, 0), DLC_EPROTO);
    world_free(w);
}

/* What a reader will be told is no reason not to attach; a daemon that is gone is. */
static void test_ahead_fails(void **state)
{
    struct world *w = *state;

    answer(w, 0, 10, ONE - 4096);
    assert_int_equal(extents_map_ahead(&w->a, in_5_s(), NULL), 0);
    world_refuse(w, DLC_EBYPASS);
    assert_int_equal(extents_map_ahead(&w->a, in_5_s(), NULL), 0);
    world_refuse(w, DLC_ECANCELED);
    assert_int_equal(extents_map_ahead(&w->a, in_5_s(), NULL), DLC_ECANCELED);
    assert_int_equal(extents_map_ahead(&w->a, dlc_mono_now(), NULL), DLC_ETIMEDOUT);
    os_close(&w->end);
    assert_int_equal(extents_map_ahead(&w->a, in_5_s(), NULL), DLC_ENODAEMON);
}

/* ---- headers ---- */

static int attach(uint32_t n, unsigned shift, uint64_t size, size_t header_size)
{
    struct world *w = world_new(4, 16, 4096);
    int rc;

    header_of(w)->n_extents = n;
    header_of(w)->extent_shift = shift;
    header_of(w)->size = size;
    w->a.header_size = header_size;
    rc = extents_attach(&w->a, NULL);
    world_free(w);
    return rc;
}

static void test_headers(void **state)
{
    const size_t room = SHM_HDR_SIZE + 4 * sizeof(uint32_t);

    (void)state;
    assert_int_equal(attach(4, 12, 4 * 4096, room), 0);
    assert_int_equal(attach(3, 12, 3 * 4096, room), 0);
    assert_int_equal(attach(1, 48, 4096, room), 0);
    assert_int_equal(attach(4, 12, 4 * 4096 + 1, room), DLC_EPROTO);
    assert_int_equal(attach(4, 11, 4096, room), DLC_EPROTO);
    assert_int_equal(attach(1, 49, 4096, room), DLC_EPROTO);
    assert_int_equal(attach(1, 64, 0, room), DLC_EPROTO);
    assert_int_equal(attach(0, 12, 0, room), DLC_EPROTO);
    assert_int_equal(attach(5, 12, 4096, room), DLC_EPROTO);
    assert_int_equal(attach(4, 12, 4096, room - 1), DLC_EPROTO);
    /* more than there are addresses */
    assert_int_equal(attach(1, 48, (uint64_t)1 << 48, room), DLC_ENOMEM);
}

/* What was dropped before the process attached is no news. */
static void test_drops_before(void **state)
{
    struct world *w = world_new(4, 16, 4096);

    (void)state;
    atomic_store(&header_of(w)->drops, 7);
    assert_int_equal(extents_attach(&w->a, NULL), 0);
    assert_int_equal(atomic_load(&w->a.drops_seen), 7);
    assert_int_equal(atomic_load(&w->session.drops_seen), 7);
    world_free(w);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_maps),
        T(test_empty),
        T(test_not_there),
        T(test_refused),
        T(test_cannot_map),
        T(test_old),
        T(test_no_leak),
        T(test_lock),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_ahead_comes_to_an_end),
        T(test_ahead_fails),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_drops_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
