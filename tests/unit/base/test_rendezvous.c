// SPDX-License-Identifier: Apache-2.0
#include "base/rendezvous.h"

#include <math.h>

#include "base/hash.h"
#include "base/rng.h"
#include "unit.h"

#define CHUNKS 100000

static struct owner_node node(const char *name, double weight)
{
    return (struct owner_node){owner_id(name), weight};
}

static uint64_t chunk(size_t i)
{
    return hash64(&i, sizeof(i));
}

static void test_shares_follow_weights(void **state)
{
    const struct owner_node nodes[] = {node("a", 1), node("b", 2), node("c", 4), node("d", 0),
                                       node("e", 3)};
    size_t count[5] = {0};

    (void)state;
    for (size_t i = 0; i < CHUNKS; i++)
        count[owner_of(nodes, 5, chunk(i))]++;
    for (size_t i = 0; i < 5; i++) {
        double share = (double)count[i] / CHUNKS;

        if (fabs(share - nodes[i].weight / 10) > 0.005)
            fail_msg("node %zu has %.4f instead of %.4f", i, share, nodes[i].weight / 10);
    }
    assert_int_equal(count[3], 0);
}

/* Every chunk that has another owner with `b` than with `a` must come from or go to `moved`. */
static size_t moves(const struct owner_node *a, size_t na, const struct owner_node *b, size_t nb,
                    uint64_t moved)
{
    size_t n = 0;

    for (size_t i = 0; i < CHUNKS; i++) {
        uint64_t was = a[owner_of(a, na, chunk(i))].id, is = b[owner_of(b, nb, chunk(i))].id;

        if (was == is)
            continue;
        assert_true(was == moved || is == moved);
        n++;
    }
    return n;
}

static void test_nodes_come_and_go(void **state)
{
    const struct owner_node four[] = {node("a", 1), node("b", 1), node("c", 1), node("d", 1)};
    const struct owner_node three[] = {node("b", 1), node("a", 1), node("d", 1)};
    size_t n;

    (void)state;
    n = moves(four, 4, three, 3, owner_id("c"));
    assert_in_range(n, CHUNKS * 24 / 100, CHUNKS * 26 / 100); /* what c had, and nothing else */
    assert_int_equal(moves(three, 3, four, 4, owner_id("c")), n);
}

static void test_a_weight_changes(void **state)
{
    const struct owner_node before[] = {node("a", 1), node("b", 1), node("c", 2)};
    const struct owner_node after[] = {node("a", 1), node("b", 1), node("c", 3)};
    size_t n = 0, grown = moves(before, 3, after, 3, owner_id("c"));

    (void)state;
    for (size_t i = 0; i < CHUNKS; i++) /* the one that grows gives nothing away */
        n += owner_of(before, 3, chunk(i)) == 2 && owner_of(after, 3, chunk(i)) != 2;
    assert_int_equal(n, 0);
    assert_in_range(grown, CHUNKS * 9 / 100, CHUNKS * 11 / 100); /* from 50 % to 60 % */
}

static void test_the_order_of_nodes_does_not_matter(void **state)
{
    struct owner_node nodes[8], mixed[8];
    struct rng rng = {42};
    char name[20];

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "node-%zu", i);
        nodes[i] = mixed[i] = node(name, 1 + (double)i);
    }
    for (size_t i = 0; i < 1000; i++) {
        size_t a = rng_below(&rng, 8), b = rng_below(&rng, 8);
        struct owner_node t = mixed[a];

        mixed[a] = mixed[b];
        mixed[b] = t;
        assert_int_equal(nodes[owner_of(nodes, 8, chunk(i))].id,
                         mixed[owner_of(mixed, 8, chunk(i))].id);
    }
}

static void test_rank(void **state)
{
    struct owner_node nodes[6];
    char name[20];
    int out[8];

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        snprintf(name, sizeof(name), "n%zu", i);
        nodes[i] = node(name, i == 2 ? 0 : 1);
    }
    for (size_t c = 0; c < 1000; c++) {
        struct owner_node left[6];

        assert_int_equal(owner_rank(nodes, 6, chunk(c), out, 8), 5);
        memcpy(left, nodes, sizeof(left));
        for (size_t i = 0; i < 5; i++) { /* the next is who owns it when those before are gone */
            assert_int_equal(owner_of(left, 6, chunk(c)), out[i]);
            left[out[i]].weight = 0;
        }
        assert_int_equal(owner_of(left, 6, chunk(c)), -1);
        assert_int_equal(owner_rank(nodes, 6, chunk(c), out + 6, 2), 2);
        assert_memory_equal(out, out + 6, 2 * sizeof(int));
    }
}

static void test_no_owner(void **state)
{
    const struct owner_node none[] = {node("a", 0), node("b", -1), node("c", (double)NAN),
                                      node("d", (double)INFINITY)};
    int out[1];

    (void)state;
    assert_int_equal(owner_of(none, 4, 1), -1);
    assert_int_equal(owner_of(NULL, 0, 1), -1);
    assert_int_equal(owner_rank(none, 4, 1, out, 1), 0);
}

/* Other versions of dlcache must agree: these are part of the protocol between nodes. */
static void test_answers_do_not_change(void **state)
{
    const struct owner_node nodes[] = {node("node-1", 1), node("node-2", 2.5), node("node-3", 1)};
    char got[33];

    (void)state;
    for (size_t i = 0; i < 32; i++)
        got[i] = (char)('1' + owner_of(nodes, 3, hash64(&(uint64_t){i}, 8)));
    got[32] = '\0';
    assert_string_equal(got, "33122121322233232222221212232232");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_follow_weights),
        cmocka_unit_test(test_nodes_come_and_go),
        cmocka_unit_test(test_a_weight_changes),
        cmocka_unit_test(test_the_order_of_nodes_does_not_matter),
        cmocka_unit_test(test_rank),
        cmocka_unit_test(test_no_owner),
        cmocka_unit_test(test_answers_do_not_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
