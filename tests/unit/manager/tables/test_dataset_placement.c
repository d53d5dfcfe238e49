// SPDX-License-Identifier: Apache-2.0
/* Which nodes a dataset gets that wants some number of them, and when it gets others. Nodes a, b, c
 * and e have room for 1000 bytes each. */
#include "manager/bare.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/dataset_placement.h"

static unsigned serial; /* directories differ from store to store */

static struct tables *start(void **state)
{
    char dir[64];
    struct tables *t;

    snprintf(dir, sizeof(dir), "placement%u", serial++);
    t = bare_lead(url_of(state), dir);
    for (const char *const *name = (const char *const[]){"a", "b", "c", "e", NULL}; *name != NULL;
         name++)
        bare_put_node(t, *name, 1000);
    return t;
}

/* d has so many bytes and wants so many nodes (0: none in particular). nodes: "[...]", or NULL. */
static void put_dataset(struct tables *t, int bytes, int count, const char *nodes)
{
    json_t *body = json_pack("{s:s, s:i, s:{s:s, s:i}}", "url", "s3://b/", "created_ms", 1,
                             "snapshot", "id", "1f", "bytes", bytes);

    if (count > 0)
        json_object_set_new(body, "node_count", json_integer(count));
    if (nodes != NULL)
        json_object_set_new(body, "nodes", json_loads(nodes, 0, NULL));
    bare_put(t, STORE_DATASET, "d", "ann", body);
}

/* The names of its nodes in the store, one after the other; "": on all. */
static const char *lies_on(struct tables *t)
{
    static char names[16];
    struct store_doc d = STORE_DOC_INIT;
    const json_t *nodes;

    ok(store_get(t->store, STORE_DATASET, "d", &d, &err));
    nodes = dataset_nodes(d.body);
    names[0] = '\0';
    for (size_t i = 0; i < json_array_size(nodes); i++)
        strncat(names, json_string_value(json_array_get(nodes, i)), 1);
    store_doc_release(&d);
    return names;
}

static size_t placed_events(struct tables *t)
{
    json_t *events = NULL;
    size_t n = 0;

    ok(store_events(t->store, "ann", 0, 100, &events, &err));
    for (size_t i = 0; i < json_array_size(events); i++)
        n += strcmp(json_string_value(json_object_get(json_array_get(events, i), "type")),
                    "dataset.placed") == 0;
    json_decref(events);
    return n;
}

/* As while a view is made. */
static void search(struct tables *t)
{
    struct dataset_entry **all = NULL;
    struct orphans_search s;
    size_t n = 0;

    ok(datasets_index_get(t, &all, &n, &err));
    orphans_begin(t, &s);
    for (size_t i = 0; i < n; i++) {
        orphans_look(t, &s, all[i]);
        dataset_entry_put(&all[i]);
    }
    orphans_end(t, &s, true);
    mem_free(&all);
}

static void tick_after(struct tables *t, struct dlc_dur d)
{
    datasets_tick(t, dlc_mono_add(dlc_mono_now(), d));
}

static void test_the_first_job_chooses(void **state)
{
    struct tables *t = start(state);

    put_dataset(t, 600, 2, NULL);
    ok(dataset_place(t, "d", 0, &err));
    assert_int_equal(strlen(lies_on(t)), 2);
    assert_int_not_equal(lies_on(t)[0], lies_on(t)[1]);
    assert_int_equal(placed_events(t), 1);
    ok(dataset_place(t, "d", 0, &err)); /* it has them */
    assert_int_equal(placed_events(t), 1);
    assert_int_equal(dataset_place(t, "x", 0, &err), DLC_ENOTFOUND);
    bare_close(&t);
}

static void test_it_lies_on_all_nodes(void **state)
{
    struct tables *t = start(state);

    put_dataset(t, 5000, 2, NULL); /* too large for any two */
    ok(dataset_place(t, "d", 0, &err));
    assert_string_equal(lies_on(t), "");
    assert_int_equal(placed_events(t), 0);
    bare_close(&t);
}

static void test_nobody_asked_for_a_number(void **state)
{
    struct tables *t = start(state);

    put_dataset(t, 600, 0, NULL);
    ok(dataset_place(t, "d", 0, &err));
    assert_string_equal(lies_on(t), "");
    bare_close(&t);
}

/* (PLACE-1) */
static void test_one_node_is_enough_to_stay(void **state)
{
    struct tables *t = start(state);

    put_dataset(t, 600, 2, "[\"a\", \"b\"]");
    nodes_write_state(t, "a", NODE_GONE);
    search(t);
    tick_after(t, DLC_SEC(1000));
    assert_string_equal(lies_on(t), "ab");
    nodes_write_state(t, "b", NODE_GONE);
    search(t);
    search(t);                 /* it counts from the first that found it */
    tick_after(t, DLC_SEC(5)); /* of 10: they may be back */
    assert_string_equal(lies_on(t), "ab");
    tick_after(t, DLC_SEC(11));
    assert_int_equal(strlen(lies_on(t)), 2);
    assert_null(strpbrk(lies_on(t), "ab"));
    assert_int_equal(placed_events(t), 1);
    tick_after(t, DLC_SEC(1000)); /* once */
    assert_int_equal(placed_events(t), 1);
    bare_close(&t);
}

static void test_a_node_comes_back_in_time(void **state)
{
    struct tables *t = start(state);

    put_dataset(t, 600, 1, "[\"a\"]");
    nodes_write_state(t, "a", NODE_GONE);
    search(t);
    nodes_write_state(t, "a", NODE_LIVE);
    tick_after(t, DLC_SEC(11)); /* before the next search */
    assert_string_equal(lies_on(t), "a");
    bare_close(&t);
}

/* (PLACE-2) */
static void test_nodes_that_a_user_named(void **state)
{
    struct tables *t = start(state);

    put_dataset(t, 600, 0, "[\"a\"]");
    nodes_write_state(t, "a", NODE_GONE);
    search(t);
    tick_after(t, DLC_SEC(1000));
    assert_string_equal(lies_on(t), "a");
    bare_close(&t);
}

int main(void)
{
    const struct each_case cases[] = {
        {"the first job chooses", test_the_first_job_chooses},
        {"it lies on all nodes", test_it_lies_on_all_nodes},
        {"nobody asked for a number", test_nobody_asked_for_a_number},
        {"one node is enough to stay", test_one_node_is_enough_to_stay},
        {"a node comes back in time", test_a_node_comes_back_in_time},
        {"nodes that a user named", test_nodes_that_a_user_named},
    };

    return each_store(cases, unit_count(cases));
}
