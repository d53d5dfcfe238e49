// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <math.h>

#include "base/rng.h"
#include "sim/workload_epochs.h"
#include "sim/sweep.h"

static struct sim_result run(const struct sim_trace *t, const char *name, uint64_t capacity)
{
    const struct sim_options o = {.capacity = capacity, .prices = {1, 0.5, 0.25}};
    struct sim_result r;

    sim_run(t, sim_contender_find(name, strlen(name)), &o, &r);
    return r;
}

/* a b c a b c of size 1 and a cache of two, by hand. */
static void test_a_scan_counted_by_hand(void **state)
{
    struct sim_trace t = SIM_TRACE_INIT;
    struct sim_result r;

    (void)state;
    sim_trace_dataset(&t);
    for (int i = 0; i < 3; i++)
        sim_trace_chunk(&t, 1, 10);
    for (int run_no = 0; run_no < 2; run_no++) {
        uint32_t job = sim_trace_job(&t, 0);

        for (uint32_t c = 0; c < 3; c++)
            sim_trace_read(&t, job, c);
    }
    sim_trace_index(&t);
    r = run(&t, "lru", 2);
    assert_int_equal(r.reads, 6);
    assert_int_equal(r.hits, 0);
    assert_int_equal(r.evictions, 4);
    assert_true(r.seconds == 60 && r.money == 6 * 0.75);
    assert_int_equal(run(&t, "belady", 2).hits, 2);
    r = run(&t, "worth", 2);
    assert_int_equal(r.hits, 2);
    assert_int_equal(r.evictions, 0);
    assert_int_equal(r.refused, 2);
    assert_int_equal(r.hit_bytes, 2);
    assert_int_equal(r.miss_bytes, 4);
    assert_int_equal(run(&t, "lru", 3).hits, 3);
    assert_int_equal(run(&t, "lru", 0).refused, 6); /* nothing fits */
    assert_int_equal(run(&t, "offline", 0).hits, 0);
    sim_trace_release(&t);
}

/* Every contender keeps the books: reads = hits + misses, and more room never leaves it full. */
static void test_every_contender_on_epochs(void **state)
{
    const struct epochs e = {
        .samples = 300, .epochs = 4, .jobs = 2, .seed = 4, .size = 10, .cost = 1};
    struct sim_trace t = SIM_TRACE_INIT;

    (void)state;
    assert_true(epochs_make(&t, &e) == 1); /* a shuffle sees everything */
    for (const struct sim_contender *c = sim_contenders; c->name != NULL; c++) {
        struct sim_result little = run(&t, c->name, 600), all = run(&t, c->name, 3000);

        assert_int_equal(little.reads, 3 * 2 * 300); /* the first epoch warms up */
        assert_int_equal(little.hit_bytes + little.miss_bytes, little.reads * 10);
        assert_true(little.seconds == (double)(little.reads - little.hits));
        assert_int_equal(all.hits, all.reads);
        assert_int_equal(all.evictions, 0);
        assert_true(little.hits <= all.hits);
    }
    sim_trace_release(&t);
}

/* Read once per epoch, no policy can hit more than the share that fits; ours hits just that. */
static void test_hits_of_one_job_are_the_share_that_fits(void **state)
{
    const struct epochs e = {
        .samples = 2000, .epochs = 4, .jobs = 1, .seed = 9, .size = 10, .cost = 1};
    struct sim_trace t = SIM_TRACE_INIT;

    (void)state;
    epochs_make(&t, &e);
    for (int percent = 10; percent < 100; percent += 20) {
        uint64_t room = (uint64_t)(200 * percent), want = (uint64_t)(3 * 20 * percent);

        assert_int_equal(run(&t, "worth", room).hits, want);
        assert_int_equal(run(&t, "worth-blind", room).hits, want);
        assert_int_equal(run(&t, "clairvoyant", room).hits, want);
        assert_int_equal(run(&t, "belady", room).hits, want);
        assert_true(run(&t, "lru", room).hits < want * 3 / 4 || percent == 90);
    }
    sim_trace_release(&t);
}

static void test_importance_draws(void **state)
{
    const struct epochs e = {.samples = 4000,
                             .epochs = 5,
                             .jobs = 1,
                             .importance = true,
                             .seed = 9,
                             .size = 10,
                             .cost = 1};
    struct sim_trace t = SIM_TRACE_INIT;
    double coverage;

    (void)state;
    coverage = epochs_make(&t, &e);
    assert_true(coverage > 0.60 && coverage < 0.65); /* 1 - 1/e, less the uneven weights */
    for (uint32_t i = 0; i < t.n_reads; i++)
        assert_true(t.reads[i].weight >= 2.3f && t.reads[i].weight < 5.6f);
    assert_true(run(&t, "importance", 8000).hits > run(&t, "lru", 8000).hits);
    sim_trace_release(&t);
}

static void test_a_study_sums_up(void **state)
{
    struct study *s = calloc(1, sizeof(*s));
    struct mix m = MIX_INIT;
    struct buf each = BUF_INIT;
    struct sim_result sum;
    unsigned lines = 0;

    (void)state;
    s->contenders[s->n_contenders++] = sim_contender_find("lru", 3);
    s->contenders[s->n_contenders++] = sim_contender_find("worth", 5);
    s->capacities[s->n_capacities++] = 160000000000;
    s->capacities[s->n_capacities++] = 220000000000;
    s->each = &each;
    mix_make(&m, 1);
    mix_seed(&m, 1, false);
    study_mix(s, &m, 1);
    sum = study_total(s, 0);
    assert_int_equal(s->rows, MIX_ROWS);
    assert_true(fabs(sum.seconds - s->results[0][0].seconds - s->results[1][0].seconds) < 1e-6);
    assert_true(study_total(s, 1).seconds < 0.85 * sum.seconds);
    for (size_t i = 0; i < each.len; i++)
        lines += each.data[i] == '\n';
    assert_int_equal(lines, 1 + 2 * MIX_ROWS);
    assert_non_null(strstr(buf_str(&each), "capacity,reuse,share,last,shuffle,lru,worth\n"));
    buf_release(&each);
    mix_release(&m);
    free(s);
}

static double seconds_in(const struct sim_trace *t, const char *name, enum sim_tier tier,
                         uint64_t capacity)
{
    const struct sim_options o = {.capacity = capacity, .tier = tier};
    struct sim_result r;

    sim_run(t, sim_contender_find(name, strlen(name)), &o, &r);
    assert_int_equal(r.reads, t->n_reads);
    return r.seconds;
}

/* Samples of one size and one dataset: there a tier decides exactly as its policy alone. */
static void test_tiers_decide_by_their_policy(void **state)
{
    static const char *const names[] = {"lru", "lfu", "greedy"};
    struct sim_trace t = SIM_TRACE_INIT;
    struct rng r = {7};
    uint32_t job, before = 0;

    (void)state;
    sim_trace_dataset(&t);
    for (int i = 0; i < 60; i++)
        sim_trace_chunk(&t, 6400, 1 + (double)rng_below(&r, 1000));
    job = sim_trace_job(&t, 0);
    for (int i = 0; i < 3000; i++) {
        uint32_t chunk = (uint32_t)(rng_below(&r, 60) * rng_below(&r, 60) / 60);

        if (chunk != before) /* memory would answer */
            sim_trace_read(&t, job, chunk);
        before = chunk;
    }
    sim_trace_index(&t);
    for (size_t i = 0; i < DLC_COUNT(names); i++) {
        double alone = seconds_in(&t, names[i], SIM_TIER_NONE, 20 * 6400);

        assert_true(fabs(alone - seconds_in(&t, names[i], SIM_TIER_DISK, 20 * 6400)) < 1e-6);
        assert_true(fabs(alone - seconds_in(&t, names[i], SIM_TIER_MEMORY, 20 * 6400)) < 1e-6);
    }
    assert_true(fabs(seconds_in(&t, "greedy", SIM_TIER_MEMORY, 20 * 6400) -
                     seconds_in(&t, "lru", SIM_TIER_MEMORY, 20 * 6400)) > 1);
    sim_trace_release(&t);
}

/* Repeated reads in a row come from memory: they miss once, also where the disk refuses to keep. */
static void test_memory_lies_before_the_disk(void **state)
{
    struct sim_trace t = SIM_TRACE_INIT;
    uint32_t job;

    (void)state;
    sim_trace_dataset(&t);
    sim_trace_chunk(&t, 100, 10);
    job = sim_trace_job(&t, 0);
    for (int i = 0; i < 5; i++)
        sim_trace_read(&t, job, 0);
    sim_trace_index(&t);
    assert_true(seconds_in(&t, "lru", SIM_TIER_DISK, 50) == 10);
    assert_true(seconds_in(&t, "lru", SIM_TIER_NONE, 50) == 50);
    sim_trace_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_scan_counted_by_hand),
        cmocka_unit_test(test_every_contender_on_epochs),
        cmocka_unit_test(test_hits_of_one_job_are_the_share_that_fits),
        cmocka_unit_test(test_importance_draws),
        cmocka_unit_test(test_a_study_sums_up),
        cmocka_unit_test(test_tiers_decide_by_their_policy),
        cmocka_unit_test(test_memory_lies_before_the_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
