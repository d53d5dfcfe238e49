// SPDX-License-Identifier: Apache-2.0
/* The agent speaks with a manager, here a server with a few routes; access.c asks through it. */
#include "cluster/turns.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/config.h"
#include "base/mem.h"
#include "cache/memory/memory.h"
#include "cluster/access.h"
#include "cluster/agent.h"
#include "cluster/member.h"
#include "cluster/peer/view.h"
#include "daemon/daemon.h"
#include "daemon/state.h"
#include "net/server.h"

#define TOKEN "dlc_0123456789012345678901234567890123456789012"

/* ---- the manager ---- */

static struct http_server *server;
static _Atomic unsigned joins, beats, resolves, identifies;
static _Atomic bool denies, forgets;

static void on_join(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)ctx;
    assert_string_equal(r->params[0], "me");
    joins++;
    reply->body = json_pack("{s:i}", "interval_ms", 20);
}

static void on_beat(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)ctx;
    beats++;
    if (atomic_exchange(&forgets, false))
        http_problem(reply, 404, "Not found", "who are you?");
    else
        reply->body = json_pack("{s:i, s:O}", "interval_ms", 20, "told",
                                json_object_get(r->body, "gathered"));
}

static void on_leave(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)r;
    (void)ctx;
    reply->body = json_object();
}

static void on_resolve(struct http_request *r, struct http_reply *reply, void *ctx)
{
    const char *name = json_string_value(json_object_get(r->body, "dataset"));

    (void)ctx;
    resolves++;
    if (denies)
        http_problem(reply, 403, "Not yours", "no");
    else
        reply->body =
            json_pack("{s:s, s:s, s:s, s:n, s:b, s:n, s:n}", "dataset", name, "tenant", "ann",
                      "url", "s3://data/p/", "endpoint", "anonymous", 0, "region", "credentials");
}

static void on_identify(struct http_request *r, struct http_reply *reply, void *ctx)
{
    const char *token = json_string_value(json_object_get(r->body, "token"));

    (void)ctx;
    identifies++;
    if (denies)
        http_problem(reply, 403, "Unknown token", "the token is not known, or no longer");
    else
        reply->body = strcmp(token, TOKEN) == 0
                          ? json_pack("{s:s, s:s}", "role", "tenant", "tenant", "ann")
                          : json_pack("{s:s, s:s}", "role", "admin", "tenant", "");
}

static const struct http_route routes[] = {
    {"PUT", "/v1/nodes/{name}", 0, on_join},     {"POST", "/v1/nodes/{name}/heartbeat", 0, on_beat},
    {"DELETE", "/v1/nodes/{name}", 0, on_leave}, {"POST", "/v1/resolve", 0, on_resolve},
    {"POST", "/v1/identify", 0, on_identify},    {NULL, NULL, 0, NULL},
};

/* ---- the node ---- */

static struct node n;
static struct member member;
static struct node_cluster settings;
static struct config config;
static unsigned gathered, digested, well, joined;

static json_t *gather(struct node *node, bool *more)
{
    assert_ptr_equal(node, &n);
    *more = false;
    return json_pack("{s:i, s:i}", "view", 0, "gathered", (int)++gathered);
}

static void digest(struct node *node, const struct agent_news *news)
{
    assert_ptr_equal(node, &n);
    digested++;
    well += news->well;
    joined += news->joined;
    if (news->well) /* the answer to what was gathered last */
        assert_int_equal(json_integer_value(json_object_get(news->answer, "told")), gathered);
}

static const struct agent_ops ops = {gather, digest};

static int set_up(void **state)
{
    const struct http_server_config sc = {.address = "127.0.0.1:0", .routes = routes};
    struct dlc_err err = DLC_ERR_INIT;
    static char base[64], dir[256];

    (void)state;
    joins = beats = resolves = identifies = 0;
    denies = forgets = false;
    gathered = digested = well = joined = 0;
    assert_int_equal(http_server_open(&sc, &server, &err), 0);
    snprintf(base, sizeof(base), "http://%s", http_server_address(server));
    memset(&n, 0, sizeof(n));
    memset(&member, 0, sizeof(member));
    dlc_list_init(&member.resolves);
    config.dir = (char *)(uintptr_t)unit_path("", dir);
    settings = (struct node_cluster){.manager = base, .name = "me"};
    n.member = &member;
    n.membership = &settings;
    n.config = &config;
    n.loop = loop_new(NULL);
    loop_stop(n.loop); /* from now on loop_run() is one turn */
    tenant_memories_init(&n.memories, 1u << 20, 1u << 20, NULL);
    assert_int_equal(tenant_memory_get(&n.memories, "", &n.own_memory, NULL), 0);
    assert_int_equal(agent_open(&n, &ops, "127.0.0.1:1", NULL, &member.agent, &err), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_end(&member.agent, n.loop);
    cluster_free(&n.cluster);
    tenant_memory_put(&n.own_memory);
    tenant_memories_free(&n.memories);
    loop_free(&n.loop);
    http_server_close(&server);
    return 0;
}

static void it_joins_then_beats(void **state)
{
    (void)state;
    turns_until(n.loop, digested >= 4);
    assert_int_equal(joined, 1);
    assert_int_equal(well, 3);
    assert_int_equal(joins, 1);
    assert_int_equal(gathered, 3);
}

static void a_manager_that_forgot_us_is_joined_again(void **state)
{
    (void)state;
    forgets = true;
    turns_until(n.loop, digested >= 4); /* joined, not known, joined, well */
    assert_int_equal(joined, 2);
    assert_int_equal(well, 1);
    assert_false(agent_manager_away(member.agent));
}

/* ---- who may read what ---- */

static unsigned answers;
static int code;
static char tenant[16];

static void on_answer(struct node *node, const struct grant *g, const struct dlc_err *err,
                      void *arg)
{
    assert_ptr_equal(node, &n);
    assert_null(arg);
    code = g != NULL ? 0 : err->code;
    snprintf(tenant, sizeof(tenant), "%s", g != NULL ? g->tenant : "");
    answers++;
}

static void ask(const char *token, struct dlc_dur life)
{
    resolve(&n, token, "dlcache://train", NULL, life, on_answer, NULL);
}

/* Who asks the same while a question is under way waits with it; then the answer is known. */
static void the_same_is_asked_once(void **state)
{
    (void)state;
    answers = 0;
    turns_until(n.loop, digested >= 1);
    for (unsigned i = 0; i < 3; i++)
        ask(TOKEN, DLC_SEC(60));
    assert_int_equal(answers, 0);
    turns_until(n.loop, answers == 3);
    assert_int_equal(code, 0);
    assert_string_equal(tenant, "ann");
    assert_int_equal(resolves, 1);
    ask(TOKEN, DLC_SEC(60));
    assert_int_equal(answers, 4); /* at once */
    assert_int_equal(resolves, 1);
    ask(TOKEN, DLC_MS(0)); /* the manager's word of now */
    turns_until(n.loop, answers == 5);
    assert_int_equal(resolves, 2);
}

/* (CLUSTER-2): what the manager takes back counts from then on, also for those who would do with
 * less. */
static void a_denial_revokes(void **state)
{
    (void)state;
    answers = 0;
    turns_until(n.loop, digested >= 1);
    ask(TOKEN, DLC_SEC(60));
    turns_until(n.loop, answers == 1);
    assert_int_equal(code, 0);
    denies = true;
    ask(TOKEN, DLC_MS(0));
    turns_until(n.loop, answers == 2);
    assert_int_equal(code, DLC_EDENIED);
    ask(TOKEN, DLC_SEC(60));
    turns_until(n.loop, answers == 3);
    assert_int_equal(code, DLC_EDENIED);
    assert_int_equal(resolves, 3);
}

static void what_is_no_token_is_not_asked_about(void **state)
{
    (void)state;
    answers = 0;
    turns_until(n.loop, digested >= 1);
    ask("hunter2", DLC_SEC(60));
    assert_int_equal(answers, 1);
    assert_int_equal(code, DLC_EDENIED);
    code = 0;
    ask("dlc_short", DLC_SEC(60));
    assert_int_equal(answers, 2);
    assert_int_equal(code, DLC_EDENIED);
    assert_int_equal(resolves, 0);
    assert_int_equal(member.n_resolves, 0);
}

static void ask_as_stranger(unsigned i)
{
    char token[48];

    snprintf(token, sizeof(token), "dlc_%043u", i);
    resolve_for_stranger(&n, token, "dlcache://train", DLC_SEC(60), on_answer, NULL);
}

/* Those who reach the peer server's port have a few questions of the many, and wait for programs. */
static void strangers_leave_questions_to_programs(void **state)
{
    (void)state;
    answers = 0;
    turns_until(n.loop, digested >= 1);
    denies = true;
    for (unsigned i = 0; i < 300; i++)
        ask_as_stranger(i);
    assert_int_equal(answers, 300 - 16);
    assert_int_equal(code, DLC_EBUSY);
    denies = false;
    ask(TOKEN, DLC_SEC(60));
    assert_int_equal(answers, 300 - 16); /* it is asked */
    turns_until(n.loop, answers == 300 + 1);
    assert_int_equal(member.n_stranger_resolves, 0);
    assert_int_equal(member.n_resolves, 0);
}

/* Nor does a program with tokens that nobody was granted anything for. */
static void unknown_tokens_leave_questions_to_known_ones(void **state)
{
    char token[48];

    (void)state;
    answers = 0;
    turns_until(n.loop, digested >= 1);
    ask(TOKEN, DLC_SEC(60));
    turns_until(n.loop, answers == 1);
    answers = 0;
    denies = true;
    for (unsigned i = 0; i < 300; i++) {
        snprintf(token, sizeof(token), "dlc_%043u", i);
        ask(token, DLC_SEC(60));
    }
    assert_int_equal(answers, 300 - 192);
    assert_int_equal(code, DLC_EBUSY);
    denies = false;
    ask(TOKEN, DLC_MS(0));
    assert_int_equal(answers, 300 - 192); /* it is asked */
    turns_until(n.loop, answers == 300 + 1);
    assert_int_equal(member.n_resolves, 0);
}

/* A token that the manager refused costs it no second question of a stranger. */
static void a_strangers_token_is_asked_about_once(void **state)
{
    unsigned asked;

    (void)state;
    answers = 0;
    turns_until(n.loop, digested >= 1);
    denies = true;
    ask_as_stranger(1);
    turns_until(n.loop, answers == 1);
    assert_int_equal(code, DLC_EDENIED);
    asked = resolves;
    for (unsigned i = 0; i < 10; i++)
        ask_as_stranger(1);
    assert_int_equal(answers, 11); /* at once */
    assert_int_equal(code, DLC_EDENIED);
    assert_int_equal(resolves, asked);
    denies = false;
    ask_as_stranger(2); /* another one */
    turns_until(n.loop, answers == 12);
    assert_int_equal(code, 0);
}

static bool is_admin;

static void on_owner(struct node *node, const struct token_owner *o, const struct dlc_err *err,
                     void *arg)
{
    assert_ptr_equal(node, &n);
    assert_null(arg);
    code = o != NULL ? 0 : err->code;
    is_admin = o != NULL && o->admin;
    snprintf(tenant, sizeof(tenant), "%s", o != NULL ? o->tenant : "");
    answers++;
}

static void the_owner_of_a_token_is_asked_for(void **state)
{
    static char own[] = "dlc_own";

    (void)state;
    answers = 0;
    turns_until(n.loop, digested >= 1);
    identify(&n, TOKEN, on_owner, NULL);
    turns_until(n.loop, answers == 1);
    assert_int_equal(code, 0);
    assert_false(is_admin);
    assert_string_equal(tenant, "ann");
    identify(&n, "dlc_9123456789012345678901234567890123456789012", on_owner, NULL);
    turns_until(n.loop, answers == 2);
    assert_true(code == 0 && is_admin);
    assert_string_equal(tenant, "");
    denies = true;
    identify(&n, TOKEN, on_owner, NULL);
    turns_until(n.loop, answers == 3);
    assert_int_equal(code, DLC_EDENIED);
    assert_int_equal(identifies, 3);
    identify(&n, "hunter2", on_owner, NULL); /* is not asked about */
    assert_int_equal(answers, 4);
    assert_int_equal(code, DLC_EDENIED);
    n.token = own; /* the node knows its own */
    identify(&n, "dlc_own", on_owner, NULL);
    assert_int_equal(answers, 5);
    assert_true(code == 0 && is_admin);
    n.token = NULL;
    assert_int_equal(identifies, 3);
    assert_int_equal(member.n_resolves, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_joins_then_beats, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_manager_that_forgot_us_is_joined_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_same_is_asked_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_denial_revokes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_token_is_not_asked_about, set_up, tear_down),
        cmocka_unit_test_setup_teardown(strangers_leave_questions_to_programs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_tokens_leave_questions_to_known_ones, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_strangers_token_is_asked_about_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_owner_of_a_token_is_asked_for, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
