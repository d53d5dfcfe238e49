// SPDX-License-Identifier: Apache-2.0
/* The daemon ends at once, or when it has left its cluster; an event reaches all who listen. */
#include "daemon/parts.h"

#include "daemon/cluster_ops.h"
#include "daemon/ending.h"
#include "daemon/events.h"

static struct node n;
static unsigned asked, ticks;
static bool leaves;

static bool leave(struct node *node)
{
    assert_ptr_equal(node, &n);
    asked++;
    return leaves;
}

static const struct cluster_ops ops = {.leave = leave};

static void on_tick(struct timer *t)
{
    (void)t;
    ticks++;
    loop_stop(n.loop);
}

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    asked = ticks = 0;
    n.loop = loop_new(NULL);
    n.tick.fire = on_tick;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ending_over(&n); /* else the process ends in time */
    loop_timer_del(n.loop, &n.tick);
    loop_free(&n.loop);
    return 0;
}

static void without_a_cluster_it_ends_at_once(void **state)
{
    (void)state;
    node_stop(&n);
    assert_true(n.stopping);
    loop_run(n.loop);
    assert_int_equal(ticks, 1);
}

static void a_cluster_is_left_first(void **state)
{
    (void)state;
    n.cluster_ops = &ops;
    leaves = true;
    node_stop(&n);
    assert_false(n.stopping);
    node_stop(&n); /* asked for again: the cluster may try again */
    assert_int_equal(asked, 2);
    node_stop_now(&n);
    assert_true(n.stopping);
    node_stop(&n);
    assert_int_equal(asked, 2);
    loop_run(n.loop);
    assert_int_equal(ticks, 1);
}

static void nothing_to_leave(void **state)
{
    (void)state;
    n.cluster_ops = &ops;
    leaves = false;
    node_stop(&n);
    assert_true(n.stopping);
}

/* ---- events ---- */

static char heard[16];

static void a_ready(struct dataset *ds)
{
    strcat(heard, ds->id == 7 ? "a" : "?");
}

static void b_ready(struct dataset *ds)
{
    strcat(heard, ds->id == 7 ? "b" : "?");
}

static void b_closing(struct dataset *ds)
{
    (void)ds;
    strcat(heard, "c");
}

static void an_event_reaches_those_who_listen(void **state)
{
    static const struct node_events a = {.dataset_ready = a_ready};
    static const struct node_events b = {.dataset_ready = b_ready, .dataset_closing = b_closing};
    struct dataset ds = {.id = 7};

    (void)state;
    heard[0] = '\0';
    events_raise(&n, dataset_ready, &ds); /* nobody */
    n.events[0] = &a;
    n.events[1] = &b;
    events_raise(&n, dataset_ready, &ds);
    events_raise(&n, dataset_closing, &ds);
    events_raise(&n, dataset_freed, &ds);
    assert_string_equal(heard, "abc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_cluster_it_ends_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cluster_is_left_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_to_leave, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_event_reaches_those_who_listen, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
