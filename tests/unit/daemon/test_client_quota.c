// SPDX-License-Identifier: Apache-2.0
/* Quotas: whose connections, sessions and datasets count, and who has none. */
#include "daemon/parts.h"

#include "base/config.h"
#include "base/counters.h"
#include "cluster/peer/view.h"
#include "daemon/client_conn.h"
#include "daemon/client_quota.h"
#include "daemon/daemon.h"
#include "daemon/session.h"

static struct node n;
static struct config config;
static struct dlc_err err;
static struct conn conns[8];
static struct session sessions[8];
static unsigned used;

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    memset(&config, 0, sizeof(config));
    memset(&err, 0, sizeof(err));
    memset(conns, 0, sizeof(conns));
    memset(sessions, 0, sizeof(sessions));
    used = 0;
    config.max_connections = config.max_sessions = config.max_datasets = 2;
    n.config = &config;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    parts_free_all(&n);
    return 0;
}

static struct dataset *dataset_of(const char *tenant)
{
    struct dataset *ds = parts_dataset(&n, "x", NULL);

    dlc_list_init(&ds->opening.openers);
    if (tenant[0] != '\0')
        parts_belongs(ds, "train", tenant);
    return ds;
}

/* ds: NULL for a connection without a session. */
static struct conn *connect_as(uid_t uid, struct dataset *ds)
{
    struct conn *c = &conns[used];
    struct session *s = &sessions[used++];

    c->node = &n;
    c->uid = uid;
    dlc_list_init(&c->waiting);
    dlc_list_push_tail(&n.conns, &c->link);
    if (ds == NULL)
        return c;
    s->ds = ds;
    s->conn = c;
    c->session = s;
    ds->refs++;
    dlc_list_push_tail(&ds->sessions, &s->link);
    return c;
}

static void connections_of_a_user(void **state)
{
    uint64_t before = atomic_load(&counters.quota_refusals);

    (void)state;
    connect_as(5, NULL);
    connect_as(6, NULL);
    assert_int_equal(quota_connection(&n, 5, &err), 0);
    connect_as(5, NULL);
    assert_int_equal(quota_connection(&n, 5, &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, "user 5 has 2 connections"));
    assert_non_null(strstr(err.text, "max-connections"));
    assert_int_equal(quota_connection(&n, 6, &err), 0);
    assert_int_equal(atomic_load(&counters.quota_refusals), before + 1);
    config.max_connections = 0; /* no limit */
    assert_int_equal(quota_connection(&n, 5, &err), 0);
}

/* At a node of a cluster users are shared: who has no dataset open gives way, the oldest first. */
static void connections_at_a_node(void **state)
{
    struct node_cluster cluster = {.inside = false};
    struct conn *asks, *waits, *last;

    (void)state;
    n.loop = loop_new(&err);
    assert_non_null(n.loop);
    n.membership = &cluster;
    connect_as(5, dataset_of("ann"));
    connect_as(5, dataset_of("ann"));
    connect_as(5, dataset_of("ann"));
    asks = connect_as(5, NULL);
    asks->asking = true;
    assert_int_equal(quota_connection(&n, 5, &err), 0); /* sessions count for their tenant */
    waits = connect_as(5, NULL);
    last = connect_as(5, NULL);
    assert_int_equal(quota_connection(&n, 5, &err), 0);
    assert_true(waits->closing && !asks->closing && !last->closing);
    last->asking = true;
    assert_int_equal(quota_connection(&n, 5, &err), DLC_EBUSY); /* all of them are busy */
    n.membership = NULL;
    loop_free(&n.loop);
}

/* Of another user those on datasets of no tenant count; the daemon's own user has no quota. A
 * client that waits for its dataset counts, and one that is gone but still pins. */
static void sessions_of_a_user(void **state)
{
    const struct open_request foreign = {.uid = 5, .foreign = true}, own = {.uid = 5};
    struct dataset *ds = dataset_of("");
    struct conn *c = connect_as(5, ds), *gone = connect_as(5, ds);

    (void)state;
    connect_as(6, ds);
    dlc_list_remove(&gone->link);
    assert_int_equal(quota_session(c, &foreign, &err), 0);
    dlc_list_push_tail(&n.zombies, &gone->link);
    assert_int_equal(quota_session(c, &foreign, &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, "max-sessions"));
    assert_int_equal(quota_session(c, &own, &err), 0);
    dlc_list_remove(&gone->link);
    connect_as(5, NULL)->opening = ds;
    assert_int_equal(quota_session(c, &foreign, &err), DLC_EBUSY);
}

/* Whatever user they come from; those of another tenant do not. */
static void sessions_of_a_tenant(void **state)
{
    char ann[] = "ann", bob[] = "bob";
    struct grant of_ann = {.tenant = ann}, of_bob = {.tenant = bob};
    const struct open_request a = {.grant = &of_ann, .uid = 7}, b = {.grant = &of_bob, .uid = 5};
    struct dataset *ds = dataset_of("ann");
    const struct conn *c = connect_as(5, ds);

    (void)state;
    assert_int_equal(quota_session(c, &a, &err), 0);
    connect_as(6, ds);
    assert_int_equal(quota_session(c, &a, &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, "tenant ann has 2 sessions"));
    assert_int_equal(quota_session(c, &b, &err), 0);
}

/* One more session on a dataset in use needs none more. */
static void datasets_in_use(void **state)
{
    const struct open_request foreign = {.uid = 5, .foreign = true};
    struct dataset *first = dataset_of(""), *second = dataset_of(""), *third = dataset_of("");

    (void)state;
    connect_as(5, first);
    connect_as(6, third);
    assert_int_equal(quota_dataset(&n, &foreign, NULL, &err), 0);
    dlc_list_push_tail(&second->opening.openers, &connect_as(5, NULL)->waiting);
    assert_int_equal(quota_dataset(&n, &foreign, NULL, &err), DLC_EBUSY);
    assert_int_equal(quota_dataset(&n, &foreign, third, &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, "max-datasets"));
    assert_int_equal(quota_dataset(&n, &foreign, first, &err), 0);
    assert_int_equal(quota_dataset(&n, &foreign, second, &err), 0);
    config.max_datasets = 3;
    assert_int_equal(quota_dataset(&n, &foreign, third, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(connections_of_a_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(connections_at_a_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sessions_of_a_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sessions_of_a_tenant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(datasets_in_use, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
