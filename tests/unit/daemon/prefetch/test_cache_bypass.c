// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs that bypass the cache: which sessions they are, which samples leave with them and which
 * stay, and how much of memory their sessions share.
 */
#include "daemon/parts.h"

#include "cluster/peer/view.h"
#include "daemon/client_conn.h"
#include "daemon/events.h"
#include "daemon/prefetch/cache_bypass.h"
#include "daemon/session.h"

#define N    10000u /* more than two turns of the loop evict */
#define ROOM ((uint64_t)4 << 20)
#define PART 6000u

static struct node n;
static struct dataset *ds;
static struct conn conns[2];
static struct session s[3];

static void take_view(unsigned version, const char *jobs)
{
    json_t *view = json_pack("{s:i, s:[{s:s, s:s, s:i, s:s}], s:o}", "version", (int)version,
                             "nodes", "name", "a", "address", "http://a:1", "weight", 1, "state",
                             "live", "jobs", json_loads(jobs, 0, NULL));

    assert_int_equal(cluster_take_view(n.cluster, view, NULL), 0);
    json_decref(view);
}

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    n.events[0] = &bypass_events;
    n.cluster = cluster_new("a");
    tenant_memories_init(&n.memories, ROOM, ROOM, NULL);
    assert_int_equal(tenant_memory_get(&n.memories, "", &n.own_memory, NULL), 0);
    ds = parts_dataset(&n, "x", parts_catalog("k", N));
    parts_belongs(ds, "train", "ann");
    ds->tenant_memory = n.own_memory;
    assert_int_equal(mem_index_new(n.own_memory->memory, N, 1, &ds->index, NULL), 0);
    conns[0].job = mem_str("job");
    conns[1].job = mem_str("other");
    for (unsigned i = 0; i < unit_count(s); i++)
        s[i] = (struct session){.ds = ds, .conn = &conns[i / 2]};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    events_raise(&n, dataset_freed, ds);
    assert_null(ds->bypass.samples);
    mem_index_free(&ds->index);
    parts_free(ds);
    tenant_memory_put(&n.own_memory);
    tenant_memories_free(&n.memories);
    cluster_free(&n.cluster);
    mem_free(&conns[0].job);
    mem_free(&conns[1].job);
    return 0;
}

static void begin(unsigned i, bool bypass)
{
    s[i].bypasses_cache = bypass;
    dlc_list_push_tail(&ds->sessions, &s[i].link);
}

static void end(unsigned i)
{
    dlc_list_remove(&s[i].link);
}

/* A sample is resident now; bypass: only sessions that bypass the cache have asked for it. */
static void comes(uint64_t sample, bool bypass)
{
    struct mem_fill *f;

    if (!mem_index_ready(ds->index, sample)) {
        assert_int_equal(memory_reserve(n.own_memory->memory, ds->index, sample, PARTS_SIZE, &f),
                         0);
        memory_publish(n.own_memory->memory, &f);
    }
    events_raise(&n, sample_resident, ds, sample, bypass);
}

static bool is_here(uint64_t sample)
{
    return mem_index_ready(ds->index, sample);
}

static void test_leave_in_steps(void **state)
{
    const uint64_t theirs[] = {0, 7, 8, 4095, 4096, 8191, 8192, N - 1};

    (void)state;
    assert_false(bypass_evict_some(ds)); /* there was nobody */
    begin(0, true);
    for (unsigned i = 0; i < unit_count(theirs); i++)
        comes(theirs[i], true);
    comes(9, false);
    comes(4094, false);
    assert_false(bypass_evict_some(ds)); /* the session reads them */
    assert_true(is_here(0));
    end(0);
    for (unsigned turn = 0; turn < 3; turn++) {
        uint64_t before = 4096 * (turn + 1);

        assert_int_equal(bypass_evict_some(ds), turn < 2);
        for (unsigned i = 0; i < unit_count(theirs); i++)
            assert_int_equal(is_here(theirs[i]), theirs[i] >= before);
    }
    assert_null(ds->bypass.samples);
    assert_true(is_here(9) && is_here(4094));
    begin(0, true); /* and again from the first sample on */
    comes(3, true);
    end(0);
    assert_true(bypass_evict_some(ds));
    assert_false(is_here(3));
}

/* A session that begins while samples leave keeps those that are left. */
static void test_leave_is_interrupted(void **state)
{
    (void)state;
    begin(0, true);
    comes(0, true);
    comes(5000, true);
    end(0);
    assert_true(bypass_evict_some(ds));
    assert_int_equal(ds->bypass.evicted_to, 4096);
    begin(1, true);
    comes(0, true);
    assert_false(bypass_evict_some(ds));
    end(1);
    begin(2, false); /* reads as usual */
    assert_true(bypass_evict_some(ds));
    assert_false(is_here(0));
    assert_true(is_here(5000));
    assert_true(bypass_evict_some(ds));
    assert_false(is_here(5000));
}

/* (CACHE-BYPASS-1) */
static void test_which_samples_leave(void **state)
{
    (void)state;
    comes(1, false);
    assert_null(ds->bypass.samples);
    comes(2, true); /* the session that asked for it has ended */
    assert_false(is_here(2));
    begin(2, false);
    comes(2, true); /* another that stays does not change that */
    assert_false(is_here(2));
    begin(0, true);
    comes(3, true);
    comes(4, true);
    comes(83, true);
    comes(4, false); /* another session has joined its fetch */
    assert_false(bypass_evict_read(ds, 1));
    assert_false(bypass_evict_read(ds, 4));
    assert_true(is_here(1) && is_here(3) && is_here(4));
    assert_true(bypass_evict_read(ds, 3));
    assert_false(is_here(3));
    assert_false(bypass_evict_read(ds, 3)); /* it has gone */
    comes(83, false);
    assert_false(bypass_evict_read(ds, 83));
    assert_true(is_here(83));
}

static void test_sessions_by_the_view(void **state)
{
    (void)state;
    begin(0, false);
    begin(2, false);
    take_view(1, "[{\"id\": \"job\", \"dataset\": \"train\", \"part\": 6000}]");
    bypass_changed(ds);
    assert_true(s[0].bypasses_cache && s[0].part == PART);
    assert_true(!s[2].bypasses_cache && s[2].part == 0);
    take_view(2, "[{\"id\": \"job\", \"dataset\": \"test\", \"part\": 6000},"
                 " {\"id\": \"other\", \"dataset\": \"train\"}]");
    bypass_changed(ds);
    assert_true(!s[0].bypasses_cache && s[0].part == 0);
    assert_true(s[2].bypasses_cache && s[2].part == 0);
    s[2].conn = &(struct conn){.job = NULL};
    bypass_update(&s[2]);
    assert_false(s[2].bypasses_cache);
    s[2].conn = &conns[1];
    parts_leaves(ds);
    bypass_update(&s[2]); /* the dataset is not the cluster's */
    assert_false(s[2].bypasses_cache);
}

/* The sessions of a job that follow an order share its part. */
static void test_part(void **state)
{
    (void)state;
    for (unsigned i = 0; i < unit_count(s); i++)
        begin(i, true);
    assert_true(bypass_part(&s[0]) == UINT64_MAX);
    s[0].part = s[1].part = s[2].part = PART;
    assert_int_equal(bypass_part(&s[0]), PART); /* none of them follows one */
    s[0].reader.active = true;
    assert_int_equal(bypass_part(&s[0]), PART);
    s[1].reader.active = s[2].reader.active = true;
    assert_int_equal(bypass_part(&s[0]), PART / 2);
    assert_int_equal(bypass_part(&s[2]), PART); /* another job's */
    s[1].part = 0;
    assert_int_equal(bypass_part(&s[0]), PART);
    s[1].part = 1; /* as small as it may be, it has one */
    assert_int_equal(bypass_part(&s[0]), PART / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_leave_in_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_leave_is_interrupted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_which_samples_leave, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sessions_by_the_view, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_part, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
