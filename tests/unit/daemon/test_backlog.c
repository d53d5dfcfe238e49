// SPDX-License-Identifier: Apache-2.0
/* Prefetch requests that wait: in their order, without those that have come meanwhile. */
#include "daemon/parts.h"

#include "daemon/backlog.h"

#define N 5000u

static struct node n;
static struct dataset *ds;

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    tenant_memories_init(&n.memories, 8u << 20, 8u << 20, NULL);
    assert_int_equal(tenant_memory_get(&n.memories, "", &n.own_memory, NULL), 0);
    n.events[0] = &backlog_events;
    ds = parts_dataset(&n, "x", parts_catalog("a", 1));
    ds->tenant_memory = n.own_memory;
    assert_int_equal(mem_index_new(n.own_memory->memory, N, 1, &ds->index, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    events_raise(&n, dataset_freed, ds);
    map_release(&ds->fetching);
    mem_index_free(&ds->index);
    parts_free(ds);
    tenant_memory_put(&n.own_memory);
    tenant_memories_free(&n.memories);
    return 0;
}

/* Also when the ring grows while it is wrapped around. */
static void first_in_first_out(void **state)
{
    uint64_t sample, next = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++)
        dataset_backlog_add(ds, i);
    for (; next < 600; next++)
        assert_true(dataset_backlog_next(ds, &sample) && sample == next);
    for (uint64_t i = 1000; i < N; i++)
        dataset_backlog_add(ds, i);
    for (; next < N; next++)
        assert_true(dataset_backlog_next(ds, &sample) && sample == next);
    assert_false(dataset_backlog_next(ds, &sample));
}

/* It is among those that have some from the first request until somebody finds it empty. */
static void is_listed_while_there_are_any(void **state)
{
    uint64_t sample;

    (void)state;
    assert_true(dlc_list_empty(&n.backlogs));
    dataset_backlog_add(ds, 1);
    assert_false(dlc_list_empty(&n.backlogs));
    assert_true(dataset_backlog_next(ds, &sample));
    assert_false(dataset_backlog_next(ds, &sample));
    assert_true(dlc_list_empty(&n.backlogs));
}

static void what_is_here_or_on_its_way_is_left_out(void **state)
{
    struct mem_fill *f;
    uint64_t sample;

    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        dataset_backlog_add(ds, i);
    assert_int_equal(memory_reserve(n.own_memory->memory, ds->index, 0, 100, &f), 0);
    memory_publish(n.own_memory->memory, &f);
    map_set(&ds->fetching, 1, ds);
    assert_true(dataset_backlog_next(ds, &sample) && sample == 2);
    map_remove(&ds->fetching, 1);
}

static void a_dataset_that_stops_wants_nothing(void **state)
{
    uint64_t sample;

    (void)state;
    dataset_backlog_add(ds, 1);
    events_raise(&n, dataset_stopping, ds);
    assert_true(dlc_list_empty(&n.backlogs));
    assert_false(dataset_backlog_next(ds, &sample));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(first_in_first_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(is_listed_while_there_are_any, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_here_or_on_its_way_is_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_dataset_that_stops_wants_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
