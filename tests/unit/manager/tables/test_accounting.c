// SPDX-License-Identifier: Apache-2.0
/* Accounts without HTTP: each batch counts once, days are archived, sums never fall. */
#include "manager/bare.h"
#include "base/json.h"
#include "manager/tables/accounting.h"

#define DAY    INT64_C(86400000)
#define MONDAY (INT64_C(20000) * DAY) /* 2024-10-04 */

static unsigned serial;

static struct tables *start(void **state)
{
    char dir[64];
    struct tables *t;

    snprintf(dir, sizeof(dir), "accounts%u", serial++);
    t = bare_lead(url_of(state), dir);
    bare_put(t, STORE_TENANT, "ann", "ann", json_object());
    return t;
}

/* A batch of one row: requests, and as many samples. */
static json_t *batch(const char *id, int seq, const char *of, const char *job, int n)
{
    return json_pack("{s:s, s:i, s:{s:{s:{s:i, s:i}}}}", "id", id, "seq", seq, "rows", of, job,
                     "requests", n, "samples", n);
}

static void take(struct tables *t, const char *node, int64_t ms, json_t *b)
{
    ok(accounting_take(t, node, b, ms, &err));
    json_decref(b);
}

/* Requests of a key; -1: there is no such row. */
static long long sum(struct tables *t, enum account_by by, const char *since, const char *key)
{
    const struct account_query q = {.since = since, .by = by};
    json_t *all, *row;
    long long n;

    ok(accounting_sum(t->store, &q, &all, &err));
    row = json_object_get(all, key);
    n = row != NULL ? (long long)json_u64_at(row, "requests") : -1;
    json_decref(all);
    return n;
}

static void put_job(struct tables *t, const char *id, const char *dataset)
{
    bare_put(t, STORE_JOB, id, "ann",
             json_pack("{s:s, s:[], s:{s:b, s:s, s:i}, s:s, s:i}", "dataset", dataset, "splits",
                       "qos", "cache", 1, "mode", "lazy", "epochs", 3, "state", "running",
                       "created_ms", 1));
}

static uint64_t epochs_of(struct tables *t, const char *id)
{
    struct job j;
    uint64_t n;

    assert_true(jobs_find(t, id, &j));
    n = j.epochs_done;
    job_release(&j);
    return n;
}

static void test_a_batch_counts_once(void **state)
{
    struct tables *t = start(state);

    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), -1);
    for (int i = 0; i < 3; i++)
        take(t, "n1", MONDAY, batch("p1", 1, "ann/d", "", 5));
    take(t, "n1", MONDAY, batch("p1", 2, "ann/d", "", 2));
    take(t, "n1", MONDAY, batch("p1", 1, "ann/d", "", 5)); /* late */
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 7);
    take(t, "n2", MONDAY, batch("p9", 1, "ann/d", "", 10));
    take(t, "n1", MONDAY, batch("p2", 1, "ann/d", "", 100)); /* another process of the node */
    take(t, "n1", MONDAY, batch("p1", 2, "ann/d", "", 2));   /* of the one before, again */
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 117);
    assert_int_equal(sum(t, BY_TENANT, NULL, "ann"), 117);
    assert_int_equal(sum(t, BY_JOB, NULL, "ann/d/"), 117);
    bare_close(&t);
}

static void test_invalid_batches(void **state)
{
    struct tables *t = start(state);
    json_t *b = batch("", 1, "ann/d", "", 5);

    assert_int_equal(accounting_take(t, "n1", b, MONDAY, &err), DLC_EINVAL);
    json_object_set_new(b, "id", json_string("p1"));
    json_object_set_new(b, "seq", json_integer(-1));
    assert_int_equal(accounting_take(t, "n1", b, MONDAY, &err), DLC_EINVAL);
    json_object_set_new(b, "seq", json_integer(1));
    json_object_set_new(b, "rows",
                        json_pack("{s:i, s:{s:[i]}, s:{s:{s:i, s:s}}}", "a", 1, "b", "c", 1,
                                  "ann/d", "", "requests", -7, "bytes", "x"));
    ok(accounting_take(t, "n1", b, MONDAY, &err));
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), -1);
    json_decref(b);
    bare_close(&t);
}

/* Each day has its sums; one that was archived counts once, also while its node's document has it. */
static void test_days(void **state)
{
    struct tables *t = start(state);
    struct store_doc before = STORE_DOC_INIT;

    take(t, "n1", MONDAY, batch("p1", 1, "ann/d", "", 1));
    ok(store_get(t->store, STORE_USAGE, "node/n1", &before, &err));
    take(t, "n1", MONDAY + DAY, batch("p1", 2, "ann/d", "", 10));
    take(t, "n1", MONDAY + 2 * DAY, batch("p1", 3, "ann/d", "", 100));
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 111);
    assert_int_equal(sum(t, BY_DATASET, "2024-10-04", "ann/d"), 111);
    assert_int_equal(sum(t, BY_DATASET, "2024-10-05", "ann/d"), 110);
    assert_int_equal(sum(t, BY_DATASET, "2024-10-06", "ann/d"), 100);
    assert_int_equal(sum(t, BY_DATASET, "2024-10-07", "ann/d"), -1);

    /* A clock that goes back begins no new day. */
    take(t, "n1", MONDAY, batch("p1", 4, "ann/d", "", 1000));
    assert_int_equal(sum(t, BY_DATASET, "2024-10-06", "ann/d"), 1100);

    /* A manager died after it had archived, before it cleared the day. */
    ok(store_put(t->store, STORE_USAGE, &before, STORE_ANY, &err));
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 11);
    take(t, "n1", MONDAY, batch("p1", 2, "ann/d", "", 20));
    take(t, "n1", MONDAY + DAY, batch("p1", 3, "ann/d", "", 300));
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 321);
    store_doc_release(&before);
    bare_close(&t);
}

/* A slow request that still has the day before does not replace what a later one has archived. */
static void test_an_old_archive_does_not_win(void **state)
{
    struct tables *t = start(state);
    struct store_doc d = STORE_DOC_INIT;

    take(t, "n1", MONDAY, batch("p1", 1, "ann/d", "", 1));
    take(t, "n1", MONDAY, batch("p1", 2, "ann/d", "", 2));
    take(t, "n1", MONDAY + DAY, batch("p1", 3, "ann/d", "", 4));
    ok(store_get(t->store, STORE_USAGE, "day/2024-10-04/n1", &d, &err));
    assert_int_equal(json_u64_at(d.body, "of"), 3); /* made, then two batches */
    store_doc_release(&d);
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 7);
    bare_close(&t);
}

static void test_old_days_are_deleted(void **state)
{
    struct tables *t = start(state);
    struct dlc_mono now = dlc_mono_now();

    take(t, "gone", MONDAY, batch("p0", 1, "ann/d", "", 1000));
    for (int i = 0; i < 5; i++)
        take(t, "n1", MONDAY + i * DAY, batch("p1", i + 1, "ann/d", "", 1));
    t->keep_accounting = DLC_SEC(2 * 86400);
    accounting_tick(t, now, MONDAY + 4 * DAY);
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 3);
    bare_close(&t);
}

static uint64_t documents(struct tables *t)
{
    uint64_t n = 0;

    ok(store_count(t->store, STORE_USAGE, NULL, &n, &err));
    return n;
}

static void sweep(struct tables *t, int64_t ms)
{
    t->accounting.swept = (struct dlc_mono){0};
    accounting_tick(t, dlc_mono_now(), ms);
}

static void expect_six_days(struct tables *t)
{
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 3 * 63);
    assert_int_equal(sum(t, BY_DATASET, "2024-10-06", "ann/d"), 3 * 60);
    assert_int_equal(sum(t, BY_DATASET, "2024-10-09", "ann/d"), 3 * 32);
    assert_int_equal(sum(t, BY_JOB, NULL, "ann/d/"), 3 * 63);
}

static void six_days(struct tables *t)
{
    char node[8];

    for (int n = 0; n < 3; n++)
        for (int i = 0; i < 6; i++) {
            snprintf(node, sizeof(node), "n%d", n);
            take(t, node, MONDAY + i * DAY, batch("p1", i + 1, "ann/d", "", 1 << i));
        }
}

/* (ACCOUNT-5) A document for each day that is over, whatever the number of nodes. */
static void test_days_are_summed_up(void **state)
{
    struct tables *t = start(state);
    struct store_doc one = STORE_DOC_INIT;

    six_days(t);
    ok(store_get(t->store, STORE_USAGE, "day/2024-10-05/n1", &one, &err));
    assert_int_equal(documents(t), 3 + 3 * 5);
    for (int i = 0; i < 2; i++) {
        sweep(t, MONDAY + 5 * DAY);
        expect_six_days(t);
        assert_int_equal(documents(t), 3 + 2 * 3 + 3); /* two days are still open */
    }

    /* A manager that died before it had deleted one; a slow request that archives it once more. */
    ok(store_put(t->store, STORE_USAGE, &one, STORE_NEW, &err));
    expect_six_days(t);
    sweep(t, MONDAY + 5 * DAY);
    expect_six_days(t);
    assert_int_equal(documents(t), 12);

    /* Silent nodes: their last day is over as well. One that comes back is not counted again. */
    sweep(t, MONDAY + 20 * DAY);
    expect_six_days(t);
    assert_int_equal(documents(t), 3 + 6);
    take(t, "n1", MONDAY + 20 * DAY, batch("p1", 6, "ann/d", "", 32));
    expect_six_days(t);
    take(t, "n1", MONDAY + 20 * DAY, batch("p1", 7, "ann/d", "", 1000));
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 3 * 63 + 1000);
    store_doc_release(&one);
    bare_close(&t);
}

/* Who reads while another one sums up: what was read before and after counts once. */
static void test_sums_while_days_are_summed_up(void **state)
{
    struct tables *t = start(state);
    struct store_doc all = STORE_DOC_INIT, node = STORE_DOC_INIT;

    take(t, "n1", MONDAY, batch("p1", 1, "ann/d", "", 5));
    take(t, "n2", MONDAY, batch("p1", 1, "ann/d", "", 2));
    ok(store_get(t->store, STORE_USAGE, "node/n1", &node, &err));
    sweep(t, MONDAY + 9 * DAY);
    ok(store_get(t->store, STORE_USAGE, "day/2024-10-04/~", &all, &err));
    assert_int_equal(json_object_size(json_object_get(all.body, "nodes")), 2);
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 7);
    ok(store_put(t->store, STORE_USAGE, &node, STORE_ANY, &err)); /* as it was read before */
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 7);
    store_doc_release(&node);
    store_doc_release(&all);
    bare_close(&t);
}

static long long cost(struct tables *t)
{
    const struct store_doc d = {(char *)"d", (char *)"ann", NULL, 0};
    json_t *s;
    long long n;

    ok(tables_load(t, 2, &err)); /* from the store */
    s = dataset_cost(t, &d);
    n = s != NULL ? (long long)json_u64_at(s, "requests") : -1;
    json_decref(s);
    return n;
}

/* (ACCOUNT-6) What a dataset has cost is known when its days are not kept any more. */
static void test_costs_outlive_the_days(void **state)
{
    struct tables *t = start(state);
    struct store_doc one = STORE_DOC_INIT;

    six_days(t);
    sweep(t, MONDAY + 5 * DAY);
    ok(store_get(t->store, STORE_USAGE, "day/2024-10-05/~", &one, &err));
    t->keep_accounting = DLC_SEC(3 * 86400);
    sweep(t, MONDAY + 5 * DAY);
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 3 * 60);
    assert_int_equal(cost(t), 3 * 63);
    ok(store_put(t->store, STORE_USAGE, &one, STORE_NEW, &err)); /* it died before it deleted it */
    sweep(t, MONDAY + 5 * DAY);
    assert_int_equal(cost(t), 3 * 63);
    sweep(t, MONDAY + 50 * DAY); /* the nodes are gone */
    sweep(t, MONDAY + 100 * DAY);
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), -1);
    assert_int_equal(documents(t), 1);
    assert_int_equal(cost(t), 3 * 63);
    ok(accounting_forget_tenant(t, "ann", &err));
    assert_int_equal(cost(t), -1);
    store_doc_release(&one);
    bare_close(&t);
}

/* The bucket's cost goes to the jobs that read, evenly; unknown jobs and the remainder to none. */
static void test_jobs_share_the_cost(void **state)
{
    struct tables *t = start(state);

    bare_put(t, STORE_DATASET, "d", "ann",
             json_pack("{s:s, s:i, s:{s:s, s:i, s:i, s:[]}}", "url", "s3://b/", "created_ms", 1,
                       "snapshot", "id", "1f", "samples", 10, "bytes", 10, "splits"));
    put_job(t, "j-1", "d");
    put_job(t, "j-2", "d");
    put_job(t, "j-3", "other");
    ok(tables_load(t, 1, &err));
    take(t, "n1", MONDAY, batch("p1", 1, "ann/d", "", 7)); /* nobody reads */
    assert_int_equal(sum(t, BY_JOB, NULL, "ann/d/"), 7);
    take(t, "n1", MONDAY,
         json_pack("{s:s, s:i, s:{s:{s:{s:i}, s:{s:i}, s:{s:i}, s:{s:i}}}}", "id", "p1", "seq", 2,
                   "rows", "ann/d", "", "requests", 9, "j-1", "samples", 25, "j-2", "samples", 1,
                   "j-3", "samples", 3));
    assert_int_equal(sum(t, BY_JOB, NULL, "ann/d/j-1"), 4);
    assert_int_equal(sum(t, BY_JOB, NULL, "ann/d/j-2"), 4);
    assert_int_equal(sum(t, BY_JOB, NULL, "ann/d/j-3"), -1); /* a job of another dataset */
    assert_int_equal(sum(t, BY_JOB, NULL, "ann/d/"), 8);
    assert_int_equal(sum(t, BY_DATASET, NULL, "ann/d"), 16);
    assert_int_equal(epochs_of(t, "j-1"), 2);

    /* A new leader knows what they have read; one that says its epochs itself is believed. */
    ok(tables_load(t, 2, &err));
    assert_int_equal(epochs_of(t, "j-1"), 2);
    take(t, "n1", MONDAY, batch("p1", 3, "ann/d", "j-1", 50));
    assert_int_equal(epochs_of(t, "j-1"), 3); /* of three */
    assert_true(jobs_heard(t, "j-1", &(uint64_t){1}, NULL, &(enum job_state){0}));
    take(t, "n1", MONDAY, batch("p1", 4, "ann/d", "j-1", 50));
    assert_int_equal(epochs_of(t, "j-1"), 1);
    bare_close(&t);
}

static void test_a_deleted_tenant_takes_its_rows_along(void **state)
{
    struct tables *t = start(state);

    take(t, "n1", MONDAY, batch("p1", 1, "ann/d", "", 1));
    take(t, "n1", MONDAY + DAY, batch("p1", 2, "ann/d", "", 2));
    take(t, "n1", MONDAY + DAY, batch("p1", 3, "anna/d", "", 4)); /* there is no tenant anna */
    ok(accounting_forget_tenant(t, "ann", &err));
    assert_int_equal(sum(t, BY_TENANT, NULL, "ann"), -1);
    assert_int_equal(sum(t, BY_TENANT, NULL, "ann~"), 3);
    assert_int_equal(sum(t, BY_TENANT, NULL, "anna~"), 4);
    bare_close(&t);
}

int main(void)
{
    const struct each_case cases[] = {
        {"a batch counts once", test_a_batch_counts_once},
        {"invalid batches", test_invalid_batches},
        {"days", test_days},
        {"an old archive does not win", test_an_old_archive_does_not_win},
        {"old days are deleted", test_old_days_are_deleted},
        {"days are summed up", test_days_are_summed_up},
        {"sums while days are summed up", test_sums_while_days_are_summed_up},
        {"costs outlive the days", test_costs_outlive_the_days},
        {"jobs share the cost", test_jobs_share_the_cost},
        {"a deleted tenant takes its rows along", test_a_deleted_tenant_takes_its_rows_along},
    };

    return each_store(cases, unit_count(cases));
}
