// SPDX-License-Identifier: Apache-2.0
/* Ended jobs: kept for a time, bounded in number, with what they used. */
#include "manager/bare.h"
#include "base/json.h"
#include "manager/store/wall_time.h"
#include "manager/tables/ended_jobs.h"
#include "manager/tables/job_scheduler.h"

static unsigned serial;

static struct tables *start(void **state)
{
    char dir[64];

    snprintf(dir, sizeof(dir), "ended%u", serial++);
    return bare_lead(url_of(state), dir);
}

static void end(struct tables *t, const char *id, const char *tenant)
{
    struct job j = {.state = JOB_RUNNING, .epochs_done = 2};

    bare_put(t, STORE_JOB, id, tenant,
             json_pack("{s:s, s:[], s:{}, s:s, s:i}", "dataset", "d", "splits", "qos", "state",
                       "running", "created_ms", 1));
    snprintf(j.id, sizeof(j.id), "%s", id);
    snprintf(j.tenant, sizeof(j.tenant), "%s", tenant);
    j.usage.n[USAGE_samples] = 5;
    ok(ended_job_add(t, &j, "it was deregistered", &err));
    ok(store_delete(t->store, STORE_JOB, id, STORE_ANY, &err));
}

static size_t count(struct tables *t, const char *tenant)
{
    uint64_t n;

    ok(store_count(t->store, STORE_ENDED, tenant, &n, &err));
    return (size_t)n;
}

static void test_one_is_kept_for_its_time(void **state)
{
    struct tables *t = start(state);
    struct store_doc d = STORE_DOC_INIT;
    int64_t now = wall_ms();

    end(t, "j-1", "ann");
    ok(store_get(t->store, STORE_ENDED, "j-1", &d, &err));
    assert_string_equal(json_text_at(d.body, "why"), "it was deregistered");
    assert_int_equal(json_u64_at(d.body, "epochs_done"), 2);
    assert_int_equal(json_u64_at(d.body, "usage.samples"), 5);
    store_doc_release(&d);
    assert_true(ended_job_is_of(t, "j-1", "ann/d"));
    assert_false(ended_job_is_of(t, "j-1", "bob/d"));
    ended_jobs_tick(t, now + 6 * INT64_C(86400000));
    assert_int_equal(count(t, "ann"), 1);
    ok(ended_jobs_load(t, &err)); /* another leader */
    ended_jobs_tick(t, now + 8 * INT64_C(86400000));
    assert_int_equal(count(t, "ann"), 0);
    assert_false(ended_job_is_of(t, "j-1", "ann/d"));
    bare_close(&t);
}

static void test_a_tenant_has_so_many(void **state)
{
    struct tables *t = start(state);
    struct store_doc d = STORE_DOC_INIT;
    char id[20];

    end(t, "b-1", "bob");
    for (int i = 0; i < ENDED_OF_TENANT + 3; i++) {
        snprintf(id, sizeof(id), "j-%d", i);
        end(t, id, "ann");
    }
    assert_int_equal(count(t, "ann"), ENDED_OF_TENANT);
    assert_int_equal(count(t, "bob"), 1);
    assert_int_equal(store_get(t->store, STORE_ENDED, "j-2", &d, &err), DLC_ENOTFOUND);
    ok(store_get(t->store, STORE_ENDED, "j-3", &d, &err));
    store_doc_release(&d);
    ended_jobs_forget_tenant(t, "ann");
    assert_int_equal(count(t, "ann"), 0);
    assert_int_equal(count(t, "bob"), 1);
    bare_close(&t);
}

/* What nodes report after the end is taken over, once. */
static void test_usage_is_settled(void **state)
{
    struct tables *t = start(state);
    json_t *usage = json_pack("{s:i}", "samples", 9), *newest;
    struct store_doc d = STORE_DOC_INIT;
    char id[20];

    end(t, "j-1", "ann");
    assert_false(ended_job_due(t, wall_ms(), id));
    assert_true(ended_job_due(t, wall_ms() + 3600000, id));
    assert_string_equal(id, "j-1");
    ok(store_get(t->store, STORE_ENDED, "j-1", &d, &err));
    assert_false(ended_job_is_settled(&d));
    ok(ended_job_usage(t->store, &d, &newest, &err));
    assert_null(newest);
    store_doc_release(&d);
    ok(ended_job_settle(t, "j-1", usage, &err));
    assert_false(ended_job_due(t, wall_ms() + 3600000, id));
    ok(ended_jobs_load(t, &err));
    assert_false(ended_job_due(t, wall_ms() + 3600000, id));
    ok(store_get(t->store, STORE_ENDED, "j-1", &d, &err));
    assert_true(ended_job_is_settled(&d));
    assert_int_equal(json_u64_at(d.body, "usage.samples"), 9);
    store_doc_release(&d);
    json_decref(usage);
    bare_close(&t);
}

int main(void)
{
    const struct each_case cases[] = {
        {"one is kept for its time", test_one_is_kept_for_its_time},
        {"a tenant has so many", test_a_tenant_has_so_many},
        {"usage is settled", test_usage_is_settled},
    };

    return each_store(cases, unit_count(cases));
}
