// SPDX-License-Identifier: Apache-2.0
/* What was spent on datasets: the sum of the accounts, which never falls. */
#include "manager/bare.h"

#include <math.h>

#include "manager/tables/accounting.h"
#include "manager/tables/dataset_cost.h"

#define DAY    INT64_C(86400000)
#define MONDAY (INT64_C(20000) * DAY)

static unsigned serial;

static struct tables *start(void **state)
{
    char dir[64];
    struct tables *t;

    snprintf(dir, sizeof(dir), "costs%u", serial++);
    t = bare_lead(url_of(state), dir);
    bare_put(t, STORE_TENANT, "ann", "ann", json_object());
    bare_put(t, STORE_TENANT, "bob", "bob", json_object());
    return t;
}

static json_t *batch(const char *id, int seq, const char *of, int requests)
{
    return json_pack("{s:s, s:i, s:{s:{s:{s:i, s:i, s:I}}}}", "id", id, "seq", seq, "rows", of, "",
                     "requests", requests, "bytes", 10 * requests, "money_nano",
                     (json_int_t)requests * 500000000);
}

static void take(struct tables *t, const char *node, int64_t ms, json_t *b)
{
    ok(accounting_take(t, node, b, ms, &err));
    json_decref(b);
}

/* requests < 0: nothing is known. */
static void expect(struct tables *t, const char *tenant, const char *name, int requests)
{
    const struct store_doc d = {(char *)name, (char *)tenant, NULL, 0};
    json_t *s = dataset_cost(t, &d);

    if (requests < 0) {
        assert_null(s);
        return;
    }
    assert_non_null(s);
    assert_true(json_is_real(json_object_get(s, "money")));
    assert_true(fabs(json_real_value(json_object_get(s, "money")) - requests / 2.0) < 1e-9);
    assert_int_equal(json_integer_value(json_object_get(s, "requests")), requests);
    assert_int_equal(json_integer_value(json_object_get(s, "bytes")), 10 * requests);
    json_decref(s);
}

/* Processes of nodes, days, batches that come twice: each batch counts once. */
static void test_batches_are_summed(void **state)
{
    struct tables *t = start(state);

    expect(t, "ann", "d", -1);
    take(t, "n1", MONDAY, batch("p1", 1, "ann/d", 7));
    take(t, "n1", MONDAY, batch("p1", 1, "ann/d", 7));
    expect(t, "ann", "d", 7);
    take(t, "n2", MONDAY, batch("p2", 1, "ann/d", 10));
    take(t, "n1", MONDAY + DAY, batch("p3", 1, "ann/d", 100)); /* started again, another day */
    take(t, "n1", MONDAY + DAY, batch("p3", 2, "ann/e", 1));
    expect(t, "ann", "d", 117);
    expect(t, "ann", "e", 1);
    expect(t, "bob", "d", -1);
    bare_close(&t);
}

static void test_another_leader_has_the_same(void **state)
{
    struct tables *t = start(state);

    take(t, "n1", MONDAY, batch("p1", 1, "ann/d", 7));
    take(t, "n1", MONDAY + DAY, batch("p1", 2, "ann/d", 3));
    for (int i = 0; i < 2; i++) {
        ok(tables_load(t, 2, &err));
        expect(t, "ann", "d", 10);
    }
    take(t, "n1", MONDAY + DAY, batch("p1", 2, "ann/d", 3)); /* the node has not heard */
    expect(t, "ann", "d", 10);
    bare_close(&t);
}

/* A write that failed may have been made: then its batch is not taken again, and the tick reads it. */
static void test_a_write_that_nobody_knows_of(void **state)
{
    struct tables *t = start(state);
    json_t *b = batch("p1", 2, "ann/d", 5);
    struct store_doc d = STORE_DOC_INIT;
    uint64_t fence;

    take(t, "n1", MONDAY, batch("p1", 1, "ann/d", 7));
    fence = t->leader.fence;
    store_set_fence(t->store, fence + 1); /* as of another manager, which writes */
    bare_put(t, STORE_TENANT, "eve", "eve", json_object());
    store_set_fence(t->store, fence);
    assert_true(accounting_take(t, "n1", b, MONDAY, &err) < 0);
    store_set_fence(t->store, fence + 1);
    ok(store_get(t->store, STORE_USAGE, "node/n1", &d, &err));
    json_object_set_new(d.body, "senders", json_pack("{s:i}", "p1", 2));
    json_object_set_new(d.body, "rows",
                        json_pack("{s:{s:{s:i, s:i, s:I}}}", "ann/d", "", "requests", 12, "bytes",
                                  120, "money_nano", (json_int_t)6000000000));
    ok(store_put(t->store, STORE_USAGE, &d, d.version, &err));
    store_doc_release(&d);
    ok(accounting_take(t, "n1", b, MONDAY, &err));
    json_decref(b);
    expect(t, "ann", "d", 7);
    accounting_tick(t, dlc_mono_now(), MONDAY);
    expect(t, "ann", "d", 12);
    bare_close(&t);
}

static void test_a_name_that_was_anothers(void **state)
{
    struct tables *t = start(state);

    take(t, "n1", MONDAY, batch("p1", 1, "ann/d", 7));
    take(t, "n1", MONDAY, batch("p1", 2, "bob/d", 2));
    ok(accounting_forget_tenant(t, "ann", &err));
    expect(t, "ann", "d", -1);
    expect(t, "bob", "d", 2);
    ok(tables_load(t, 2, &err));
    expect(t, "ann", "d", -1);
    bare_close(&t);
}

/* What the store gives replaces smaller counters only; none if its rows may have an old name. */
static void test_sums_that_were_read(void **state)
{
    struct tables *t = start(state);
    json_t *older = json_pack("{s:{s:i}}", "ann/d", "requests", 3);
    unsigned begun = costs_begin(t);

    take(t, "n1", MONDAY, batch("p1", 1, "ann/d", 7));
    costs_read(t, begun, older);
    expect(t, "ann", "d", 7);
    costs_forget_tenant(t, "ann");
    costs_read(t, begun, older);
    expect(t, "ann", "d", -1);
    assert_true(t->costs.uncertain);
    json_decref(older);
    bare_close(&t);
}

int main(void)
{
    const struct each_case cases[] = {
        {"batches are summed", test_batches_are_summed},
        {"another leader has the same", test_another_leader_has_the_same},
        {"a write that nobody knows of", test_a_write_that_nobody_knows_of},
        {"a name that was another's", test_a_name_that_was_anothers},
        {"sums that were read", test_sums_that_were_read},
    };

    return each_store(cases, unit_count(cases));
}
