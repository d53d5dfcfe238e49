// SPDX-License-Identifier: Apache-2.0
// timeout: 60
/* The view follows datasets without reading the documents of all: index.loads counts how often it
 * did, and what it says is compared with the store. */
#include "manager/bare.h"
#include "manager/tables/documents.h"
#include "manager/tables/view_builder.h"

#define N 300 /* datasets: more than a page */

static unsigned serial; /* directories differ from store to store */

static void make(struct tables *c, const char *id, json_t *nodes, int64_t created)
{
    struct store_doc d = {(char *)id, (char *)"ann", NULL, 0};
    int rc;

    d.body = json_pack("{s:s, s:I, s:o*}", "url", "s3://b/", "created_ms", (json_int_t)created,
                       "nodes", nodes);
    rc = store_put(c->store, STORE_DATASET, &d, STORE_NEW, &err);
    dataset_written(c, rc, &d);
    json_decref(d.body);
    assert_int_equal(rc, 0);
}

static void take_away(struct tables *c, const char *id)
{
    int rc = store_delete(c->store, STORE_DATASET, id, STORE_ANY, &err);

    dataset_deleted(c, rc, id);
    assert_int_equal(rc, 0);
}

static int set_nodes(struct store_doc *d, void *arg, struct dlc_err *e)
{
    (void)e;
    json_object_set_new(d->body, "nodes", json_pack("[s]", (const char *)arg));
    return 0;
}

static void move(struct tables *c, const char *id, const char *node)
{
    ok(document_change(c, STORE_DATASET, id, STORE_ANY, set_nodes, (void *)node, NULL, &err));
}

static struct tables *start(void **state)
{
    char name[64];

    snprintf(name, sizeof(name), "index%u", serial++);
    return bare_lead(url_of(state), name);
}

/* The one node of a dataset in a new view; "": it is not there. */
static const char *lies_on(struct tables *c, const char *id)
{
    static char out[64];
    struct view *view;
    json_t *d;
    size_t i;

    view_changed(c);
    view_tick(c);
    view = view_get(c, 0);
    assert_non_null(view);
    out[0] = '\0';
    json_array_foreach(json_object_get(view->body, "datasets"), i, d)
    {
        if (strcmp(json_string_value(json_object_get(d, "id")), id) == 0)
            snprintf(out, sizeof(out), "%s",
                     json_string_value(json_array_get(json_object_get(d, "nodes"), 0)));
    }
    view_put(&view);
    return out;
}

static void test_a_change_reads_nothing(void **state)
{
    struct tables *c = start(state);
    char id[32];

    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof(id), "d%03d", i);
        make(c, id, i % 2 == 0 ? json_pack("[s]", "a") : NULL, 1);
    }
    assert_string_equal(lies_on(c, "d000"), "a");
    assert_string_equal(lies_on(c, "d299"), "");
    assert_int_equal(c->datasets.loads, 1);
    assert_int_equal(c->datasets.n, N);
    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof(id), "d%03d", i);
        move(c, id, i < 5 ? "b" : "c");
    }
    assert_string_equal(lies_on(c, "d004"), "b");
    assert_string_equal(lies_on(c, "d299"), "c");
    make(c, "a-new-one", json_pack("[s]", "x"), 2);
    assert_string_equal(lies_on(c, "a-new-one"), "x");
    take_away(c, "d004");
    assert_string_equal(lies_on(c, "d004"), "");
    make(c, "d004", json_pack("[s]", "y"), 3); /* its name is taken anew */
    move(c, "d004", "z");
    assert_string_equal(lies_on(c, "d004"), "z");
    assert_int_equal(c->datasets.loads, 1);
    assert_int_equal(c->datasets.n, N + 1);
    bare_close(&c);
}

/* What may or may not be in the store is looked up there. */
static void test_doubt_reads_all(void **state)
{
    struct tables *c = start(state);
    struct store_doc d = STORE_DOC_INIT;

    make(c, "one", json_pack("[s]", "a"), 1);
    assert_string_equal(lies_on(c, "one"), "a");
    ok(store_get(c->store, STORE_DATASET, "one", &d, &err));
    set_nodes(&d, (void *)"b", NULL);
    ok(store_put(c->store, STORE_DATASET, &d, d.version, &err));
    dataset_written(c, DLC_EBUCKET, &d); /* the answer of the store was lost */
    assert_string_equal(lies_on(c, "one"), "b");
    assert_int_equal(c->datasets.loads, 2);
    set_nodes(&d, (void *)"c", NULL); /* a write that nobody told of, and the one after it */
    ok(store_put(c->store, STORE_DATASET, &d, d.version, &err));
    move(c, "one", "d");
    assert_string_equal(lies_on(c, "one"), "d");
    assert_int_equal(c->datasets.loads, 3);
    d.version = 1; /* told late: it is older than what we know */
    dataset_written(c, 0, &d);
    assert_string_equal(lies_on(c, "one"), "d");
    assert_int_equal(c->datasets.loads, 3);
    take_away(c, "one");
    make(c, "one", json_pack("[s]", "e"), 2);
    d.version = 2; /* told late, of the one that had the name before */
    dataset_written(c, 0, &d);
    assert_string_equal(lies_on(c, "one"), "e");
    assert_int_equal(c->datasets.loads, 4);
    d.version = 9; /* the same, when nobody has the name any more */
    take_away(c, "one");
    dataset_written(c, 0, &d);
    assert_string_equal(lies_on(c, "one"), "");
    assert_int_equal(c->datasets.loads, 5);
    ok(view_load(c, c->leader.fence, &err)); /* we begin to lead */
    assert_string_equal(lies_on(c, "one"), "");
    assert_int_equal(c->datasets.loads, 6);
    store_doc_release(&d);
    bare_close(&c);
}

int main(void)
{
    const struct each_case cases[] = {
        {"a change reads nothing", test_a_change_reads_nothing},
        {"doubt reads all", test_doubt_reads_all},
    };

    return each_store(cases, unit_count(cases));
}
