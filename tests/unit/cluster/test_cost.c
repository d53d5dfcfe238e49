// SPDX-License-Identifier: Apache-2.0
/* What was spent on datasets that are open, and on those that have been freed. */
#include "unit.h"

#include "base/json.h"
#include "base/mem.h"
#include "cluster/cost.h"
#include "cluster/member.h"
#include "daemon/dataset.h"
#include "daemon/state.h"

static struct node n;
static struct member m;

static int set_up(void **state)
{
    (void)state;
    memset(&n, 0, sizeof(n));
    memset(&m, 0, sizeof(m));
    n.member = &m;
    dlc_list_init(&n.datasets);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cost_close(&n);
    return 0;
}

/* One that is open, of TENANT/NAME (NULL: not of the cluster). */
struct one {
    struct dataset ds;
    struct bucket_tally tally;
};

static void open_one(struct one *o, const char *of, uint64_t requests)
{
    memset(o, 0, sizeof(*o));
    o->ds.node = &n;
    o->ds.id = ++n.next_id;
    o->ds.tally = &o->tally;
    o->ds.cid = (char *)(uintptr_t)(of != NULL ? strchr(of, '/') + 1 : NULL);
    o->ds.shared_as = (char *)(uintptr_t)of;
    o->tally.requests = requests;
    o->tally.bytes = requests * 10;
    o->tally.money_nano = requests * 100;
    dlc_list_push_tail(&n.datasets, &o->ds.link);
}

static void free_one(struct one *o)
{
    dlc_list_remove(&o->ds.link);
    cost_keep(&o->ds);
}

/* Requests; the others go with them. -1: nothing is said. */
static long long said(const char *of)
{
    json_t *all = cost_begin(&n), *s;
    json_int_t requests;

    dlc_list_each (l, &n.datasets)
        cost_add(all, dlc_container(l, struct dataset, link));
    s = json_object_get(all, of);
    requests = json_integer_value(json_object_get(s, "requests"));
    if (s == NULL)
        requests = -1;
    if (s != NULL) {
        assert_int_equal(json_integer_value(json_object_get(s, "bytes")), requests * 10);
        assert_int_equal(json_integer_value(json_object_get(s, "money_nano")), requests * 100);
    }
    json_decref(all);
    return requests;
}

static void test_it_never_falls(void **state)
{
    struct one a, b, alone;

    (void)state;
    open_one(&alone, NULL, 50);
    assert_int_equal(said("ann/d"), -1);
    open_one(&a, "ann/d", 3);
    assert_int_equal(said("ann/d"), 3);
    open_one(&b, "ann/d", 4); /* listed anew: both are there for a while */
    assert_int_equal(said("ann/d"), 7);
    free_one(&a);
    assert_int_equal(said("ann/d"), 7);
    free_one(&b);
    assert_int_equal(said("ann/d"), 7);
    open_one(&a, "ann/d", 1);
    assert_int_equal(said("ann/d"), 8);
    free_one(&alone);
    assert_int_equal(m.n_costs, 1);
}

/* A pass over thousands takes many turns of the loop: one that is freed meanwhile counts once. */
static void test_freed_during_a_pass(void **state)
{
    struct one a, b;
    json_t *all;

    (void)state;
    open_one(&a, "ann/a", 3);
    open_one(&b, "ann/b", 4);
    all = m.figures.spent = cost_begin(&n);
    cost_add(all, &a.ds);
    m.figures.at = b.ds.id;
    free_one(&a); /* it was passed */
    free_one(&b);
    m.figures.spent = NULL;
    assert_int_equal(json_u64_at(json_object_get(all, "ann/a"), "requests"), 3);
    assert_int_equal(json_u64_at(json_object_get(all, "ann/b"), "requests"), 4);
    json_decref(all);
    assert_int_equal(said("ann/a"), 3);
    assert_int_equal(said("ann/b"), 4);
}

static void test_a_name_of_two_tenants(void **state)
{
    struct one a, b;

    (void)state;
    open_one(&a, "ann/d", 3);
    free_one(&a);
    open_one(&b, "bob/d", 4);
    assert_int_equal(said("ann/d"), 3);
    assert_int_equal(said("bob/d"), 4);
}

static void test_the_oldest_are_forgotten(void **state)
{
    struct one o;
    char of[32];

    (void)state;
    for (int i = 0; i < 300; i++) {
        snprintf(of, sizeof(of), "ann/d%d", i);
        open_one(&o, of, 2);
        free_one(&o);
    }
    assert_int_equal(m.n_costs, 256);
    assert_int_equal(said("ann/d0"), -1);
    assert_int_equal(said("ann/d299"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_never_falls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_freed_during_a_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_name_of_two_tenants, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_oldest_are_forgotten, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
