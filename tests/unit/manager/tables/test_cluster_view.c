// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "manager/routes/view_reply.h"
#include "manager/tables/view_builder.h"

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
    assert_true(view_weight(NODE_DRAINING, 2000000000, 0) == 2.0); /* what it owned; its state says
                                                                    * that it owns nothing */
    assert_true(view_weight(NODE_AWAY, 2000000000, 0) == 2.0);     /* the same */
    assert_true(view_weight(NODE_GONE, 1000, 0) == 0);
}

static void test_the_gone_are_not_in_it(void **state)
{
    const struct node_info nodes[] = {
        {.name = "a",
         .address = "http://a:1",
         .state = NODE_LIVE,
         .capacity = 1000000000,
         .disk = true},
        {.name = "b", .address = "http://b:1", .state = NODE_GONE, .capacity = 1000000000},
        {.name = "c", .address = "http://c:1", .state = NODE_DRAINING, .capacity = 1000000000},
        {.name = "d", .address = "", .state = NODE_JOINING},
    };
    json_t *got = view_nodes(nodes, unit_count(nodes));
    struct view *view = view_new(7, json_pack("{s:O}", "nodes", got));
    json_t *want = json_pack(
        "[{s:s, s:s, s:f, s:s, s:b}, {s:s, s:s, s:f, s:s, s:b}, {s:s, s:s, s:f, s:s, s:b}]", "name",
        "a", "address", "http://a:1", "weight", 1.0, "state", "live", "disk", 1, "name", "c",
        "address", "http://c:1", "weight", 1.0, "state", "draining", "disk", 0, "name", "d",
        "address", "", "weight", 0.0, "state", "joining", "disk", 0);

    (void)state;
    assert_non_null(want);
    assert_true(json_equal(got, want));
    assert_true(view_names(view, "a"));
    assert_false(view_names(view, "b"));
    assert_true(view_names(view, "d"));
    view_put(&view);
    json_decref(got);
    json_decref(want);
}

/* What a node is sent is one object, whatever else is in it. */
static void test_it_is_a_member_of_the_answer(void **state)
{
    struct view *view = view_new(7, json_pack("{s:i}", "version", 7));
    json_t *answers[] = {json_object(), json_pack("{s:s}", "a", "}\"")};

    (void)state;
    for (size_t i = 0; i < unit_count(answers); i++) {
        struct http_reply reply = {.body = json_incref(answers[i])};
        json_t *got;

        view_add_to_reply(view, &reply);
        assert_null(reply.body);
        assert_string_equal(reply.type, "application/json");
        got = json_loadb(reply.data, reply.data_len, 0, NULL);
        json_object_set_new(answers[i], "view", json_pack("{s:i}", "version", 7));
        assert_true(json_equal(got, answers[i]));
        json_decref(got);
        json_decref(answers[i]);
        reply.done(reply.arg);
    }
    view_put(&view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_follow_space),
        cmocka_unit_test(test_only_the_living_own),
        cmocka_unit_test(test_the_gone_are_not_in_it),
        cmocka_unit_test(test_it_is_a_member_of_the_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
