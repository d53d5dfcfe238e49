// SPDX-License-Identifier: Apache-2.0
/* Which sessions a node lists to the manager, which it ends, and when without the manager's word. */
#include "daemon/parts.h"

#include "base/config.h"
#include "base/str.h"
#include "cluster/member.h"
#include "cluster/peer/view.h"
#include "cluster/revocation.h"
#include "daemon/client_conn.h"
#include "daemon/daemon.h"
#include "daemon/session.h"

#define CONNS 100u

static struct node n;
static struct member member;
static struct node_cluster settings;
static struct config config;
static struct conn conns[CONNS];
static struct session sessions[CONNS];
static unsigned used;
static struct dataset *ds;

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    memset(&member, 0, sizeof(member));
    memset(&settings, 0, sizeof(settings));
    memset(&config, 0, sizeof(config));
    memset(conns, 0, sizeof(conns));
    memset(sessions, 0, sizeof(sessions));
    used = 0;
    config.manager_grace = DLC_SEC(3600);
    n.member = &member;
    n.membership = &settings;
    n.config = &config;
    n.loop = loop_new(NULL);
    n.cluster = cluster_new("a");
    ds = parts_dataset(&n, "x", NULL);
    parts_belongs(ds, "train", "ann");
    member.lists_sessions = true;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < used; i++)
        loop_timer_del(n.loop, &conns[i].ender);
    cluster_free(&n.cluster);
    parts_free_all(&n);
    loop_free(&n.loop);
    return 0;
}

/* A session by the token whose digest is all `token`; 0: by none. */
static struct conn *session_by(unsigned char token)
{
    struct conn *c = &conns[used];

    assert_true(used < CONNS);
    sessions[used].ds = ds;
    c->node = &n;
    c->id = ++used;
    c->session = &sessions[used - 1];
    c->by_token = token != 0;
    memset(c->token, token, sizeof(c->token));
    dlc_list_push_tail(&n.conns, &c->link);
    return c;
}

static unsigned rows(void)
{
    json_t *all = revocation_rows(&n);
    unsigned count = (unsigned)json_array_size(all);

    json_decref(all);
    return count;
}

static void take_back(unsigned char token, const char *dataset, const char *tenant)
{
    unsigned char digest[SHA256_LEN];
    char text[2 * SHA256_LEN + 1];
    json_t *answer;

    memset(digest, token, sizeof(digest));
    str_hex(digest, sizeof(digest), text);
    answer = json_pack("{s:[[s, s, s], [s, s, s], [i]]}", "revoked", text, dataset, tenant, "short",
                       dataset, tenant, 7);
    revocation_heard(&n, answer);
    json_decref(answer);
}

/* Each kind once; not those of the daemon's own user, nor any before the manager asks for them. */
static void sessions_are_listed_by_kind(void **state)
{
    (void)state;
    session_by(1);
    session_by(1);
    session_by(2);
    session_by(0);
    assert_int_equal(rows(), 2);
    assert_int_equal(rows(), 2);
    conns[2].closing = true;
    assert_int_equal(rows(), 1);
    member.lists_sessions = false;
    assert_int_equal(rows(), 0);
}

/* (REVOKE-1): with more kinds than rows they take several heartbeats, and then begin again. */
static void many_are_listed_in_turn(void **state)
{
    (void)state;
    for (unsigned i = 0; i < REVOKE_ROWS + 10; i++)
        session_by((unsigned char)(i + 1));
    assert_int_equal(rows(), REVOKE_ROWS);
    assert_int_equal(rows(), 10);
    assert_int_equal(rows(), REVOKE_ROWS);
}

/* Of that token, dataset and tenant, and no others. Rows that make no sense are passed over. */
static void revoked_sessions_end(void **state)
{
    struct conn *gone = session_by(1), *too = session_by(1), *other = session_by(2);
    struct conn *own = session_by(0);

    (void)state;
    take_back(1, "train", "bob");
    take_back(1, "test", "ann");
    assert_false(gone->closing || too->closing || other->closing);
    take_back(1, "train", "ann");
    assert_true(gone->closing && too->closing);
    assert_false(other->closing || own->closing);
    assert_true(member.heard.ns != 0);
}

/* (REVOKE-2) */
static void a_silent_manager_counts_for_the_grace(void **state)
{
    struct conn *by_token = session_by(1), *own = session_by(0);

    (void)state;
    revocation_tick(&n); /* it was never heard: nothing was permitted by it either */
    assert_false(by_token->closing);
    take_back(9, "train", "ann");
    assert_false(revocation_grace_over(&n));
    revocation_tick(&n);
    assert_false(by_token->closing);
    member.heard.ns -= DLC_SEC(3601).ns;
    assert_true(revocation_grace_over(&n));
    config.manager_grace = DLC_SEC(0); /* for ever */
    assert_false(revocation_grace_over(&n));
    config.manager_grace = DLC_SEC(3600);
    settings.inside = true; /* the manager of this process */
    assert_false(revocation_grace_over(&n));
    settings.inside = false;
    revocation_tick(&n);
    assert_true(by_token->closing);
    assert_false(own->closing);
}

/* (REVOKE-3): of a store that was lost nothing is asked. */
static void older_sessions_are_not_listed_to_a_new_store(void **state)
{
    (void)state;
    session_by(1);
    session_by(2);
    revocation_store_is_new(&n);
    assert_int_equal(rows(), 0);
    session_by(3);
    assert_int_equal(rows(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sessions_are_listed_by_kind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_are_listed_in_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(revoked_sessions_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_silent_manager_counts_for_the_grace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(older_sessions_are_not_listed_to_a_new_store, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
