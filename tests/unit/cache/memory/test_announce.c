// SPDX-License-Identifier: Apache-2.0
/* Sessions hear of extents that are made and dropped, however many they are and whether they read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/syscalls.h"
#include "cache/memory/memory_i.h"

#define MB   ((uint64_t)1 << 20)
#define MANY 600u /* sessions: more than are told in one step */

static struct memory *m;
static struct mem_index *x;

static int setup(void **state)
{
    (void)state;
    assert_int_equal(memory_new(8 * MB, 8 * MB, &m, NULL), 0);
    return mem_index_new(m, 1000, 77, &x, NULL);
}

static int teardown(void **state)
{
    (void)state;
    mem_index_free(&x);
    memory_free(&m);
    return 0;
}

static void put(uint64_t sample, uint64_t len)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve(m, x, sample, len, &f), 0);
    memory_publish(m, &f);
}

static unsigned live(void)
{
    unsigned n = 0;

    for (uint32_t k = 0; k < m->extents.n; k++)
        n += m->extents.all[k].fd >= 0;
    return n;
}

/* One session as its client sees it. */
struct listener {
    struct mem_session *s;
    int channel;
};

static struct listener listen_to(void)
{
    struct listener l;

    assert_int_equal(mem_session_new(x, &l.s, NULL), 0);
    l.channel = mem_session_take_channel(l.s);
    assert_true(l.channel >= 0);
    assert_int_equal(mem_session_take_channel(l.s), -1);
    return l;
}

static void leave(struct listener *l)
{
    os_close(&l->channel);
    mem_session_free(&l->s);
}

/* Packets that have come: extents whose memory is the one that the table names, and words of drops. */
static void hear(struct listener *l, unsigned *extents, unsigned *drops)
{
    struct shm_extent_note note;
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {&note, sizeof(note)};
    struct stat st, mine;
    int fd;

    *extents = *drops = 0;
    for (;;) {
        struct msghdr h = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof(control)};

        if (os_recvmsg(l->channel, &h, MSG_DONTWAIT) != sizeof(note))
            return;
        if (note.number == SHM_EXTENTS_DROPPED) {
            assert_null(CMSG_FIRSTHDR(&h));
            ++*drops;
            continue;
        }
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(fd));
        assert_true(note.number < m->extents.n);
        assert_int_equal(atomic_load(&shm_generations(m->extents.header.map)[note.number]),
                         note.generation);
        assert_int_equal(os_fstat(fd, &st), 0);
        assert_int_equal(os_fstat(m->extents.all[note.number].fd, &mine), 0);
        assert_int_equal(st.st_ino, mine.st_ino);
        os_close(&fd);
        ++*extents;
    }
}

static void empty(void)
{
    memory_evict_all(m, NULL);
    while (memory_free_some(m))
        ;
}

/* Before the sample is READY; and not again. */
static void test_made_and_dropped(void **state)
{
    struct listener l = listen_to(), late;
    unsigned extents, drops;
    struct mem_fill *f;

    (void)state;
    assert_int_equal(memory_reserve(m, x, 1, 200000, &f), 0);
    hear(&l, &extents, &drops);
    assert_int_equal(extents, live());
    assert_int_equal(drops, 0);
    memory_publish(m, &f);
    put(2, 1000); /* into the last of them */
    memory_tick(m);
    hear(&l, &extents, &drops);
    assert_int_equal(extents + drops, 0);
    late = listen_to(); /* those that are there it asks for */
    hear(&late, &extents, &drops);
    assert_int_equal(extents + drops, 0);
    empty();
    assert_int_equal(live(), 0);
    assert_int_equal(m->n_behind, 0); /* all have heard of it */
    hear(&l, &extents, &drops);
    assert_int_equal(extents, 0);
    assert_true(drops > 0);
    leave(&late);
    leave(&l);
}

/* (ANNOUNCE-1) */
static void test_who_does_not_read(void **state)
{
    struct listener deaf = listen_to(), l = listen_to();
    unsigned extents = 0, drops, all = 0, turns = 0;

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        put(i, 65536);
        hear(&l, &extents, &drops);
        all += extents;
    }
    assert_int_equal(all, live());
    assert_true(m->n_behind == 1 && deaf.s->behind);
    all = 0;
    do { /* at the ticks it gets the rest */
        hear(&deaf, &extents, &drops);
        assert_true(extents <= 64);
        all += extents;
        memory_tick(m);
    } while (all < live() && ++turns < 100);
    assert_int_equal(all, live());
    assert_int_equal(m->n_behind, 0);
    leave(&deaf);
    leave(&l);
}

/* A session that ends, or whose client hung up, while there is more to tell it. */
static void test_who_leaves(void **state)
{
    struct listener deaf = listen_to(), gone = listen_to(), zombie = listen_to();

    (void)state;
    os_close(&gone.channel);
    for (unsigned i = 0; i < 100; i++)
        put(i, 65536);
    assert_int_equal(m->n_behind, 2);
    assert_int_equal(gone.s->channel, -1);
    mem_session_hang_up(zombie.s);
    assert_int_equal(m->n_behind, 1);
    leave(&zombie);
    leave(&gone);
    leave(&deaf);
    assert_int_equal(m->n_behind, 0);
    memory_tick(m);
    assert_int_equal(m->n_sessions, 0);
}

/* (ANNOUNCE-2) */
static void test_nobody_sends(void **state)
{
    struct listener l = listen_to();

    (void)state;
    assert_int_equal(os_send(l.channel, "x", 1, MSG_DONTWAIT), -1);
    leave(&l);
}

/* In steps: those that were not told in the first one are in the next. */
static void test_many(void **state)
{
    static struct listener all[MANY];
    unsigned extents, drops, told = 0;

    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        all[i] = listen_to();
    put(1, 1000);
    for (unsigned i = 0; i < MANY; i++) {
        hear(&all[i], &extents, &drops);
        told += extents;
    }
    assert_true(told > 0 && told <= 256);
    assert_true(memory_free_some(m));
    while (memory_free_some(m))
        ;
    for (unsigned i = 0; i < MANY; i++) {
        hear(&all[i], &extents, &drops);
        told += extents;
    }
    assert_int_equal(told, MANY);
    for (unsigned i = 0; i < MANY; i++)
        leave(&all[i]);
}

/* Sessions that were to be told in the next step are gone by then. */
static void test_all_leave_between_steps(void **state)
{
    static struct listener all[MANY];

    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        all[i] = listen_to();
    put(1, 1000);
    assert_true(m->untold > 0);
    for (unsigned i = 0; i < MANY; i++)
        leave(&all[i]);
    assert_false(memory_announce_some(m));
    assert_int_equal(m->untold, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_made_and_dropped),
        T(test_who_does_not_read),
        T(test_who_leaves),
        T(test_nobody_sends),
        T(test_many),
        T(test_all_leave_between_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
