// SPDX-License-Identifier: Apache-2.0
/* Extents that the daemon makes and drops while a client is attached: the test plays the daemon. */
#include "extents_world.h"
#include "lock_held.h"

#include <fcntl.h>

#include "client/process.h"

#define N     6u
#define SIZE  4096u
#define AHEAD 16384u /* mappings that a process makes ahead of use */

static int setup(void **state)
{
    struct world *w = world_new(N, 12, SIZE);

    assert_int_equal(extents_attach(&w->a, NULL), 0);
    for (unsigned i = 0; i < unit_count(w->slots); i++)
        world_place(w, i, i * SIZE, SIZE);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    world_free(*state);
    return 0;
}

static void follow(struct world *w)
{
    client_lock();
    extents_follow(&w->a);
    client_unlock();
}

static void made(struct world *w, uint32_t k, uint32_t generation)
{
    int fd = world_extent(SIZE);

    world_note(w, k, generation, fd);
    os_close(&fd);
}

/* The daemon drops extent k. */
static void drop(struct world *w, uint32_t k)
{
    atomic_store(&shm_generations(w->a.header)[k], 0);
    atomic_fetch_add(&header_of(w)->drops, 1);
}

static bool is_there(struct world *w, uint32_t k)
{
    return extents_are_mapped(&w->a, (uint64_t)k * SIZE, SIZE);
}

static void test_maps(void **state)
{
    struct world *w = *state;
    unsigned before = proc_descriptors();

    made(w, 1, 11);
    made(w, N - 1, 10 + N - 1);
    follow(w);
    assert_true(is_there(w, 1) && is_there(w, N - 1));
    assert_false(is_there(w, 0));
    assert_int_equal(w->a.n_mapped, 2);
    assert_int_equal(proc_descriptors(), before);
    made(w, 2, 12);
    assert_int_equal(world_map(w, 2), 0); /* a reader finds it there, and does not ask */
    assert_true(is_there(w, 2));
    assert_int_equal(world_question(w), -1);
}

static void test_ignored(void **state)
{
    struct world *w = world_new(N, 13, SIZE); /* there is room for one behind the last */
    unsigned before = proc_descriptors();

    (void)state;
    assert_int_equal(extents_attach(&w->a, NULL), 0);
    world_note(w, 0, 10, -1);
    made(w, N, 10 + N); /* not one of ours */
    made(w, UINT32_MAX, 0);
    made(w, 1, 10); /* of a generation that is gone */
    atomic_store(&shm_generations(w->a.header)[2], 0);
    made(w, 2, 0); /* no generation is none */
    follow(w);
    assert_int_equal(w->a.n_mapped, 0);
    assert_false(world_channel_waits(w));
    assert_int_equal(proc_mapped(WORLD_EXTENT), 0);
    assert_int_equal(proc_descriptors(), before);
    assert_int_equal(atomic_load(&w->session.drops_seen), 0);
    world_free(w);
}

/* What cannot be mapped is left to the reader. */
static void test_cannot_map(void **state)
{
    struct world *w = *state;
    unsigned before = proc_descriptors();

    made(w, 0, 10);
    made(w, 1, 11);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(mmap_at), .nth = 1});
    follow(w);
    assert_true(fault_disarm());
    assert_false(is_there(w, 0));
    assert_true(is_there(w, 1));
    assert_int_equal(proc_descriptors(), before);
}

/* A client of a daemon without a channel, and one whose channel has ended. */
static void test_no_channel(void **state)
{
    struct world *w = *state;
    int channel = w->a.channel;

    made(w, 0, 10);
    w->a.channel = -1;
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(recvmsg), .nth = 1});
    follow(w);
    assert_false(fault_disarm());
    assert_int_equal(w->a.n_mapped, 0);
    w->a.channel = channel;
    os_close(&w->channel_end);
    follow(w); /* what came before the end */
    assert_true(is_there(w, 0));
}

/* A program that has closed its standard input: its number is one like any other. */
static void test_descriptor_0(void **state)
{
    struct world *w = *state;
    int input = dup(0), channel = w->a.channel;

    made(w, 0, 10);
    made(w, 1, 11);
    assert_int_equal(dup2(channel, 0), 0);
    w->a.channel = 0;
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(mmap_at), .nth = 1});
    follow(w);
    assert_true(fault_disarm());
    assert_true(is_there(w, 1));
    w->a.channel = channel;
    made(w, 2, 12);
    close(0);
    follow(w); /* the memory comes as 0 */
    assert_true(is_there(w, 2));
    assert_int_equal(fcntl(0, F_GETFD), -1);
    assert_int_equal(dup2(input, 0), 0);
    close(input);
}

/* The daemon is told when what it dropped is unmapped, not before. */
static void test_drops(void **state)
{
    struct world *w = *state;

    for (uint32_t k = 0; k < N; k++)
        made(w, k, 10 + k);
    follow(w);
    assert_int_equal(w->a.n_mapped, N);
    drop(w, 0);
    drop(w, N - 1);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(mmap_at), .nth = 1});
    follow(w);
    assert_true(fault_disarm());
    assert_int_equal(w->a.n_mapped, N - 1); /* the others are unmapped */
    assert_int_equal(atomic_load(&w->a.drops_seen), 0);
    assert_int_equal(atomic_load(&w->session.drops_seen), 0);
    follow(w);
    assert_int_equal(w->a.n_mapped, N - 2);
    assert_int_equal(proc_mapped(WORLD_EXTENT), N - 2);
    assert_true(is_there(w, 1) && is_there(w, 2));
    assert_int_equal(atomic_load(&w->a.drops_seen), 2);
    assert_int_equal(atomic_load(&w->session.drops_seen), 2);
}

/* Calls that wait anyway follow only when something was dropped. */
static void test_look(void **state)
{
    struct world *w = *state;

    made(w, 0, 10);
    extents_look(&w->a);
    assert_true(world_channel_waits(w));
    assert_int_equal(w->a.n_mapped, 0);
    drop(w, 1);
    extents_look(&w->a);
    assert_false(world_channel_waits(w));
    assert_true(is_there(w, 0));
    assert_int_equal(atomic_load(&w->session.drops_seen), 1);
}

/* A reader takes what came under the lock, too: (EXTENTS-3). */
static void test_lock(void **state)
{
    struct world *w = *state;

    made(w, 0, 10);
    lock_watch(CALL_mmap_at, client_lock, client_unlock);
    assert_int_equal(world_map(w, 0), 0);
    assert_int_equal(lock_watch_end(), 1);
}

/* ---- how many ---- */

/* Notes of all extents; the channel takes some at a time. */
static void make_all(struct world *w, int fd)
{
    for (uint32_t k = 0; k < w->a.n_extents; k++) {
        world_note(w, k, 10 + k, fd);
        if (k % 4 == 3)
            follow(w);
    }
    follow(w);
}

static void drop_all(struct world *w)
{
    for (uint32_t k = 0; k < w->a.n_extents; k++)
        drop(w, k);
    follow(w);
    assert_int_equal(w->a.n_mapped, 0);
    for (uint32_t k = 0; k < w->a.n_extents; k++)
        atomic_store(&shm_generations(w->a.header)[k], 10 + k);
}

/* A process maps only so many ahead, in all its attachments; those that it reads it maps always. */
static void test_ahead_is_bounded(void **state)
{
    struct world *w = world_new(AHEAD + 8, 12, SIZE), *other = *state;
    int fd = world_extent(SIZE);

    assert_int_equal(extents_attach(&w->a, NULL), 0);
    for (unsigned round = 0; round < 2; round++) {
        made(other, round, 10 + round);
        follow(other);
        make_all(w, fd);
        assert_int_equal(w->a.n_mapped, AHEAD - 1 - round);
        made(other, 2, 12);
        follow(other);
        assert_int_equal(other->a.n_mapped, 1 + round);
        assert_int_equal(extents_map_ahead(&w->a, dlc_mono_now(), NULL), 0); /* asks nothing */
        world_place(w, 0, (AHEAD + 7) * (uint64_t)SIZE, SIZE);
        world_answer(w, AHEAD + 7, 1, 10 + AHEAD + 7, SIZE);
        assert_int_equal(world_map(w, 0), 0);
        assert_true(is_there(w, AHEAD + 7));
        drop_all(w);
    }
    make_all(w, fd);
    assert_int_equal(w->a.n_mapped, AHEAD - 2);
    extents_unmapped(&w->a); /* as an attachment that ends */
    assert_int_equal(w->a.n_mapped, 0);
    world_free(w);
    made(other, 3, 13);
    follow(other);
    assert_true(is_there(other, 3));
    os_close(&fd);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_maps),       T(test_ignored),      T(test_cannot_map),
        T(test_no_channel), T(test_descriptor_0), T(test_drops),
        T(test_look),       T(test_lock),         T(test_ahead_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
