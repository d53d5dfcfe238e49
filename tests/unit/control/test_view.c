// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "control/view_i.h"

static void test_weights_follow_space(void **state)
{
    (void)state;
    assert_true(view_weight(NODE_LIVE, 2000000000, 0) == 2.0);
    assert_true(view_weight(NODE_LIVE, 2000000000, 64000000000) == 2.0);
    assert_true(view_weight(NODE_LIVE, 0, 4000000000) == 4.0); /* no disk tier: memory counts */
    assert_true(view_weight(NODE_LIVE, 0, 0) == 1.0);
}

static void test_only_the_living_own(void **state)
{
    (void)state;
    assert_true(view_weight(NODE_JOINING, 1000, 0) == 0);
    assert_true(view_weight(NODE_DRAINING, 1000, 0) == 0);
    assert_true(view_weight(NODE_GONE, 1000, 0) == 0);
}

static void test_the_gone_are_not_in_it(void **state)
{
    const struct node_info nodes[] = {
        {.name = "a", .address = "http://a:1", .state = NODE_LIVE, .capacity = 1000000000},
        {.name = "b", .address = "http://b:1", .state = NODE_GONE, .capacity = 1000000000},
        {.name = "c", .address = "http://c:1", .state = NODE_DRAINING, .capacity = 1000000000},
        {.name = "d", .address = "", .state = NODE_JOINING},
    };
    json_t *got = view_nodes(nodes, unit_count(nodes));
    json_t *view = json_pack("{s:O}", "nodes", got),
           *want =
               json_pack("[{s:s, s:s, s:f, s:s}, {s:s, s:s, s:f, s:s}, {s:s, s:s, s:f, s:s}]",
                         "name", "a", "address", "http://a:1", "weight", 1.0, "state", "live",
                         "name", "c", "address", "http://c:1", "weight", 0.0, "state", "draining",
                         "name", "d", "address", "", "weight", 0.0, "state", "joining");

    (void)state;
    assert_non_null(want);
    assert_true(json_equal(got, want));
    assert_true(view_names(view, "a"));
    assert_false(view_names(view, "b"));
    assert_true(view_names(view, "d"));
    json_decref(view);
    json_decref(got);
    json_decref(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_follow_space),
        cmocka_unit_test(test_only_the_living_own),
        cmocka_unit_test(test_the_gone_are_not_in_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
