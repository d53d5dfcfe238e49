// SPDX-License-Identifier: Apache-2.0
/* Membership without HTTP: who is live, who fell silent, and who has a name. */
#include "manager/bare.h"

static unsigned serial; /* directories differ from store to store */

static struct tables *start(void **state)
{
    char dir[64];

    snprintf(dir, sizeof(dir), "nodes%u", serial++);
    return bare_lead(url_of(state), dir);
}

/* As POST /v1/nodes/NAME does it. */
static void join(struct tables *t, const char *name, const char *instance)
{
    struct store_doc d = {(char *)name, (char *)"", NULL, 0};

    d.body = json_pack("{s:s, s:s, s:s, s:[]}", "address", "http://h:1", "instance", instance,
                       "state", "joining", "commands");
    ok(store_put(t->store, STORE_NODE, &d, STORE_NEW, &err));
    nodes_remember(t, &d, true);
    json_decref(d.body);
}

static enum node_state state_of(struct tables *t, const char *name)
{
    struct node_info info;
    enum node_state state;

    assert_true(nodes_get(t, name, &info));
    state = info.state;
    node_info_release(&info);
    return state;
}

static bool beat(struct tables *t, const char *name)
{
    bool woke = false;

    assert_true(nodes_heard(t, name, NULL, NULL, &woke));
    if (woke)
        nodes_write_state(t, name, NODE_LIVE);
    return woke;
}

static void check_stored(struct tables *t, const char *name, const char *state)
{
    struct store_doc d = STORE_DOC_INIT;

    ok(store_get(t->store, STORE_NODE, name, &d, &err));
    assert_string_equal(json_string_value(json_object_get(d.body, "state")), state);
    store_doc_release(&d);
}

static struct dlc_mono later(struct tables *t)
{
    return dlc_mono_add(dlc_mono_now(), (struct dlc_dur){t->node_ttl.ns + 1000000});
}

static void test_a_node_lives_while_it_beats(void **state)
{
    struct tables *t = start(state);
    struct node_info info;
    bool woke;

    assert_false(nodes_get(t, "a", &info));
    node_info_release(&info);
    assert_false(nodes_heard(t, "a", NULL, NULL, &woke)); /* it must join first */
    join(t, "a", "1");
    assert_int_equal(state_of(t, "a"), NODE_JOINING);
    assert_true(beat(t, "a"));
    assert_false(beat(t, "a"));
    assert_int_equal(state_of(t, "a"), NODE_LIVE);
    check_stored(t, "a", "live");
    nodes_tick(t, dlc_mono_now());
    assert_int_equal(state_of(t, "a"), NODE_LIVE);
    nodes_tick(t, later(t));
    assert_int_equal(state_of(t, "a"), NODE_GONE);
    check_stored(t, "a", "gone");
    assert_true(beat(t, "a"));
    check_stored(t, "a", "live");
    bare_close(&t);
}

/* Nobody was heard: the manager was cut off, not they. */
static void test_the_first_that_is_heard_brings_the_others_back(void **state)
{
    struct tables *t = start(state);

    join(t, "a", "1");
    join(t, "b", "1");
    beat(t, "a");
    beat(t, "b");
    nodes_tick(t, later(t));
    assert_int_equal(state_of(t, "b"), NODE_GONE);
    beat(t, "a");
    assert_int_equal(state_of(t, "b"), NODE_LIVE);
    check_stored(t, "b", "gone"); /* until the next tick */
    nodes_tick(t, dlc_mono_now());
    check_stored(t, "b", "live");
    bare_close(&t);
}

static void test_a_name_has_one_holder(void **state)
{
    struct tables *t = start(state);

    assert_true(nodes_is_holder(t, "a", "2")); /* nobody has it */
    join(t, "a", "1");
    assert_true(nodes_is_holder(t, "a", "1"));
    assert_false(nodes_is_holder(t, "a", "2"));
    nodes_forget(t, "a");
    assert_true(nodes_is_holder(t, "a", "2"));
    bare_close(&t);
}

/* Another manager begins to lead: it knows the nodes, and each has its full time. */
static void test_a_new_leader_loads_them(void **state)
{
    struct tables *t = start(state);
    json_t *names;

    join(t, "a", "1");
    join(t, "b", "1");
    beat(t, "a");
    nodes_close(t);
    assert_int_equal(json_array_size(names = nodes_present(t, NULL)), 0);
    json_decref(names);
    ok(nodes_load(t, &err));
    nodes_tick(t, dlc_mono_now());
    assert_int_equal(state_of(t, "a"), NODE_LIVE);
    assert_int_equal(state_of(t, "b"), NODE_JOINING);
    names = nodes_present(t, NULL); /* b has not said a word yet */
    assert_int_equal(json_array_size(names), 1);
    assert_string_equal(json_string_value(json_array_get(names, 0)), "a");
    json_decref(names);
    bare_close(&t);
}

int main(void)
{
    const struct each_case cases[] = {
        {"a node lives while it beats", test_a_node_lives_while_it_beats},
        {"the first that is heard brings the others back",
         test_the_first_that_is_heard_brings_the_others_back},
        {"a name has one holder", test_a_name_has_one_holder},
        {"a new leader loads them", test_a_new_leader_loads_them},
    };

    return each_store(cases, unit_count(cases));
}
