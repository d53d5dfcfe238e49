// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/rng.h"
#include "manager/tables/placement.h"

#define MAX  UINT64_MAX
#define MOST 8

static const struct row {
    const char *what;
    struct place_ask ask;
    size_t n;
    struct place_node nodes[5];
    size_t chosen;
    size_t out[5];
    double weights[5];
} table[] = {
    {"no nodes", {100, 0, 0}, 0, {{0}}, 0, {0}, {0}},
    {"none is usable", {100, 0, 0}, 1, {{false, 8, 100, 1000, 0}}, 0, {0}, {0}},
    {"DLCache's rule: GPUs, what is there, free space",
     {100, 2, 0},
     4,
     {{true, 2, 0, 500, 0}, {true, 1, 50, 500, 0}, {true, 8, 0, 1000, 0}, {true, 0, 0, 0, 0}},
     1,
     {2},
     {1.125, 0.625, 1.25, 0}},
    {"an empty small node weighs less than a large one with more room",
     {100, 0, 0},
     2,
     {{true, 0, 0, 100, 0}, {true, 0, 0, 900, 0}},
     1,
     {1},
     {1.1, 1.9}},
    {"what is there counts more than free space",
     {100, 0, 0},
     2,
     {{true, 0, 80, 100, 0}, {true, 0, 0, 900, 0}},
     1,
     {0},
     {1.82, 1.18}},
    {"all is cached: free space says nothing",
     {100, 0, 0},
     2,
     {{true, 0, 100, 0, 0}, {true, 0, 0, 1000, 0}},
     1,
     {0},
     {2, 1}},
    {"what a dead node has does not count, nor its room",
     {100, 0, 0},
     2,
     {{false, 0, 100, 900, 0}, {true, 0, 0, 500, 0}},
     1,
     {1},
     {0, 2}},
    {"as few as hold it, not the heaviest",
     {100, 0, 0},
     3,
     {{true, 0, 30, 30, 0}, {true, 0, 30, 30, 0}, {true, 0, 0, 100, 0}},
     1,
     {2},
     {1.375, 1.375, 1.25}},
    {"two, the heaviest first",
     {100, 0, 0},
     3,
     {{true, 0, 0, 50, 0}, {true, 0, 0, 60, 0}, {true, 0, 0, 90, 0}},
     2,
     {2, 1},
     {1.25, 1.3, 1.45}},
    {"two, one that is too small passed over",
     {100, 0, 0},
     3,
     {{true, 0, 0, 40, 0}, {true, 0, 30, 0, 0}, {true, 0, 0, 60, 0}},
     2,
     {2, 0},
     {1.28, 1.3, 1.42}},
    {"three wanted, the best three of four",
     {100, 0, 3},
     4,
     {{true, 0, 0, 500, 0}, {true, 0, 0, 100, 0}, {true, 0, 0, 800, 0}, {true, 0, 0, 600, 0}},
     3,
     {2, 3, 0},
     {1.25, 1.05, 1.4, 1.3}},
    {"one wanted, two would be needed",
     {100, 0, 1},
     2,
     {{true, 0, 0, 60, 0}, {true, 0, 0, 60, 0}},
     0,
     {0},
     {1.5, 1.5}},
    {"more wanted than there are",
     {100, 0, 9},
     2,
     {{true, 0, 0, 60, 0}, {true, 0, 0, 90, 0}},
     2,
     {1, 0},
     {1.4, 1.6}},
    {"all together cannot",
     {100, 0, 0},
     2,
     {{true, 0, 0, 50, 0}, {true, 0, 0, 30, 0}},
     0,
     {0},
     {1.625, 1.375}},
    {"what is there is room too",
     {100, 0, 0},
     2,
     {{true, 0, 30, 20, 0}, {true, 0, 0, 60, 0}},
     2,
     {1, 0},
     {1.475, 1.525}},
    {"size not known: one will do",
     {0, 0, 0},
     2,
     {{true, 0, 0, 10, 0}, {true, 0, 0, 30, 0}},
     1,
     {1},
     {1.25, 1.75}},
    {"nodes without space, an empty dataset", {0, 0, 0}, 1, {{true, 0, 0, 0, 0}}, 1, {0}, {1}},
    {"nodes without space", {1, 0, 0}, 1, {{true, 0, 0, 0, 0}}, 0, {0}, {1}},
    {"numbers that contradict each other",
     {100, 0, 0},
     2,
     {{true, 0, 500, 900, 0}, {true, 0, 0, 5, 0}},
     1,
     {0},
     {2, 1}},
    {"sums that do not fit",
     {MAX, 0, 0},
     2,
     {{true, 0, 1, MAX, 0}, {true, 0, MAX, MAX, 0}},
     1,
     {1},
     {1, 2}},
    {"equal nodes: the first",
     {10, 0, 0},
     2,
     {{true, 0, 0, 50, 0}, {true, 0, 0, 50, 0}},
     1,
     {0},
     {1.5, 1.5}},
};

static void test_every_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(table); i++) {
        const struct row *r = &table[i];
        struct place_node nodes[5];
        size_t out[5] = {99, 99, 99, 99, 99};
        size_t got;

        memcpy(nodes, r->nodes, sizeof(nodes));
        got = place(nodes, r->n, &r->ask, out);
        if (got != r->chosen)
            fail_msg("%s: %zu chosen, not %zu", r->what, got, r->chosen);
        for (size_t k = 0; k < got; k++)
            if (out[k] != r->out[k])
                fail_msg("%s: choice %zu is node %zu, not %zu", r->what, k, out[k], r->out[k]);
        for (size_t k = 0; k < r->n; k++)
            if (nodes[k].weight < r->weights[k] - 1e-9 || nodes[k].weight > r->weights[k] + 1e-9)
                fail_msg("%s: node %zu weighs %f, not %f", r->what, k, nodes[k].weight,
                         r->weights[k]);
    }
}

static uint64_t room_of(const struct place_node *nodes, unsigned set, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        if (set >> i & 1)
            sum += nodes[i].cached + nodes[i].free;
    return sum;
}

/* The fewest nodes of any subset that holds it, by trying them all. */
static size_t fewest_of_all(const struct place_node *nodes, size_t n, uint64_t bytes)
{
    size_t best = 0;

    for (unsigned set = 1; set < 1u << n; set++) {
        size_t k = (size_t)__builtin_popcount(set);
        bool usable = true;

        for (size_t i = 0; i < n; i++)
            usable = usable && (!(set >> i & 1) || nodes[i].usable);
        if (usable && room_of(nodes, set, n) >= bytes && (best == 0 || k < best))
            best = k;
    }
    return best;
}

static void test_against_every_subset(void **state)
{
    struct rng g = {42};

    (void)state;

    for (unsigned round = 0; round < 3000; round++) {
        struct place_node nodes[MOST];
        size_t n = rng_below(&g, MOST + 1), out[MOST], got;
        struct place_ask ask = {.bytes = rng_below(&g, 300), .gpus = (unsigned)rng_below(&g, 3)};
        unsigned set = 0;

        for (size_t i = 0; i < n; i++)
            nodes[i] = (struct place_node){.usable = rng_below(&g, 5) > 0,
                                           .gpus_free = (unsigned)rng_below(&g, 4),
                                           .cached = rng_below(&g, 40),
                                           .free = rng_below(&g, 100)};
        got = place(nodes, n, &ask, out);
        assert_int_equal(got, fewest_of_all(nodes, n, ask.bytes));
        for (size_t k = 0; k < got; k++) {
            assert_true(out[k] < n && nodes[out[k]].usable && !(set >> out[k] & 1));
            assert_true(k == 0 || nodes[out[k - 1]].weight >= nodes[out[k]].weight);
            set |= 1u << out[k];
        }
        assert_true(got == 0 || room_of(nodes, set, n) >= ask.bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),
        cmocka_unit_test(test_against_every_subset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
