// SPDX-License-Identifier: Apache-2.0
/* A search for an object looks at the datasets that may have it, however many others are open. */
#include "daemon/parts.h"

#include "base/counters.h"
#include "daemon/fetch/object_index.h"

#define MANY 500u

static struct node n;
static struct dataset *all[MANY];

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    return 0;
}

static struct dataset *open_with(struct catalog *c)
{
    struct dataset *ds = parts_dataset(&n, "x", c);

    object_index_events.dataset_ready(ds);
    return ds;
}

/* Its keys begin with `prefix`. */
static struct dataset *open_at(const char *prefix)
{
    return open_with(parts_catalog(prefix, 3));
}

static void close_it(struct dataset *ds)
{
    object_index_events.dataset_closing(ds);
    parts_free(ds);
}

static int tear_down(void **state)
{
    (void)state;
    while (!dlc_list_empty(&n.datasets))
        close_it(dlc_container(n.datasets.next, struct dataset, link));
    assert_null(n.objects.places.entries);
    assert_null(n.objects.groups.entries);
    return 0;
}

static bool has_key(struct dataset *of, void *key)
{
    uint64_t sample;

    return catalog_find(of->catalog, key, &sample) == 0;
}

static bool has_not(struct dataset *of, void *arg)
{
    (void)of;
    (void)arg;
    return false;
}

static struct dataset *find(const struct dataset *ds, char *key, uint64_t *looks)
{
    uint64_t before = atomic_load(&counters.same_object_looks);
    struct dataset *found = object_index_find(ds, key, has_key, key);

    *looks = atomic_load(&counters.same_object_looks) - before;
    return found;
}

/* In one bucket, each with a prefix of its own; one of them is opened twice. */
static void looks_at_few(void **state)
{
    struct dataset *again;
    char prefix[40], key[40];
    uint64_t looks;

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(prefix, sizeof(prefix), "set%u/", i);
        all[i] = open_at(prefix);
    }
    snprintf(key, sizeof(key), "set7/000001");
    assert_null(find(all[7], key, &looks)); /* itself is no other */
    assert_int_equal(looks, 0);
    again = open_at("set7/");
    assert_ptr_equal(find(all[7], key, &looks), again);
    assert_int_equal(looks, 1);
    assert_ptr_equal(find(again, key, &looks), all[7]);
    assert_int_equal(looks, 1);
    close_it(again);
    assert_null(find(all[7], key, &looks));
    assert_int_equal(looks, 0);
}

/* Prefixes that contain each other: whoever has more in common is asked first. */
static void prefixes_overlap(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct dataset *whole, *part, *one;
    struct catalog *c = NULL;
    char path[256], key[] = "b/000001", other[] = "a/x";
    uint64_t looks;

    (void)state;
    assert_int_equal(catalog_builder_add(b, key, strlen(key), PARTS_SIZE, "e", &err), 0);
    assert_int_equal(catalog_builder_add(b, other, strlen(other), PARTS_SIZE, "e", &err), 0);
    unit_path("both", path);
    assert_int_equal(catalog_builder_finish(b, path, "s3://data/", &err), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_load(path, &c, &err), 0);
    whole = open_with(c);
    part = open_at("b/");
    one = open_with(parts_catalog("b/", 1)); /* its one key has all in common with itself */
    assert_ptr_equal(find(whole, key, &looks), part);
    assert_int_equal(looks, 1);
    assert_ptr_equal(find(part, key, &looks), whole);
    assert_ptr_equal(find(part, other, &looks), whole);
    assert_null(find(whole, other, &looks));
    assert_int_equal(looks, 0);
    snprintf(key, sizeof(key), "b/000000");
    assert_ptr_equal(find(part, key, &looks), one);
}

/* Another tenant, or another bucket. */
static void places_are_apart(void **state)
{
    struct dataset *here = open_at("p/"), *there = parts_dataset(&n, "x", parts_catalog("p/", 3));
    char key[] = "p/000001";
    uint64_t looks;

    (void)state;
    there->disk.id.lo = 1;
    object_index_events.dataset_ready(there);
    assert_null(find(here, key, &looks));
    assert_int_equal(looks, 0);
    close_it(here);
    assert_null(find(there, key, &looks));
}

/* (OBJECT-INDEX-1) */
static void searches_end(void **state)
{
    uint64_t before = atomic_load(&counters.same_object_looks);

    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        all[i] = open_at("p/");
    assert_null(object_index_find(all[0], "p/000001", has_not, NULL));
    assert_int_equal(atomic_load(&counters.same_object_looks) - before, 64);
}

/* One without samples is in no table. */
static void empty_datasets(void **state)
{
    struct dataset *ds = open_with(parts_catalog("p/", 0));

    (void)state;
    assert_false(ds->objects.indexed);
    assert_null(object_index_find(ds, "p/000001", has_not, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(looks_at_few, set_up, tear_down),
        cmocka_unit_test_setup_teardown(prefixes_overlap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(places_are_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(searches_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(empty_datasets, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
