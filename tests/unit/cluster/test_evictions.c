// SPDX-License-Identifier: Apache-2.0
/* Evictions that not all nodes have heard of yet: from those no copies are taken, for a while. */
#include "daemon/parts.h"

#include "cluster/evictions.h"
#include "cluster/member.h"

static struct node n;
static struct member member;
static struct dataset *ds;

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    memset(&member, 0, sizeof(member));
    n.member = &member;
    n.loop = loop_new(NULL);
    loop_stop(n.loop); /* loop_run() is one turn */
    ds = parts_dataset(&n, "x", NULL);
    parts_belongs(ds, "train", "ann");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    parts_free_all(&n);
    loop_free(&n.loop);
    return 0;
}

static void copies_of_who_has_not_heard_are_refused(void **state)
{
    (void)state;
    assert_string_equal(evictions_mark(&n, ds), "");
    assert_false(evictions_forbid(&n, ds, ""));
    evictions_heard(&n, "train", "ann", "0123456789abcdef");
    assert_string_equal(evictions_mark(&n, ds), "0123456789abcdef");
    assert_true(evictions_forbid(&n, ds, ""));
    assert_true(evictions_forbid(&n, ds, "0123456789abcdee"));
    assert_false(evictions_forbid(&n, ds, "0123456789abcdef"));
    evictions_heard(&n, "train", "ann", "fedcba9876543210"); /* the next one */
    assert_true(evictions_forbid(&n, ds, "0123456789abcdef"));
    dlc_clock_advance(DLC_SEC(31)); /* (EVICTION-MARK-1) */
    loop_run(n.loop);
    assert_false(evictions_forbid(&n, ds, "0123456789abcdef"));
    assert_string_equal(evictions_mark(&n, ds), "fedcba9876543210");
}

static void what_is_not_about_it_does_not_matter(void **state)
{
    (void)state;
    evictions_heard(&n, "train", "bob", "0123456789abcdef");
    evictions_heard(&n, "other", "ann", "0123456789abcdef");
    evictions_heard(&n, "train", "ann", "");                     /* of some nodes */
    evictions_heard(&n, "train", "ann", "0123456789abcdef0123"); /* not a mark */
    assert_false(evictions_forbid(&n, ds, ""));
    assert_string_equal(evictions_mark(&n, ds), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(copies_of_who_has_not_heard_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_about_it_does_not_matter, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
