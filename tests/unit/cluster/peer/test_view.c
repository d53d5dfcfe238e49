// SPDX-License-Identifier: Apache-2.0
/* What a node knows of its cluster: who owns what in a view, and who may read what, for how long.
 */
#include "unit.h"

#include "base/hash.h"
#include "cluster/peer/view.h"

static json_t *parse(const char *text)
{
    json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);

    assert_non_null(j);
    return j;
}

static int take(struct cluster *c, const char *text, struct dlc_err *err)
{
    json_t *view = parse(text);
    int rc = cluster_take_view(c, view, err);

    json_decref(view);
    return rc;
}

#define NODE(name, weight, state)                                                                  \
    "{\"name\": \"" name "\", \"address\": \"http://" name ":1\", \"weight\": " weight             \
    ", \"state\": \"" state "\"}"

#define THREE                                                                                      \
    "{\"version\": 5, \"nodes\": [" NODE("a", "1", "live") ", " NODE("b", "1", "live") ", " NODE(  \
        "c", "2", "live") "]}"

static bool is_b(const struct cluster_peer *peer, void *arg)
{
    (void)arg;
    return strcmp(peer->name, "b") == 0;
}

static char owner_seen_by(struct cluster *c, const char *me, const char *dataset, unsigned i,
                          bool (*skip)(const struct cluster_peer *, void *))
{
    struct cluster_peer p = {0};
    char key[32];

    snprintf(key, sizeof(key), "key-%u", i);
    return cluster_owns(c, dataset, hash64_str(key), skip, NULL, &p) ? me[0] : p.name[0];
}

/* (CLUSTER-VIEW-1) */
static void all_nodes_agree(void **state)
{
    static const char *const names[] = {"a", "b", "c", "elsewhere"};
    unsigned count[128] = {0};
    struct cluster *c[4];

    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        c[k] = cluster_new(names[k]);
        assert_int_equal(take(c[k], THREE, NULL), 0);
        assert_int_equal(cluster_live(c[k]), 3);
    }
    for (unsigned i = 0; i < 4000; i++) {
        char owner = owner_seen_by(c[0], "a", "train", i, NULL);

        count[(unsigned)owner]++;
        for (unsigned k = 1; k < 4; k++)
            assert_int_equal(owner_seen_by(c[k], names[k], "train", i, NULL), owner);
    }
    assert_in_range(count['a'], 850, 1150);
    assert_in_range(count['b'], 850, 1150);
    assert_in_range(count['c'], 1800, 2200);
    assert_true(cluster_share(c[2], "train") > 0.49 && cluster_share(c[2], "train") < 0.51);
    assert_true(cluster_share(c[3], "train") < 0.01);
    for (unsigned k = 0; k < 4; k++)
        cluster_free(&c[k]);
}

/* A dead one is passed over for the next best; the others keep theirs. */
static void a_peer_is_skipped(void **state)
{
    struct cluster *c = cluster_new("a");

    (void)state;
    take(c, THREE, NULL);
    for (unsigned i = 0; i < 1000; i++) {
        char owner = owner_seen_by(c, "a", "d", i, NULL), now = owner_seen_by(c, "a", "d", i, is_b);

        assert_true(now != 'b' && (owner == 'b' || owner == now));
    }
    cluster_free(&c);
}

static void who_is_not_live_owns_nothing(void **state)
{
    struct cluster *c = cluster_new("a");

    (void)state;
    take(c,
         "{\"version\": 1, \"nodes\": [" NODE("a", "1", "live") ", " NODE(
             "b", "1", "draining") ", " NODE("c", "1", "gone") ", " NODE("d", "0", "live") "]}",
         NULL);
    assert_int_equal(cluster_live(c), 1);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(owner_seen_by(c, "a", "d", i, NULL), 'a');
    cluster_free(&c);
}

static bool gave_away(const struct cluster *c, unsigned i)
{
    char key[32];

    snprintf(key, sizeof(key), "key-%u", i);
    return cluster_gave_away(c, "d", hash64_str(key));
}

/* '-': nobody. */
static char asked_for_a_copy(const struct cluster *c, unsigned i, bool draining)
{
    struct cluster_peer p = {0};
    char key[32];

    snprintf(key, sizeof(key), "key-%u", i);
    return (draining ? cluster_draining_peer(c, "d", hash64_str(key), &p)
                     : cluster_previous_owner(c, "d", hash64_str(key), 0, &p))
               ? p.name[0]
               : '-';
}

#define DRAINS_B                                                                                   \
    "{\"version\": 6, \"nodes\": [" NODE("a", "1", "live") ", " NODE(                              \
        "b", "1", "draining") ", " NODE("c", "2", "live") "]}"

/* What b owned it is to hand over, and its new owners ask it; also where nobody knows the view
 * before. */
static void a_node_drains(void **state)
{
    struct cluster *before = cluster_new("b"), *b = cluster_new("b"), *again = cluster_new("b");
    struct cluster *c = cluster_new("c");
    unsigned given = 0;

    (void)state;
    take(before, THREE, NULL);
    take(b, THREE, NULL);
    take(b, DRAINS_B, NULL);
    take(again, DRAINS_B, NULL);
    take(c, THREE, NULL);
    take(c, DRAINS_B, NULL);
    assert_true(cluster_is_draining(b) && !cluster_is_draining(c) && !cluster_is_draining(before));
    for (unsigned i = 0; i < 1000; i++) {
        char old = owner_seen_by(before, "b", "d", i, NULL);

        given += gave_away(b, i);
        assert_int_equal(gave_away(b, i), old == 'b');
        assert_int_equal(gave_away(again, i), old == 'b');
        assert_int_equal(asked_for_a_copy(c, i, true), 'b');
        if (old == 'c') /* c knows no view before its first one, where it owns it: see below */
            assert_int_not_equal(asked_for_a_copy(c, i, false), 'c');
        else
            assert_int_equal(asked_for_a_copy(c, i, false), old);
        assert_int_equal(asked_for_a_copy(again, i, true), '-'); /* not itself */
    }
    assert_in_range(given, 200, 300);
    cluster_free(&before);
    cluster_free(&b);
    cluster_free(&again);
    cluster_free(&c);
}

/* A node joins: it asks those that owned its share, and they know what they gave away. */
static void a_node_joins(void **state)
{
    struct cluster *a = cluster_new("a"), *b = cluster_new("b");
    char old[1000];

    (void)state;
    take(a, "{\"version\": 4, \"nodes\": [" NODE("a", "1", "live") ", " NODE("c", "2", "live") "]}",
         NULL);
    take(b,
         "{\"version\": 4, \"nodes\": [" NODE("a", "1", "live") ", " NODE(
             "b", "1", "joining") ", " NODE("c", "2", "live") "]}",
         NULL);
    for (unsigned i = 0; i < 1000; i++) {
        old[i] = owner_seen_by(a, "a", "d", i, NULL);
        assert_false(gave_away(a, i)); /* there is no view before */
    }
    take(a, THREE, NULL);
    take(b, THREE, NULL);
    for (unsigned i = 0; i < 1000; i++) {
        bool moved = owner_seen_by(a, "a", "d", i, NULL) == 'b';

        assert_int_equal(gave_away(a, i), moved && old[i] == 'a');
        assert_true(!moved || asked_for_a_copy(b, i, false) == old[i]);
        assert_int_equal(asked_for_a_copy(b, i, true), '-');
    }
    cluster_free(&a);
    cluster_free(&b);
}

/* A node whose first view names it among the owners: it asks those that owned its share without it,
 * also when owners have changed again. */
static void a_node_is_new(void **state)
{
    struct cluster *a = cluster_new("a"), *b = cluster_new("b");
    struct cluster_peer p;
    unsigned both = 0;

    (void)state;
    take(a, "{\"version\": 4, \"nodes\": [" NODE("a", "1", "live") ", " NODE("c", "2", "live") "]}",
         NULL);
    take(b, THREE, NULL);
    for (unsigned i = 0; i < 1000; i++)
        if (owner_seen_by(b, "b", "d", i, NULL) == 'b')
            assert_int_equal(asked_for_a_copy(b, i, false), owner_seen_by(a, "a", "d", i, NULL));
    take(b,
         "{\"version\": 6, \"nodes\": [" NODE("a", "1", "live") ", " NODE(
             "b", "9", "live") ", " NODE("c", "2", "live") "]}",
         NULL);
    for (unsigned i = 0; i < 1000; i++) {
        char key[32];

        snprintf(key, sizeof(key), "key-%u", i);
        if (owner_seen_by(b, "b", "d", i, NULL) != 'b')
            continue;
        assert_int_equal(asked_for_a_copy(b, i, false), owner_seen_by(a, "a", "d", i, NULL));
        both += cluster_previous_owner(b, "d", hash64_str(key), 1, &p);
    }
    assert_int_equal(both, 0); /* there is one before it only */
    cluster_free(&a);
    cluster_free(&b);
}

/* Who came after this node never owned what is this node's: it is not asked. */
static void others_join_later(void **state)
{
    struct cluster *a = cluster_new("a"), *c = cluster_new("c");

    (void)state;
    take(a, "{\"version\": 3, \"nodes\": [" NODE("a", "1", "live") "]}", NULL);
    take(c, "{\"version\": 4, \"nodes\": [" NODE("a", "1", "live") ", " NODE("c", "2", "live") "]}",
         NULL);
    take(a, THREE, NULL);
    take(c, THREE, NULL);
    for (unsigned i = 0; i < 1000; i++) {
        if (owner_seen_by(a, "a", "d", i, NULL) == 'a')
            assert_int_equal(asked_for_a_copy(a, i, false), '-');
        if (owner_seen_by(c, "c", "d", i, NULL) == 'c')
            assert_int_equal(asked_for_a_copy(c, i, false), 'a');
    }
    cluster_free(&a);
    cluster_free(&c);
}

#define MOVED(version, node)                                                                       \
    "{\"version\": " version ", \"nodes\": [" NODE("a", "1", "live") ", " NODE(                    \
        "b", "1", "live") ", " NODE("c", "2", "live") "], \"datasets\": [{\"id\": \"d\", "         \
                                                      "\"nodes\": [\"" node "\"]}]}"

/* Owners change twice before copies have moved: both that had them are known. */
static void owners_change_twice(void **state)
{
    struct cluster *c = cluster_new("c");
    struct cluster_peer p;

    (void)state;
    take(c, MOVED("5", "a"), NULL);
    take(c, MOVED("6", "b"), NULL);
    take(c, MOVED("7", "c"), NULL);
    assert_true(cluster_previous_owner(c, "d", 1, 0, &p) && p.name[0] == 'b');
    assert_true(cluster_previous_owner(c, "d", 1, 1, &p) && p.name[0] == 'a');
    cluster_free(&c);
}

/* The manager gives nodes other weights for a dataset: its shares are theirs. */
static void a_dataset_has_weights(void **state)
{
    struct cluster *c = cluster_new("a");
    unsigned a = 0, b = 0;
    uint64_t owners;

    (void)state;
    take(c, THREE, NULL);
    owners = cluster_owners_version(c);
    take(c,
         "{\"version\": 6, \"nodes\": [" NODE("a", "1", "live") ", " NODE(
             "b", "1", "live") ", " NODE("c", "2",
                                         "live") "], \"datasets\": [{\"id\": \"x\", \"nodes\": "
                                                 "[\"a\", \"b\", \"c\"], "
                                                 "\"weights\": {\"a\": 0.9, \"b\": 0.1}}]}",
         NULL);
    assert_true(cluster_owners_version(c) > owners);
    for (unsigned i = 0; i < 1000; i++) {
        char owner = owner_seen_by(c, "a", "x", i, NULL);

        a += owner == 'a';
        b += owner == 'b';
    }
    assert_int_equal(a + b, 1000); /* c has none */
    assert_in_range(b, 60, 140);
    owners = cluster_owners_version(c);
    take(c,
         "{\"version\": 7, \"nodes\": [" NODE("a", "1", "live") ", " NODE(
             "b", "1", "live") ", " NODE("c", "2",
                                         "live") "], \"datasets\": [{\"id\": \"x\", \"nodes\": "
                                                 "[\"a\", \"b\", \"c\"], "
                                                 "\"weights\": {\"a\": 0.5, \"b\": 0.5}}]}",
         NULL);
    assert_true(cluster_owners_version(c) > owners);
    cluster_free(&c);
}

/* On some nodes only; while none of them is there, on all. */
static void a_dataset_is_placed(void **state)
{
    struct cluster *c = cluster_new("a");
    bool seen_b = false, seen_c = false;

    (void)state;
    take(c,
         "{\"version\": 1, \"nodes\": [" NODE("a", "1", "live") ", " NODE(
             "b", "1",
             "live") ", " NODE("c", "1",
                               "live") ", " NODE("d", "1",
                                                 "gone") "],"
                                                         "\"datasets\": [{\"id\": \"x\", "
                                                         "\"nodes\": [\"b\", \"c\"], \"readers\": "
                                                         "3, \"runs\": 2},"
                                                         "{\"id\": \"y\", \"nodes\": [\"d\"]}, "
                                                         "{\"id\": \"b\", \"readers\": 1}]}",
         NULL);
    for (unsigned i = 0; i < 200; i++) {
        char owner = owner_seen_by(c, "a", "x", i, NULL);

        assert_true(owner == 'b' || owner == 'c');
        seen_b = seen_b || owner == 'b';
        seen_c = seen_c || owner_seen_by(c, "a", "y", i, NULL) == 'c';
    }
    assert_true(seen_b && seen_c);
    assert_int_equal(cluster_use(c, "x").readers, 3);
    assert_int_equal(cluster_use(c, "x").runs, 2);
    assert_int_equal(cluster_use(c, "b").runs, -1);
    assert_int_equal(cluster_use(c, "none").readers, 0);
    cluster_free(&c);
}

static void views_do_not_go_back(void **state)
{
    struct cluster *c = cluster_new("a");
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t owners;

    (void)state;
    assert_int_equal(cluster_version(c), 0);
    take(c, THREE, NULL);
    owners = cluster_owners_version(c);
    assert_int_equal(take(c, "{\"version\": 4, \"nodes\": []}", NULL), 0);
    assert_int_equal(cluster_version(c), 5);
    assert_int_equal(cluster_live(c), 3);
    take(c,
         "{\"version\": 6, \"nodes\": [" NODE("c", "2", "live") ", " NODE(
             "a", "1",
             "live") ", " NODE("b", "1",
                               "live") "], \"datasets\": [{\"id\": \"x\", \"readers\": 1}]}",
         NULL);
    assert_int_equal(cluster_owners_version(c), owners); /* nobody owns anything else */
    cluster_joined(c);
    take(c, "{\"version\": 2, \"nodes\": []}", NULL); /* of a manager that lost its store */
    assert_int_equal(cluster_live(c), 0);
    assert_true(cluster_owners_version(c) > owners);
    static const char *const bad[] = {
        "{}",
        "[]",
        "{\"version\": 0, \"nodes\": []}",
        "{\"version\": 9}",
        "{\"version\": 9, \"nodes\": {}}",
        "{\"version\": 9, \"nodes\": [7]}",
        "{\"version\": 9, \"nodes\": [{\"name\": \"a\"}]}",
    };
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(take(c, bad[i], &err), DLC_EPROTO);
    assert_int_equal(cluster_version(c), 2);
    cluster_free(&c);
}

/* ---- grants ---- */

#define ANSWER                                                                                     \
    "{\"dataset\": \"train\", \"tenant\": \"ann\", \"url\": \"s3://b/\", \"endpoint\": null, "     \
    "\"anonymous\": false, \"credentials\": {\"access_key\": \"k\", \"secret_key\": \"s\"}}"

static struct dlc_mono at(int64_t seconds)
{
    return (struct dlc_mono){seconds * 1000000000};
}

static int grant(struct cluster *c, const char *token, const char *what, const char *text,
                 int64_t s)
{
    json_t *answer = parse(text);
    int rc = cluster_grant(c, token, what, answer, at(s), NULL);

    json_decref(answer);
    return rc;
}

/* (CLUSTER-VIEW-2), (CLUSTER-VIEW-3) */
static void a_grant_grows_old(void **state)
{
    struct cluster *c = cluster_new("a");
    const struct grant *g;

    (void)state;
    assert_int_equal(cluster_granted(c, "t", "dlcache://train", at(100), GRANT_LIFE, &g),
                     GRANT_NONE);
    assert_int_equal(grant(c, "t", "dlcache://train", ANSWER, 100), 0);
    assert_int_equal(cluster_granted(c, "t", "dlcache://train", at(159), GRANT_LIFE, &g),
                     GRANT_FRESH);
    assert_string_equal(g->tenant, "ann");
    assert_string_equal(g->access_key, "k");
    assert_null(g->session_token);
    assert_null(g->endpoint);
    assert_int_equal(cluster_granted(c, "t", "dlcache://train", at(161), GRANT_LIFE, &g),
                     GRANT_OLD);
    assert_non_null(g);
    assert_int_equal(cluster_granted(c, "u", "dlcache://train", at(101), GRANT_LIFE, &g),
                     GRANT_NONE);
    assert_int_equal(cluster_granted(c, NULL, "dlcache://train", at(101), GRANT_LIFE, &g),
                     GRANT_NONE);
    assert_int_equal(cluster_granted(c, "t", "dlcache://other", at(101), GRANT_LIFE, &g),
                     GRANT_NONE);
    assert_null(g);
    cluster_forget(c, "train");
    assert_int_equal(cluster_granted(c, "t", "dlcache://train", at(101), GRANT_LIFE, &g),
                     GRANT_OLD);
    assert_int_equal(grant(c, "t", "dlcache://train", ANSWER, 200), 0);
    assert_int_equal(cluster_granted(c, "t", "dlcache://train", at(201), GRANT_LIFE, &g),
                     GRANT_FRESH);
    cluster_revoke(c, "t", "dlcache://train");
    assert_int_equal(cluster_granted(c, "t", "dlcache://train", at(201), GRANT_LIFE, &g),
                     GRANT_NONE);
    cluster_revoke(c, "t", "dlcache://train");
    assert_int_equal(grant(c, "t", "x", "{\"dataset\": \"train\"}", 1), DLC_EPROTO);
    assert_int_equal(grant(c, "t", "x", "[]", 1), DLC_EPROTO);
    cluster_free(&c);
}

/* However many there are, those given last are known. */
static void grants_are_bounded(void **state)
{
    struct cluster *c = cluster_new("a");
    const struct grant *g;
    char token[32];

    (void)state;
    for (int i = 0; i < 5000; i++) {
        snprintf(token, sizeof(token), "token-%d", i);
        grant(c, token, "dlcache://train", ANSWER, 1000 + i);
    }
    assert_int_equal(cluster_granted(c, "token-4999", "dlcache://train", at(6000), GRANT_LIFE, &g),
                     GRANT_FRESH);
    assert_int_equal(cluster_granted(c, "token-1000", "dlcache://train", at(6000), GRANT_LIFE, &g),
                     GRANT_OLD);
    assert_int_equal(cluster_granted(c, "token-0", "dlcache://train", at(6000), GRANT_LIFE, &g),
                     GRANT_NONE);
    cluster_free(&c);
}

/* A job is what the view says it is, for its own dataset. */
static void some_jobs_keep_nothing(void **state)
{
    struct cluster *c = cluster_new("a");

    (void)state;
    take(c,
         "{\"version\": 1, \"nodes\": [], \"jobs\": [{\"id\": \"j-1\", \"dataset\": \"d\", "
         "\"part\": 100}, {\"id\": \"j-2\", \"dataset\": \"d\", \"part\": -1}, {\"id\": 7}, 8]}",
         NULL);
    assert_true(cluster_job(c, "j-1", "d").bypasses_cache);
    assert_int_equal(cluster_job(c, "j-1", "d").part, 100);
    assert_true(cluster_job(c, "j-2", "d").bypasses_cache);
    assert_int_equal(cluster_job(c, "j-2", "d").part, 0);
    assert_false(cluster_job(c, "j-1", "e").bypasses_cache);
    assert_false(cluster_job(c, "j-3", "d").bypasses_cache);
    take(c, "{\"version\": 2, \"nodes\": []}", NULL);
    assert_false(cluster_job(c, "j-1", "d").bypasses_cache);
    cluster_free(&c);
}

#define B_IS_AWAY                                                                                  \
    "{\"version\": 6, \"nodes\": [" NODE("a", "1", "live") ", " NODE("b", "1", "away") ", " NODE(  \
        "c", "2", "live") "], \"datasets\": [{\"id\": \"on-a\", \"nodes\": [\"a\"]}]}"
#define B_IS_BACK                                                                                  \
    "{\"version\": 7, \"nodes\": [" NODE(                                                          \
        "a", "1",                                                                                  \
        "live") ", {\"name\": \"b\", \"address\": "                                                \
                "\"http://b:1\", \"weight\": 1, \"state\": \"live\", \"disk\": true}, " NODE(      \
                    "c", "2", "live") "]}"

static bool owner_is_away(const struct cluster *c, const char *dataset, unsigned i,
                          struct dlc_mono *since)
{
    char key[32];

    snprintf(key, sizeof(key), "key-%u", i);
    return cluster_owner_is_away(c, dataset, hash64_str(key), since);
}

/* What b owned before its goodbye, and will own again, is missed; nothing else is. */
static void a_node_is_away(void **state)
{
    struct cluster *before = cluster_new("a"), *c = cluster_new("a"), *b = cluster_new("b");
    struct dlc_mono since = {0}, again = {0};
    struct cluster_peer p = {0};
    unsigned missed = 0;

    (void)state;
    take(before, THREE, NULL);
    take(c, THREE, NULL);
    assert_true(cluster_new_peer(c, 0, &p)); /* the first view: all of them are new */
    take(c, B_IS_AWAY, NULL);
    take(b, B_IS_AWAY, NULL);
    assert_int_equal(cluster_live(c), 2);
    assert_false(cluster_new_peer(c, 0, &p));
    for (unsigned i = 0; i < 400; i++) {
        bool was_b = owner_seen_by(before, "a", "d", i, NULL) == 'b';

        assert_int_equal(owner_is_away(c, "d", i, &since), was_b);
        assert_true(owner_seen_by(c, "a", "d", i, NULL) != 'b');
        assert_false(owner_is_away(c, "on-a", i, &since)); /* it never had that */
        assert_false(owner_is_away(b, "d", i, &since));    /* for itself it is there */
        missed += was_b;
    }
    assert_in_range(missed, 60, 140);
    dlc_clock_advance(DLC_SEC(3));
    take(c, B_IS_AWAY, NULL); /* it went when it went */
    for (unsigned i = 0; i < 400 && again.ns == 0; i++)
        owner_is_away(c, "d", i, &again);
    assert_int_equal(again.ns, since.ns);
    assert_false(cluster_has_disk(c, "b"));
    take(c, B_IS_BACK, NULL);
    for (unsigned i = 0; i < 400; i++)
        assert_false(owner_is_away(c, "d", i, &since));
    assert_true(cluster_new_peer(c, 0, &p));
    assert_string_equal(p.name, "b");
    assert_false(cluster_new_peer(c, 1, &p));
    assert_true(cluster_has_disk(c, "b"));
    assert_false(cluster_has_disk(c, "nobody"));
    cluster_free(&before);
    cluster_free(&c);
    cluster_free(&b);
}

/* The next best after the owner, or after us; never us. */
static void the_best_peer_is_another(void **state)
{
    struct cluster *c = cluster_new("a"), *alone = cluster_new("a");
    struct cluster_peer p = {0};

    (void)state;
    take(c, THREE, NULL);
    for (unsigned i = 0; i < 200; i++) {
        char owner = owner_seen_by(c, "a", "d", i, NULL), key[32];

        snprintf(key, sizeof(key), "key-%u", i);
        assert_true(cluster_best_peer(c, "d", hash64_str(key), NULL, NULL, &p));
        assert_true(owner == 'a' ? p.name[0] != 'a' : p.name[0] == owner);
        assert_true(cluster_best_peer(c, "d", hash64_str(key), is_b, NULL, &p));
        assert_int_equal(p.name[0], 'c');
    }
    take(alone, "{\"version\": 1, \"nodes\": [" NODE("a", "1", "live") "]}", NULL);
    assert_false(cluster_best_peer(alone, "d", 1, NULL, NULL, &p));
    cluster_free(&c);
    cluster_free(&alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_away),
        cmocka_unit_test(the_best_peer_is_another),
        cmocka_unit_test(all_nodes_agree),
        cmocka_unit_test(a_peer_is_skipped),
        cmocka_unit_test(who_is_not_live_owns_nothing),
        cmocka_unit_test(a_node_drains),
        cmocka_unit_test(a_node_joins),
        cmocka_unit_test(a_node_is_new),
        cmocka_unit_test(others_join_later),
        cmocka_unit_test(owners_change_twice),
        cmocka_unit_test(a_dataset_has_weights),
        cmocka_unit_test(a_dataset_is_placed),
        cmocka_unit_test(some_jobs_keep_nothing),
        cmocka_unit_test(views_do_not_go_back),
        cmocka_unit_test(a_grant_grows_old),
        cmocka_unit_test(grants_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
