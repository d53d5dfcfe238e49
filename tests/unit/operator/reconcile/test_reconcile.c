// SPDX-License-Identifier: Apache-2.0
/* One look, one decision: what is -> what is to be done. Whole lives are in test_replay.c. */
#include "operator/world.h"

#include "base/mem.h"
#include "base/str.h"

#define JOB                                                                                        \
    "{\"name\": \"train\", \"image\": \"torch\", \"dataSource\": {\"name\": \"birds\", "           \
    "\"bucket\": \"s3://b/\"}"
#define SPEC "{\"jobs\": [" JOB "}]}"

/* ---- states ---- */

static void fresh(struct world *w)
{
    world_dltpod(w, "x", SPEC);
}

/* As after so many actions of a plain life. */
static void after(struct world *w, int actions)
{
    bool did = false;

    fresh(w);
    w->left = actions - 1;
    world_round(w, "DLTPod", "x", &did);
    w->left = -1;
}

static void finalized(struct world *w)
{
    after(w, 1);
}

static void with_tenant(struct world *w)
{
    after(w, 2);
}

static void registered(struct world *w)
{
    bool did = false;

    fresh(w);
    world_round(w, "DLTPod", "x", &did);
    assert_string_equal(world_text(w, "DLTPod", "x", "status.phase"), "Preparing");
}

static void prepared(struct world *w)
{
    registered(w);
    w->idle = true;
    world_nature(w);
    world_nature(w);
}

static void placed(struct world *w)
{
    bool did = false;

    prepared(w);
    world_round(w, "DLTPod", "x", &did);
    w->idle = false;
}

static void running(struct world *w)
{
    fresh(w);
    world_settle(w);
    assert_string_equal(world_text(w, "DLTPod", "x", "status.phase"), "Running");
}

static json_t *pod(struct world *w)
{
    json_t *p = world_get(w, "Pod", "x-train-0");

    assert_non_null(p);
    return p;
}

static json_t *status_of(json_t *o)
{
    return json_object_get(o, "status");
}

/* ---- what befalls them ---- */

static void invalid(struct world *w)
{
    world_dltpod(w, "x", "{\"jobs\": []}");
}

static void missing_secret(struct world *w)
{
    world_dltpod(w, "x", "{\"secretRef\": {\"name\": \"keys\"}, \"jobs\": [" JOB "}]}");
    w->left = 1;
    world_round(w, "DLTPod", "x", &(bool){false});
    w->left = -1;
}

static void empty_secret(struct world *w)
{
    missing_secret(w);
    json_object_del(json_object_get(world_secret(w, "keys"), "data"), "secret_key");
}

static void blank_secret(struct world *w)
{
    missing_secret(w);
    json_object_set_new(json_object_get(world_secret(w, "keys"), "data"), "access_key",
                        json_string(""));
}

static void tenant_lost(struct world *w)
{
    running(w);
    json_object_clear(w->tenants);
    json_object_clear(w->datasets);
    json_object_clear(w->jobs);
}

static void secret_there(struct world *w)
{
    missing_secret(w);
    world_secret(w, "keys");
}

static void secret_forbidden(struct world *w)
{
    secret_there(w);
    w->secret_forbidden = true;
}

static void foreign_tenant_secret(struct world *w)
{
    world_secret(w, TENANT_SECRET);
    finalized(w);
}

static void qos_missing(struct world *w)
{
    world_dltpod(w, "x",
                 "{\"jobs\": [" JOB ", \"qosFrom\": {\"configMapRef\": {\"name\": \"q\"}}}]}");
    w->left = 1;
    world_round(w, "DLTPod", "x", &(bool){false});
    w->left = -1;
}

static void qos_wrong(struct world *w)
{
    qos_missing(w);
    world_put(w, json_pack("{s:s, s:{s:s}, s:{s:s}}", "kind", "ConfigMap", "metadata", "name", "q",
                           "data", "useCache", "maybe"));
}

static void bucket_missing(struct world *w)
{
    w->bad_url = "s3://b/";
    registered(w);
    world_nature(w);
}

/* It was told of; the next attempts took another time. */
static void bucket_still_missing(struct world *w)
{
    bucket_missing(w);
    json_object_set_new(json_object_get(w->datasets, "team.birds"), "error",
                        json_string("no answer; given up after 9 attempts in 4.1 s"));
    world_round(w, "DLTPod", "x", &(bool){false});
    json_object_set_new(json_object_get(w->datasets, "team.birds"), "error",
                        json_string("no answer; given up after 8 attempts in 4.3 s"));
}

static void other_data(struct world *w)
{
    with_tenant(w);
    json_object_set_new(
        w->datasets, "team.birds",
        json_pack("{s:s, s:s, s:s}", "url", "s3://other/", "tenant", "team", "state", "ready"));
}

static void no_room(struct world *w)
{
    after(w, 3);
    w->refuse_jobs = 507;
    world_round(w, "DLTPod", "x", &(bool){false});
    json_object_del(world_get(w, "DLTPod", "x"), "status");
}

static void ref_missing(struct world *w)
{
    world_dltpod(w, "x",
                 "{\"jobs\": [{\"name\": \"train\", \"image\": \"i\", \"dataSource\": "
                 "{\"datasetRef\": {\"name\": \"r\"}}}]}");
    w->left = 1;
    world_round(w, "DLTPod", "x", &(bool){false});
    w->left = -1;
}

static void set_nodes(struct world *w, const char *path, json_t *v)
{
    static const char *const names[] = {"n1", "n2"};

    for (size_t i = 0; i < unit_count(names); i++) {
        json_t *n = world_get(w, "Node", names[i]);

        if (strcmp(path, "spec") == 0)
            json_object_set(n, "spec", v);
        else
            json_object_set(json_object_get(n, "metadata"), path, v);
    }
    json_decref(v);
}

static void cordoned(struct world *w)
{
    prepared(w);
    set_nodes(w, "spec", json_pack("{s:b}", "unschedulable", 1));
}

static void tainted(struct world *w)
{
    prepared(w);
    set_nodes(w, "spec",
              json_pack("{s:[{s:s, s:s}]}", "taints", "key", "k", "effect", "NoSchedule"));
}

static void without_dlcache(struct world *w)
{
    prepared(w);
    set_nodes(w, "labels", json_object());
}

static void foreign_pod(struct world *w)
{
    prepared(w);
    world_put(w, json_pack("{s:s, s:{s:s}, s:{s:s}}", "kind", "Pod", "metadata", "name",
                           "x-train-0", "status", "phase", "Running"));
}

static void former_pod(struct world *w)
{
    foreign_pod(w);
    json_object_set_new(json_object_get(pod(w), "metadata"), "labels",
                        json_pack("{s:s, s:s}", LABEL_MANAGED, MANAGED_BY, LABEL_DLTPOD, "x"));
}

static void labelled_pod(struct world *w) /* somebody has copied our labels */
{
    running(w);
    world_put(w, json_pack("{s:s, s:{s:s, s:{s:s, s:s, s:s}}}", "kind", "Pod", "metadata", "name",
                           "copy", "labels", LABEL_MANAGED, MANAGED_BY, LABEL_DLTPOD, "x",
                           LABEL_JOB, "train"));
}

static void foreign_map(struct world *w)
{
    prepared(w);
    world_put(w, json_pack("{s:s, s:{s:s}}", "kind", "ConfigMap", "metadata", "name", "x-train"));
}

static void pod_vanished(struct world *w)
{
    running(w);
    world_delete(w, "Pod", "x-train-0");
    world_nature(w);
}

static void evicted(struct world *w)
{
    running(w);
    json_object_set_new(status_of(pod(w)), "phase", json_string("Failed"));
    json_object_set_new(status_of(pod(w)), "reason", json_string("Evicted"));
}

static void waiting(struct world *w, const char *reason)
{
    json_object_set_new(
        status_of(pod(w)), "containerStatuses",
        json_pack("[{s:s, s:{s:{s:s}}}]", "name", "train", "state", "waiting", "reason", reason));
}

static void crashes_again_and_again(struct world *w)
{
    running(w);
    waiting(w, "CrashLoopBackOff");
}

static void no_image(struct world *w)
{
    placed(w);
    waiting(w, "ErrImagePull");
}

/* The second eviction within a minute; the pod is gone. */
static void evicted_again(struct world *w)
{
    running(w);
    json_object_set_new(
        json_array_get(json_object_get(status_of(world_get(w, "DLTPod", "x")), "jobs"), 0),
        "evictions",
        json_pack("{s:i, s:s, s:s}", "count", 2, "time", "1970-01-12T13:46:40Z", "message",
                  "Evicted: too much disk"));
    world_delete(w, "Pod", "x-train-0");
    world_nature(w);
    w->now = 1000000 + 9;
}

static void evicted_again_and_waited(struct world *w)
{
    evicted_again(w);
    w->now++;
}

static void failed(struct world *w)
{
    running(w);
    json_object_set_new(status_of(pod(w)), "phase", json_string("Failed"));
}

static void node_unready(struct world *w)
{
    json_t *c;

    running(w);
    c = json_array_get(json_object_get(status_of(world_get(w, "Node", "n1")), "conditions"), 0);
    json_object_set_new(c, "status", json_string("Unknown"));
    c = json_object_get(c, "lastTransitionTime");
    assert_int_equal(json_string_set(c, "1970-01-12T13:46:40Z"), 0); /* when the world began */
    w->now = 1000000 + RECON_NODE_LOST_S - 1;
}

static void node_lost_now(struct world *w)
{
    node_unready(w);
    w->now++;
}

static void node_gone(struct world *w)
{
    running(w);
    json_object_del(w->objects, "Node/n1");
}

static void changed(struct world *w)
{
    running(w);
    world_spec(w, "DLTPod", "x", "{\"jobs\": [" JOB ", \"args\": [\"-v\"]}]}");
}

static void changed_and_gone(struct world *w)
{
    changed(w);
    world_delete(w, "Pod", "x-train-0");
    world_nature(w);
}

static void asks_more(struct world *w)
{
    changed(w);
    world_spec(w, "DLTPod", "x", "{\"epochs\": 9, \"jobs\": [" JOB "}]}");
}

static void asks_more_and_gone(struct world *w)
{
    asks_more(w);
    world_delete(w, "Pod", "x-train-0");
    world_nature(w);
}

#define RANKS(port) "{\"replicas\": 2, \"masterPort\": " port ", \"jobs\": [" JOB "}]}"

static void port_changed(struct world *w)
{
    world_dltpod(w, "x", RANKS("1000"));
    world_settle(w);
    world_spec(w, "DLTPod", "x", RANKS("2000"));
}

static void port_changed_and_gone(struct world *w)
{
    port_changed(w);
    world_round(w, "DLTPod", "x", &(bool){false});
    world_nature(w);
}

static void service_gone(struct world *w)
{
    port_changed_and_gone(w);
    world_round(w, "DLTPod", "x", &(bool){false});
}

static void retention_changed(struct world *w)
{
    running(w);
    world_spec(w, "DLTPod", "x", "{\"retention\": \"5h\", \"jobs\": [" JOB "}]}");
}

static void job_lost(struct world *w)
{
    running(w);
    json_object_clear(w->jobs);
}

static void silent(struct world *w)
{
    const char *id;
    json_t *j;

    running(w);
    json_object_foreach(w->jobs, id, j)
        json_object_set_new(j, "silent_ms", json_integer(RECON_SILENT_MS));
}

static void away_fresh(struct world *w)
{
    finalized(w);
    w->away = true;
}

static void away_running(struct world *w)
{
    running(w);
    w->away = true;
}

static void away_and_vanished(struct world *w)
{
    pod_vanished(w);
    w->away = true;
}

static void away_ended(struct world *w)
{
    running(w);
    world_end_pods(w, "Succeeded");
    w->away = true;
}

static void ended(struct world *w)
{
    running(w);
    world_end_pods(w, "Succeeded");
}

static void renamed(struct world *w) /* after its end, with the same data */
{
    ended(w);
    world_settle(w);
    world_spec(w, "DLTPod", "x",
               "{\"jobs\": [{\"name\": \"other\", \"image\": \"torch\", \"dataSource\": "
               "{\"name\": \"birds\", \"bucket\": \"s3://b/\"}}]}");
}

static void deleted_fresh(struct world *w)
{
    finalized(w);
    world_delete(w, "DLTPod", "x");
}

static void deleted_unwritten(struct world *w) /* the job was made, nobody wrote it down */
{
    after(w, 4);
    assert_int_equal(json_object_size(w->jobs), 1);
    world_delete(w, "DLTPod", "x");
}

static void deleted_running(struct world *w)
{
    running(w);
    world_delete(w, "DLTPod", "x");
}

static void deleted_away(struct world *w)
{
    deleted_running(w);
    w->away = true;
}

static void deleted_job_gone(struct world *w)
{
    running(w);
    world_end_pods(w, "Succeeded");
    world_settle(w);
    world_delete(w, "DLTPod", "x");
}

static void deleted_shared(struct world *w)
{
    deleted_job_gone(w);
    world_dltpod(w, "y", SPEC);
}

static void deleted_other_data(struct world *w)
{
    other_data(w);
    world_settle(w);
    world_delete(w, "DLTPod", "x");
}

static void deleted_kept(struct world *w) /* without our finalizer it is not ours to look at */
{
    deleted_running(w);
    json_object_set_new(json_object_get(world_get(w, "DLTPod", "x"), "metadata"), "finalizers",
                        json_pack("[s]", "another/one"));
}

/* As act.c sees it after an APPLY. */
static void rejected(struct world *w)
{
    prepared(w);
    w->reject = "Pod";
    world_round(w, "DLTPod", "x", &(bool){false});
}

static void unschedulable(struct world *w)
{
    placed(w);
    json_object_set_new(status_of(pod(w)), "conditions",
                        json_pack("[{s:s, s:s, s:s}]", "type", "PodScheduled", "status", "False",
                                  "message", "0/2 nodes are available"));
}

/* ---- the table ---- */

#define DATA "DatasetReady"

static const struct row {
    const char *what;
    void (*world)(struct world *);
    const char *want, *type, *condition, *words; /* type NULL: no look at a condition */
} rows[] = {
    {"the schema is newer", invalid, "STATUS Pending; EVENT InvalidSpec!", DATA,
     "False:InvalidSpec", "spec.jobs"},
    {"the finalizer comes first", fresh, "ADD_FINALIZER; again", NULL, NULL, NULL},
    {"then the tenant", finalized, "TENANT; again", NULL, NULL, NULL},
    {"then the data", with_tenant, "MAKE_DATASET; again", NULL, NULL, NULL},
    {"a Secret is missing", missing_secret, "STATUS Pending; EVENT SecretMissing!", DATA,
     "False:SecretMissing", "Secret keys does not exist in namespace team"},
    {"a Secret has but one key", empty_secret, "STATUS Pending; EVENT SecretIncomplete!", DATA,
     "False:SecretIncomplete", "no secret_key"},
    {"a Secret has an empty key", blank_secret, "STATUS Pending; EVENT SecretIncomplete!", DATA,
     "False:SecretIncomplete", "no access_key"},
    {"a Secret may not be read", secret_forbidden, "STATUS Pending; EVENT SecretForbidden!", DATA,
     "False:SecretForbidden", "create rolebinding dlcache-secrets"},
    {"the Secret is there", secret_there, "CREDENTIALS; again", NULL, NULL, NULL},
    {"the tenant's Secret is somebody's", foreign_tenant_secret,
     "STATUS Pending; EVENT ForeignObject!", DATA, "False:ForeignObject", "left alone"},
    {"qosFrom names nothing", qos_missing, "STATUS Pending; EVENT ConfigMapMissing!", DATA,
     "False:ConfigMapMissing", "ConfigMap q"},
    {"qosFrom names nonsense", qos_wrong, "STATUS Pending; EVENT ConfigMapInvalid!", DATA,
     "False:ConfigMapInvalid", "useCache"},
    {"datasetRef names nothing", ref_missing, "STATUS Pending; EVENT DatasetMissing!", DATA,
     "False:DatasetMissing", "CachedDataset r does not exist"},
    {"other data has that name", other_data, "STATUS Pending; EVENT DatasetConflict!", DATA,
     "False:DatasetConflict", "s3://other/"},
    {"a bucket that does not exist", bucket_missing, "STATUS Preparing; EVENT DatasetFailed!", DATA,
     "False:DatasetFailed", "the bucket does not exist"},
    {"a bucket that still does not answer", bucket_still_missing, "", NULL, NULL, NULL},
    {"no room: asked again", no_room, "MAKE_JOB; again", NULL, NULL, NULL},
    {"nothing new while it is listed", registered, "", NULL, NULL, NULL},
    {"prepared: the pod comes", prepared,
     "APPLY ConfigMap x-train; APPLY Pod x-train-0; STATUS Placed; EVENT PodsMade", "Placed",
     "True:PodsMade", ""},
    {"its pod was rejected: tried again", rejected,
     "APPLY Pod x-train-0; STATUS Placed; EVENT PodsMade", "Placed", "True:PodsMade", ""},
    {"nothing new while it is placed", placed, "", NULL, NULL, NULL},
    {"all nodes are cordoned", cordoned, "STATUS Preparing; EVENT NoNode!", "Placed",
     "False:NoNode", "none of 2 nodes can be used: 2 cordoned"},
    {"all nodes are tainted", tainted, "STATUS Preparing; EVENT NoNode!", "Placed", "False:NoNode",
     "2 with a taint that is not tolerated"},
    {"no node has dlcache", without_dlcache, "STATUS Preparing; EVENT NoNode!", "Placed",
     "False:NoNode", "2 without dlcache"},
    {"the scheduler finds none", unschedulable, "STATUS Placed; EVENT Unschedulable!", "Placed",
     "False:Unschedulable", "0/2 nodes"},
    {"a foreign pod", foreign_pod, "STATUS Preparing; EVENT ForeignObject!", "Placed",
     "False:ForeignObject", "Pod x-train-0 exists and is not this DLTPod's"},
    {"the pod of a DLTPod before", former_pod, "STATUS Preparing", "Placed", "False:FormerObject",
     "still there"},
    {"a foreign pod with our labels", labelled_pod, "", NULL, NULL, NULL},
    {"a foreign ConfigMap", foreign_map, "STATUS Preparing; EVENT ForeignObject!", "Placed",
     "False:ForeignObject", "ConfigMap x-train"},
    {"nothing new while it runs", running, "", NULL, NULL, NULL},
    {"its pod was deleted", pod_vanished, "APPLY Pod x-train-0; STATUS Placed", "Running",
     "False:NotStarted", ""},
    {"its pod was evicted", evicted, "DELETE Pod x-train-0; STATUS Placed", "Placed",
     "False:Replacing", ""},
    {"its pods are evicted again and again: the next one waits", evicted_again,
     "STATUS Preparing; EVENT Evicted!", "Placed", "False:Evicted", "too much disk"},
    {"and comes", evicted_again_and_waited, "APPLY Pod x-train-0; STATUS Placed", "Placed",
     "True:PodsMade", ""},
    {"its program crashes again and again", crashes_again_and_again,
     "STATUS Placed; EVENT CrashLoopBackOff!", "Running", "False:CrashLoopBackOff",
     "pod x-train-0: container train"},
    {"its image cannot be had", no_image, "STATUS Placed; EVENT ErrImagePull!", "Running",
     "False:ErrImagePull", "does not start"},
    {"its program failed: the job ends first", failed, "END_JOB; again", NULL, NULL, NULL},
    {"its node is silent for a while", node_unready, "", NULL, NULL, NULL},
    {"its node is lost", node_lost_now, "DELETE Pod x-train-0 now; STATUS Placed", "Placed",
     "False:Replacing", ""},
    {"its node is deleted", node_gone, "DELETE Pod x-train-0 now; STATUS Placed", "Placed",
     "False:Replacing", ""},
    {"args change: the pod goes", changed, "DELETE Pod x-train-0; STATUS Placed", "Placed",
     "False:Replacing", ""},
    {"and comes again", changed_and_gone, "APPLY Pod x-train-0; STATUS Placed", "Placed",
     "True:PodsMade", ""},
    {"what it asks for changes: the pod goes", asks_more, "DELETE Pod x-train-0; STATUS Placed",
     "Placed", "False:Replacing", ""},
    {"then the job ends", asks_more_and_gone, "END_JOB; again", NULL, NULL, NULL},
    {"its port changes: the pods go", port_changed,
     "DELETE Pod x-train-0; DELETE Pod x-train-1; STATUS Placed", "Placed", "False:Replacing", ""},
    {"then the Service", port_changed_and_gone, "DELETE Service x-train; STATUS Placed", "Placed",
     "False:Replacing", ""},
    {"all come again", service_gone,
     "APPLY Service x-train; APPLY Pod x-train-0; APPLY Pod x-train-1; STATUS Placed; EVENT "
     "PodsMade",
     "Placed", "True:PodsMade", ""},
    {"retention changes: nothing goes", retention_changed, "STATUS Running", "Running",
     "True:Running", ""},
    {"the manager lost the job", job_lost, "MAKE_JOB; again", NULL, NULL, NULL},
    {"the manager lost all", tenant_lost, "MAKE_DATASET; again", NULL, NULL, NULL},
    {"nobody hears of the job", silent, "HEARTBEAT", NULL, NULL, NULL},
    {"no manager yet", away_fresh, "STATUS Pending", DATA, "Unknown:ManagerAway",
     "connection refused"},
    {"the manager goes", away_running, "", NULL, NULL, NULL},
    {"the manager is away, the pod too", away_and_vanished, "STATUS Preparing", "Running",
     "False:NotStarted", ""},
    {"the manager is away as it ends", away_ended, "STATUS Succeeded; EVENT Succeeded", "Succeeded",
     "True:Succeeded", ""},
    {"it ends", ended, "END_JOB; again", NULL, NULL, NULL},
    {"renamed: another job on the same data", renamed, "MAKE_JOB; again", NULL, NULL, NULL},
    {"deleted before anything", deleted_fresh, "DROP_FINALIZER", NULL, NULL, NULL},
    {"deleted with a job that nobody wrote down", deleted_unwritten, "MAKE_JOB; again", NULL, NULL,
     NULL},
    {"deleted while it runs", deleted_running, "END_JOB; again", NULL, NULL, NULL},
    {"deleted, the manager is away", deleted_away, "DELETE Pod x-train-0; STATUS Running", NULL,
     NULL, NULL},
    {"deleted after its end: data is handed on", deleted_job_gone,
     "APPLY CachedDataset birds; DROP_FINALIZER", NULL, NULL, NULL},
    {"deleted, another reads the data", deleted_shared, "DROP_FINALIZER", NULL, NULL, NULL},
    {"deleted, other data has that name", deleted_other_data, "DROP_FINALIZER", NULL, NULL, NULL},
    {"deleted, held by another", deleted_kept, "", NULL, NULL, NULL},
};

static const json_t *condition_in(const struct actions *a, const char *type)
{
    for (size_t i = 0; i < a->n; i++) {
        json_t *c;
        size_t k;

        if (a->v[i].kind != ACT_STATUS)
            continue;
        json_array_foreach(json_object_get(a->v[i].body, "conditions"), k, c)
        {
            if (strcmp(json_string_value(json_object_get(c, "type")), type) == 0)
                return c;
        }
    }
    return NULL;
}

static void check_condition(const struct row *row, const struct actions *a)
{
    const json_t *c = condition_in(a, row->type);
    char have[200];

    if (c == NULL)
        fail_msg("%s: no condition %s", row->what, row->type);
    snprintf(have, sizeof(have), "%s:%s", json_string_value(json_object_get(c, "status")),
             json_string_value(json_object_get(c, "reason")));
    if (strcmp(have, row->condition) != 0 ||
        strstr(json_string_value(json_object_get(c, "message")), row->words) == NULL)
        fail_msg("%s: %s \"%s\"", row->what, have,
                 json_string_value(json_object_get(c, "message")));
}

/* Where nothing more is to come but by a watch. All others are looked at again. */
static void (*const at_rest[])(struct world *) = {
    invalid, deleted_fresh, deleted_job_gone, deleted_shared, deleted_other_data, deleted_kept};

static bool rests(const struct row *row)
{
    for (size_t i = 0; i < unit_count(at_rest); i++)
        if (row->world == at_rest[i])
            return true;
    return false;
}

static void look(struct world *w, struct actions *a)
{
    struct observed o;

    world_observe(w, "DLTPod", "x", &o);
    reconcile(&o, a);
    world_unobserve(&o);
}

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(rows); i++) {
        struct actions a = ACTIONS_INIT, b = ACTIONS_INIT;
        struct world w;
        char *said, *again;

        world_init(&w);
        rows[i].world(&w);
        look(&w, &a);
        said = world_say(&a);
        if (strcmp(said, rows[i].want) != 0)
            fail_msg("%s: \"%s\" instead of \"%s\"", rows[i].what, said, rows[i].want);
        if (rows[i].type != NULL)
            check_condition(&rows[i], &a);
        if ((!a.again && a.after.ns < 0) != rests(&rows[i]))
            fail_msg("%s: after %lld ns", rows[i].what, (long long)a.after.ns);
        look(&w, &b); /* pure: the same again */
        again = world_say(&b);
        assert_string_equal(again, said);
        mem_free(&said);
        mem_free(&again);
        actions_release(&a);
        actions_release(&b);
        world_release(&w);
    }
}

/* A condition's time is that of its last change of status, not of reason or message. */
static void test_transition_times(void **state)
{
    struct world w;
    char first[40];

    (void)state;
    world_init(&w);
    missing_secret(&w);
    world_settle(&w);
    snprintf(first, sizeof(first), "%s",
             world_text(&w, "DLTPod", "x", "status.conditions.0.lastTransitionTime"));
    assert_true(first[0] != '\0');
    w.deaf = true;
    w.now += 100;
    world_secret(&w, "keys");
    world_settle(&w);
    assert_string_equal(world_condition(&w, "DLTPod", "x", DATA), "False:Listing");
    assert_string_equal(world_text(&w, "DLTPod", "x", "status.conditions.0.lastTransitionTime"),
                        first);
    w.deaf = false;
    world_settle(&w);
    assert_string_not_equal(world_text(&w, "DLTPod", "x", "status.conditions.0.lastTransitionTime"),
                            first);
    world_release(&w);
}

/* What the manager's account of a job says: one miss, and so many hits. */
static void use(json_t *job, int hits)
{
    json_object_set_new(job, "usage",
                        json_pack("{s:{s:i, s:i}, s:i, s:i, s:f}", "hits", "memory", hits - 1,
                                  "peer", 1, "misses", 1, "read_bytes", 100 * (hits + 1),
                                  "stalled_s", 0.5));
}

/* (RECONCILE-6) Figures alone are written once a minute. */
static void test_figures(void **state)
{
    struct actions a = ACTIONS_INIT;
    struct world w;
    const char *id;
    json_t *j;

    (void)state;
    world_init(&w);
    running(&w);
    json_object_foreach(w.jobs, id, j) use(j, 3);
    w.now += RECON_FIGURES_S;
    look(&w, &a);
    assert_int_equal(a.n, 1);
    assert_int_equal(a.v[0].kind, ACT_STATUS);
    assert_true(json_number_value(json_object_get(a.v[0].body, "hitShare")) == 0.75);
    assert_int_equal(json_integer_value(json_object_get(a.v[0].body, "bytes")), 400);
    actions_release(&a);
    world_settle(&w);
    json_object_foreach(w.jobs, id, j) use(j, 99);
    look(&w, &a);
    assert_int_equal(a.n, 0);
    actions_release(&a);
    w.now += RECON_FIGURES_S;
    look(&w, &a);
    assert_int_equal(a.n, 1);
    actions_release(&a);
    world_release(&w);
}

/* A job that lived for less than a minute has figures too: nodes tell the last of them when it has
 * ended. Later than that nobody asks. */
static void test_figures_of_ended_jobs(void **state)
{
    struct actions a = ACTIONS_INIT;
    struct world w;
    const char *id;
    json_t *j;

    (void)state;
    world_init(&w);
    running(&w);
    world_end_pods(&w, "Succeeded");
    world_settle(&w);
    assert_int_equal(json_object_size(w.jobs), 0);
    assert_int_equal(json_object_size(w.ended), 1);
    assert_string_equal(world_text(&w, "DLTPod", "x", "status.phase"), "Succeeded");
    look(&w, &a);
    assert_true(a.after.ns > 0 && a.after.ns <= DLC_SEC(RECON_SETTLE_S).ns);
    actions_release(&a);
    json_object_foreach(w.ended, id, j) use(j, 3);
    w.now += RECON_SETTLE_S;
    look(&w, &a);
    assert_int_equal(a.n, 1);
    assert_int_equal(a.v[0].kind, ACT_STATUS);
    assert_true(json_number_value(json_object_get(a.v[0].body, "hitShare")) == 0.75);
    actions_release(&a);
    world_settle(&w);
    json_object_foreach(w.ended, id, j) use(j, 99);
    w.now += 4 * RECON_SETTLE_S;
    look(&w, &a);
    assert_int_equal(a.n, 0);
    actions_release(&a);
    world_release(&w);
}

/* What status.cost says; < 0: nothing. */
static double cost_of(struct world *w)
{
    const json_t *cost;

    w->now += RECON_FIGURES_S;
    world_settle(w);
    cost = json_object_get(json_object_get(world_get(w, "DLTPod", "x"), "status"), "cost");
    return cost != NULL ? json_number_value(cost) : -1;
}

static void spend(struct world *w, const char *dataset, double money)
{
    json_t *d = json_object_get(w->datasets, dataset);

    assert_non_null(d);
    json_object_set_new(d, "spent",
                        json_pack("{s:f, s:i, s:i}", "money", money, "requests", 1, "bytes", 1));
}

#define READER(name, dataset)                                                                      \
    "{\"name\": \"" name "\", \"image\": \"torch\", \"dataSource\": {\"name\": \"" dataset         \
    "\", \"bucket\": \"s3://b/" dataset "/\"}}"

/* Of each dataset once. What a manager does not say is not known, and stays as it was. */
static void test_cost(void **state)
{
    struct world w;

    (void)state;
    world_init(&w);
    world_dltpod(&w, "x",
                 "{\"jobs\": [" READER("a", "x") ", " READER("b", "x") ", " READER("c", "y") "]}");
    world_settle(&w);
    assert_true(cost_of(&w) < 0);
    spend(&w, "team.x", 1.23456);
    assert_true(cost_of(&w) == 1.235);
    spend(&w, "team.y", 0.5);
    assert_true(cost_of(&w) == 1.735);
    spend(&w, "team.x", 0);
    assert_true(cost_of(&w) == 0.5);
    json_object_del(json_object_get(w.datasets, "team.x"), "spent");
    json_object_del(json_object_get(w.datasets, "team.y"), "spent");
    assert_true(cost_of(&w) == 0.5);
    world_release(&w);
}

/* Two Secrets in one namespace do not take turns. */
static void test_credentials(void **state)
{
    struct actions a = ACTIONS_INIT;
    struct observed o;
    struct world w;
    char *said;

    (void)state;
    world_init(&w);
    secret_there(&w);
    world_settle(&w);
    world_secret(&w, "others");
    world_spec(&w, "DLTPod", "x", "{\"secretRef\": {\"name\": \"others\"}, \"jobs\": [" JOB "}]}");
    world_observe(&w, "DLTPod", "x", &o);
    reconcile(&o, &a); /* nobody else names the first: it is replaced */
    said = world_say(&a);
    assert_string_equal(said, "CREDENTIALS; again");
    assert_true(str_starts(a.v[0].key, "others/"));
    mem_free(&said);
    actions_release(&a);
    o.credentials_used = true;
    reconcile(&o, &a);
    assert_string_equal(json_string_value(json_object_get(condition_in(&a, DATA), "reason")),
                        "CredentialsConflict");
    actions_release(&a);
    o.credentials_used = false;
    o.credentials_refused = 404; /* its tenant is not there any more */
    reconcile(&o, &a);
    said = world_say(&a);
    assert_string_equal(said, "TENANT; CREDENTIALS; again");
    assert_string_equal(a.v[0].key, "again");
    mem_free(&said);
    actions_release(&a);
    o.credentials_refused = 400;
    snprintf(o.credentials_error, sizeof(o.credentials_error), "region: must be a text");
    reconcile(&o, &a);
    assert_non_null(strstr(json_string_value(json_object_get(condition_in(&a, DATA), "message")),
                           "region: must be a text"));
    actions_release(&a);
    world_unobserve(&o);
    world_release(&w);
}

/* Words of any length, in any language: what is cut is cut between characters. */
static void test_cut(void **state)
{
    (void)state;
    for (int begin = 0; begin < 8; begin++) {
        struct actions a = ACTIONS_INIT;
        const char *message;
        struct observed o;
        struct world w;
        char words[700];

        memset(words, 'x', (size_t)begin);
        for (size_t i = (size_t)begin; i + 4 < sizeof(words); i += 3)
            snprintf(words + i, 4, "\u20ac");
        world_init(&w);
        with_tenant(&w);
        world_observe(&w, "DLTPod", "x", &o);
        response_refused(&o.jobs[0].data, 400, words);
        reconcile(&o, &a);
        message = json_string_value(json_object_get(condition_in(&a, DATA), "message"));
        assert_non_null(message);
        assert_non_null(strstr(message, "dataset team.birds: "));
        assert_true(strlen(message) > 490);
        assert_string_equal(
            json_string_value(json_object_get(
                json_array_get(json_object_get(a.v[0].body, "jobs"), 0), "message")),
            message);
        assert_string_equal(json_string_value(json_object_get(a.v[0].body, "message")), message);
        assert_true(str_is_utf8(a.v[1].text, strlen(a.v[1].text)));
        actions_release(&a);
        world_unobserve(&o);
        world_release(&w);
    }
}

/* All at their length limits: every name that is made is one that both worlds take. */
static void test_long_names(void **state)
{
    char name[64], spec[600];
    struct world w;
    json_t *o;
    const char *key;

    (void)state;
    memset(name, 'n', 63);
    name[63] = '\0';
    snprintf(spec, sizeof(spec),
             "{\"replicas\": 2, \"jobs\": [{\"name\": \"%s\", \"image\": \"i\", \"dataSource\": {"
             "\"name\": \"%s\", \"bucket\": \"s3://b/\"}}]}",
             name, name);
    world_init(&w);
    world_dltpod(&w, name, spec);
    world_settle(&w);
    assert_string_equal(world_text(&w, "DLTPod", name, "status.phase"), "Running");
    assert_int_equal(world_count(&w, "Pod"), 2);
    json_object_foreach(w.objects, key, o)
    {
        assert_true(strlen(strchr(key, '/') + 1) <= 63);
    }
    world_delete(&w, "DLTPod", name);
    world_settle(&w);
    assert_int_equal(world_count(&w, "DLTPod") + json_object_size(w.jobs), 0);
    world_release(&w);
}

/* When to look again. */
static void reading(struct world *w)
{
    const char *id;
    json_t *j;

    running(w);
    json_object_foreach(w->jobs, id, j)
        json_object_set_new(j, "live", json_pack("{s:{s:i}}", "n1", "readers", 1));
}

/* A job that does not read must be spoken for long before the manager ends it, after a minute. */
static void test_looks(void **state)
{
    static const struct {
        void (*world)(struct world *);
        int64_t least, most; /* seconds; -1: never */
    } looks[] = {
        {away_fresh, 5, 5}, {registered, 1, 10},  {running, 15, 15},
        {reading, 30, 30},  {node_unready, 1, 1}, {missing_secret, 1, 10},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(looks); i++) {
        struct actions a = ACTIONS_INIT;
        struct world w;
        int64_t s;

        world_init(&w);
        looks[i].world(&w);
        look(&w, &a);
        s = a.after.ns < 0 ? -1 : a.after.ns / 1000000000;
        if (s < looks[i].least || s > looks[i].most)
            fail_msg("%zu: after %lld s", i, (long long)s);
        actions_release(&a);
        world_release(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),      cmocka_unit_test(test_transition_times),
        cmocka_unit_test(test_figures),    cmocka_unit_test(test_figures_of_ended_jobs),
        cmocka_unit_test(test_cost),       cmocka_unit_test(test_credentials),
        cmocka_unit_test(test_long_names), cmocka_unit_test(test_looks),
        cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
