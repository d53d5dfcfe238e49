// SPDX-License-Identifier: Apache-2.0
/*
 * Which blocks threads claim and give back. A block that two of them use at once loses a pin, and a
 * reader's bytes with it, so seldom that readers do not show it: here the blocks are looked at.
 */
#include "client/dataset.h"
#include "unit.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "client/attachment.h"
#include "client/pins.h"

#define THREAD_BLOCKS (SHM_BLOCKS - 64) /* the last 64 are for overflow alone */

static struct attachment *attachment_map(uint64_t generation)
{
    struct attachment *a =
        mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(a, MAP_FAILED);
    a->generation = generation;
    a->overflow = UINT32_MAX;
    a->session = mem_zero(SHM_HDR_SIZE);
    a->blocks = mem_zero(SHM_BLOCKS * sizeof(*a->blocks));
    dlc_mtx_init(&a->mtx, LCK_session);
    return a;
}

static void attachment_unmap_all(struct attachment *a)
{
    pins_attachment_gone(a);
    mem_free(&a->session);
    mem_free(&a->blocks);
    assert_int_equal(munmap(a, sizeof(*a)), 0);
}

static int block_of(struct attachment *a)
{
    unsigned *hint;
    struct shm_pin_block *b = pins_block(a, &hint);

    return b == NULL ? -1 : (int)(b - a->blocks);
}

/* A thread that looks for its block, tells it, and ends when it is told to. */
struct user {
    struct attachment *a;
    int block;
    pthread_t thread;
    pthread_barrier_t barrier;
};

static void *user_main(void *arg)
{
    struct user *u = arg;

    u->block = block_of(u->a);
    pthread_barrier_wait(&u->barrier);
    pthread_barrier_wait(&u->barrier);
    return NULL;
}

static int user_start(struct user *u, struct attachment *a)
{
    u->a = a;
    assert_int_equal(pthread_barrier_init(&u->barrier, NULL, 2), 0);
    assert_int_equal(pthread_create(&u->thread, NULL, user_main, u), 0);
    pthread_barrier_wait(&u->barrier);
    return u->block;
}

static void user_end(struct user *u)
{
    pthread_barrier_wait(&u->barrier);
    pthread_join(u->thread, NULL);
    pthread_barrier_destroy(&u->barrier);
}

static void test_each_thread_has_its_own(void **state)
{
    struct attachment *a = attachment_map(1001);
    static struct user u[3];

    (void)state;
    assert_int_equal(block_of(a), 0);
    assert_int_equal(user_start(&u[0], a), 1);
    assert_int_equal(user_start(&u[1], a), 2);
    assert_int_equal(a->block_owned[0] + a->block_owned[1] + a->block_owned[2], 3);
    assert_int_equal(atomic_load(&a->blocks[2].in_use), 1);
    assert_int_equal(atomic_load(&a->blocks[3].in_use), 0);
    assert_int_equal(atomic_load(&a->session->blocks_high), 3);
    user_end(&u[0]);
    assert_int_equal(a->block_owned[1], 0); /* the next one's */
    assert_int_equal(a->block_owned[2], 1);
    assert_int_equal(user_start(&u[2], a), 1);
    assert_int_equal(atomic_load(&a->session->blocks_high), 3); /* does not go back */
    user_end(&u[1]);
    user_end(&u[2]);
    assert_int_equal(block_of(a), 0);
    attachment_unmap_all(a);
}

/* More threads than blocks: none shares one. */
static void test_no_block_is_left(void **state)
{
    struct attachment *a = attachment_map(1002);
    static struct user last, none;

    (void)state;
    memset(a->block_owned, 1, THREAD_BLOCKS - 1);
    assert_int_equal(user_start(&last, a), THREAD_BLOCKS - 1);
    assert_int_equal(user_start(&none, a), -1);
    assert_int_equal(a->block_owned[THREAD_BLOCKS], 0);
    user_end(&none);
    user_end(&last);
    attachment_unmap_all(a);
}

/* Pins beyond a block of them: each one of its own, in blocks that no thread has. */
static void test_overflow(void **state)
{
    struct attachment *a = attachment_map(1003);
    _Atomic uint64_t *pins[64 * SHM_PINS], *again;
    static struct user u;

    (void)state;
    assert_int_equal(block_of(a), 0);
    pins[0] = pins_overflow(a, 7);
    assert_int_equal((struct shm_pin_block *)(uintptr_t)pins[0] >= a->blocks + 1, 1);
    assert_int_equal(a->block_owned[1], 2);
    assert_int_equal(a->block_owned[0], 1);
    assert_int_equal(atomic_load(pins[0]), 8);
    assert_int_equal(user_start(&u, a), 2); /* not the one that pins overflow to */
    user_end(&u);
    atomic_store(pins[0], 0);
    assert_ptr_equal(pins_overflow(a, 9), pins[0]);
    atomic_store(pins[0], 0);

    /* Nothing but the last 64 is left: all their pins can be had, and then no more. */
    memset(a->block_owned, 1, THREAD_BLOCKS);
    a->overflow = UINT32_MAX;
    for (unsigned i = 0; i < 64 * SHM_PINS; i++) {
        pins[i] = pins_overflow(a, i);
        assert_ptr_equal(pins[i], &a->blocks[THREAD_BLOCKS + i / SHM_PINS].pins[i % SHM_PINS]);
        assert_int_equal(a->block_owned[THREAD_BLOCKS + i / SHM_PINS], 2);
    }
    assert_int_equal(atomic_load(&a->session->blocks_high), SHM_BLOCKS);
    assert_null(pins_overflow(a, 1));
    for (unsigned i = 0; i < 64 * SHM_PINS; i++)
        assert_int_equal(atomic_load(pins[i]), i + 1);
    /* One of the first block is put: it is found again, and those of its block after it. */
    atomic_store(pins[5], 0);
    atomic_store(pins[6], 0);
    again = pins_overflow(a, 1);
    assert_ptr_equal(again, pins[5]);
    assert_int_equal(a->overflow, THREAD_BLOCKS);
    assert_ptr_equal(pins_overflow(a, 1), pins[6]);
    atomic_store(pins[0], 0);
    assert_ptr_equal(pins_overflow(a, 1), pins[0]);
    attachment_unmap_all(a);
}

/* Any block can be the one that pins overflow to: the first one, and one after threads'. */
static void test_overflow_elsewhere(void **state)
{
    struct attachment *a = attachment_map(1008), *b = attachment_map(1009);

    (void)state;
    for (unsigned i = 0; i < 2 * SHM_PINS; i++)
        assert_ptr_equal(pins_overflow(a, i), &a->blocks[i / SHM_PINS].pins[i % SHM_PINS]);
    assert_int_equal(a->block_owned[0], 2);
    atomic_store(&a->blocks[0].pins[3], 0);
    assert_ptr_equal(pins_overflow(a, 9), &a->blocks[0].pins[3]);
    assert_int_equal(block_of(a), 2);

    memset(b->block_owned, 1, 2);
    for (unsigned i = 0; i < 2 * SHM_PINS; i++)
        assert_ptr_equal(pins_overflow(b, i), &b->blocks[2 + i / SHM_PINS].pins[i % SHM_PINS]);
    attachment_unmap_all(a);
    attachment_unmap_all(b);
}

/* A thread that ends after the attachment: it is not touched, nor is another one in its place. */
static void test_attachment_gone(void **state)
{
    struct attachment *a = attachment_map(1004), *b = attachment_map(1005);
    static struct user late, of_other, foreign;

    (void)state;
    assert_int_equal(user_start(&foreign, b), 0); /* the first that the library knows */
    assert_int_equal(user_start(&late, a), 0);
    attachment_unmap_all(a);
    user_end(&late); /* a crash if it looked there */

    user_end(&foreign);
    assert_int_equal(b->block_owned[0], 0);
    assert_int_equal(user_start(&of_other, b), 0);
    pins_attachment_gone(b);
    b->generation = 1006; /* another one that lies there */
    b->block_owned[0] = 0;
    assert_int_equal(block_of(b), 0);
    user_end(&of_other);
    assert_int_equal(b->block_owned[0], 1);

    assert_int_equal(user_start(&foreign, b), 1);
    b->foreign = true; /* as fork() leaves it: another process's */
    user_end(&foreign);
    assert_int_equal(b->block_owned[1], 1);
    attachment_unmap_all(b);
}

/* More attachments than a thread remembers: each keeps its block, whichever others go. */
static void test_many_attachments(void **state)
{
    struct attachment *a[40];

    (void)state;
    for (unsigned i = 0; i < unit_count(a); i++) {
        a[i] = attachment_map(2000 + i);
        a[i]->block_owned[0] = i % 2; /* the block's number is of use */
        assert_int_equal(block_of(a[i]), i % 2);
    }
    for (unsigned i = 0; i < unit_count(a); i += 3)
        attachment_unmap_all(a[i]);
    for (unsigned round = 0; round < 20; round++) {
        struct attachment *more = attachment_map(3000 + round);

        assert_int_equal(block_of(more), 0);
        for (unsigned i = 0; i < unit_count(a); i++) {
            if (i % 3 == 0)
                continue;
            assert_int_equal(block_of(a[i]), i % 2);
            assert_int_equal(a[i]->block_owned[2], 0); /* not a second one */
        }
        attachment_unmap_all(more);
    }
    for (unsigned i = 0; i < unit_count(a); i++) {
        if (i % 3 != 0)
            attachment_unmap_all(a[i]);
    }
}

/* A thread that uses more attachments than it remembers; all blocks go back. */
static void *many_main(void *arg)
{
    struct attachment **a = arg;

    for (unsigned i = 0; i < 12; i++) {
        if (block_of(a[i % 6]) != 0 || a[i % 6]->block_owned[1] != 0)
            return (void *)(uintptr_t) "another block";
    }
    return NULL;
}

static void test_many_of_a_thread(void **state)
{
    struct attachment *a[6];
    pthread_t t;
    void *wrong;

    (void)state;
    for (unsigned i = 0; i < 6; i++)
        a[i] = attachment_map(4000 + i * PINS_CACHE);
    assert_int_equal(pthread_create(&t, NULL, many_main, a), 0);
    pthread_join(t, &wrong);
    assert_null(wrong);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(a[i]->block_owned[0], 0);
        attachment_unmap_all(a[i]);
    }
}

static void *one_main(void *arg)
{
    return block_of(arg) == 0 ? NULL : arg;
}

/* A thread that ends leaves no memory behind. */
static void test_threads_leave_nothing(void **state)
{
    struct attachment *a = attachment_map(1010);
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 1100; i++) {
        pthread_t t;
        void *wrong;

        if (i == 100)
            before = mallinfo2().uordblks;
        assert_int_equal(pthread_create(&t, NULL, one_main, a), 0);
        pthread_join(t, &wrong);
        assert_null(wrong);
    }
    assert_true(mallinfo2().uordblks < before + 10000);
    attachment_unmap_all(a);
}

/* The library's lock is free after a fork, on both sides. */
static void test_fork(void **state)
{
    struct attachment *a = attachment_map(1011);
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(block_of(a), 0); /* the library takes part in forks from here on */
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct attachment *b = attachment_map(1012);

        alarm(20);
        _exit(block_of(b));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    alarm(20);
    pins_attachment_gone(a);
    alarm(0);
    attachment_unmap_all(a);
}

static pthread_key_t late_key;
static struct attachment *late_a;
static int late_block = -1, late_owned;

/* Runs after the library's destructor, whose key is older. */
static void look_late(void *arg)
{
    (void)arg;
    late_block = block_of(late_a);
    late_owned = late_block < 0 ? -1 : late_a->block_owned[late_block];
}

static void *late_main(void *arg)
{
    block_of(late_a);
    pthread_setspecific(late_key, arg);
    return NULL;
}

/* A destructor that reads after the block went back claims it anew. */
static void test_destructor(void **state)
{
    pthread_t t;

    (void)state;
    late_a = attachment_map(1007);
    assert_int_equal(block_of(late_a), 0); /* the library has its key */
    assert_int_equal(pthread_key_create(&late_key, look_late), 0);
    assert_int_equal(pthread_create(&t, NULL, late_main, late_a), 0);
    pthread_join(t, NULL);
    assert_int_equal(late_block, 1);
    assert_int_equal(late_owned, 1);
    assert_int_equal(late_a->block_owned[1], 0);
    pthread_key_delete(late_key);
    attachment_unmap_all(late_a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attachment_gone),
        cmocka_unit_test(test_each_thread_has_its_own),
        cmocka_unit_test(test_no_block_is_left),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_overflow_elsewhere),
        cmocka_unit_test(test_many_attachments),
        cmocka_unit_test(test_many_of_a_thread),
        cmocka_unit_test(test_threads_leave_nothing),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_destructor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
