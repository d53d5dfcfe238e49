// SPDX-License-Identifier: Apache-2.0
/*
 * Weights, draws and eviction together, without a daemon: does a small cache hit as often as
 * SHADE's simulation says? 20,000 samples, batches of 256, losses of a difficulty of each sample's
 * own and as much noise; a share of the samples fits. Kept either as SHADE does, by (weight,
 * frequency), or as we do: by the next use, known or expected. Hits are those of the last epochs.
 */
#include "unit.h"

#include <math.h>

#include "base/check.h"
#include "base/rng.h"
#include "importance/sample.h"
#include "order/next_use_index.h"
#include "importance/weights.h"
#include "cache/policy/expected_use.h"
#include "cache/policy/policy.h"

#define N      20000
#define BATCH  256
#define EPOCHS 9
#define WARM   5

struct cache {
    struct weights weights;
    struct weights_scale scale;
    struct draw_spec spec;
    const struct policy_ops *ops;
    struct policy *policy;
    struct policy_item items[N];
    float difficulty[N];
    uint64_t list[N], room, held;
    struct order_index index;
    uint64_t hits, reads, distinct;
    struct rng rng;
};

static struct cache c;

static float weight(const void *arg, uint64_t s)
{
    (void)arg;
    return weights_get(&c.weights, s);
}

static bool resident(const void *arg, uint64_t s)
{
    (void)arg;
    return c.items[s].resident;
}

/* Tell the policy what it goes by; k: the position in the epoch that begins at `begin`. */
static void tell(uint64_t s, uint64_t begin, uint64_t k, double mean)
{
    uint64_t next = order_index_next(&c.index, s, k), length = c.index.length;
    double w = (double)weights_get(&c.weights, s);

    if (c.ops == &policy_importance)
        policy_weight(c.policy, &c.items[s], w > 0 ? w : 1);
    else if (next != UINT64_MAX)
        policy_next_use(c.policy, &c.items[s], (double)(begin + next));
    else
        policy_next_use(c.policy, &c.items[s],
                        (double)(begin + k) + policy_expected_use((double)(length - k),
                                                                  (double)length, w > 0 ? w : 1,
                                                                  mean, c.items[s].uses));
}

static void read_sample(uint64_t s, bool counts)
{
    struct policy_item *it = &c.items[s];
    bool hit = it->resident;

    policy_access(c.policy, it, 0);
    c.reads += counts;
    c.hits += counts && hit;
    if (hit || !policy_admit(c.policy, it, c.held < c.room ? 0 : 1, 0))
        return;
    if (c.held == c.room)
        policy_remove(c.policy, policy_victim(c.policy, 0, false));
    else
        c.held++;
    policy_insert(c.policy, it);
}

static double mean_weight(void)
{
    double sum = 0;

    for (uint64_t s = 0; s < N; s++)
        sum += weights_get(&c.weights, s) > 0 ? (double)weights_get(&c.weights, s) : 1;
    return sum / N;
}

static void run_epoch(uint64_t epoch)
{
    uint64_t length = draw_length(&c.spec), begin = epoch * length;
    struct draw_figures figures;
    double mean = mean_weight();

    c.spec.epoch = epoch;
    assert_int_equal(draw_epoch(&c.spec, c.list, &figures, NULL), 0);
    assert_int_equal(order_index_init(&c.index, c.list, length, N, NULL), 0);
    c.distinct += epoch >= WARM ? figures.distinct : 0;
    for (uint64_t s = 0; s < N; s++)
        tell(s, begin, 0, mean);
    for (uint64_t from = 0; from < length; from += BATCH) {
        uint64_t n = DLC_MIN(length - from, BATCH);
        float losses[BATCH];

        for (uint64_t k = from; k < from + n; k++) {
            if (c.ops == &policy_clairvoyant)
                tell(c.list[k], begin, k + 1, mean);
            read_sample(c.list[k], epoch >= WARM);
            losses[k - from] = c.difficulty[c.list[k]] + (float)rng_unit(&c.rng);
        }
        assert_int_equal(weights_learn(&c.weights, WEIGHTS_RANK, &c.scale, epoch, c.list + from,
                                       losses, n, NULL, NULL),
                         0);
        for (uint64_t k = from; k < from + n; k++)
            tell(c.list[k], begin, from + n, mean);
    }
    order_index_release(&c.index);
}

static double hit_ratio(enum draw_mode mode, double replication, const struct policy_ops *ops,
                        double share)
{
    void *at = aligned_alloc(4096, weights_size(N));
    double ratio;

    assert_non_null(at);
    memset(at, 0, weights_size(N));
    memset(&c, 0, sizeof(c));
    weights_format(at, N, 1);
    assert_int_equal(weights_open(&c.weights, at, weights_size(N), N, NULL), 0);
    c.spec = (struct draw_spec){.mode = mode,
                                .n = N,
                                .length = mode == DRAW_SHADE ? N : N / 2,
                                .seed = 3,
                                .every = 4,
                                .replication = replication,
                                .prefer = 1,
                                .weight = weight,
                                .resident = resident};
    c.ops = ops;
    c.policy = policy_new(ops, NULL);
    c.room = (uint64_t)(share * N);
    for (uint64_t s = 0; s < N; s++) {
        policy_item_init(&c.items[s], s, 1, 1);
        c.difficulty[s] = (float)rng_unit(&c.rng);
    }
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        run_epoch(epoch);
    policy_free(&c.policy);
    free(at);
    ratio = (double)c.hits / (double)c.reads;
    print_message("%-8s x %.0f  %-11s c = %.1f  hits %.3f  seen %.3f\n",
                  mode == DRAW_SHADE ? "shade" : "coverage", replication, ops->name, share, ratio,
                  (double)c.distinct / N / (EPOCHS - WARM));
    return ratio;
}

static const double shares[] = {0.1, 0.2, 0.4};

static bool near(double x, double y)
{
    return fabs(x - y) <= 0.01;
}

static double seen(void)
{
    return (double)c.distinct / N / (EPOCHS - WARM);
}

/* The table of docs/policies.md: our own simulation of SHADE's rule, from both sides. SHADE has not
 * published such figures. Hits come with the share of the samples that an epoch sees: more of the
 * one for less of the other is not better. */
static void test_shade_hits_and_coverage(void **state)
{
    static const struct {
        double hits, seen;
    } by_weight[2][3] = {{{0.184, 0.61}, {0.329, 0.61}, {0.570, 0.61}},
                         {{0.436, 0.50}, {0.918, 0.24}, {1.000, 0.29}}},
      by_use[2][3] = {{{0.419, 0.61}, {0.529, 0.61}, {0.670, 0.61}},
                      {{0.573, 0.50}, {0.923, 0.23}, {1.000, 0.29}}};

    (void)state;
    for (unsigned row = 0; row < 2; row++)
        for (unsigned k = 0; k < 3; k++) {
            double hits = hit_ratio(DRAW_SHADE, 1 + 2 * row, &policy_importance, shares[k]);

            assert_true(near(hits, by_weight[row][k].hits) && near(seen(), by_weight[row][k].seen));
            hits = hit_ratio(DRAW_SHADE, 1 + 2 * row, &policy_clairvoyant, shares[k]);
            assert_true(near(hits, by_use[row][k].hits) && near(seen(), by_use[row][k].seen));
        }
}

/* Drawn once per epoch a sample can hit but once: more than the share that fits only by weight. */
static void test_coverage_hits_what_fits(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        double by_weight = hit_ratio(DRAW_COVERAGE, 1, &policy_importance, shares[k]);
        double by_use = hit_ratio(DRAW_COVERAGE, 1, &policy_clairvoyant, shares[k]);

        assert_true(by_weight >= shares[k] && by_use >= by_weight - 0.02);
        assert_int_equal(c.distinct, (EPOCHS - WARM) * N / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shade_hits_and_coverage),
        cmocka_unit_test(test_coverage_hits_what_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
