// SPDX-License-Identifier: Apache-2.0
/* Work classes: one whose threads all hang stops no other, and its queue has bounds. */
#include "unit.h"

#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "daemon/work.h"

#define MB ((uint64_t)1 << 20)

static struct work_queues *q;
static sem_t hold;
static _Atomic unsigned started, ended;

static void hang(struct work *w)
{
    (void)w;
    started++;
    while (sem_wait(&hold) < 0)
        ;
    ended++;
}

static void count_one(struct work *w)
{
    (void)w;
    ended++;
}

static int set_up(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    started = ended = 0;
    assert_int_equal(sem_init(&hold, 0, 0), 0);
    q = work_new(&err);
    assert_non_null(q);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    work_free(&q);
    assert_null(q);
    sem_destroy(&hold);
    return 0;
}

static json_int_t figure(const char *class, const char *name)
{
    json_t *all = work_json(q);
    json_int_t v = json_integer_value(json_object_get(json_object_get(all, class), name));

    json_decref(all);
    return v;
}

/* Gives as much work as the class has threads, and waits until all hang. */
static struct work *hang_all(enum work_class c, const char *name)
{
    unsigned threads = (unsigned)figure(name, "threads");
    struct work *all = mem_zero(threads * sizeof(*all));

    assert_true(threads > 0);
    for (unsigned i = 0; i < threads; i++) {
        all[i].run = hang;
        work_run(q, c, &all[i]);
    }
    while (started < threads)
        sched_yield();
    assert_int_equal(figure(name, "running"), threads);
    return all;
}

static void let_go(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sem_post(&hold);
}

static void a_class_that_hangs_stops_no_other(void **state)
{
    static const enum work_class others[] = {WORK_DEMAND, WORK_PREFETCH,   WORK_CATALOG,
                                             WORK_COPY,   WORK_BACKGROUND, WORK_CLOSE};
    struct work *hung = hang_all(WORK_STORE, "store"), other[unit_count(others)];

    (void)state;
    for (unsigned i = 0; i < unit_count(others); i++) {
        other[i] = (struct work){.run = count_one};
        work_run(q, others[i], &other[i]);
    }
    while (ended < unit_count(others))
        sched_yield();
    let_go(started);
    work_free(&q);
    mem_free(&hung);
}

/* By the bytes that wait, not those that are worked on. */
static void a_queue_has_a_bound_of_bytes(void **state)
{
    struct work *hung = hang_all(WORK_STORE, "store"), a = {.run = count_one}, b = a, c = a;

    (void)state;
    assert_int_equal(work_bytes(WORK_STORE), 256 * MB);
    assert_true(work_try(q, WORK_STORE, &a, 256 * MB - 10));
    assert_false(work_try(q, WORK_STORE, &b, 11));
    assert_true(work_try(q, WORK_STORE, &c, 10));
    assert_int_equal(figure("store", "queued_bytes"), 256 * MB);
    assert_int_equal(figure("store", "refused"), 1);
    let_go(started);
    work_free(&q);
    assert_int_equal(ended, started + 2);
    mem_free(&hung);
}

/* Only what has not begun. */
static void queued_work_can_be_taken_back(void **state)
{
    struct work *hung = hang_all(WORK_COPY, "copy"), queued = {.run = count_one};

    (void)state;
    assert_true(work_try(q, WORK_COPY, &queued, 0));
    assert_int_equal(figure("copy", "queued"), 1);
    assert_true(work_take_back(q, WORK_COPY, &queued));
    assert_int_equal(figure("copy", "queued"), 0);
    assert_false(work_take_back(q, WORK_COPY, &queued));
    assert_false(work_take_back(q, WORK_COPY, &hung[0]));
    let_go(started);
    work_free(&q);
    assert_int_equal(ended, started);
    mem_free(&hung);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_class_that_hangs_stops_no_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_queue_has_a_bound_of_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(queued_work_can_be_taken_back, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
