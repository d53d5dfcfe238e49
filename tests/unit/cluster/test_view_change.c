// SPDX-License-Identifier: Apache-2.0
/* A new view: all datasets heed it, and no turn of the loop looks at thousands of them. */
#include "daemon/parts.h"

#include "cluster/member.h"
#include "cluster/peer/view.h"
#include "cluster/view_change.h"

static struct node n;
static struct member member;
static struct dataset *last;

static int set_up(void **state)
{
    char name[32];

    (void)state;
    parts_node(&n);
    memset(&member, 0, sizeof(member));
    member.node = &n;
    n.member = &member;
    n.loop = loop_new(NULL);
    loop_stop(n.loop); /* loop_run() is one turn */
    n.cluster = cluster_new("a");
    tenant_memories_init(&n.memories, 4u << 20, 4u << 20, NULL);
    assert_int_equal(tenant_memory_get(&n.memories, "", &n.own_memory, NULL), 0);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "other%u", i);
        parts_dataset(&n, name, NULL);
    }
    last = parts_dataset(&n, "last", parts_catalog("k", 10));
    parts_belongs(last, "train", "ann");
    last->tenant_memory = n.own_memory;
    assert_int_equal(mem_index_new(n.own_memory->memory, 10, 1, &last->index, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    view_change_close(&n);
    mem_index_free(&last->index);
    parts_free_all(&n);
    cluster_free(&n.cluster);
    tenant_memory_put(&n.own_memory);
    tenant_memories_free(&n.memories);
    loop_free(&n.loop);
    return 0;
}

static void take(int version, int readers)
{
    json_t *view = json_pack("{s:i, s:[{s:s, s:s, s:s}], s:[{s:s, s:i}]}", "version", version,
                             "nodes", "name", "a", "address", "http://a:1", "state", "live",
                             "datasets", "id", "train", "readers", readers);

    assert_int_equal(cluster_take_view(n.cluster, view, NULL), 0);
    json_decref(view);
    cluster_view_changed(&n);
}

static unsigned turns_until(bool read)
{
    unsigned turns = 0;

    for (; last->ownership.read_elsewhere != read && turns < 100; turns++)
        loop_run(n.loop);
    return turns;
}

static void a_view_is_heeded_in_steps(void **state)
{
    (void)state;
    take(1, 5);
    assert_in_range(turns_until(true), 2, 50);
    assert_true(last->ownership.joined);
    take(2, 0);
    assert_in_range(turns_until(false), 2, 50);
    assert_false(last->ownership.joined);
    take(3, 5); /* another one comes while this one is heeded */
    loop_run(n.loop);
    take(4, 5);
    assert_in_range(turns_until(true), 2, 50);
    for (unsigned i = 0; i < 20; i++)
        loop_run(n.loop);
    assert_int_equal(member.view_at, 0); /* the pass has ended */
}

/* Another thread reads the view; using it looks at no dataset, and leaves the one before to free. */
static void a_view_is_read_before_it_is_used(void **state)
{
    json_t *json = json_pack("{s:i, s:[{s:s, s:s, s:s}]}", "version", 7, "nodes", "name", "b",
                             "address", "http://b:1", "state", "live");
    struct cluster_view *v, *older;

    (void)state;
    assert_int_equal(cluster_read_view(json, &v, NULL), 0);
    json_object_set_new(json, "version", json_integer(6));
    assert_int_equal(cluster_read_view(json, &older, NULL), 0);
    assert_int_equal(cluster_version(n.cluster), 0);
    cluster_use_view(n.cluster, v);
    assert_int_equal(cluster_version(n.cluster), 7);
    cluster_use_view(n.cluster, older);
    assert_int_equal(cluster_version(n.cluster), 7);
    assert_int_equal(cluster_live(n.cluster), 1);
    cluster_view_free(&v);
    cluster_view_free(&older);
    assert_int_equal(cluster_live(n.cluster), 1);
    json_object_del(json, "version");
    assert_int_equal(cluster_read_view(json, &v, NULL), DLC_EPROTO);
    assert_null(v);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_view_is_heeded_in_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_view_is_read_before_it_is_used, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
