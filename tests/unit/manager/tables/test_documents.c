// SPDX-License-Identifier: Apache-2.0
/* Changes to documents: written once, repeated after a write of somebody else, or not at all. */
#include "manager/bare.h"
#include "manager/tables/documents.h"

static unsigned serial; /* directories differ from store to store */

static struct tables *start(void **state)
{
    char dir[64];
    struct tables *t;

    snprintf(dir, sizeof(dir), "documents%u", serial++);
    t = bare_lead(url_of(state), dir);
    bare_put(t, STORE_DATASET, "d", "ann",
             json_pack("{s:s, s:i}", "url", "s3://b/", "created_ms", 1));
    return t;
}

/* What change() does, and how often it was called. */
struct job_of_change {
    struct tables *t;
    int rc;
    unsigned interrupts; /* so often somebody else writes while it runs */
    unsigned calls;
};

static int change(struct store_doc *d, void *arg, struct dlc_err *e)
{
    struct job_of_change *c = arg;

    c->calls++;
    if (c->calls <= c->interrupts) {
        struct store_doc other = STORE_DOC_INIT;

        ok(store_get(c->t->store, STORE_DATASET, d->id, &other, &err));
        json_object_set_new(other.body, "other", json_integer(c->calls));
        ok(store_put(c->t->store, STORE_DATASET, &other, other.version, &err));
        store_doc_release(&other);
    }
    json_object_set_new(d->body, "node_count", json_integer(2));
    return c->rc < 0 ? dlc_err_set(e, c->rc, "not this one") : c->rc;
}

static int run(struct job_of_change *c, uint64_t expect, struct store_doc *out)
{
    *out = (struct store_doc)STORE_DOC_INIT;
    return document_change(c->t, STORE_DATASET, "d", expect, change, c, out, &err);
}

static json_int_t stored(struct tables *t, const char *member)
{
    struct store_doc d = STORE_DOC_INIT;
    json_int_t v;

    ok(store_get(t->store, STORE_DATASET, "d", &d, &err));
    v = json_integer_value(json_object_get(d.body, member));
    store_doc_release(&d);
    return v;
}

/* (INDEX-1) The index knows of the change. */
static void test_a_change_is_written(void **state)
{
    struct tables *t = start(state);
    struct job_of_change c = {.t = t};
    struct dataset_entry **all;
    struct store_doc d;
    size_t n = 0;

    ok(run(&c, STORE_ANY, &d));
    assert_int_equal(c.calls, 1);
    assert_int_equal(d.version, 2);
    assert_int_equal(stored(t, "node_count"), 2);
    store_doc_release(&d);
    ok(datasets_index_get(t, &all, &n, &err));
    assert_int_equal(n, 1);
    assert_int_equal(all[0]->count, 2);
    assert_int_equal(all[0]->version, 2);
    dataset_entry_put(&all[0]);
    mem_free(&all);
    bare_close(&t);
}

static void test_nothing_to_change(void **state)
{
    struct tables *t = start(state);
    struct job_of_change c = {.t = t, .rc = 1};
    struct store_doc d;

    ok(run(&c, STORE_ANY, &d));
    assert_int_equal(d.version, 1);
    assert_int_equal(stored(t, "node_count"), 0);
    store_doc_release(&d);
    c.rc = DLC_EINVAL;
    assert_int_equal(run(&c, STORE_ANY, &d), DLC_EINVAL);
    assert_string_equal(err.text, "not this one");
    assert_int_equal(stored(t, "node_count"), 0);
    assert_int_equal(c.calls, 2);
    bare_close(&t);
}

/* Neither write is lost, and the failure of the first try is not reported. */
static void test_a_write_between_is_kept(void **state)
{
    struct tables *t = start(state);
    struct job_of_change c = {.t = t, .interrupts = 3};
    struct store_doc d;

    err = (struct dlc_err)DLC_ERR_INIT;
    ok(run(&c, STORE_ANY, &d));
    assert_int_equal(err.code, 0);
    assert_int_equal(c.calls, 4);
    assert_int_equal(d.version, 5);
    assert_int_equal(stored(t, "node_count"), 2);
    assert_int_equal(stored(t, "other"), 3);
    store_doc_release(&d);
    bare_close(&t);
}

/* A caller that has seen a version gets that one changed, or none. */
static void test_an_expected_version(void **state)
{
    struct tables *t = start(state);
    struct job_of_change c = {.t = t, .interrupts = 1};
    struct store_doc d;

    assert_int_equal(run(&c, 7, &d), DLC_EBUSY);
    assert_non_null(strstr(err.text, "version 1, not 7"));
    assert_int_equal(c.calls, 0);
    assert_int_equal(run(&c, 1, &d), DLC_EBUSY);
    assert_int_equal(c.calls, 1); /* it is not tried again */
    assert_int_equal(stored(t, "node_count"), 0);
    ok(run(&c, 2, &d));
    assert_int_equal(d.version, 3);
    store_doc_release(&d);
    bare_close(&t);
}

static void test_there_is_no_such_document(void **state)
{
    struct tables *t = start(state);
    struct job_of_change c = {.t = t};

    assert_int_equal(document_change(t, STORE_DATASET, "e", STORE_ANY, change, &c, NULL, &err),
                     DLC_ENOTFOUND);
    assert_int_equal(c.calls, 0);
    bare_close(&t);
}

int main(void)
{
    const struct each_case cases[] = {
        {"a change is written", test_a_change_is_written},
        {"nothing to change", test_nothing_to_change},
        {"a write between is kept", test_a_write_between_is_kept},
        {"an expected version", test_an_expected_version},
        {"there is no such document", test_there_is_no_such_document},
    };

    return each_store(cases, unit_count(cases));
}
