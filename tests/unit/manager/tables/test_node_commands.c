// SPDX-License-Identifier: Apache-2.0
/* The queue of commands of a node, and what becomes of them, without HTTP. */
#include "base/json.h"
#include "manager/bare.h"
#include "manager/tables/command_results.h"
#include "manager/tables/dataset_doc.h"

#define OF_DATASET 16 /* commands of one dataset that a node takes */

static unsigned serial; /* directories differ from store to store */

static void put_doc(struct tables *t, enum store_kind kind, const char *id, const char *tenant,
                    json_t *body, struct store_doc *out)
{
    struct store_doc d = {(char *)id, (char *)tenant, body, 0};

    assert_non_null(body);
    ok(store_put(t->store, kind, &d, STORE_NEW, &err));
    if (kind == STORE_NODE)
        nodes_remember(t, &d, true);
    else
        dataset_written(t, 0, &d);
    if (out != NULL)
        ok(store_get(t->store, kind, id, out, &err));
    json_decref(body);
}

/* Nodes a and b are live, dataset d is ann's. */
static struct tables *start(void **state, struct store_doc *dataset)
{
    struct tables *t;
    char dir[64];

    snprintf(dir, sizeof(dir), "commands%u", serial++);
    t = bare_lead(url_of(state), dir);
    put_doc(t, STORE_NODE, "a", "", json_pack("{s:s, s:s}", "address", "", "state", "live"), NULL);
    put_doc(t, STORE_NODE, "b", "", json_pack("{s:s, s:s}", "address", "", "state", "live"), NULL);
    *dataset = (struct store_doc)STORE_DOC_INIT;
    put_doc(t, STORE_DATASET, "d", "ann",
            json_pack("{s:s, s:i}", "url", "s3://b/", "created_ms", 1), dataset);
    return t;
}

static void stop(struct tables **t, struct store_doc *dataset)
{
    store_doc_release(dataset);
    bare_close(t);
}

static size_t waiting(struct tables *t, const char *node)
{
    json_t *commands = nodes_commands(t, node);
    size_t n = json_array_size(commands);

    json_decref(commands);
    return n;
}

static json_t *warm(const struct store_doc *d, int split)
{
    json_t *command = dataset_command(d, "warm", "disk");

    json_object_set_new(command, "split", json_sprintf("s%d", split));
    return command;
}

static void test_an_equal_command_is_sent_once(void **state)
{
    struct store_doc d;
    struct tables *t = start(state, &d);

    ok(command_send(t, "a", warm(&d, 1), &err));
    ok(command_send(t, "a", warm(&d, 1), &err));
    assert_int_equal(waiting(t, "a"), 1);
    ok(command_send(t, "a", warm(&d, 2), &err));
    assert_int_equal(waiting(t, "a"), 2);
    assert_int_equal(waiting(t, "b"), 0);
    assert_int_equal(command_send(t, "c", warm(&d, 1), &err), DLC_ENOTFOUND);
    stop(&t, &d);
}

/* What an eviction undoes is wanted again when it is sent again, and the other way round. */
static void test_an_equal_command_after_an_eviction(void **state)
{
    struct store_doc d;
    struct tables *t = start(state, &d);

    ok(command_send(t, "a", warm(&d, 1), &err));
    ok(command_send(t, "a", dataset_command(&d, "evict", "all"), &err));
    ok(command_send(t, "a", dataset_command(&d, "evict", "all"), &err));
    assert_int_equal(waiting(t, "a"), 2);
    ok(command_send(t, "a", warm(&d, 1), &err));
    ok(command_send(t, "a", warm(&d, 1), &err));
    assert_int_equal(waiting(t, "a"), 3);
    ok(command_send(t, "a", dataset_command(&d, "evict", "all"), &err));
    assert_int_equal(waiting(t, "a"), 4);
    stop(&t, &d);
}

static const char *mark_of(struct tables *t, const char *node, char mark[static 32])
{
    json_t *commands = nodes_commands(t, node);
    const char *text = json_text_at(json_array_get(commands, 0), "mark");

    snprintf(mark, 32, "%s", text != NULL ? text : "");
    json_decref(commands);
    return mark;
}

/* Nodes tell by the mark whether they have heard of the same one. */
static void test_an_eviction_of_all_nodes_has_a_mark(void **state)
{
    struct store_doc d;
    struct tables *t = start(state, &d);
    char mark[32], other[32];

    ok(command_send_all(t, NULL, dataset_command(&d, "evict", "all"), &err));
    assert_int_equal(strlen(mark_of(t, "a", mark)), 16);
    assert_string_equal(mark, mark_of(t, "b", other));
    ok(command_send_all(t, NULL, dataset_command(&d, "evict", "all"), &err));
    assert_int_equal(waiting(t, "a"), 1); /* the mark alone makes it no other one */
    stop(&t, &d);
}

/* One dataset does not fill the queue; an eviction is taken all the same. */
static void test_a_dataset_has_a_share_of_the_queue(void **state)
{
    struct store_doc d;
    struct tables *t = start(state, &d);

    for (int i = 0; i < OF_DATASET; i++)
        ok(command_send(t, "a", warm(&d, i), &err));
    assert_int_equal(command_send(t, "a", warm(&d, OF_DATASET), &err), DLC_ENOSPACE);
    assert_non_null(strstr(err.text, "node a"));
    ok(command_send(t, "a", dataset_command(&d, "evict", "all"), &err));
    assert_int_equal(waiting(t, "a"), OF_DATASET + 1);
    ok(commands_withdraw(t, &d, &err)); /* evictions stay */
    assert_int_equal(waiting(t, "a"), 1);
    stop(&t, &d);
}

/* (COMMAND-1) The result of a listing is in the dataset's document, then the command goes. */
static void test_a_result_is_written(void **state)
{
    struct store_doc d, now = STORE_DOC_INIT;
    struct tables *t = start(state, &d);
    json_t *commands, *done;

    ok(command_send(t, "a", dataset_command(&d, "snapshot", NULL), &err));
    commands = nodes_commands(t, "a");
    done = json_pack("[{s:O, s:{s:s, s:i, s:i, s:{}}}]", "id",
                     json_object_get(json_array_get(commands, 0), "id"), "result", "snapshot", "1f",
                     "samples", 3, "bytes", 30, "splits");
    assert_non_null(done);
    ok(commands_finish(t, "a", done, &err));
    assert_int_equal(waiting(t, "a"), 0);
    ok(commands_finish(t, "a", done, &err)); /* said twice */
    ok(store_get(t->store, STORE_DATASET, "d", &now, &err));
    assert_string_equal(json_string_value(json_object_get(dataset_snapshot(now.body), "id")), "1f");
    store_doc_release(&now);
    json_decref(commands);
    json_decref(done);
    stop(&t, &d);
}

/* (COMMAND-2) */
static void test_a_listing_moves_to_another_node(void **state)
{
    struct store_doc d;
    struct tables *t = start(state, &d);

    ok(command_send(t, "a", dataset_command(&d, "snapshot", NULL), &err));
    ok(command_send(t, "a", warm(&d, 1), &err));
    nodes_write_state(t, "a", NODE_GONE);
    commands_tick(t);
    assert_int_equal(waiting(t, "b"), 1);
    assert_int_equal(waiting(t, "a"), 1); /* the warm-up waits for it */
    stop(&t, &d);
}

int main(void)
{
    const struct each_case cases[] = {
        {"an equal command is sent once", test_an_equal_command_is_sent_once},
        {"an equal command after an eviction", test_an_equal_command_after_an_eviction},
        {"an eviction of all nodes has a mark", test_an_eviction_of_all_nodes_has_a_mark},
        {"a dataset has a share of the queue", test_a_dataset_has_a_share_of_the_queue},
        {"a result is written", test_a_result_is_written},
        {"a listing moves to another node", test_a_listing_moves_to_another_node},
    };

    return each_store(cases, unit_count(cases));
}
