// SPDX-License-Identifier: Apache-2.0
/* Turns at a DLTPod with real caches, against a server that plays both sides. What is decided is
 * tested elsewhere; here: what is sent, in which order, and what ends a turn. */
#include "operator/reconcile/pass.h"

#include "base/json.h"
#include "base/mem.h"
#include "operator/play.h"
#include "unit.h"

#define NS      "/api/v1/namespaces/ns"
#define DLTPODS "/apis/dlcache.io/v1alpha1/namespaces/ns/dltpods"
#define X       DLTPODS "/x"
#define CDS     "/apis/dlcache.io/v1alpha1/namespaces/ns/cacheddatasets"
#define SECRET  NS "/secrets/dlcache-tenant"
#define MAP     NS "/configmaps/x-train"
#define POD     NS "/pods/x-train-0"
#define EVENTS  NS "/events"
#define LOOK    "GET /v1/datasets/ns.data, GET /v1/jobs/j-1"

static const enum kube_kind watched[] = {KUBE_DLTPOD,    KUBE_DATASET, KUBE_POD,
                                         KUBE_CONFIGMAP, KUBE_SERVICE, KUBE_NODE};
static struct dlc_err err;
static struct play server;
static struct kube_config config;
static struct dlc_mtx tenants;
static struct reconciler reconciler;
static bool leads;
static struct dlc_dur after;

static void on_change(enum kube_kind kind, const json_t *before, const json_t *now, void *arg)
{
    const json_t *any = now != NULL ? now : before;

    (void)arg;
    if (kind == KUBE_DLTPOD || kind == KUBE_DATASET)
        users_changed(reconciler.users, kind, kube_namespace(any), kube_name(any));
}

static bool may_write(void *arg)
{
    (void)arg;
    return leads;
}

static int token_of(void *arg, char **out, struct dlc_err *e)
{
    (void)arg, (void)e;
    *out = mem_str("t");
    return 0;
}

/* The watch shows what the server has there. */
static void watch(enum kube_kind kind, const char *path)
{
    json_t *j = json_deep_copy(play_at(&server, path));

    assert_non_null(j);
    objects_seen(reconciler.objects, kind, &j);
}

static void put(enum kube_kind kind, const char *path, const char *json)
{
    play_put(&server, path, play_parse(json));
    watch(kind, path);
}

static int fresh(void **state)
{
    const struct objects_config oc = {.changed = on_change};
    const struct kube_options ko = {
        .config = &config, .timeout = DLC_SEC(10), .may_write = may_write};
    const struct manager_client_config mc = {.http.base = server.base, .find_token = token_of};

    (void)state;
    memset(&err, 0, sizeof(err));
    leads = true;
    play_open(&server);
    config = (struct kube_config){.from = (char *)"test", .server = server.base};
    dlc_mtx_init(&tenants, LCK_tenants);
    reconciler.objects = objects_new(&oc);
    reconciler.users = users_new(reconciler.objects);
    reconciler.fetched = fetched_new();
    reconciler.tenants = &tenants;
    assert_int_equal(manager_client_open(&mc, &reconciler.manager, &err), 0);
    assert_int_equal(kube_open(&ko, &reconciler.kube, &err), 0);
    for (size_t i = 0; i < unit_count(watched); i++) {
        objects_list_begin(reconciler.objects, watched[i]);
        assert_true(objects_list_end(reconciler.objects, watched[i], "0"));
    }
    put(KUBE_NODE, "/api/v1/nodes/n1",
        "{\"kind\": \"Node\", \"metadata\": {\"name\": \"n1\", \"labels\": {\"dlcache.io/node\":"
        " \"ready\"}}, \"status\": {\"conditions\": [{\"type\": \"Ready\", \"status\": "
        "\"True\"}]}}");
    return 0;
}

static int end(void **state)
{
    (void)state;
    kube_close(&reconciler.kube);
    manager_client_close(&reconciler.manager);
    fetched_free(&reconciler.fetched);
    users_free(&reconciler.users);
    objects_free(&reconciler.objects);
    dlc_mtx_release(&tenants);
    play_close(&server);
    return 0;
}

/* ---- the two worlds ---- */

/* DLTPod x, new, with more members of its spec and of its metadata. */
static void dltpod(const char *spec, const char *meta)
{
    char *json = mem_fmt("{\"apiVersion\": \"dlcache.io/v1alpha1\", \"kind\": \"DLTPod\","
                         " \"metadata\": {\"namespace\": \"ns\", \"name\": \"x\", \"uid\": \"u-x\","
                         " \"generation\": 1%s}, \"spec\": {%s\"jobs\": [{\"name\": \"train\","
                         " \"image\": \"i\", \"dataSource\": {\"name\": \"data\","
                         " \"bucket\": \"s3://b/\"}}]}}",
                         meta, spec);

    put(KUBE_DLTPOD, X, json);
    mem_free(&json);
}

static void tenant(void)
{
    play_put(&server, SECRET,
             play_parse("{\"kind\": \"Secret\", \"metadata\": {\"namespace\": \"ns\", \"name\":"
                        " \"dlcache-tenant\", \"labels\": {\"app.kubernetes.io/managed-by\":"
                        " \"dlcache\"}}, \"data\": {\"token\": \"dA==\"}}"));
}

/* The manager has the data, listed, and makes job j-1 that may run. */
static void prepared(void)
{
    static const char job[] = "{\"id\": \"j-1\", \"state\": \"running\", \"placement\":"
                              " [{\"node\": \"n1\", \"weight\": 1.0}]}";

    play_put(&server, "/v1/datasets/ns.data",
             play_parse("{\"name\": \"ns.data\", \"tenant\": \"ns\", \"url\": \"s3://b/\","
                        " \"state\": \"ready\", \"snapshot\": {\"id\": \"s\", \"samples\": 10,"
                        " \"bytes\": 100}, \"cached\": {\"bytes\": 100}}"));
    play_put(&server, "/v1/jobs/j-1", play_parse(job));
    play_says(&server, "POST /v1/jobs", 201, job, 0);
}

static int turn(void)
{
    static const struct object_key key = {KUBE_DLTPOD, "ns", "x"};

    memset(&err, 0, sizeof(err));
    return pass_run(&reconciler, &key, &after, &err);
}

/* A DLTPod whose job is registered and whose pod is there; what was asked so far is forgotten. */
static void placed(const char *spec)
{
    dltpod(spec, "");
    tenant();
    prepared();
    assert_int_equal(turn(), 0);
    assert_non_null(play_at(&server, POD));
    buf_clear(&server.asked);
}

/* "False:ForeignObject" of the object as the server has it; "": it does not say. */
static const char *condition(const char *type)
{
    static char out[100];
    json_t *all = json_at(play_at(&server, X), "status.conditions"), *c;
    size_t i;

    json_array_foreach(all, i, c)
    {
        if (strcmp(json_string_value(json_object_get(c, "type")), type) == 0) {
            snprintf(out, sizeof(out), "%s:%s", json_string_value(json_object_get(c, "status")),
                     json_string_value(json_object_get(c, "reason")));
            return out;
        }
    }
    return "";
}

static bool has_finalizer_now(void)
{
    return json_array_size(json_at(play_at(&server, X), "metadata.finalizers")) == 1;
}

/* ---- all well ---- */

static void test_from_nothing(void **state)
{
    (void)state;
    dltpod("", "");
    play_says(&server, "POST /v1/tenants", 201, "{\"token\": \"secret\"}", 1);
    play_says(&server, "POST /v1/jobs", 201, "{\"id\": \"j-1\", \"state\": \"queued\"}", 1);
    assert_int_equal(turn(), 0);
    play_expect(&server, "GET " SECRET ", GET /v1/datasets/ns.data, PATCH " X ", GET " SECRET
                         ", POST /v1/tenants, POST " NS "/secrets, POST /v1/datasets, "
                         "POST /v1/jobs, PUT " X "/status");
    assert_true(has_finalizer_now());
    assert_string_equal(json_string_value(json_at(play_at(&server, SECRET), "data.token")),
                        "c2VjcmV0");
    assert_string_equal(condition("DatasetReady"), "False:Listing");
    assert_true(after.ns > 0 && after.ns <= DLC_SEC(10).ns);

    play_forget(&server);
    prepared();
    assert_int_equal(turn(), 0); /* the cache has what we wrote: nothing had to be watched */
    play_expect(&server,
                LOOK ", POST " NS "/configmaps, POST " NS "/pods, PUT " X "/status, POST " EVENTS);
    assert_string_equal(condition("Placed"), "True:PodsMade");

    assert_int_equal(turn(), 0); /* and what was made is known too */
    play_expect(&server, LOOK);
}

static void test_an_object_that_is_gone(void **state)
{
    (void)state;
    assert_int_equal(turn(), 0);
    assert_true(after.ns < 0);
    play_expect(&server, "");
}

static void test_a_spec_that_makes_no_sense(void **state)
{
    (void)state;
    put(KUBE_DLTPOD, X,
        "{\"apiVersion\": \"dlcache.io/v1alpha1\", \"kind\": \"DLTPod\", \"metadata\":"
        " {\"namespace\": \"ns\", \"name\": \"x\"}, \"spec\": {\"jobs\": []}}");
    assert_int_equal(turn(), 0);
    assert_string_equal(condition("DatasetReady"), "False:InvalidSpec");
    assert_int_equal(play_count(&server, "GET /v1/"), 0); /* the manager is not troubled */
    assert_int_equal(play_count(&server, "POST /v1/"), 0);
}

/* Ours is changed by server-side apply, and only this one. */
static void test_ours_is_changed(void **state)
{
    json_t *gone;

    (void)state;
    placed("");
    json_object_set_new(json_object_get(play_at(&server, MAP), "data"), "more", json_string("x"));
    json_object_set_new(json_object_get(play_at(&server, MAP), "metadata"), "resourceVersion",
                        json_string("100"));
    server.version = 100;
    watch(KUBE_CONFIGMAP, MAP);
    gone = json_deep_copy(play_at(&server, POD)); /* so that there is something to do */
    json_object_set_new(json_object_get(gone, "metadata"), "resourceVersion", json_string("101"));
    objects_gone(reconciler.objects, KUBE_POD, &gone);
    json_object_del(server.kept, POD);
    server.version = 101;
    assert_int_equal(turn(), 0);
    play_expect(&server, LOOK ", PATCH " MAP ", POST " NS "/pods");
    assert_string_equal(kube_uid(play_body(&server, "PATCH " MAP)),
                        kube_uid(play_at(&server, MAP)));
}

/* ---- failures ---- */

static void test_an_action_that_fails(void **state)
{
    (void)state;
    dltpod("", "");
    tenant();
    prepared();
    play_says(&server, "POST " NS "/configmaps", 500, "{}", 1);
    assert_int_equal(turn(), DLC_EBUCKET);
    assert_int_equal(after.ns, 0);
    assert_null(play_at(&server, POD)); /* nothing comes after it */
    assert_int_equal(play_count(&server, "PUT "), 0);
    play_says(&server, "POST " NS "/configmaps", 429, "{}", 1);
    assert_int_equal(turn(), DLC_EBUCKET);
    assert_int_equal(after.ns, DLC_SEC(7).ns); /* as the server asks */
    buf_clear(&server.asked);
    assert_int_equal(turn(), 0); /* it goes on where it was, with the same job */
    assert_non_null(play_at(&server, POD));
    play_expect(&server, "GET /v1/datasets/ns.data, POST /v1/jobs, POST " NS "/configmaps, POST " NS
                         "/pods, PUT " X "/status, POST " EVENTS);
}

static void test_another_version(void **state)
{
    (void)state;
    dltpod("", "");
    tenant();
    prepared();
    play_says(&server, "PUT " X "/status", 409, "{\"reason\": \"Conflict\"}", 1);
    assert_int_equal(turn(), DLC_ECHANGED);
    play_says(&server, "PUT " X "/status", 404, "{}", 1); /* gone meanwhile */
    assert_int_equal(turn(), 0);
}

static void test_the_api_server_does_not_answer(void **state)
{
    (void)state;
    dltpod("", "");
    play_says(&server, "GET " SECRET, 500, "{}", 1);
    assert_int_equal(turn(), DLC_EBUCKET);
    play_expect(&server, "GET " SECRET); /* what is not known is not decided on */
}

static void test_who_does_not_lead_writes_nothing(void **state)
{
    (void)state;
    dltpod("", ", \"finalizers\": [\"dlcache.io/operator\"]");
    tenant();
    leads = false;
    assert_int_equal(turn(), DLC_ECANCELED);
    play_expect(&server, "GET " SECRET ", GET /v1/datasets/ns.data"); /* the manager neither */
}

/* ---- the manager is away ---- */

static void test_the_manager_away_from_the_start(void **state)
{
    (void)state;
    placed("");
    play_says(&server, "GET /v1/datasets/ns.data", 503, "{}", 0);
    assert_int_equal(turn(), 0);
    play_expect(&server, "GET /v1/datasets/ns.data"); /* what was ready is not worse for that */
    assert_int_equal(after.ns, RECON_LOOK_AWAY.ns);
}

static void test_the_manager_away_in_the_middle(void **state)
{
    static const int statuses[] = {503, 500, 401, 0};

    (void)state;
    dltpod("", ", \"finalizers\": [\"dlcache.io/operator\"]");
    tenant();
    for (size_t i = 0; i < unit_count(statuses); i++) {
        play_says(&server, "POST /v1/jobs", statuses[i], "{}", 1);
        assert_int_equal(turn(), 0);
        assert_string_equal(condition("DatasetReady"), "Unknown:ManagerAway");
        assert_int_equal(after.ns, RECON_LOOK_AWAY.ns);
        if (i == 0) { /* the condition, and nothing more is asked of it */
            play_expect(&server, "GET " SECRET ", GET /v1/datasets/ns.data, POST /v1/datasets, "
                                 "POST /v1/jobs, PUT " X "/status");
        } else {
            assert_int_equal(play_count(&server, "POST /v1/jobs"), 1);
        }
        buf_clear(&server.asked);
    }
    prepared();
    assert_int_equal(turn(), 0);
    assert_string_equal(condition("DatasetReady"), "True:Ready");
    assert_non_null(play_at(&server, POD));
}

static void test_no_tenant_without_the_manager(void **state)
{
    (void)state;
    dltpod("", "");
    play_says(&server, "POST /v1/tenants", 503, "{}", 1);
    assert_int_equal(turn(), 0);
    assert_null(play_at(&server, SECRET));
    assert_string_equal(condition("DatasetReady"), "Unknown:ManagerAway");
    assert_int_equal(play_count(&server, "POST /v1/datasets"), 0);
}

/* What it refuses is said, and is no failure. */
static void test_the_manager_refuses(void **state)
{
    (void)state;
    dltpod("", "");
    tenant();
    play_says(&server, "POST /v1/datasets", 422, "{\"detail\": \"no such scheme\"}", 1);
    assert_int_equal(turn(), 0);
    assert_string_equal(condition("DatasetReady"), "False:DatasetRefused");
    play_says(&server, "POST /v1/jobs", 507, "{\"detail\": \"full\"}", 1);
    assert_int_equal(turn(), 0);
    assert_string_equal(condition("DatasetReady"), "False:NoRoom");
}

/* ---- names that are taken ---- */

static void test_foreign_objects(void **state)
{
    static const char *const paths[] = {POD, MAP};

    (void)state;
    for (size_t i = 0; i < unit_count(paths); i++) { /* no watch has shown it yet */
        json_t *before;

        if (i > 0) {
            end(NULL);
            fresh(NULL);
        }
        tenant();
        prepared();
        dltpod("", "");
        play_put(&server, paths[i],
                 play_parse(i == 0 ? "{\"kind\": \"Pod\", \"metadata\": {\"namespace\": \"ns\","
                                     " \"name\": \"x-train-0\"}}"
                                   : "{\"kind\": \"ConfigMap\", \"metadata\": {\"namespace\":"
                                     " \"ns\", \"name\": \"x-train\"}, \"data\": {\"a\": \"b\"}}"));
        before = json_deep_copy(play_at(&server, paths[i]));
        assert_int_equal(turn(), 0);
        assert_string_equal(condition("Placed"), "False:ForeignObject");
        assert_true(json_equal(play_at(&server, paths[i]), before));
        assert_int_equal(play_count(&server, "DELETE "), 0);
        assert_int_equal(play_count(&server, i == 0 ? "PATCH " POD : "PATCH " MAP), 0);
        assert_int_equal(play_count(&server, "POST " EVENTS), 1);
        assert_string_equal(
            json_string_value(json_object_get(play_body(&server, "POST " EVENTS), "type")),
            "Warning");
        assert_int_equal(play_count(&server, "POST " NS "/pods"), i == 0 ? 1 : 0);
        buf_clear(&server.asked);
        assert_int_equal(turn(), 0); /* all that has been said */
        assert_int_equal(play_count(&server, "PUT "), 0);
        assert_int_equal(play_count(&server, "POST " EVENTS), 0);
        assert_true(after.ns >= DLC_SEC(1).ns);
        json_decref(before);
    }
}

/* One of ours that the watch has not shown: made just before a crash. */
static void test_ours_that_the_cache_does_not_know(void **state)
{
    json_t *map, *pod;

    (void)state;
    placed("");
    map = json_incref(play_at(&server, MAP));
    pod = json_incref(play_at(&server, POD));
    end(NULL); /* another process: its caches are empty */
    fresh(NULL);
    play_put(&server, MAP, map);
    play_put(&server, POD, pod);
    dltpod("", "");
    tenant();
    prepared();
    assert_int_equal(turn(), 0);
    assert_string_equal(condition("Placed"), "True:PodsMade");
    assert_int_equal(play_count(&server, "POST " NS "/pods"), 1); /* taken, seen, and well */
    assert_int_equal(play_count(&server, "GET " POD), 1);
    assert_string_equal(
        json_string_value(json_object_get(play_body(&server, "POST " EVENTS), "type")), "Normal");
}

static void test_a_foreign_tenant(void **state)
{
    json_t *before;

    (void)state;
    dltpod("", "");
    play_put(&server, SECRET,
             play_parse("{\"kind\": \"Secret\", \"metadata\": {\"namespace\": \"ns\", \"name\":"
                        " \"dlcache-tenant\"}}"));
    play_says(&server, "GET " SECRET, 404, "{}", 1); /* it comes just now */
    before = json_deep_copy(play_at(&server, SECRET));
    assert_int_equal(turn(), 0);
    assert_string_equal(condition("DatasetReady"), "False:ForeignObject");
    assert_true(json_equal(play_at(&server, SECRET), before));
    assert_int_equal(play_count(&server, "POST /v1/"), 0); /* no tenant is made for nothing */
    json_decref(before);
}

/* ---- credentials ---- */

#define KEYS "\"secretRef\": {\"name\": \"keys\"}, "

static void keys(const char *data)
{
    char *json = mem_fmt("{\"kind\": \"Secret\", \"metadata\": {\"namespace\": \"ns\","
                         " \"name\": \"keys\"}, \"data\": {%s}}",
                         data);

    play_put(&server, NS "/secrets/keys", play_parse(json));
    mem_free(&json);
}

static void test_credentials(void **state)
{
    json_t *want = play_parse("{\"access_key\": \"ak\", \"secret_key\": \"sk\"}");

    (void)state;
    dltpod(KEYS, "");
    tenant();
    prepared();
    keys("\"access_key\": \"YWs=\", \"secret_key\": \"c2sK\", \"session_token\": \"\","
         " \"region\": \"/w==\", \"endpoint\": \"!\", \"other\": \"YWs=\"");
    play_says(&server, "PUT /v1/tenants/ns/credentials", 204, NULL, 0);
    assert_int_equal(turn(), 0);
    /* without its end of line; what is empty, no text or no base64 is left out */
    assert_true(json_equal(play_body(&server, "PUT /v1/tenants/ns/credentials"), want));
    assert_int_equal(play_count(&server, "PATCH " SECRET), 1);
    assert_non_null(play_at(&server, POD));
    assert_int_equal(turn(), 0);
    assert_int_equal(play_count(&server, "PUT /v1/tenants/"), 1); /* sent once */
    json_decref(want);
}

/* Another worker, or another replica before us, has sent some in between: it is decided anew. */
static void test_credentials_of_somebody_else(void **state)
{
    json_t *t;

    (void)state;
    dltpod(KEYS, "");
    tenant();
    prepared();
    keys("\"access_key\": \"YWs=\", \"secret_key\": \"c2s=\"");
    t = json_deep_copy(play_at(&server, SECRET));
    fetched_note(reconciler.fetched, KUBE_SECRET, t); /* as it was */
    json_object_set_new(json_object_get(t, "metadata"), "annotations",
                        json_pack("{s:s}", ANNOTATION_CREDENTIALS, "others/1"));
    play_put(&server, SECRET, t);
    play_says(&server, "PUT /v1/tenants/ns/credentials", 204, NULL, 0);
    assert_int_equal(turn(), 0); /* nobody names "others" any more: ours are sent, once */
    assert_int_equal(play_count(&server, "PUT /v1/tenants/"), 1);
    assert_int_equal(play_count(&server, "PATCH " SECRET), 1);
    play_says(&server, "PATCH " SECRET, 409, "{\"reason\": \"Conflict\"}", 1);
    keys("\"access_key\": \"YWs=\", \"secret_key\": \"bmV3\"");
    fetched_forget(reconciler.fetched, KUBE_SECRET, "ns", "keys");
    assert_int_equal(turn(), DLC_ECHANGED); /* not written down: they are sent again */
    assert_int_equal(turn(), 0);
    assert_int_equal(play_count(&server, "PUT /v1/tenants/"), 3);
}

static void test_credentials_refused(void **state)
{
    (void)state;
    dltpod(KEYS, "");
    tenant();
    prepared();
    keys("\"access_key\": \"YWs=\", \"secret_key\": \"c2s=\"");
    play_says(&server, "PUT /v1/tenants/ns/credentials", 422, "{\"detail\": \"too short\"}", 1);
    assert_int_equal(turn(), 0);
    assert_string_equal(condition("DatasetReady"), "False:CredentialsRefused");
    assert_int_equal(play_count(&server, "PATCH " SECRET), 0); /* it does not have them */
    play_says(&server, "PUT /v1/tenants/ns/credentials", 500, "{}", 1);
    assert_int_equal(turn(), 0);
    assert_string_equal(condition("DatasetReady"), "Unknown:ManagerAway");
}

/* ---- deletion ---- */

static void deleted(void)
{
    json_object_set_new(json_object_get(play_at(&server, X), "metadata"), "deletionTimestamp",
                        json_string("2026-11-15T17:24:16Z"));
    json_object_set_new(json_object_get(play_at(&server, X), "metadata"), "resourceVersion",
                        json_string("1000"));
    server.version = 1000;
    watch(KUBE_DLTPOD, X);
}

static void test_deletion(void **state)
{
    (void)state;
    placed("\"retention\": \"0s\", ");
    deleted();
    assert_int_equal(turn(), 0);
    play_expect(&server, LOOK ", DELETE /v1/jobs/j-1, DELETE /v1/datasets/ns.data, DELETE " POD
                              ", PATCH " X);
    assert_false(has_finalizer_now());
}

static void test_deletion_waits_for_the_manager(void **state)
{
    (void)state;
    placed("\"retention\": \"0s\", ");
    deleted();
    play_says(&server, "DELETE /v1/jobs/j-1", 503, "{}", 1);
    assert_int_equal(turn(), 0);
    play_expect(&server, LOOK ", DELETE /v1/jobs/j-1, DELETE " POD ", PUT " X "/status");
    assert_true(has_finalizer_now());
    json_object_del(server.kept, "/v1/jobs/j-1"); /* it forgot it meanwhile, which is well */
    play_says(&server, "POST /v1/jobs", 404, "{}", 0);
    assert_int_equal(turn(), 0);
    assert_false(has_finalizer_now());
}

/* Data that is to be kept: as a CachedDataset, unless the namespace goes. */
static void test_deletion_keeps_data(void **state)
{
    static const struct {
        int status;
        const char *answer;
        int rc;
        bool kept;
    } cases[] = {
        {0, NULL, 0, true},
        {409, "{\"reason\": \"AlreadyExists\"}", 0, true},
        {403, "{\"message\": \"cannot create resource\"}", DLC_EDENIED, true},
        {401, "{\"message\": \"Unauthorized\"}", DLC_EDENIED, true},
        {403, "{\"message\": \"because it is being terminated\"}", 0, false},
        {404, "{\"message\": \"namespaces ns not found\"}", 0, false},
        {404, "{\"message\": \"could not find the requested resource\"}", DLC_ENOTFOUND, true},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        if (i > 0) {
            end(NULL);
            fresh(NULL);
        }
        placed("\"retention\": \"1h\", ");
        deleted();
        if (cases[i].status != 0)
            play_says(&server, "POST " CDS, cases[i].status, cases[i].answer, 1);
        assert_int_equal(turn(), cases[i].rc);
        assert_int_equal(play_count(&server, "POST " CDS), 1);
        assert_true((play_at(&server, "/v1/datasets/ns.data") != NULL) == cases[i].kept);
        assert_true(has_finalizer_now() == (cases[i].rc != 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_from_nothing, fresh, end),
        cmocka_unit_test_setup_teardown(test_an_object_that_is_gone, fresh, end),
        cmocka_unit_test_setup_teardown(test_a_spec_that_makes_no_sense, fresh, end),
        cmocka_unit_test_setup_teardown(test_ours_is_changed, fresh, end),
        cmocka_unit_test_setup_teardown(test_an_action_that_fails, fresh, end),
        cmocka_unit_test_setup_teardown(test_another_version, fresh, end),
        cmocka_unit_test_setup_teardown(test_the_api_server_does_not_answer, fresh, end),
        cmocka_unit_test_setup_teardown(test_who_does_not_lead_writes_nothing, fresh, end),
        cmocka_unit_test_setup_teardown(test_the_manager_away_from_the_start, fresh, end),
        cmocka_unit_test_setup_teardown(test_the_manager_away_in_the_middle, fresh, end),
        cmocka_unit_test_setup_teardown(test_no_tenant_without_the_manager, fresh, end),
        cmocka_unit_test_setup_teardown(test_the_manager_refuses, fresh, end),
        cmocka_unit_test_setup_teardown(test_foreign_objects, fresh, end),
        cmocka_unit_test_setup_teardown(test_ours_that_the_cache_does_not_know, fresh, end),
        cmocka_unit_test_setup_teardown(test_a_foreign_tenant, fresh, end),
        cmocka_unit_test_setup_teardown(test_credentials, fresh, end),
        cmocka_unit_test_setup_teardown(test_credentials_of_somebody_else, fresh, end),
        cmocka_unit_test_setup_teardown(test_credentials_refused, fresh, end),
        cmocka_unit_test_setup_teardown(test_deletion, fresh, end),
        cmocka_unit_test_setup_teardown(test_deletion_waits_for_the_manager, fresh, end),
        cmocka_unit_test_setup_teardown(test_deletion_keeps_data, fresh, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
