// SPDX-License-Identifier: Apache-2.0
/* What the manager is told: chunks that came and went, until it has heard; what jobs have read. */
#include "daemon/parts.h"

#include <sched.h>

#include "cache/disk/disk.h"
#include "cluster/member.h"
#include "cluster/peer/view.h"
#include "cluster/report.h"
#include "daemon/client_conn.h"
#include "daemon/daemon.h"
#include "daemon/dataset_chunks.h"
#include "daemon/events.h"
#include "daemon/session.h"
#include "daemon/work.h"

#define N 100u

static struct node n;
static struct member member;
static struct node_cluster settings;
static struct dataset *ds;

static int set_up(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    json_t *view = json_pack("{s:i, s:[{s:s, s:s, s:i, s:s}]}", "version", 1, "nodes", "name", "a",
                             "address", "http://a:1", "weight", 1, "state", "live");

    (void)state;
    parts_node(&n);
    memset(&member, 0, sizeof(member));
    n.member = &member;
    n.membership = &settings;
    n.events[0] = &report_events;
    dlc_list_init(&n.warms);
    n.loop = loop_new(NULL);
    loop_stop(n.loop); /* loop_run() is one turn */
    n.work = work_new(&err);
    assert_non_null(n.work);
    tenant_memories_init(&n.memories, 4u << 20, 4u << 20, NULL);
    assert_int_equal(tenant_memory_get(&n.memories, "", &n.own_memory, NULL), 0);
    n.cluster = cluster_new("a");
    assert_int_equal(cluster_take_view(n.cluster, view, &err), 0);
    json_decref(view);
    ds = parts_dataset(&n, "x", parts_catalog("k", N));
    parts_belongs(ds, "train", "ann");
    ds->tally = mem_new(struct bucket_tally);
    ds->tenant_memory = n.own_memory;
    assert_int_equal(mem_index_new(n.own_memory->memory, N, 1, &ds->index, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    report_heard(&n, false);
    report_close(&n);
    work_free(&n.work);
    events_raise(&n, dataset_freed, ds);
    mem_index_free(&ds->index);
    mem_free(&ds->tally);
    parts_free(ds);
    cluster_free(&n.cluster);
    tenant_memory_put(&n.own_memory);
    tenant_memories_free(&n.memories);
    loop_free(&n.loop);
    return 0;
}

/* Look at all samples once more, from the first one on. */
static void walk(void)
{
    report_tick(&n);
    while (n.pending > 0) {
        loop_run(n.loop);
        sched_yield();
    }
}

static void bring(uint64_t sample)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve(n.own_memory->memory, ds->index, sample, PARTS_SIZE, &f), 0);
    memory_publish(n.own_memory->memory, &f);
}

static json_t *collect(bool *more)
{
    while (!report_collect(&n))
        ;
    return report_chunks(&n, more);
}

/* How many rows it would tell: of chunks that came, and that went. */
static void tell(unsigned put, unsigned gone)
{
    bool more;
    json_t *rows = collect(&more);

    assert_false(more);
    assert_int_equal(json_array_size(json_object_get(rows, "put")), put);
    assert_int_equal(json_array_size(json_object_get(rows, "gone")), gone);
    json_decref(rows);
}

/* (HEARTBEAT-1) */
static void rows_are_told_until_they_are_heard(void **state)
{
    (void)state;
    walk();
    tell(0, 0);
    for (uint64_t i = 0; i < 7; i++)
        bring(i * 3);
    walk();
    tell(7, 0);
    assert_int_equal(ds->refs, 7); /* the rows hold it */
    report_heard(&n, false);
    assert_int_equal(ds->refs, 0);
    tell(7, 0);
    report_heard(&n, true);
    tell(0, 0);
    memory_evict(n.own_memory->memory, ds->index, 3);
    walk();
    tell(0, 1);
    report_heard(&n, true);
    report_again(&n); /* a manager that has lost its store */
    tell(6, 0);
    report_heard(&n, true);
}

static void a_stale_dataset_is_not_told(void **state)
{
    (void)state;
    bring(0);
    walk();
    ds->stale = true;
    tell(0, 0);
}

/* A row says the life state of its dataset, so it is told anew when that changes; also then a chunk
 * that has left meanwhile is told to be gone. */
static void a_new_state_does_not_hide_what_has_gone(void **state)
{
    struct disk_config dc = {.cool_down = DLC_SEC(60)};
    char path[256];

    (void)state;
    dc.root = unit_path("disk", path);
    assert_int_equal(disk_open(&dc, &n.disk, NULL), 0);
    ds->catalog_path = mem_str("x");
    dataset_enter_group(ds);
    bring(3);
    bring(4);
    dataset_join(ds);
    walk();
    tell(2, 0);
    report_heard(&n, true);
    tell(0, 0);
    dataset_leave(ds); /* it cools down */
    walk();
    tell(2, 0);
    report_heard(&n, false);
    memory_evict(n.own_memory->memory, ds->index, 3);
    walk();
    tell(1, 1);
    report_heard(&n, true);
    tell(0, 0);
    disk_close(&n.disk);
}

/* What a chunk has cost is told with it; one that was not measured costs what others did. */
static void costs_go_with_the_rows(void **state)
{
    double cost[2] = {0};
    json_t *rows;
    bool more;

    (void)state;
    bring(0);
    bring(1);
    events_raise(&n, sample_cost, ds, 0, 3.0);
    events_raise(&n, sample_cost, ds, 50, 1.0);
    walk();
    rows = collect(&more);
    for (unsigned i = 0; i < 2; i++)
        cost[i] =
            json_real_value(json_array_get(json_array_get(json_object_get(rows, "put"), i), 4));
    json_decref(rows);
    report_heard(&n, true);
    assert_true(cost[0] > 2.9 && cost[0] < 3.1);
    assert_true(cost[1] > 1.9 && cost[1] < 2.1); /* the mean */
}

/* Workers of a loader end with each epoch, their job does not. */
static void a_job_keeps_what_its_sessions_read(void **state)
{
    struct conn conn = {.node = &n, .job = (char *)(uintptr_t) "j"};
    struct session s = {.ds = ds, .conn = &conn};
    const struct mem_session_stats st = {.hits = 5, .misses = 2, .bytes = 700};
    json_t *figures, *progress, *job;

    (void)state;
    events_raise(&n, session_closed, &s, &st);
    events_raise(&n, session_closed, &s, &st);
    figures = report_figures(&n, &progress);
    job = json_object_get(json_object_get(figures, "jobs"), "j");
    assert_string_equal(json_string_value(json_object_get(job, "dataset")), "train");
    assert_int_equal(json_integer_value(json_object_get(job, "hits")), 10);
    assert_int_equal(json_integer_value(json_object_get(job, "misses")), 4);
    assert_int_equal(json_integer_value(json_object_get(job, "readers")), 0);
    json_decref(figures);
    json_decref(progress);
}

/* Of very many datasets each heartbeat has all figures, made in several turns of the loop; and a
 * tick looks at the chunks of a few. */
static void test_many_datasets(void **state)
{
    enum { MANY = 200 };
    struct dataset *all[MANY];
    unsigned turns = 1;
    json_t *figures, *progress;
    char name[16];

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "d%u", i);
        all[i] = parts_dataset(&n, name, parts_catalog(name, 2));
        parts_belongs(all[i], name, "ann");
        all[i]->tally = mem_new(struct bucket_tally);
        all[i]->tenant_memory = n.own_memory;
        assert_int_equal(mem_index_new(n.own_memory->memory, 2, 1, &all[i]->index, NULL), 0);
    }
    for (; (figures = report_figures(&n, &progress)) == NULL; turns++)
        assert_true(turns < 10);
    assert_int_equal(turns, 4);
    assert_int_equal(json_object_size(json_object_get(figures, "datasets")), MANY + 1);
    assert_int_equal(json_object_size(json_object_get(figures, "spent")), MANY + 1);
    json_decref(figures);
    json_decref(progress);
    assert_null(report_figures(&n, &progress)); /* the daemon ends meanwhile */
    for (unsigned seen = 0; seen < MANY + 1; seen += 16) {
        report_tick(&n);
        assert_in_range(n.pending, 1, 16);
        while (n.pending > 0) {
            loop_run(n.loop);
            sched_yield();
        }
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_non_null(all[i]->report); /* it had its turn */
        events_raise(&n, dataset_freed, all[i]);
        mem_index_free(&all[i]->index);
        mem_free(&all[i]->tally);
        parts_free(all[i]);
    }
}

/* Thousands of rows take several turns of the loop and more than one heartbeat; and so does it when
 * a manager has lost them. */
static void rows_are_collected_in_steps(void **state)
{
    enum { MANY = 2500 };
    struct dataset *small = ds;
    unsigned turns = 1;
    json_t *rows;
    bool more;

    (void)state;
    ds = parts_dataset(&n, "y", parts_catalog("y", MANY));
    parts_belongs(ds, "large", "ann");
    ds->tally = mem_new(struct bucket_tally);
    ds->tenant_memory = n.own_memory;
    assert_int_equal(mem_index_new(n.own_memory->memory, MANY, 1, &ds->index, NULL), 0);
    for (uint64_t i = 0; i < MANY; i++)
        bring(i);
    walk();
    for (unsigned round = 0; round < 2; round++) {
        for (turns = 1; !report_collect(&n); turns++)
            ;
        assert_in_range(turns, 4, 40);
        rows = report_chunks(&n, &more);
        assert_true(more);
        assert_int_equal(json_array_size(json_object_get(rows, "put")), 2000);
        json_decref(rows);
        report_heard(&n, true);
        tell(MANY - 2000, 0);
        report_heard(&n, true);
        tell(0, 0);
        report_again(&n);
    }
    assert_false(report_collect(&n)); /* the daemon ends meanwhile */
    report_heard(&n, false);
    events_raise(&n, dataset_freed, ds);
    mem_index_free(&ds->index);
    mem_free(&ds->tally);
    parts_free(ds);
    ds = small;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_many_datasets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_are_told_until_they_are_heard, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_are_collected_in_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stale_dataset_is_not_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_state_does_not_hide_what_has_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(costs_go_with_the_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_job_keeps_what_its_sessions_read, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
