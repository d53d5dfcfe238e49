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

static void beat_with_disk(struct tables *t, const char *name, json_int_t disk)
{
    json_t *figures = json_pack("{s:I}", "disk_limit", disk);
    bool woke = false;

    assert_true(nodes_heard(t, name, figures, NULL, &woke));
    json_decref(figures);
}

/* As the view names it: -1: not at all. */
static int seen_as(struct tables *t, const char *name)
{
    struct node_info *info = NULL;
    size_t n = nodes_of_view(t, &info);
    int state = -1;

    for (size_t i = 0; i < n; i++)
        if (strcmp(info[i].name, name) == 0) {
            assert_int_equal(state, -1); /* once */
            state = (int)info[i].state;
        }
    nodes_release(&info, n);
    return state;
}

/* A node that is restarted is away until it is heard again; nobody takes it for one that is there. */
static void test_a_node_is_away_after_its_goodbye(void **state)
{
    struct tables *t = start(state);
    struct node_info info;

    join(t, "a", "1");
    beat_with_disk(t, "a", 1000);
    nodes_goodbye(t, "a");
    assert_false(nodes_get(t, "a", &info));
    assert_int_equal(seen_as(t, "a"), NODE_AWAY);
    ok(store_delete(t->store, STORE_NODE, "a", STORE_ANY, &err));
    join(t, "a", "2");
    assert_int_equal(seen_as(t, "a"), NODE_AWAY); /* it does not own anything before it is live */
    assert_int_equal(state_of(t, "a"), NODE_JOINING);
    beat_with_disk(t, "a", 1000);
    assert_int_equal(seen_as(t, "a"), NODE_LIVE);
    nodes_goodbye(t, "a");
    nodes_tick(t, dlc_mono_add(dlc_mono_now(), DLC_SEC(29)));
    assert_int_equal(seen_as(t, "a"), NODE_AWAY);
    nodes_tick(t, dlc_mono_add(dlc_mono_now(), DLC_SEC(31)));
    assert_int_equal(seen_as(t, "a"), -1); /* it does not come back */
    bare_close(&t);
}

/* Its copies are gone with it, or an admin took it out. */
static void test_nobody_waits_for_a_node_without_a_disk(void **state)
{
    struct tables *t = start(state);

    join(t, "a", "1");
    beat_with_disk(t, "a", 0);
    nodes_goodbye(t, "a");
    assert_int_equal(seen_as(t, "a"), -1);
    join(t, "b", "1");
    beat_with_disk(t, "b", 1000);
    nodes_forget(t, "b");
    assert_int_equal(seen_as(t, "b"), -1);
    join(t, "c", "1"); /* it was never live */
    nodes_goodbye(t, "c");
    assert_int_equal(seen_as(t, "c"), -1);
    nodes_goodbye(t, "nobody");
    bare_close(&t);
}

int main(void)
{
    const struct each_case cases[] = {
        {"a node is away after its goodbye", test_a_node_is_away_after_its_goodbye},
        {"nobody waits for a node without a disk", test_nobody_waits_for_a_node_without_a_disk},
        {"a node lives while it beats", test_a_node_lives_while_it_beats},
        {"the first that is heard brings the others back",
         test_the_first_that_is_heard_brings_the_others_back},
        {"a name has one holder", test_a_name_has_one_holder},
        {"a new leader loads them", test_a_new_leader_loads_them},
    };

    return each_store(cases, unit_count(cases));
}
