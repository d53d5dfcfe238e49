// SPDX-License-Identifier: Apache-2.0
/* The installation's Secret, certificate and labels, against a server that plays both sides. */
#include "operator/housekeeping_i.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/api_token.h"
#include "base/secret.h"
#include "operator/install_secret.h"
#include "operator/reconcile/manifest.h"
#include "play.h"
#include "unit.h"

#define SECRETS "/api/v1/namespaces/sys/secrets"
#define CONTROL SECRETS "/" MANAGER_SECRET
#define TLS     SECRETS "/" WEBHOOK_SECRET
#define CONFIG  "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/" WEBHOOK_CONFIG

static struct dlc_err err;
static struct play server;
static struct kube_config config;
static struct kube_options options;
static struct kube *kube;

static int fresh(void **state)
{
    (void)state;
    memset(&err, 0, sizeof(err));
    play_open(&server);
    config = (struct kube_config){.from = (char *)"test", .server = server.base};
    options = (struct kube_options){.config = &config, .timeout = DLC_SEC(10)};
    assert_int_equal(kube_open(&options, &kube, &err), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    kube_close(&kube);
    play_close(&server);
    return 0;
}

/* ---- dlcache-manager ---- */

/* The admin's token of what housekeeping_control_secret() gives. Gives. */
static char *control(void)
{
    json_t *out = NULL;
    char *token;

    assert_int_equal(housekeeping_control_secret(kube, "sys", &out, &err), 0);
    assert_null(bootstrap_secret("sys", out)); /* it is whole */
    token = bootstrap_text(out, "admin.token");
    json_decref(out);
    assert_non_null(token);
    return token;
}

static void test_control_absent_then_whole(void **state)
{
    char *made = control(), *found;

    (void)state;
    play_expect(&server, "GET " CONTROL ", POST " SECRETS);
    found = control();
    play_expect(&server, "GET " CONTROL);
    assert_string_equal(made, found);
    secret_free(&made);
    secret_free(&found);
}

static void test_control_half(void **state)
{
    char *made = control(), *found, *node;
    json_t *data = json_object_get(play_at(&server, CONTROL), "data");

    (void)state;
    node = mem_str(json_string_value(json_object_get(data, "node.token")));
    json_object_del(data, "node.token");
    play_expect(&server, "GET " CONTROL ", POST " SECRETS);
    found = control();
    play_expect(&server, "GET " CONTROL ", PATCH " CONTROL);
    assert_string_equal(made, found); /* what was there is as it was */
    data = json_object_get(play_at(&server, CONTROL), "data");
    assert_string_not_equal(json_string_value(json_object_get(data, "node.token")), node);
    secret_free(&made);
    secret_free(&found);
    mem_free(&node);
}

/* The other replica makes it between our look and our write. */
static void test_control_lost_race(void **state)
{
    char *theirs = control(), *ours;
    json_t *there = json_deep_copy(play_at(&server, CONTROL));

    (void)state;
    buf_clear(&server.asked);
    play_says(&server, "GET " CONTROL, 404, "{}", 1);
    ours = control();
    play_expect(&server, "GET " CONTROL ", POST " SECRETS ", GET " CONTROL);
    assert_string_equal(ours, theirs);
    secret_free(&ours);

    json_object_del(json_object_get(there, "data"), "node.token"); /* half, and an older version */
    json_object_set_new(json_object_get(there, "metadata"), "resourceVersion", json_string("0"));
    {
        char *half = json_dumps(there, 0);

        play_says(&server, "GET " CONTROL, 200, half, 1);
        free(half);
    }
    ours = control();
    play_expect(&server, "GET " CONTROL ", PATCH " CONTROL ", GET " CONTROL);
    assert_string_equal(ours, theirs);
    secret_free(&ours);
    secret_free(&theirs);
    json_decref(there);
}

static void test_control_failures(void **state)
{
    json_t *out = NULL;

    (void)state;
    play_says(&server, "GET " CONTROL, 403, "{}", 1);
    assert_int_equal(housekeeping_control_secret(kube, "sys", &out, &err), DLC_EDENIED);
    assert_null(out);
    play_expect(&server, "GET " CONTROL); /* nothing is made that may be there */
    play_says(&server, "POST " SECRETS, 500, "{}", 1);
    assert_int_equal(housekeeping_control_secret(kube, "sys", &out, &err), DLC_EBUCKET);
    assert_null(out);
}

/* ---- labels: pure ---- */

static void test_labels(void **state)
{
    json_t *nodes = json_array(), *out, *want;
    json_t *live = play_parse("[{\"name\": \"lives\", \"state\": \"live\"},"
                              " {\"name\": \"stays\", \"state\": \"live\"},"
                              " {\"name\": \"other\", \"state\": \"live\"},"
                              " {\"name\": \"dies\", \"state\": \"dead\"},"
                              " {\"name\": \"elsewhere\", \"state\": \"live\"}]");
    static const char *const all[][2] = {{"lives", NULL},   {"stays", "ready"}, {"other", "odd"},
                                         {"dies", "ready"}, {"gone", "ready"},  {"never", NULL},
                                         {"foreign", "odd"}};

    (void)state;
    for (size_t i = 0; i < unit_count(all); i++) {
        json_t *n =
            json_pack("{s:{s:s, s:{s:s}}}", "metadata", "name", all[i][0], "labels", "x", "y");

        if (all[i][1] != NULL)
            json_object_set_new(json_at(n, "metadata.labels"), LABEL_NODE, json_string(all[i][1]));
        json_array_append_new(nodes, n);
    }
    out = housekeeping_labels(nodes, live);
    want = play_parse("[{\"name\": \"lives\", \"label\": \"ready\"},"
                      " {\"name\": \"other\", \"label\": \"ready\"},"
                      " {\"name\": \"dies\", \"label\": null},"
                      " {\"name\": \"gone\", \"label\": null}]");
    assert_true(json_equal(out, want));
    json_decref(out);
    json_decref(want);
    out = housekeeping_labels(NULL, live);
    assert_int_equal(json_array_size(out), 0);
    json_decref(out);
    json_decref(nodes);
    json_decref(live);
}

/* ---- the certificate: pure ---- */

static void test_certificate_round_trip(void **state)
{
    const char *const host[] = {"x.svc"};
    const struct certs_names names = {host, 1, 0};
    struct certs a = CERTS_INIT, b = CERTS_INIT;
    json_t *s;

    (void)state;
    bootstrap_certs(NULL, &b);
    assert_true(b.bundle == NULL && b.ca_key == NULL && b.cert == NULL && b.key == NULL);
    assert_int_equal(certs_renew(&a, &names, dlc_wall_seconds(), NULL, &err), 0);
    s = housekeeping_certs_secret("sys", &a, NULL);
    assert_string_equal(kube_name(s), WEBHOOK_SECRET);
    assert_string_equal(kube_namespace(s), "sys");
    play_put(&server, TLS, s);
    bootstrap_certs(s, &b);
    assert_string_equal(a.bundle, b.bundle);
    assert_string_equal(a.ca_key, b.ca_key);
    assert_string_equal(a.cert, b.cert);
    assert_string_equal(a.key, b.key);
    assert_int_equal(certs_check(&b, &names, dlc_wall_seconds(), NULL), CERTS_GOOD);
    s = housekeeping_certs_secret("sys", &a, play_at(&server, TLS)); /* a change of that version */
    assert_string_equal(kube_version(s), kube_version(play_at(&server, TLS)));
    assert_int_equal(json_object_size(json_object_get(s, "metadata")), 1);
    json_decref(s);
    certs_release(&a);
    certs_release(&b);
}

static void test_bundle(void **state)
{
    json_t *c = play_parse("{\"webhooks\": [{\"name\": \"a\", \"clientConfig\": {}},"
                           " {\"name\": \"b\", \"clientConfig\": {\"caBundle\": \"cGVt\"}}]}");
    json_t *p = housekeeping_bundle_patch(c, "pem"), *want;

    (void)state;
    want =
        play_parse("{\"webhooks\": [{\"name\": \"a\", \"clientConfig\": {\"caBundle\": "
                   "\"cGVt\"}}, {\"name\": \"b\", \"clientConfig\": {\"caBundle\": \"cGVt\"}}]}");
    assert_true(json_equal(p, want)); /* all of them: what is left out would be taken away */
    assert_null(housekeeping_bundle_patch(want, "pem"));
    json_decref(p);
    p = housekeeping_bundle_patch(want, "pen");
    assert_non_null(p);
    json_decref(p);
    json_decref(c);
    json_decref(want);
    c = json_object();
    assert_null(housekeeping_bundle_patch(c, "pem"));
    json_decref(c);
}

/* ---- the certificate: all of it ---- */

static void no_state(struct serve_state *out, void *arg)
{
    (void)arg;
    memset(out, 0, sizeof(*out));
}

static void test_certificate_of_two_replicas(void **state)
{
    static struct metrics figures;
    struct serve_config sc = {"127.0.0.1:0", "127.0.0.1:0", &figures, no_state, NULL};
    struct housekeeping_config leader = {.ns = "sys", .host = "127.0.0.1"}, follower = leader;
    json_t *before;
    int64_t ends, first;

    (void)state;
    assert_int_equal(serve_open(&sc, &leader.serve, &err), 0);
    assert_int_equal(serve_open(&sc, &follower.serve, &err), 0);
    assert_int_equal(housekeeping_tls(kube, &follower, false, &ends, &err), DLC_ENOTFOUND);
    assert_int_equal(ends, 0);
    play_expect(&server, "GET " TLS); /* who does not lead writes nothing */
    play_put(&server, CONFIG,
             play_parse("{\"metadata\": {\"name\": \"dlcache\"}, \"webhooks\":"
                        " [{\"name\": \"a\", \"clientConfig\": {}}]}"));
    assert_int_equal(housekeeping_tls(kube, &leader, true, &first, &err), 0);
    play_expect(&server, "GET " TLS ", POST " SECRETS ", GET " CONFIG ", PATCH " CONFIG);
    assert_true(first > dlc_wall_seconds());
    assert_non_null(serve_webhook(leader.serve));
    assert_int_equal(housekeeping_tls(kube, &leader, true, &ends, &err), 0);
    play_expect(&server, "GET " TLS ", GET " CONFIG); /* all is well: nothing is written */
    assert_int_equal(housekeeping_tls(kube, &follower, false, &ends, &err), 0);
    play_expect(&server, "GET " TLS);
    assert_int_equal(ends, first);
    assert_non_null(serve_webhook(follower.serve));
    before = json_deep_copy(json_object_get(play_at(&server, CONFIG), "webhooks"));
    json_object_del(server.kept, TLS); /* somebody deleted it */
    assert_int_equal(housekeeping_tls(kube, &leader, true, &ends, &err), 0);
    play_expect(&server, "GET " TLS ", POST " SECRETS ", GET " CONFIG ", PATCH " CONFIG);
    assert_false(json_equal(json_object_get(play_at(&server, CONFIG), "webhooks"), before));
    json_decref(before);
    json_object_del(server.kept, CONFIG); /* an installation without a webhook */
    assert_int_equal(housekeeping_tls(kube, &leader, true, &ends, &err), 0);
    serve_close(&leader.serve);
    serve_close(&follower.serve);
}

/* Half a Secret, and one of which another wrote a newer version. */
static void test_certificate_half_and_late(void **state)
{
    static struct metrics figures;
    struct serve_config sc = {"127.0.0.1:0", "127.0.0.1:0", &figures, no_state, NULL};
    struct housekeeping_config c = {.ns = "sys"};
    int64_t ends;

    (void)state;
    assert_int_equal(serve_open(&sc, &c.serve, &err), 0);
    play_put(&server, TLS,
             play_parse("{\"metadata\": {\"name\": \"dlcache-webhook\"}, \"data\":"
                        " {\"tls.crt\": \"eA==\", \"ca.crt\": \"!\"}}"));
    assert_int_equal(housekeeping_tls(kube, &c, false, &ends, &err), 0);
    assert_null(serve_webhook(c.serve)); /* no key: nothing to show */
    play_says(&server, "PATCH " TLS, 409, "{\"reason\": \"Conflict\"}", 1);
    assert_int_equal(housekeeping_tls(kube, &c, true, &ends, &err), DLC_ECHANGED);
    assert_null(serve_webhook(c.serve)); /* what is not kept is not shown */
    assert_int_equal(housekeeping_tls(kube, &c, true, &ends, &err), 0);
    assert_non_null(serve_webhook(c.serve));
    serve_close(&c.serve);
}

/* ---- the thread ---- */

struct watched {
    pthread_mutex_t mtx;
    pthread_cond_t cond;
    int changes; /* G: mtx; of Nodes that were there */
    bool leads;  /* G: mtx */
};

static void on_change(enum kube_kind kind, const json_t *before, const json_t *after, void *arg)
{
    struct watched *w = arg;

    (void)kind, (void)after;
    pthread_mutex_lock(&w->mtx);
    w->changes += before != NULL;
    pthread_cond_broadcast(&w->cond);
    pthread_mutex_unlock(&w->mtx);
}

static void on_lead(bool held, void *arg)
{
    struct watched *w = arg;

    pthread_mutex_lock(&w->mtx);
    w->leads = held;
    pthread_cond_broadcast(&w->cond);
    pthread_mutex_unlock(&w->mtx);
}

static int token_of(void *arg, char **out, struct dlc_err *e)
{
    (void)arg, (void)e;
    *out = mem_str("t");
    return 0;
}

static void put_node(struct objects *o, const char *name, const char *label)
{
    char path[64];
    json_t *n = json_pack("{s:s, s:{s:s, s:{s:s?}}}", "kind", "Node", "metadata", "name", name,
                          "labels", LABEL_NODE, label),
           *copy;

    snprintf(path, sizeof(path), "/api/v1/nodes/%s", name);
    play_put(&server, path, n);
    copy = json_deep_copy(n);
    objects_seen(o, KUBE_NODE, &copy);
}

static const char *node_label(const char *path)
{
    const char *l = json_string_value(
        json_object_get(json_at(play_at(&server, path), "metadata.labels"), LABEL_NODE));

    return l != NULL ? l : "";
}

static void test_the_leader_labels_nodes(void **state)
{
    struct watched w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false};
    struct objects_config oc = {.changed = on_change, .arg = &w};
    struct objects *objects = objects_new(&oc);
    struct lease_config lc = {
        .kube = options, .ns = "sys", .name = "l", .changed = on_lead, .arg = &w};
    struct housekeeping_config c = {.ns = "sys", .kube = options, .objects = objects};
    struct housekeeping *housekeeping;
    struct lease *lease;

    (void)state;
    play_says(&server, "GET /v1/nodes", 200,
              "{\"items\": [{\"name\": \"a\", \"state\": \"live\"}]}", 0);
    objects_list_begin(objects, KUBE_NODE);
    put_node(objects, "a", NULL);
    put_node(objects, "b", "ready");
    assert_true(objects_list_end(objects, KUBE_NODE, "2"));
    c.manager = (struct manager_client_config){.http.base = server.base, .find_token = token_of};
    assert_int_equal(lease_start(&lc, &lease, &err), 0);
    c.lease = lease;
    assert_int_equal(housekeeping_start(&c, &housekeeping, &err), 0);
    pthread_mutex_lock(&w.mtx);
    while (!w.leads || w.changes < 2)
        pthread_cond_wait(&w.cond, &w.mtx);
    pthread_mutex_unlock(&w.mtx);
    housekeeping_stop(&housekeeping);
    assert_null(housekeeping);
    lease_stop(&lease);
    assert_string_equal(node_label("/api/v1/nodes/a"), "ready");
    assert_string_equal(node_label("/api/v1/nodes/b"), "");
    assert_int_equal(play_count(&server, "PATCH /api/v1/nodes/"), 2);
    objects_free(&objects);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_control_absent_then_whole, fresh, end),
        cmocka_unit_test_setup_teardown(test_control_half, fresh, end),
        cmocka_unit_test_setup_teardown(test_control_lost_race, fresh, end),
        cmocka_unit_test_setup_teardown(test_control_failures, fresh, end),
        cmocka_unit_test(test_labels),
        cmocka_unit_test_setup_teardown(test_certificate_round_trip, fresh, end),
        cmocka_unit_test(test_bundle),
        cmocka_unit_test_setup_teardown(test_certificate_of_two_replicas, fresh, end),
        cmocka_unit_test_setup_teardown(test_certificate_half_and_late, fresh, end),
        cmocka_unit_test_setup_teardown(test_the_leader_labels_nodes, fresh, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
