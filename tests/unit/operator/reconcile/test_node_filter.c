// SPDX-License-Identifier: Apache-2.0
#include "operator/world.h"

#include "base/mem.h"
#include "operator/reconcile/reconcile_i.h"

static json_t *parse(const char *s)
{
    json_t *v = json_loads(s, 0, NULL);

    assert_non_null(v);
    return v;
}

#define TAINTED                                                                                    \
    "{\"spec\": {\"taints\": [{\"key\": \"k\", \"value\": \"v\", \"effect\": \"NoSchedule\"}]}}"

/* Node n1 is changed by `node` (merged into it), n2 is as it is; the DLTPod says `spec`. Which come
 * out, of a placement that says n2, n1, nowhere? */
static const struct row {
    const char *what, *node, *spec, *want, *why;
} rows[] = {
    {"all", "{}", "", "n2 n1 ", ""},
    {"not ready",
     "{\"status\": {\"conditions\": [{\"type\": \"Ready\", \"status\": \"Unknown\"}]}}", "", "n2 ",
     ""},
    {"cordoned", "{\"spec\": {\"unschedulable\": true}}", "", "n2 ", ""},
    {"tainted", TAINTED, "", "n2 ", ""},
    {"tolerated by key", TAINTED, "\"tolerations\": [{\"key\": \"k\", \"operator\": \"Exists\"}],",
     "n2 n1 ", ""},
    {"tolerated by value", TAINTED,
     "\"tolerations\": [{\"key\": \"k\", \"value\": \"v\", \"effect\": \"NoSchedule\"}],", "n2 n1 ",
     ""},
    {"another value", TAINTED, "\"tolerations\": [{\"key\": \"k\", \"value\": \"w\"}],", "n2 ", ""},
    {"another effect", TAINTED,
     "\"tolerations\": [{\"operator\": \"Exists\", \"effect\": \"NoExecute\"}],", "n2 ", ""},
    {"everything is tolerated", TAINTED, "\"tolerations\": [{\"operator\": \"Exists\"}],", "n2 n1 ",
     ""},
    {"a taint that only prefers",
     "{\"spec\": {\"taints\": [{\"key\": \"k\", \"effect\": \"PreferNoSchedule\"}]}}", "", "n2 n1 ",
     ""},
    {"selected", "{\"metadata\": {\"labels\": {\"dlcache.io/node\": \"ready\", \"gpu\": \"yes\"}}}",
     "\"nodeSelector\": {\"gpu\": \"yes\"},", "n1 ", ""},
    {"none selected", "{}", "\"nodeSelector\": {\"gpu\": \"yes\"},", "",
     "none of 2 nodes can be used: 2 without the labels of nodeSelector"},
    {"a sequence", "{}", "\"nodeSequence\": [\"n9\", \"n1\"],", "n1 ", ""},
    {"two reasons", "{\"metadata\": {\"labels\": {}}}", "\"nodeSequence\": [\"n1\"],", "",
     "1 without dlcache (label dlcache.io/node), 1 not in nodeSequence"},
};

static void test_table(void **state)
{
    json_t *placement = parse("[{\"node\": \"n2\"}, {\"node\": \"n1\"}, {\"node\": \"nowhere\"}]");

    (void)state;
    for (size_t i = 0; i < unit_count(rows); i++) {
        char *spec = mem_fmt("{%s \"jobs\": [{\"name\": \"a\", \"image\": \"i\", \"dataSource\": {"
                             "\"bucket\": \"s3://b/\"}}]}",
                             rows[i].spec);
        json_t *change = parse(rows[i].node), *nodes, *v;
        char have[100] = "", why[300];
        struct observed o;
        struct world w;
        size_t k;
        bool any;

        world_init(&w);
        world_dltpod(&w, "x", spec);
        json_object_update_recursive(world_get(&w, "Node", "n1"), change);
        if (json_object_size(json_object_get(json_object_get(change, "metadata"), "labels")) == 0 &&
            json_object_get(change, "metadata") != NULL)
            json_object_clear(json_object_get(
                json_object_get(world_get(&w, "Node", "n1"), "metadata"), "labels"));
        world_observe(&w, "DLTPod", "x", &o);
        assert_false(o.invalid);
        nodes = nodes_for(&o, placement, &any, why);
        json_array_foreach(nodes, k, v)
            snprintf(have + strlen(have), sizeof(have) - strlen(have), "%s ", json_string_value(v));
        if (strcmp(have, rows[i].want) != 0 || any != (rows[i].want[0] != '\0') ||
            (!any && strstr(why, rows[i].why) == NULL))
            fail_msg("%s: \"%s\", %s", rows[i].what, have, why);
        json_decref(nodes);
        json_decref(change);
        world_unobserve(&o);
        world_release(&w);
        mem_free(&spec);
    }
    json_decref(placement);
}

/* As many as a pod prefers, also of many. */
static void test_many(void **state)
{
    json_t *placement = json_array(), *nodes;
    char name[16], why[300];
    struct observed o;
    struct world w;
    bool any;

    (void)state;
    world_init(&w);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "m%d", i);
        world_node(&w, name, i % 2 == 0);
        json_array_append_new(placement, json_pack("{s:s}", "node", name));
    }
    world_dltpod(
        &w, "x",
        "{\"jobs\": [{\"name\": \"a\", \"image\": \"i\", \"dataSource\": {\"bucket\": \"b12\"}}]}");
    world_observe(&w, "DLTPod", "x", &o);
    nodes = nodes_for(&o, placement, &any, why);
    assert_int_equal(json_array_size(nodes), 10);
    assert_string_equal(json_string_value(json_array_get(nodes, 9)), "m18");
    json_decref(nodes);
    json_decref(placement);
    world_unobserve(&o);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
