// SPDX-License-Identifier: Apache-2.0
/* A dataset moves from node a to others: who fetches, who evicts, and when. */
#include <pthread.h>

#include "manager/bare.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/dataset_move.h"
#include "manager/tables/view_builder.h"

static unsigned serial; /* directories differ from store to store */

/* The manager's thread, as far as a move waits for it. */
struct view_thread {
    pthread_t thread;
    struct tables *t;
    _Atomic bool stop;
};

static void *make_views(void *arg)
{
    struct view_thread *v = arg;

    while (!atomic_load(&v->stop)) {
        view_tick(v->t);
        poll(NULL, 0, 2);
    }
    return NULL;
}

/* Nodes a, b, c are live; d lies on a. */
static struct tables *start(void **state, struct store_doc *d)
{
    char dir[64];
    struct tables *t;

    snprintf(dir, sizeof(dir), "move%u", serial++);
    t = bare_lead(url_of(state), dir);
    bare_put_node(t, "a", 1000);
    bare_put_node(t, "b", 1000);
    bare_put_node(t, "c", 1000);
    bare_put(t, STORE_DATASET, "d", "ann",
             json_pack("{s:s, s:i, s:[s]}", "url", "s3://b/", "created_ms", 1, "nodes", "a"));
    *d = (struct store_doc)STORE_DOC_INIT;
    ok(store_get(t->store, STORE_DATASET, "d", d, &err));
    return t;
}

static void cache_on_a(struct tables *t)
{
    const struct store_chunk c = {
        .dataset = "d", .node = "a", .key = "k", .etag = "e", .size = 10, .changed_ms = 1};

    ok(store_chunks_put(t->store, &c, 1, &err));
}

/* To `nodes`, "[...]". */
static int move(struct tables *t, const struct store_doc *d, const char *nodes)
{
    struct view_thread v = {.t = t};
    json_t *to = json_loads(nodes, 0, NULL), *everyone = nodes_present(t, NULL);
    struct move_request m = {.nodes = to, .everyone = everyone, .seen = d};
    struct store_doc out = STORE_DOC_INIT;
    int rc;

    assert_int_equal(pthread_create(&v.thread, NULL, make_views, &v), 0);
    rc = dataset_move_begin(t, &m, STORE_ANY, &out, &err);
    atomic_store(&v.stop, true);
    assert_int_equal(pthread_join(v.thread, NULL), 0);
    store_doc_release(&out);
    json_decref(to);
    json_decref(everyone);
    return rc;
}

/* The operations that wait at a node, by their first letters. */
static const char *commands(struct tables *t, const char *node)
{
    static char ops[16];
    json_t *all = nodes_commands(t, node);

    ops[0] = '\0';
    for (size_t i = 0; i < json_array_size(all); i++)
        strncat(ops, json_string_value(json_object_get(json_array_get(all, i), "op")), 1);
    json_decref(all);
    return ops;
}

static bool moves(struct tables *t)
{
    struct store_doc d = STORE_DOC_INIT;
    bool moving;

    ok(store_get(t->store, STORE_DATASET, "d", &d, &err));
    moving = json_object_get(d.body, "moving") != NULL;
    store_doc_release(&d);
    return moving;
}

static void test_nothing_is_cached(void **state)
{
    struct store_doc d;
    struct tables *t = start(state, &d);

    ok(move(t, &d, "[\"b\"]"));
    assert_string_equal(commands(t, "b"), ""); /* it has nothing to fetch */
    assert_string_equal(commands(t, "a"), "e");
    assert_false(moves(t));
    store_doc_release(&d);
    bare_close(&t);
}

static void test_the_last_to_arrive_ends_it(void **state)
{
    struct store_doc d;
    struct tables *t = start(state, &d);

    cache_on_a(t);
    ok(move(t, &d, "[\"b\", \"c\"]"));
    assert_string_equal(commands(t, "b"), "w");
    assert_string_equal(commands(t, "c"), "w");
    assert_string_equal(commands(t, "a"), "");
    ok(dataset_move_continue(t, "d", "b", &err));
    assert_string_equal(commands(t, "a"), "");
    assert_true(moves(t));
    ok(dataset_move_continue(t, "d", "c", &err));
    assert_string_equal(commands(t, "a"), "e");
    assert_false(moves(t));
    ok(dataset_move_continue(t, "d", "c", &err)); /* told twice */
    assert_string_equal(commands(t, "a"), "e");
    store_doc_release(&d);
    bare_close(&t);
}

static void test_a_node_that_is_gone_is_not_waited_for(void **state)
{
    struct store_doc d;
    struct tables *t = start(state, &d);

    cache_on_a(t);
    ok(move(t, &d, "[\"b\"]"));
    ok(dataset_move_continue(t, "d", NULL, &err));
    assert_true(moves(t));
    nodes_write_state(t, "b", NODE_GONE);
    ok(dataset_move_continue(t, "d", NULL, &err));
    assert_false(moves(t));
    assert_string_equal(commands(t, "a"), "e");
    store_doc_release(&d);
    bare_close(&t);
}

/* All nodes, a among them: each fetches what it owns now, and a evicts nothing. */
static void test_to_all_nodes(void **state)
{
    struct store_doc d;
    struct tables *t = start(state, &d);

    cache_on_a(t);
    ok(move(t, &d, "[]"));
    assert_string_equal(commands(t, "a"), "w");
    assert_string_equal(commands(t, "c"), "w");
    assert_false(moves(t));
    store_doc_release(&d);
    bare_close(&t);
}

/* The name was freed, and another dataset has it: that one stays where it is. */
static void test_only_the_one_that_was_seen(void **state)
{
    struct store_doc d;
    struct tables *t = start(state, &d);

    json_object_set_new(d.body, "created_ms", json_integer(7));
    assert_int_equal(move(t, &d, "[\"b\"]"), DLC_ENOTFOUND);
    assert_string_equal(commands(t, "a"), "");
    assert_false(moves(t));
    store_doc_release(&d);
    bare_close(&t);
}

int main(void)
{
    const struct each_case cases[] = {
        {"nothing is cached", test_nothing_is_cached},
        {"the last to arrive ends it", test_the_last_to_arrive_ends_it},
        {"a node that is gone is not waited for", test_a_node_that_is_gone_is_not_waited_for},
        {"to all nodes", test_to_all_nodes},
        {"only the one that was seen", test_only_the_one_that_was_seen},
    };

    return each_store(cases, unit_count(cases));
}
