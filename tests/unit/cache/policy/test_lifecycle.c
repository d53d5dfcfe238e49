// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "cache/policy/lifecycle.h"

/* One step: what happens, and what must be true after it. */
enum step { JOIN, LEAVE, READY, TICK, STEPS };

#define COOL_DOWN 10.0

static bool take(struct life *l, enum step step, double now)
{
    switch (step) {
    case JOIN: life_join(l, now); break;
    case LEAVE: life_leave(l, now); break;
    case READY: life_ready(l, now); break;
    default: return life_tick(l, now, COOL_DOWN);
    }
    return false;
}

static const struct transition {
    enum life_state from;
    uint32_t jobs;
    enum step step;
    double later;
    enum life_state to;
    uint32_t jobs_after;
} table[] = {
    {LIFE_PREPARE, 0, JOIN, 1, LIFE_PREPARE, 1},
    {LIFE_PREPARE, 2, LEAVE, 1, LIFE_PREPARE, 1},
    {LIFE_PREPARE, 1, LEAVE, 1, LIFE_PREPARE, 0},
    {LIFE_PREPARE, 1, READY, 1, LIFE_ACTIVE, 1},
    {LIFE_PREPARE, 0, READY, 1, LIFE_COOL_DOWN, 0},
    {LIFE_PREPARE, 0, TICK, 1000, LIFE_PREPARE, 0},
    {LIFE_ACTIVE, 1, JOIN, 1, LIFE_ACTIVE, 2},
    {LIFE_ACTIVE, 2, LEAVE, 1, LIFE_ACTIVE, 1},
    {LIFE_ACTIVE, 1, LEAVE, 1, LIFE_COOL_DOWN, 0},
    {LIFE_ACTIVE, 1, TICK, 1000, LIFE_ACTIVE, 1},
    {LIFE_COOL_DOWN, 0, JOIN, 1, LIFE_ACTIVE, 1},
    {LIFE_COOL_DOWN, 0, TICK, COOL_DOWN - 1, LIFE_COOL_DOWN, 0},
    {LIFE_COOL_DOWN, 0, TICK, COOL_DOWN, LIFE_INACTIVE, 0},
    {LIFE_INACTIVE, 0, JOIN, 1, LIFE_ACTIVE, 1},
    {LIFE_INACTIVE, 0, TICK, 1000, LIFE_INACTIVE, 0},
};

static void test_every_transition(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(table); i++) {
        const struct transition *t = &table[i];
        struct life l = {t->from, t->jobs, 100};
        bool ticked = take(&l, t->step, 100 + t->later);

        assert_int_equal(l.state, t->to);
        assert_int_equal(l.jobs, t->jobs_after);
        assert_true(l.since == (t->from == t->to ? 100 : 100 + t->later));
        assert_int_equal(ticked, t->step == TICK && t->from != t->to);
    }
}

static void test_who_may_go(void **state)
{
    static const bool may[][3] = {
        [LIFE_PREPARE] = {false, false, false},
        [LIFE_ACTIVE] = {false, false, true},
        [LIFE_COOL_DOWN] = {false, true, true},
        [LIFE_INACTIVE] = {true, true, true},
    };

    (void)state;
    for (unsigned s = LIFE_PREPARE; s <= LIFE_INACTIVE; s++) {
        struct life l = {s, 0, 0};

        for (unsigned p = LIFE_CALM; p <= LIFE_DIRE; p++)
            assert_int_equal(life_evictable(&l, p), may[s][p]);
    }
}

/* A chunk of a dataset that jobs read is pending until one of them has read it. */
static void test_life_of_a_chunk(void **state)
{
    (void)state;
    for (unsigned s = LIFE_PREPARE; s <= LIFE_INACTIVE; s++) {
        const struct life l = {s, 0, 0};

        assert_int_equal(life_of_chunk(&l, true), s);
        assert_int_equal(life_of_chunk(&l, false), s == LIFE_ACTIVE ? LIFE_PENDING : s);
    }
}

/* The cool-down begins anew each time the last job leaves. */
static void test_a_job_that_comes_back(void **state)
{
    struct life l;

    (void)state;
    life_init(&l, 0);
    life_join(&l, 0);
    life_ready(&l, 5);
    life_leave(&l, 20);
    assert_false(life_tick(&l, 29, COOL_DOWN));
    life_join(&l, 29);
    life_leave(&l, 35);
    assert_false(life_tick(&l, 40, COOL_DOWN));
    assert_true(life_tick(&l, 45, COOL_DOWN));
    assert_string_equal(life_name(l.state), "INACTIVE");
}

static void leave_without_joining(void)
{
    struct life l;

    life_init(&l, 0);
    life_leave(&l, 1);
}

static void ready_twice(void)
{
    struct life l;

    life_init(&l, 0);
    life_ready(&l, 1);
    life_ready(&l, 2);
}

static void test_misuse_is_caught(void **state)
{
    (void)state;
    assert_true(unit_aborts(leave_without_joining));
    assert_true(unit_aborts(ready_twice));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_transition), cmocka_unit_test(test_who_may_go),
        cmocka_unit_test(test_life_of_a_chunk),  cmocka_unit_test(test_a_job_that_comes_back),
        cmocka_unit_test(test_misuse_is_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
