// SPDX-License-Identifier: Apache-2.0
/* Which of the datasets that are open answers a question. */
#include "daemon/parts.h"

#include "daemon/client_conn.h"
#include "daemon/dataset_table.h"
#include "daemon/session.h"

static struct node n;

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    parts_free_all(&n);
    return 0;
}

/* Who opens it gets the one that is ready, who refreshes it the one that is being listed. */
static void a_refresh_joins_the_listing(void **state)
{
    struct dataset *ready = parts_dataset(&n, "x", parts_catalog("a", 3));
    struct dataset *listing = parts_dataset(&n, "x", NULL);

    (void)state;
    assert_ptr_equal(dataset_by_name(&n, "x", false), ready);
    assert_ptr_equal(dataset_by_name(&n, "x", true), listing);
    assert_null(dataset_by_name(&n, "y", false));

    listing->opening.loading = true; /* it only looks for a catalog: nothing newer comes of it */
    assert_false(dataset_is_listing(listing));
    assert_ptr_equal(dataset_by_name(&n, "x", true), ready);

    ready->stale = true;
    assert_ptr_equal(dataset_by_name(&n, "x", false), listing);
}

/* How many datasets a lookup with this one's name looks at. */
static unsigned looked_at(const struct dlc_list *same)
{
    unsigned looks = 0;

    for (const struct dlc_list *l = same->next; l != same; l = l->next)
        looks++; /* and the head of the chain for the one that is asked about */
    return looks;
}

/* However many others there are, and whichever of them have gone. */
static void a_lookup_looks_at_its_name_only(void **state)
{
    struct dataset *one = parts_dataset(&n, "x", parts_catalog("a", 3)), *two, *other[300];
    char name[32];

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "other%u", i);
        other[i] = parts_dataset(&n, name, NULL);
        parts_belongs(other[i], name, "ann");
    }
    two = parts_dataset(&n, "x", NULL);
    parts_belongs(two, "train", "ann");
    assert_int_equal(looked_at(&one->same_name), 2);
    assert_int_equal(looked_at(&two->same_cid), 1);
    assert_int_equal(looked_at(&other[7]->same_name), 1);
    parts_free(one);
    for (unsigned i = 0; i < 300; i += 2)
        parts_free(other[i]);
    assert_null(dataset_by_name(&n, "other8", false));
    assert_ptr_equal(dataset_by_name(&n, "other9", false), other[9]);
    assert_ptr_equal(dataset_by_name(&n, "x", false), two);
    parts_free_all(&n);
    assert_true(n.by_name.entries == NULL && n.by_cid.entries == NULL);
}

/* It lies there. */
static void move_to(struct dataset *ds, const char *url)
{
    dataset_table_remove(ds);
    url_release(&ds->url);
    assert_int_equal(url_parse(&ds->url, url, NULL), 0);
    dataset_table_add(ds);
}

/* An admin's question by URL finds the newest, and looks only at those that lie there. */
static void a_url_is_found_among_thousands(void **state)
{
    struct dataset *old, *new;
    char text[64];

    (void)state;
    for (unsigned i = 0; i < 8000; i++) {
        snprintf(text, sizeof(text), "s3://data/%u/", i);
        move_to(parts_dataset(&n, text, NULL), text);
    }
    old = parts_dataset(&n, "x", parts_catalog("a", 3));
    new = parts_dataset(&n, "y", parts_catalog("b", 3));
    move_to(old, "s3://data/7/");
    move_to(new, "s3://data/7/");
    assert_ptr_equal(dataset_find(&n, "s3://data/7/"), new);
    assert_int_equal(looked_at(&new->same_url), 3);
    assert_null(dataset_find(&n, "s3://data/8/")); /* being listed */
    assert_null(dataset_find(&n, "s3://other/"));
    assert_null(dataset_find(&n, "nonsense"));
    new->stale = true;
    assert_ptr_equal(dataset_find(&n, "s3://data/7/"), old);
    parts_free_all(&n);
    assert_true(n.by_url.entries == NULL && n.by_id == NULL);
}

/* In steps, by growing ids, whichever come and go between two of them. */
static void all_in_steps(void **state)
{
    static const unsigned sizes[] = {1, 1000, 8000};
    struct dataset *ds;
    char name[32];

    (void)state;
    for (unsigned k = 0; k < DLC_COUNT(sizes); k++) {
        uint64_t first = n.next_id + 1, at = 0;
        unsigned seen = 0;

        assert_null(dataset_from(&n, 0));
        for (unsigned i = 0; i < sizes[k]; i++) {
            snprintf(name, sizeof(name), "n%u", i);
            parts_dataset(&n, name, NULL);
        }
        assert_int_equal(n.n_datasets, sizes[k]);
        while ((ds = dataset_from(&n, at)) != NULL) {
            assert_true(ds->id == first + 3 * seen);
            at = ds->id + 1;
            seen++;
            if (dataset_from(&n, at) != NULL) /* two of three go meanwhile, the one it is at too */
                parts_free(dataset_from(&n, at));
            if (dataset_from(&n, at) != NULL)
                parts_free(dataset_from(&n, at));
            if (seen % 2 == 0)
                parts_free(ds);
        }
        assert_int_equal(seen, (sizes[k] + 2) / 3);
        parts_free_all(&n);
        assert_int_equal(n.n_datasets, 0);
    }
}

/* Those without users, the one that was left longest ago first. */
static void idle_ones_in_order(void **state)
{
    struct dataset *a = parts_dataset(&n, "a", NULL), *b = parts_dataset(&n, "b", NULL), *user;

    (void)state;
    assert_int_equal(n.n_idle, 0);
    for (unsigned i = 0; i < 2; i++) {
        dataset_ref(a);
        dataset_ref(a);
        dataset_ref(b);
        assert_int_equal(n.n_idle, 0);
        user = b, dataset_put(&user);
        user = a, dataset_put(&user);
        assert_int_equal(n.n_idle, 1); /* a has another user */
        user = a, dataset_put(&user);
        assert_int_equal(n.n_idle, 2);
        assert_ptr_equal(n.idle.next, &b->idle);
        assert_ptr_equal(n.idle.prev, &a->idle);
    }
    dataset_ref(b);
    assert_ptr_equal(n.idle.next, &a->idle);
    parts_free(a);
    assert_int_equal(n.n_idle, 0);
}

/* (CLUSTER-2): a name that was freed may be another tenant's by now. */
static void a_name_is_found_with_its_tenant(void **state)
{
    struct dataset *ann = parts_dataset(&n, "x", parts_catalog("a", 3));
    struct dataset *bob = parts_dataset(&n, "y", parts_catalog("b", 3));

    (void)state;
    parts_belongs(ann, "train", "ann");
    parts_belongs(bob, "train", "bob");
    assert_ptr_equal(dataset_of_cluster(&n, "train", "ann", 0), ann);
    assert_ptr_equal(dataset_of_cluster(&n, "train", "bob", 0), bob);
    assert_null(dataset_of_cluster(&n, "train", "eve", 0));
    assert_null(dataset_of_cluster(&n, "test", "ann", 0));
    assert_null(dataset_of_cluster(&n, "train", "ann", catalog_snapshot(bob->catalog)));
}

/* dlcache://NAME is what its tenant says: the name, with or without the tenant, or the id. */
static void a_url_with_a_name(void **state)
{
    struct dataset *ann = parts_dataset(&n, "x", parts_catalog("a", 3));

    (void)state;
    parts_belongs(ann, "ann.train", "ann");
    assert_true(dataset_is_at(ann, "dlcache://train"));
    assert_true(dataset_is_at(ann, "dlcache://ann.train"));
    assert_false(dataset_is_at(ann, "dlcache://bob.train"));
    assert_false(dataset_is_at(ann, "dlcache://trai"));
    mem_free(&ann->name);
    ann->name = mem_str("renamed"); /* an id that does not tell the name */
    assert_true(dataset_is_at(ann, "dlcache://renamed"));
    assert_true(dataset_is_at(ann, "dlcache://ann.renamed"));
    assert_false(dataset_is_at(ann, "dlcache://train"));
}

/* One that was listed anew since is found by those who name its snapshot, and by nobody else. */
static void a_stale_one_is_found_by_its_snapshot(void **state)
{
    struct dataset *old = parts_dataset(&n, "x", parts_catalog("a", 3));
    struct dataset *new = parts_dataset(&n, "x", parts_catalog("b", 3));
    uint64_t before = catalog_snapshot(old->catalog), now = catalog_snapshot(new->catalog);

    (void)state;
    assert_true(before != now);
    parts_belongs(old, "train", "ann");
    parts_belongs(new, "train", "ann");
    old->stale = true;
    assert_ptr_equal(dataset_of_cluster(&n, "train", "ann", 0), new);
    assert_ptr_equal(dataset_of_cluster(&n, "train", "ann", before), old);
    assert_ptr_equal(dataset_of_snapshot(&n, "x", before), old);
    assert_ptr_equal(dataset_of_snapshot(&n, "x", now), new);
    assert_null(dataset_of_snapshot(&n, "x", 1));
}

static void twins_have_one_catalog(void **state)
{
    struct dataset *old = parts_dataset(&n, "x", parts_catalog("a", 3));
    struct dataset *same = parts_dataset(&n, "x", parts_catalog("a", 3));
    struct dataset *other = parts_dataset(&n, "x", parts_catalog("b", 3));

    (void)state;
    assert_ptr_equal(dataset_twin(same), old);
    assert_null(dataset_twin(other));
    old->stale = true; /* a pinned one: it has samples in memory, too */
    assert_ptr_equal(dataset_twin(same), old);
    assert_ptr_equal(dataset_to_replace(other), same);
}

/* (SNAP-3) of docs/design/0010. */
static void a_job_reads_one_snapshot(void **state)
{
    struct dataset *ds = parts_dataset(&n, "x", parts_catalog("a", 3));
    struct conn first = {.node = &n, .job = (char *)(uintptr_t) "j"}, second = first, other = first;
    struct session s = {.ds = ds, .conn = &first};

    (void)state;
    dlc_list_push_tail(&ds->sessions, &s.link);
    other.owner[0] = 1; /* another's job of the same name */
    assert_true(dataset_job_snapshot(&second, "x") == catalog_snapshot(ds->catalog));
    assert_true(dataset_job_snapshot(&second, "y") == 0);
    assert_true(dataset_job_snapshot(&other, "x") == 0);
    assert_true(dataset_job_snapshot(&first, "x") == 0); /* its own does not bind it */
    dlc_list_remove(&s.link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_refresh_joins_the_listing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lookup_looks_at_its_name_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_url_is_found_among_thousands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_in_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idle_ones_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_is_found_with_its_tenant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_url_with_a_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stale_one_is_found_by_its_snapshot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(twins_have_one_catalog, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_job_reads_one_snapshot, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
