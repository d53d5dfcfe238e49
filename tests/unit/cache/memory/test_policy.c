// SPDX-License-Identifier: Apache-2.0
/* The policy that was set decides who goes, by what the dataset says of its samples. */
#include "world.h"

#include "cache/policy/policy.h"

#define MB   ((uint64_t)1 << 20)
#define SIZE (8u << 10)
#define FULL 110u /* samples; 1 MB has room for about 127 */

static int setup(void **state)
{
    *state = world_new(2 * MB, MB);
    return 0;
}

/* Those that nobody has to learn any more. */
static bool is_learnt(uint64_t sample)
{
    return sample == 60 || sample == 77 || sample == 90;
}

static double weight(void *arg, uint64_t sample)
{
    (void)arg;
    return is_learnt(sample) ? 0.5 : 3;
}

static int32_t runs_of(void *arg)
{
    (void)arg;
    return POLICY_UNKNOWN;
}

static const struct mem_value_ops value = {weight, runs_of};

static void put(struct world *w, struct mem_index *x, uint64_t sample)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve(w->m, x, sample, SIZE, &f), 0);
    memory_publish(w->m, &f);
}

/* Brings in others until one of the first is gone, and returns how many of them are. */
static unsigned overflow(struct world *w, struct mem_index *x, unsigned from)
{
    unsigned gone = 0;

    for (unsigned i = 0; i < FULL; i++)
        put(w, x, i);
    for (unsigned i = from; gone == 0; i++) {
        assert_true(i < 1000);
        put(w, x, i);
        for (unsigned k = 0; k < FULL; k++)
            gone += !mem_index_ready(x, k);
    }
    return gone;
}

static void test_weights(void **state)
{
    struct world *w = *state;
    unsigned gone;

    memory_set_policy(w->m, &policy_importance, NULL);
    mem_index_set_value(w->x, &value, NULL);
    gone = overflow(w, w->x, 500);
    assert_in_range(gone, 1, 3);
    for (unsigned k = 0; k < FULL; k++)
        assert_true(mem_index_ready(w->x, k) || is_learnt(k));
}

/* Nobody has set weights: all weigh the same, and those used less and longer ago go. */
static void test_without_weights(void **state)
{
    struct world *w = *state;
    unsigned gone;

    memory_set_policy(w->m, &policy_importance, NULL);
    gone = overflow(w, w->x, 500);
    assert_in_range(gone, 1, 3);
    for (unsigned k = gone; k < FULL; k++)
        assert_true(mem_index_ready(w->x, k));
}

/* Only a policy that goes by the runs to come asks again when they have changed. */
static void test_runs_changed(void **state)
{
    static const struct policy_ops *const kinds[] = {&policy_worth, &policy_importance};
    struct world *w = *state;

    for (unsigned i = 0; i < unit_count(kinds); i++) {
        memory_set_policy(w->m, kinds[i], NULL);
        mem_index_set_value(w->x, &value, NULL);
        put(w, w->x, 1);
        assert_int_equal(w->x->known, 1);
        mem_index_runs_changed(w->x);
        assert_int_equal(w->x->known, kinds[i] == &policy_worth ? 0 : 1);
        assert_int_equal(w->m->known, w->x->known);
        assert_true(memory_evict(w->m, w->x, 1));
        assert_int_equal(w->m->known, 0);
    }
}

/* A simulation's time, until it is taken away again. */
static void test_clock_of_a_simulation(void **state)
{
    struct world *w = *state;
    double seconds = -5;

    memory_set_clock(w->m, &seconds);
    assert_true(memory_now(w->m) == -5);
    seconds = 12.5;
    assert_true(memory_now(w->m) == 12.5);
    memory_set_clock(w->m, NULL);
    seconds = -5;
    assert_true(memory_now(w->m) >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_weights, setup, world_free),
        cmocka_unit_test_setup_teardown(test_without_weights, setup, world_free),
        cmocka_unit_test_setup_teardown(test_runs_changed, setup, world_free),
        cmocka_unit_test_setup_teardown(test_clock_of_a_simulation, setup, world_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
