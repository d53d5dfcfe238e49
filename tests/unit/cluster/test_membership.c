// SPDX-License-Identifier: Apache-2.0
/* Membership: how a node joins, what its heartbeats say, what it does with the answers, and how it
 * leaves. The manager is a server with three routes. */
#include "cluster/turns.h"
#include "daemon/parts.h"

#include "base/config.h"
#include "base/syscalls.h"
#include "cluster/member.h"
#include "cluster/membership.h"
#include "cluster/peer/view.h"
#include "daemon/cluster_ops.h"
#include "daemon/daemon.h"
#include "net/server.h"
#include "base/mem.h"
#include "base/str.h"
#include "ipc/node_marker.h"

#define TOKEN "dlc_0123456789012345678901234567890123456789012"

/* ---- the manager ---- */

static struct http_server *server;
static _Atomic unsigned joins, beats, leaves;
static _Atomic int told_view = -1; /* the view that the last heartbeat had */
static _Atomic unsigned done;      /* commands that heartbeats named as done */
static _Atomic int sends_view;     /* version; 0: none */
static _Atomic bool sends_command, refuses;
static _Atomic bool complete; /* all heartbeats had what they must */

static void on_join(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)ctx;
    assert_string_equal(r->params[0], "me");
    joins++;
    reply->body = json_pack("{s:i, s:b}", "interval_ms", 10, "known", 1);
}

/* Of version 1 a well-formed view, of version 2 one whose nodes are no list. */
static json_t *view_of(int version)
{
    if (version == 2)
        return json_pack("{s:i, s:s}", "version", version, "nodes", "many");
    return json_pack("{s:i, s:[{s:s, s:s, s:i, s:s}, {s:s, s:s, s:i, s:s}]}", "version", version,
                     "nodes", "name", "me", "address", "http://me:1", "weight", 1, "state", "live",
                     "name", "other", "address", "http://other:1", "weight", 1, "state", "live");
}

static void on_beat(struct http_request *r, struct http_reply *reply, void *ctx)
{
    const json_t *b = r->body;

    (void)ctx;
    if (refuses) {
        http_problem(reply, 503, "Later", "not now");
        return;
    }
    if (!json_is_object(json_object_get(b, "figures")) ||
        !json_is_object(json_object_get(b, "progress")) ||
        !json_is_array(json_object_get(b, "commands_done")))
        complete = false;
    told_view = (int)json_integer_value(json_object_get(b, "view"));
    done += (unsigned)json_array_size(json_object_get(b, "commands_done"));
    reply->body = json_pack("{s:i}", "interval_ms", 10);
    if (sends_view != 0)
        json_object_set_new(reply->body, "view", view_of(sends_view));
    if (atomic_exchange(&sends_command, false))
        json_object_set_new(
            reply->body, "commands",
            json_pack("[{s:s, s:s, s:s}]", "id", "c1", "op", "dance", "dataset", "train"));
    beats++;
}

static void on_leave(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)r;
    (void)ctx;
    leaves++;
    reply->body = json_object();
}

static const struct http_route routes[] = {
    {"PUT", "/v1/nodes/{name}", 0, on_join},
    {"POST", "/v1/nodes/{name}/heartbeat", 0, on_beat},
    {"DELETE", "/v1/nodes/{name}", 0, on_leave},
    {NULL, NULL, 0, NULL},
};

/* ---- the node ---- */

static struct node n;
static struct node_cluster settings;
static struct config config;
static struct dlc_err err;

static void on_tick(struct timer *t)
{
    (void)t; /* of the daemon; it would wind down */
}

static int set_up(void **state)
{
    const struct http_server_config sc = {.address = "127.0.0.1:0", .routes = routes};
    static char base[64], dir[256], token[256], at[256];

    (void)state;
    joins = beats = leaves = done = 0;
    sends_view = 0;
    told_view = -1;
    sends_command = refuses = false;
    complete = true;
    memset(&err, 0, sizeof(err));
    assert_int_equal(http_server_open(&sc, &server, &err), 0);
    snprintf(base, sizeof(base), "http://%s", http_server_address(server));
    unit_path("token", token);
    assert_int_equal(os_write_file(token, TOKEN, strlen(TOKEN), 0600, &err), 0);
    assert_int_equal(config_load(&config, "/dev/null", &err), 0);
    assert_int_equal(config_set(&config, "dir", unit_path("", dir), &err), 0);
    assert_int_equal(config_set(&config, "token-file", token, &err), 0);
    assert_int_equal(config_set(&config, "socket", unit_path("s.sock", at), &err), 0);
    settings = (struct node_cluster){.manager = base, .name = "me"};
    parts_node(&n);
    dlc_list_init(&n.warms);
    n.membership = &settings;
    n.config = &config;
    n.cluster_ops = &membership_ops;
    n.loop = loop_new(NULL);
    loop_stop(n.loop); /* from now on loop_run() is one turn */
    n.tick.fire = on_tick;
    tenant_memories_init(&n.memories, 1u << 20, 1u << 20, NULL);
    return 0;
}

static void leave(void)
{
    assert_true(membership_ops.leave(&n));
    assert_true(membership_ops.leave(&n)); /* again: it is on its way */
    turns_until(n.loop, n.stopping);
    assert_false(membership_ops.leave(&n)); /* it has left */
}

static int tear_down(void **state)
{
    (void)state;
    if (n.cluster != NULL && !n.stopping) /* the case has failed: its threads need the loop */
        leave();
    membership_ops.close(&n);
    assert_null(n.member);
    assert_null(n.cluster);
    assert_null(n.token);
    loop_timer_del(n.loop, &n.tick);
    loop_free(&n.loop);
    tenant_memories_free(&n.memories);
    config_release(&config);
    http_server_close(&server);
    return 0;
}

static void join(void)
{
    char *marker;

    assert_int_equal(membership_ops.open(&n, &err), 0);
    turns_until(n.loop, beats > 0);
    marker = node_marker_read(config.socket);
    assert_true(str_starts(marker, "node me of http://127.0.0.1:"));
    mem_free(&marker);
}

/* After a heartbeat that was sent after now. */
static void wait_for_beat(void)
{
    unsigned before = beats;

    turns_until(n.loop, beats >= before + 2);
}

static void a_node_needs_a_token(void **state)
{
    (void)state;
    assert_int_equal(config_set(&config, "token-file", "", &err), 0);
    assert_int_equal(membership_ops.open(&n, &err), DLC_EDENIED);
    assert_non_null(strstr(err.text, "--token-file"));
    assert_int_equal(joins, 0);
}

static void it_joins_reports_and_leaves(void **state)
{
    (void)state;
    join();
    assert_int_equal(joins, 1);
    assert_string_equal(n.token, TOKEN);
    wait_for_beat();
    assert_true(complete);
    assert_int_equal(told_view, 0);
    assert_int_equal(leaves, 0);
    leave();
    assert_int_equal(leaves, 1);
}

/* The next heartbeat says that it has the view; one that cannot be read is not taken. */
static void it_follows_the_view(void **state)
{
    (void)state;
    join();
    sends_view = 1;
    turns_until(n.loop, told_view == 1);
    assert_int_equal(cluster_live(n.cluster), 2);
    sends_view = 2;
    wait_for_beat();
    assert_int_equal(told_view, 1);
    assert_int_equal(cluster_version(n.cluster), 1);
    assert_int_equal(cluster_live(n.cluster), 2);
    leave();
}

/* One that it does not know is done, too: with an error. It is named until the manager answers. */
static void commands_are_reported_as_done(void **state)
{
    (void)state;
    join();
    sends_command = true;
    turns_until(n.loop, done > 0);
    wait_for_beat();
    assert_int_equal(done, 1);
    leave();
}

static void a_manager_that_refuses_is_asked_again(void **state)
{
    unsigned before;
    json_t *f = json_object();

    (void)state;
    join();
    refuses = true;
    turns_until(n.loop, agent_manager_away(n.member->agent));
    membership_ops.figures(&n, f);
    assert_true(json_is_true(json_object_get(json_object_get(f, "cluster"), "away")));
    before = beats;
    refuses = false;
    turns_until(n.loop, beats > before && !agent_manager_away(n.member->agent));
    assert_int_equal(joins, 1); /* it is still known there */
    json_decref(f);
    leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_node_needs_a_token, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_joins_reports_and_leaves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_follows_the_view, set_up, tear_down),
        cmocka_unit_test_setup_teardown(commands_are_reported_as_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_manager_that_refuses_is_asked_again, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
