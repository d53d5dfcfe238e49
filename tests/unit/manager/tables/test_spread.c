// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/rng.h"
#include "manager/tables/spread.h"

#define MAX_NODES 5

static const struct row {
    const char *what;
    uint64_t bytes;
    size_t n;
    struct spread_node nodes[MAX_NODES];
    double shares[MAX_NODES];
    uint64_t excess;
} table[] = {
    {"no nodes", 100, 0, {{0}}, {0}, 0},
    {"a home that has room gets all",
     100,
     4,
     {{true, true, 1, 160, 0}, {true, false, 1, 160, 0}, {true, false, 9, 900, 0}, {0}},
     {1, 0, 0, 0},
     0},
    {"homes by their weights",
     100,
     3,
     {{true, true, 1, 160, 0}, {true, true, 3, 160, 0}, {true, false, 9, 900, 0}},
     {0.25, 0.75, 0},
     0},
    {"one of two homes is full: the other one takes more",
     100,
     3,
     {{true, true, 1, 16, 0}, {true, true, 1, 160, 0}, {true, false, 9, 900, 0}},
     {0.15, 0.85, 0},
     0},
    {"what homes cannot hold goes to the others by their room",
     100,
     4,
     {{true, true, 1, 64, 0},
      {true, false, 1, 160, 0},
      {true, false, 9, 480, 0},
      {true, false, 1, 0, 0}},
     {0.6, 0.1, 0.3, 0},
     0},
    {"a home that does not answer is none",
     100,
     2,
     {{false, true, 1, 160, 0}, {true, false, 1, 160, 0}},
     {0, 1},
     0},
    {"without homes by weight, and a full node gets what it can hold",
     100,
     3,
     {{true, false, 1, 32, 0}, {true, false, 1, 160, 0}, {true, false, 1, 160, 0}},
     {0.30, 0.35, 0.35},
     0},
    {"it does not fit at all: full, and the rest by weight",
     100,
     2,
     {{true, false, 1, 16, 0}, {true, false, 3, 32, 0}},
     {0.15 + 0.55 / 4, 0.30 + 0.55 * 3 / 4},
     52},
    {"not listed yet: the homes",
     0,
     3,
     {{true, true, 2, 0, 0}, {true, true, 2, 0, 0}, {true, false, 9, 9, 0}},
     {0.5, 0.5, 0},
     0},
    {"not listed yet, no homes",
     0,
     2,
     {{true, false, 1, 0, 0}, {true, false, 3, 0, 0}},
     {0.25, 0.75},
     0},
};

static void test_every_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(table); i++) {
        const struct row *r = &table[i];
        struct spread_node nodes[MAX_NODES];

        memcpy(nodes, r->nodes, sizeof(nodes));
        spread_compute(nodes, r->n, r->bytes);
        for (size_t k = 0; k < r->n; k++)
            if (nodes[k].share < r->shares[k] - 1e-9 || nodes[k].share > r->shares[k] + 1e-9)
                fail_msg("%s: node %zu gets %f, not %f", r->what, k, nodes[k].share, r->shares[k]);
        if (spread_excess(nodes, r->n, r->bytes) != r->excess)
            fail_msg("%s: %llu find no room", r->what,
                     (unsigned long long)spread_excess(nodes, r->n, r->bytes));
    }
}

/* Shares make 1; a share of a node that does not answer is 0; nothing goes to others while homes
 * have room; nothing exceeds a room if all fits. */
static void test_any_cluster(void **state)
{
    struct rng g = {7};

    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        struct spread_node nodes[MAX_NODES];
        size_t n = 1 + rng_below(&g, MAX_NODES);
        uint64_t bytes = 1 + rng_below(&g, 300);
        double sum = 0, room = 0, at_home = 0, home_room = 0;
        bool live = false, homes = false;

        for (size_t i = 0; i < n; i++) {
            nodes[i] = (struct spread_node){.live = rng_below(&g, 5) > 0,
                                            .home = rng_below(&g, 3) == 0,
                                            .weight = (double)(1 + rng_below(&g, 9)),
                                            .room = rng_below(&g, 200)};
            live = live || nodes[i].live;
        }
        spread_compute(nodes, n, bytes);
        for (size_t i = 0; i < n; i++) {
            double usable = (double)(nodes[i].room - nodes[i].room / 16);

            assert_true(nodes[i].live || nodes[i].share <= 0);
            sum += nodes[i].share;
            room += nodes[i].live ? usable : 0;
            homes = homes || (nodes[i].live && nodes[i].home);
            home_room += nodes[i].live && nodes[i].home ? usable : 0;
            at_home += nodes[i].home ? nodes[i].share : 0;
        }
        assert_true(live ? sum > 1 - 1e-6 && sum < 1 + 1e-6 : sum <= 0);
        if (room >= (double)bytes)
            assert_int_equal(spread_excess(nodes, n, bytes), 0);
        if (homes && home_room >= (double)bytes)
            assert_true(at_home > 1 - 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),
        cmocka_unit_test(test_any_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
