// SPDX-License-Identifier: Apache-2.0
/* Whose samples are, by the view: without a cluster ours, and anew with each view. */
#include "daemon/parts.h"

#include "cluster/peer/view.h"
#include "daemon/ownership.h"

#define N 400u

static struct node n;
static struct dataset *ds;

static void take(const char *text)
{
    json_t *view = json_loads(text, 0, NULL);

    assert_int_equal(cluster_take_view(n.cluster, view, NULL), 0);
    json_decref(view);
}

#define NODE(name)                                                                                 \
    "{\"name\": \"" name "\", \"address\": \"http://" name                                         \
    ":1\", \"weight\": 1, \"state\": \"live\"}"
#define ALONE "{\"version\": 1, \"nodes\": [" NODE("a") "]}"
#define TWO   "{\"version\": 2, \"nodes\": [" NODE("a") ", " NODE("b") "]}"

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    n.events[0] = &ownership_events;
    n.cluster = cluster_new("a");
    ds = parts_dataset(&n, "x", parts_catalog("k", N));
    parts_belongs(ds, "train", "ann");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    events_raise(&n, dataset_freed, ds);
    parts_free(ds);
    cluster_free(&n.cluster);
    return 0;
}

static unsigned owned(void)
{
    unsigned k = 0;

    for (uint64_t i = 0; i < N; i++)
        k += dataset_owns(ds, i);
    return k;
}

static void what_is_nobodys_is_ours(void **state)
{
    (void)state;
    assert_int_equal(owned(), N); /* no view yet */
    take(TWO);
    parts_leaves(ds); /* not of the cluster */
    assert_int_equal(owned(), N);
    assert_true(dataset_owned_bytes(ds) == 0);
}

/* As the view says of each object, and what was remembered of the view before is forgotten. */
static void a_new_view_is_heeded(void **state)
{
    struct dataset *alias = parts_dataset(&n, "y", parts_catalog("k", N));
    unsigned ours = 0;

    (void)state;
    parts_belongs(alias, "alias", "ann"); /* the same objects */
    take(ALONE);
    assert_int_equal(owned(), N);
    take(TWO);
    for (uint64_t i = 0; i < N; i++) {
        assert_int_equal(dataset_owns(ds, i), dataset_owns(alias, i));
        ours += dataset_owns(ds, i);
    }
    assert_in_range(ours, N / 4, 3 * N / 4);
    assert_int_equal(owned(), ours); /* remembered */
    events_raise(&n, dataset_freed, alias);
    parts_free(alias);
}

/* Memory is kept for others only while somebody reads it, here or there. */
static void bytes_are_kept_while_somebody_reads(void **state)
{
    (void)state;
    take(TWO);
    assert_true(dataset_owned_bytes(ds) == 0);
    ds->prefetch.n_following = 1;
    assert_in_range(dataset_owned_bytes(ds), N * PARTS_SIZE / 2, N * PARTS_SIZE);
    ds->prefetch.n_following = 0;
    assert_false(dataset_read_elsewhere(ds));
    ds->ownership.served_at = dlc_mono_now();
    assert_true(dataset_read_elsewhere(ds));
    assert_in_range(dataset_owned_bytes(ds), N * PARTS_SIZE / 2, N * PARTS_SIZE);
    dlc_clock_advance(DLC_SEC(61));
    assert_false(dataset_read_elsewhere(ds)); /* not lately */
    ds->ownership.read_elsewhere = true;      /* but the view says so */
    assert_true(dataset_read_elsewhere(ds));
}

/* The sums of a memory, over thousands of datasets: a change of one counts that one, and a pass over
 * all goes in steps. */
static void sums_are_kept_in_steps(void **state)
{
    struct tenant_memory *m;
    uint64_t owned;
    unsigned steps = 1;
    char name[32];

    (void)state;
    tenant_memories_init(&n.memories, 64 << 20, 64 << 20, NULL);
    assert_int_equal(tenant_memory_get(&n.memories, "", &m, NULL), 0);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "other%u", i);
        parts_dataset(&n, name, NULL)->tenant_memory = m;
    }
    ds->tenant_memory = m;
    take(TWO);
    ds->prefetch.n_following = 1;
    ownership_count(ds);
    owned = m->owned;
    assert_in_range(owned, N * PARTS_SIZE / 2, N * PARTS_SIZE);
    assert_int_equal(m->share, N * PARTS_SIZE / 2);
    ownership_count(ds); /* the same again */
    assert_int_equal(m->owned, owned);
    ds->prefetch.n_following = 0;
    for (; ownership_count_some(&n); steps++)
        ;
    assert_in_range(steps, 5, 40);
    assert_int_equal(m->owned, 0);
    ds->stale = true;
    ownership_count(ds);
    assert_int_equal(m->share, 0);
    ds->stale = false;
    ownership_count(ds);
    events_raise(&n, dataset_closing, ds);
    assert_int_equal(m->share, 0);
    ds->tenant_memory = NULL;
    for (struct dataset *other; (other = dataset_from(&n, ds->id + 1)) != NULL;)
        parts_free(other);
    tenant_memory_put(&m);
    tenant_memories_free(&n.memories);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_nobodys_is_ours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_view_is_heeded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sums_are_kept_in_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_are_kept_while_somebody_reads, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
