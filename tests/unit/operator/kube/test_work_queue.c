// SPDX-License-Identifier: Apache-2.0
#include "operator/kube/work_queue.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "unit.h"

#define NOW DLC_SEC(0)

static struct queue *q;

static int fresh(void **state)
{
    (void)state;
    q = queue_new(NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    queue_free(&q);
    return 0;
}

/* Takes the key that is due; it must be this one (NULL: none is). Gives. */
static char *take(const char *want)
{
    char *key = queue_take(q, NOW);

    if (want == NULL)
        assert_null(key);
    else if (key == NULL)
        fail_msg("nothing is due; %s should be", want);
    else
        assert_string_equal(key, want);
    return key;
}

static void take_and_finish(const char *want)
{
    char *key = take(want);

    queue_done(q, &key);
    assert_null(key);
}

static void test_each_key_once_in_order(void **state)
{
    (void)state;
    queue_add(q, "a");
    queue_add(q, "b");
    queue_add(q, "a");
    take_and_finish("a");
    take_and_finish("b");
    take(NULL);
    queue_add(q, "a");
    take_and_finish("a");
}

static void test_times(void **state)
{
    (void)state;
    queue_add_after(q, "late", DLC_SEC(100));
    queue_add_after(q, "soon", DLC_SEC(10));
    take(NULL);
    dlc_clock_advance(DLC_SEC(11));
    take_and_finish("soon");
    take(NULL);
    queue_add_after(q, "late", DLC_SEC(200)); /* it stays as it was */
    dlc_clock_advance(DLC_SEC(90));
    take_and_finish("late");
    queue_add_after(q, "x", DLC_SEC(100));
    queue_add(q, "x"); /* sooner */
    take_and_finish("x");
    take(NULL);
}

static void test_a_key_that_is_worked_on(void **state)
{
    char *key;

    (void)state;
    queue_add(q, "a");
    key = take("a");
    queue_add(q, "a");
    queue_add_after(q, "a", DLC_SEC(100));
    take(NULL); /* one thread at a time */
    queue_done(q, &key);
    key = take("a"); /* and again, for it was added */
    queue_add_after(q, "a", DLC_SEC(5));
    queue_done(q, &key);
    take(NULL);
    dlc_clock_advance(DLC_SEC(6));
    key = take("a");
    queue_again(q, &key, DLC_SEC(30));
    take(NULL);
    dlc_clock_advance(DLC_SEC(31));
    key = take("a");
    queue_add(q, "a");
    queue_again(q, &key, DLC_SEC(30));
    take_and_finish("a"); /* at once, for it was added */
    take(NULL);
}

/* Fail, and check that it comes between low and high from now. */
static void fail_once(const char *name, struct dlc_dur low, struct dlc_dur high)
{
    char *key = take(name);

    queue_failed(q, &key, NOW);
    dlc_clock_advance((struct dlc_dur){low.ns - DLC_MS(5).ns});
    take(NULL);
    dlc_clock_advance((struct dlc_dur){high.ns - low.ns + DLC_MS(6).ns});
}

static void test_back_off(void **state)
{
    char *key;

    (void)state;
    queue_free(&q);
    q = queue_new(&(struct queue_config){.first = DLC_SEC(1), .most = DLC_SEC(5)});
    queue_add(q, "a");
    fail_once("a", DLC_MS(900), DLC_SEC(1));
    fail_once("a", DLC_MS(1800), DLC_SEC(2));
    fail_once("a", DLC_MS(3600), DLC_SEC(4));
    fail_once("a", DLC_MS(4500), DLC_SEC(5));
    fail_once("a", DLC_MS(4500), DLC_SEC(5));
    take_and_finish("a"); /* forgotten */
    queue_add(q, "a");
    fail_once("a", DLC_MS(900), DLC_SEC(1));
    key = take("a");
    queue_again(q, &key, NOW); /* forgotten as well */
    fail_once("a", DLC_MS(900), DLC_SEC(1));
    take_and_finish("a");
}

static void test_failed_and_added(void **state)
{
    char *key;

    (void)state;
    queue_free(&q);
    q = queue_new(&(struct queue_config){.first = DLC_SEC(60)});
    queue_add(q, "a");
    key = take("a");
    queue_failed(q, &key, NOW);
    queue_add(q, "a"); /* its own writes may wake it, but not in circles */
    take(NULL);
    dlc_clock_advance(DLC_MS(1100));
    key = take("a");
    queue_add(q, "a"); /* while it is worked on: the same */
    queue_failed(q, &key, NOW);
    take(NULL);
    dlc_clock_advance(DLC_MS(1100));
    key = take("a");
    queue_failed(q, &key, DLC_SEC(10)); /* the server asked for ten seconds */
    queue_add(q, "a");
    dlc_clock_advance(DLC_MS(9900));
    take(NULL);
    dlc_clock_advance(DLC_MS(200));
    take_and_finish("a");
}

static void test_closing(void **state)
{
    char *key;

    (void)state;
    queue_add(q, "a");
    queue_add(q, "b");
    key = take("a");
    queue_close(q);
    queue_add(q, "c");
    queue_add(q, "a");
    assert_null(queue_take(q, (struct dlc_dur){-1}));
    queue_failed(q, &key, NOW);
}

static void test_figures(void **state)
{
    struct queue_figures f;
    char *key;

    (void)state;
    queue_add(q, "a");
    queue_add(q, "b");
    queue_add_after(q, "c", DLC_SEC(100));
    key = take("a");
    dlc_clock_advance(DLC_SEC(2));
    queue_figures(q, &f);
    assert_int_equal(f.due, 1);
    assert_int_equal(f.waiting, 1);
    assert_int_equal(f.working, 1);
    assert_int_equal(f.added, 3);
    assert_int_equal(f.taken, 1);
    assert_true(f.oldest.ns >= DLC_SEC(2).ns);
    queue_failed(q, &key, NOW);
    queue_figures(q, &f);
    assert_int_equal(f.failures, 1);
}

/* -------- many workers -------- */

#define KEYS 50
static _Atomic int inside[KEYS], worked[KEYS], wrong;

static void *work(void *arg)
{
    char *key;

    (void)arg;
    while ((key = queue_take(q, (struct dlc_dur){-1})) != NULL) {
        int i = atoi(key + 1);

        if (inside[i]++ != 0)
            wrong++;
        worked[i]++;
        inside[i]--;
        if (worked[i] % 5 == 0)
            queue_failed(q, &key, NOW);
        else if (worked[i] % 3 == 0)
            queue_again(q, &key, DLC_MS(1));
        else
            queue_done(q, &key);
    }
    return NULL;
}

static void test_many_workers(void **state)
{
    pthread_t threads[6];
    struct queue_figures f;
    char key[8];

    (void)state;
    for (size_t i = 0; i < unit_count(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int n = 0; n < 40; n++) {
        for (int i = 0; i < KEYS; i++) {
            snprintf(key, sizeof(key), "k%d", i);
            queue_add_after(q, key, n % 4 == 0 ? DLC_MS(2) : NOW);
        }
    }
    do {
        queue_figures(q, &f);
    } while (f.due + f.waiting + f.working > 0);
    queue_close(q);
    for (size_t i = 0; i < unit_count(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
    for (int i = 0; i < KEYS; i++)
        assert_true(worked[i] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_key_once_in_order, fresh, end),
        cmocka_unit_test_setup_teardown(test_times, fresh, end),
        cmocka_unit_test_setup_teardown(test_a_key_that_is_worked_on, fresh, end),
        cmocka_unit_test_setup_teardown(test_back_off, fresh, end),
        cmocka_unit_test_setup_teardown(test_failed_and_added, fresh, end),
        cmocka_unit_test_setup_teardown(test_closing, fresh, end),
        cmocka_unit_test_setup_teardown(test_figures, fresh, end),
        cmocka_unit_test_setup_teardown(test_many_workers, fresh, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
