// SPDX-License-Identifier: Apache-2.0
/* Jobs without HTTP: the table, and what the tick decides. */
#include "manager/bare.h"
#include "manager/tables/job_scheduler.h"

static unsigned serial; /* directories differ from store to store */

static struct tables *start(void **state)
{
    char dir[64];

    snprintf(dir, sizeof(dir), "jobs%u", serial++);
    return bare_lead(url_of(state), dir);
}

/* One that was listed, of so many bytes, on no particular nodes. */
static void put_dataset(struct tables *t, const char *name, int bytes)
{
    struct store_doc d = {(char *)name, (char *)"ann", NULL, 0};

    d.body = json_pack("{s:s, s:i, s:{s:s, s:i, s:i, s:[]}}", "url", "s3://b/", "created_ms", 1,
                       "snapshot", "id", "1f", "samples", 1, "bytes", bytes, "splits");
    ok(store_put(t->store, STORE_DATASET, &d, STORE_NEW, &err));
    json_decref(d.body);
}

static void put_job(struct tables *t, const char *id, const char *dataset, enum job_state state)
{
    struct job j = {.state = state, .qos = {.use_cache = true}, .queue = true};
    const struct admission a = {0};
    struct store_doc d = {(char *)id, (char *)"ann", NULL, 0};

    snprintf(j.id, sizeof(j.id), "%s", id);
    snprintf(j.dataset, sizeof(j.dataset), "%s", dataset);
    j.splits = json_array();
    d.body = job_body(&j, &a);
    ok(store_put(t->store, STORE_JOB, &d, STORE_NEW, &err));
    job_release(&j);
    json_decref(d.body);
}

static void put_node(struct tables *t, const char *name, int capacity)
{
    struct store_doc d = {(char *)name, (char *)"", NULL, 0};

    d.body = json_pack("{s:s, s:i, s:s}", "address", "", "capacity", capacity, "state", "live");
    ok(store_put(t->store, STORE_NODE, &d, STORE_NEW, &err));
    nodes_remember(t, &d, true);
    json_decref(d.body);
}

static enum job_state state_of(struct tables *t, const char *id)
{
    struct job j;
    enum job_state state;

    assert_true(jobs_find(t, id, &j));
    state = j.state;
    job_release(&j);
    return state;
}

static void test_nothing_is_decided_before_it_has_led(void **state)
{
    struct tables *t;
    char dir[64];

    snprintf(dir, sizeof(dir), "jobs%u", serial++);
    t = bare_open(url_of(state), dir, DLC_SEC(600));
    assert_false(jobs_lock(t));
    bare_close(&t);
    t = start(state);
    assert_true(jobs_lock(t));
    jobs_unlock(t);
    bare_close(&t);
}

/* What the store has is in the table, with what is known of its dataset. */
static void test_a_new_leader_loads_them(void **state)
{
    struct tables *t = start(state);
    struct job j;

    put_dataset(t, "d", 100);
    put_job(t, "j-2", "d", JOB_QUEUED);
    put_job(t, "j-1", "d", JOB_RUNNING);
    assert_false(jobs_find(t, "j-1", &j));
    ok(jobs_load(t, &err));
    assert_int_equal(state_of(t, "j-1"), JOB_RUNNING);
    assert_true(jobs_find(t, "j-2", &j));
    assert_non_null(j.snapshot);
    job_release(&j);
    assert_int_equal(jobs_running(t, "d"), 1);
    assert_int_equal(jobs_count(t, "d"), 2);
    assert_int_equal(jobs_count(t, "other"), 0);
    bare_close(&t);
}

static void test_a_queued_job_starts_when_there_is_room(void **state)
{
    struct tables *t = start(state);
    struct store_doc d = STORE_DOC_INIT;

    put_dataset(t, "d", 100);
    put_job(t, "j-1", "d", JOB_QUEUED);
    ok(jobs_load(t, &err));
    put_node(t, "small", 50);
    jobs_tick(t, dlc_mono_now());
    assert_int_equal(state_of(t, "j-1"), JOB_QUEUED);
    put_node(t, "large", 200);
    jobs_tick(t, dlc_mono_now());
    assert_int_equal(state_of(t, "j-1"), JOB_RUNNING);
    ok(store_get(t->store, STORE_JOB, "j-1", &d, &err));
    assert_string_equal(json_string_value(json_object_get(d.body, "state")), "running");
    store_doc_release(&d);
    bare_close(&t);
}

/* (JOB-4) The first one counts, also for a manager that leads later, and while the state changes. */
static void test_ranks_agree_on_a_snapshot(void **state)
{
    struct tables *t = start(state);
    uint64_t first = 0xa1, second = 0xb2;
    struct job j;

    put_dataset(t, "d", 100);
    put_job(t, "j-1", "d", JOB_QUEUED);
    put_job(t, "j-2", "d", JOB_QUEUED);
    ok(jobs_load(t, &err));
    ok(jobs_agree_snapshot(t, "j-1", &first, &err));
    assert_int_equal(first, 0xa1);
    ok(jobs_agree_snapshot(t, "j-1", &second, &err));
    assert_int_equal(second, 0xa1);
    put_node(t, "n", 1000);
    jobs_tick(t, dlc_mono_now());
    assert_int_equal(state_of(t, "j-1"), JOB_RUNNING);
    ok(jobs_load(t, &err));
    assert_true(jobs_find(t, "j-1", &j));
    assert_int_equal(j.reads, 0xa1);
    job_release(&j);
    assert_true(jobs_find(t, "j-2", &j)); /* another job reads what it likes */
    assert_int_equal(j.reads, 0);
    job_release(&j);
    assert_int_equal(jobs_agree_snapshot(t, "j-3", &first, &err), DLC_ENOTFOUND);
    bare_close(&t);
}

static void test_a_silent_job_ends(void **state)
{
    struct tables *t = start(state);
    struct dlc_mono later = dlc_mono_add(dlc_mono_now(), DLC_SEC(3600));
    struct store_doc d = STORE_DOC_INIT;
    struct job j;

    put_dataset(t, "d", 100);
    put_job(t, "j-1", "d", JOB_RUNNING);
    ok(jobs_load(t, &err));
    jobs_tick(t, dlc_mono_now());
    assert_int_equal(state_of(t, "j-1"), JOB_RUNNING);
    jobs_tick(t, later);
    assert_false(jobs_find(t, "j-1", &j));
    assert_int_equal(store_get(t->store, STORE_JOB, "j-1", &d, &err), DLC_ENOTFOUND);
    bare_close(&t);
}

int main(void)
{
    const struct each_case cases[] = {
        {"nothing is decided before it has led", test_nothing_is_decided_before_it_has_led},
        {"a new leader loads them", test_a_new_leader_loads_them},
        {"a queued job starts when there is room", test_a_queued_job_starts_when_there_is_room},
        {"ranks agree on a snapshot", test_ranks_agree_on_a_snapshot},
        {"a silent job ends", test_a_silent_job_ends},
    };

    return each_store(cases, unit_count(cases));
}
