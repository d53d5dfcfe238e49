// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mutex.h"

#define THREADS 4
#define ROUNDS  20000

struct shared {
    struct dlc_mtx m;
    struct dlc_cond c;
    int n, waiting;
};

static void *add_many(void *arg)
{
    struct shared *s = arg;

    for (int i = 0; i < ROUNDS; i++) {
        dlc_mtx_lock(&s->m);
        dlc_mtx_assert_held(&s->m);
        s->n++;
        dlc_mtx_unlock(&s->m);
    }
    return NULL;
}

static void test_excludes(void **state)
{
    struct shared s = {.n = 0};
    pthread_t t[THREADS];

    (void)state;
    dlc_mtx_init(&s.m, LCK_pool);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, add_many, &s), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(s.n, THREADS * ROUNDS);
    dlc_mtx_release(&s.m);
}

static void *wait_for_go(void *arg)
{
    struct shared *s = arg;

    dlc_mtx_lock(&s->m);
    s->waiting++;
    dlc_cond_broadcast(&s->c);
    while (s->n == 0)
        dlc_cond_wait(&s->c, &s->m);
    dlc_mtx_unlock(&s->m);
    return NULL;
}

static void test_broadcast_wakes_all(void **state)
{
    struct shared s = {.n = 0};
    pthread_t t[THREADS];

    (void)state;
    dlc_mtx_init(&s.m, LCK_pool);
    dlc_cond_init(&s.c);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, wait_for_go, &s), 0);
    dlc_mtx_lock(&s.m);
    while (s.waiting < THREADS)
        dlc_cond_wait(&s.c, &s.m);
    s.n = 1;
    dlc_cond_broadcast(&s.c);
    dlc_mtx_unlock(&s.m);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    dlc_cond_release(&s.c);
    dlc_mtx_release(&s.m);
}

static void test_wait_for_ends_in_time(void **state)
{
    struct shared s = {.n = 0};
    struct dlc_mono before = dlc_mono_now();

    (void)state;
    dlc_mtx_init(&s.m, LCK_pool);
    dlc_cond_init(&s.c);
    dlc_mtx_lock(&s.m);
    while (dlc_cond_wait_for(&s.c, &s.m, DLC_MS(20)) == 0)
        ; /* woken for no reason: allowed */
    dlc_mtx_assert_held(&s.m);
    dlc_mtx_unlock(&s.m);
    assert_true(dlc_mono_since(before).ns >= 20000000);
    dlc_cond_release(&s.c);
    dlc_mtx_release(&s.m);
}

static void assert_held_of_a_free_one(void)
{
    struct dlc_mtx m;

    dlc_mtx_init(&m, LCK_pool);
    dlc_mtx_assert_held(&m);
}

static void test_assert_held(void **state)
{
    (void)state;
    assert_true(unit_aborts(assert_held_of_a_free_one));
}

static void unlock_a_free_one(void)
{
    struct dlc_mtx m;

    dlc_mtx_init(&m, LCK_pool);
    dlc_mtx_unlock(&m);
}

static void wait_with_a_free_one(void)
{
    struct dlc_mtx m;
    struct dlc_cond c;

    dlc_mtx_init(&m, LCK_pool);
    dlc_cond_init(&c);
    dlc_cond_wait_for(&c, &m, DLC_MS(1));
}

static void wait_for_ever_with_a_free_one(void)
{
    struct dlc_mtx m;
    struct dlc_cond c;

    dlc_mtx_init(&m, LCK_pool);
    dlc_cond_init(&c);
    alarm(5); /* SIGALRM is not SIGABRT */
    dlc_cond_wait(&c, &m);
}

/* A lock that was left out is found the first time, not when two threads meet. */
static void test_nobody_holds_it(void **state)
{
    (void)state;
    assert_true(unit_aborts(unlock_a_free_one));
    assert_true(unit_aborts(wait_with_a_free_one));
    assert_true(unit_aborts(wait_for_ever_with_a_free_one));
}

static void release_a_held_one(void)
{
    struct dlc_mtx m;

    dlc_mtx_init(&m, LCK_pool);
    dlc_mtx_lock(&m);
    dlc_mtx_release(&m);
}

static void test_release_of_a_held_one(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    (void)release_a_held_one; /* it reports this itself */
#elif defined(DLC_DEBUG)
    assert_true(unit_aborts(release_a_held_one));
#else
    assert_false(unit_aborts(release_a_held_one));
#endif
}

static void take_in_falling_rank(void)
{
    struct dlc_mtx low, high;

    dlc_mtx_init(&low, LCK_dataset);
    dlc_mtx_init(&high, LCK_loop);
    dlc_mtx_lock(&high);
    dlc_mtx_lock(&low);
}

static void take_in_rising_rank(void)
{
    struct dlc_mtx low, high;

    dlc_mtx_init(&low, LCK_dataset);
    dlc_mtx_init(&high, LCK_loop);
    for (int i = 0; i < 2; i++) {
        dlc_mtx_lock(&low);
        dlc_mtx_lock(&high);
        dlc_mtx_unlock(&high);
        dlc_mtx_unlock(&low);
    }
}

static void test_ranks_are_kept_in_debug_builds(void **state)
{
    (void)state;
    assert_false(unit_aborts(take_in_rising_rank));
#ifdef DLC_DEBUG
    assert_true(unit_aborts(take_in_falling_rank));
#else
    assert_false(unit_aborts(take_in_falling_rank));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assert_held),
        cmocka_unit_test(test_nobody_holds_it),
        cmocka_unit_test(test_release_of_a_held_one),
        cmocka_unit_test(test_ranks_are_kept_in_debug_builds),
        cmocka_unit_test(test_excludes),
        cmocka_unit_test(test_broadcast_wakes_all),
        cmocka_unit_test(test_wait_for_ends_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
