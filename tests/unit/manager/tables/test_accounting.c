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
        {"jobs share the cost", test_jobs_share_the_cost},
        {"a deleted tenant takes its rows along", test_a_deleted_tenant_takes_its_rows_along},
    };

    return each_store(cases, unit_count(cases));
}
