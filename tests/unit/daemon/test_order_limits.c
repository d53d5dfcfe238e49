// SPDX-License-Identifier: Apache-2.0
/* Memory for lists of orders: how long one may be, and how much one user or tenant may have. */
#include "daemon/parts.h"

#include "daemon/client_conn.h"
#include "daemon/order_limits.h"
#include "daemon/session.h"
#include "order/schedule.h"

#define N      100u
#define BUDGET ((uint64_t)256 << 20) /* that each has in any case */

static struct node n;
static struct dlc_err err;

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    memset(&err, 0, sizeof(err));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    parts_free_all(&n);
    return 0;
}

static void connect_as(struct conn *c, uid_t uid)
{
    *c = (struct conn){.node = &n, .uid = uid};
    dlc_list_push_tail(&n.conns, &c->link);
}

static void a_list_has_a_length(void **state)
{
    uint64_t most = schedule_list_max(N);

    (void)state;
    assert_int_equal(order_length_check(1, N, &err), 0);
    assert_int_equal(order_length_check(most, N, &err), 0);
    assert_int_equal(order_length_check(0, N, &err), DLC_EINVAL);
    assert_int_equal(order_length_check(most + 1, N, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "several epochs"));
}

/* Lists under way count, of all connections of the user, and of no other. */
static void a_user_has_a_budget(void **state)
{
    struct conn a, b, other;

    (void)state;
    connect_as(&a, 1);
    connect_as(&b, 1);
    connect_as(&other, 2);
    assert_int_equal(order_budget_check(&a, false, BUDGET, &err), 0);
    assert_int_equal(order_budget_check(&a, false, BUDGET + 1, &err), DLC_ENOMEM);
    b.lists = BUDGET - 10;
    assert_int_equal(order_budget_check(&a, false, 10, &err), 0);
    assert_int_equal(order_budget_check(&a, false, 11, &err), DLC_ENOMEM);
    assert_non_null(strstr(err.text, "shuffled orders"));
    assert_int_equal(order_budget_check(&other, false, BUDGET, &err), 0);
    n.memories.ceiling = 8 * BUDGET; /* a quarter of it is more */
    assert_int_equal(order_budget_check(&a, false, BUDGET + 10, &err), 0);
    assert_int_equal(order_budget_check(&a, false, BUDGET + 11, &err), DLC_ENOMEM);
}

/* What a session follows counts, unless the new list takes its place. Tenants of one user do not
 * share. */
static void lists_of_sessions_count(void **state)
{
    static uint64_t numbers[4] = {3, 2, 1, 0};
    uint64_t *copy = mem_alloc(sizeof(numbers)), kept = schedule_list_bytes(4, N);
    struct dataset *ds = parts_dataset(&n, "x", parts_catalog("k", N));
    struct dataset *other = parts_dataset(&n, "y", parts_catalog("k", N));
    struct session s = {.ds = ds}, t = {.ds = other};
    struct schedule_list *l;
    struct conn a, b;

    (void)state;
    memcpy(copy, numbers, sizeof(numbers));
    l = schedule_list_new(copy, 4, N, &err);
    assert_non_null(l);
    parts_belongs(ds, "train", "ann");
    parts_belongs(other, "train", "bob");
    s.reader.schedule = schedule_new_list(&l, 0, 1, 0);
    s.reader.active = true;
    connect_as(&a, 1);
    connect_as(&b, 1);
    a.session = &s;
    b.session = &t;
    assert_int_equal(order_budget_check(&a, false, BUDGET, &err), 0);
    assert_int_equal(order_budget_check(&a, true, BUDGET, &err), DLC_ENOMEM);
    assert_int_equal(order_budget_check(&a, true, BUDGET - kept, &err), 0);
    assert_int_equal(order_budget_check(&b, true, BUDGET, &err), 0);
    schedule_free(&s.reader.schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_list_has_a_length, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_user_has_a_budget, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lists_of_sessions_count, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
