// SPDX-License-Identifier: Apache-2.0
/* One job: what each answer of the manager makes of it, in words and in status.jobs. */
#include "operator/world.h"

#include "base/mem.h"
#include "operator/reconcile/reconcile_i.h"

#define SPEC_OF(more)                                                                              \
    "{\"jobs\": [{\"name\": \"train\", \"image\": \"torch\", \"dataSource\": {\"name\": "          \
    "\"birds\", \"bucket\": \"s3://b/\"" more "}}]}"
#define SPEC SPEC_OF("")
#define SPEC_JOB                                                                                   \
    "{\"name\": \"train\", \"image\": \"torch\", \"dataSource\": {\"name\": \"birds\", "           \
    "\"bucket\": \"s3://b/\"}}"
#define WITH(fields, job) "{" fields ", \"jobs\": [" job "]}"
#define ENDPOINT          ", \"endpoint\": \"http://minio:9000\""

/* One look: the world, what is seen of it, and what is to be done. */
struct look {
    struct world w;
    struct observed o;
    struct actions a;
    char *said;
};

/* A plain life until so many actions are done; 0: until nothing happens. */
static void begin(struct look *l, const char *spec, int actions)
{
    memset(l, 0, sizeof(*l));
    world_init(&l->w);
    world_dltpod(&l->w, "x", spec);
    l->w.left = actions - 1;
    if (actions == 0)
        world_settle(&l->w);
    else
        world_round(&l->w, "DLTPod", "x", &(bool){false});
    l->w.left = -1;
}

static struct seen_job *observe(struct look *l)
{
    world_observe(&l->w, "DLTPod", "x", &l->o);
    assert_int_equal(l->o.n_jobs, 1);
    return &l->o.jobs[0];
}

static const char *decide(struct look *l)
{
    l->a = (struct actions)ACTIONS_INIT;
    reconcile(&l->o, &l->a);
    l->said = world_say(&l->a);
    return l->said;
}

static void end(struct look *l)
{
    mem_free(&l->said);
    actions_release(&l->a);
    world_unobserve(&l->o);
    world_release(&l->w);
}

static const json_t *status_in(const struct look *l)
{
    for (size_t i = 0; i < l->a.n; i++)
        if (l->a.v[i].kind == ACT_STATUS)
            return l->a.v[i].body;
    fail_msg("no status: %s", l->said);
    return NULL;
}

/* "False:NoRoom: job train: ..." */
static void assert_ready(const struct look *l, const char *want)
{
    const json_t *c;
    size_t i;
    char have[700] = "";

    json_array_foreach(json_object_get(status_in(l), "conditions"), i, c)
    {
        if (strcmp(json_string_value(json_object_get(c, "type")), "DatasetReady") == 0)
            snprintf(have, sizeof(have), "%s:%s: %s",
                     json_string_value(json_object_get(c, "status")),
                     json_string_value(json_object_get(c, "reason")),
                     json_string_value(json_object_get(c, "message")));
    }
    assert_string_equal(have, want);
}

static const json_t *entry_in(const struct look *l)
{
    return json_array_get(json_object_get(status_in(l), "jobs"), 0);
}

static const char *text_of(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));

    return s != NULL ? s : "";
}

static void not_asked(struct response *r)
{
    json_decref(r->body);
    *r = (struct response){NULL};
}

/* ---- the data ---- */

static void test_dataset_refused(void **state)
{
    struct look l;

    (void)state;
    begin(&l, SPEC, 2); /* finalizer, tenant */
    response_refused(&observe(&l)->data, 404, "there is no such tenant");
    assert_string_equal(decide(&l), "TENANT; MAKE_DATASET; again");
    assert_string_equal(l.a.v[0].key, "again"); /* the manager has lost it */
    end(&l);
    begin(&l, SPEC, 2);
    response_refused(&observe(&l)->data, 400, "url: no such scheme");
    assert_string_equal(decide(&l), "STATUS Pending; EVENT DatasetRefused!");
    assert_ready(&l, "False:DatasetRefused: dataset team.birds: url: no such scheme");
    end(&l);
    begin(&l, SPEC, 2);
    not_asked(&observe(&l)->data);
    assert_string_equal(decide(&l), "STATUS Pending");
    assert_ready(&l, "Unknown:ManagerAway: the manager was not asked");
    end(&l);
}

/* A dataset of that name: is it ours? */
static void is_dataset(const char *spec, const char *tenant, const char *url, const char *endpoint,
                       const char *want)
{
    struct look l;
    json_t *d = json_pack("{s:s, s:s, s:s}", "url", url, "tenant", tenant, "state", "ready");

    if (endpoint != NULL)
        json_object_set_new(d, "endpoint", json_string(endpoint));
    begin(&l, spec, 2);
    json_object_set_new(l.w.datasets, "team.birds", d);
    observe(&l);
    decide(&l);
    if (want == NULL)
        assert_string_equal(l.said, "MAKE_JOB; again");
    else
        assert_ready(&l, want);
    end(&l);
}

static void test_dataset_of_that_name(void **state)
{
    (void)state;
    is_dataset(SPEC, "team", "s3://b/", NULL, NULL);
    is_dataset(SPEC_OF(ENDPOINT), "team", "s3://b/", "http://minio:9000", NULL);
    is_dataset(SPEC, "team", "s3://other/", NULL,
               "False:DatasetConflict: dataset team.birds is s3://other/ already; give dataSource "
               "another name");
    is_dataset(SPEC, "other", "s3://b/", NULL,
               "False:DatasetConflict: dataset team.birds is another tenant's already; give "
               "dataSource another name");
    is_dataset(SPEC, "team", "s3://b/", "http://minio:9000",
               "False:DatasetConflict: dataset team.birds is s3://b/ already; give dataSource "
               "another name");
    is_dataset(SPEC_OF(ENDPOINT), "team", "s3://b/", NULL,
               "False:DatasetConflict: dataset team.birds is s3://b/ already; give dataSource "
               "another name");
}

#define REF                                                                                        \
    "{\"jobs\": [{\"name\": \"train\", \"image\": \"i\", \"dataSource\": {\"datasetRef\": "        \
    "{\"name\": \"r\"}}}]}"

static void test_dataset_ref(void **state)
{
    static const char *const want[] = {
        "False:DatasetMissing: CachedDataset r does not exist; make it, or correct datasetRef",
        "False:DatasetComes: CachedDataset r is not in the control plane yet",
        "False:DatasetMissing: CachedDataset r is being deleted; make it, or correct datasetRef",
    };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct look l;
        json_t *d;

        begin(&l, REF, 2);
        if (i > 0) {
            d = world_dataset(&l.w, "r", "{\"bucket\": \"s3://b/\"}");
            json_object_set_new(json_object_get(d, "metadata"), "finalizers",
                                json_pack("[s]", FINALIZER));
        }
        if (i == 2)
            world_delete(&l.w, "CachedDataset", "r");
        observe(&l);
        decide(&l);
        assert_ready(&l, want[i]);
        end(&l);
    }
}

/* ---- the registration ---- */

static void test_job_refused(void **state)
{
    struct look l;

    (void)state;
    begin(&l, SPEC, 3); /* the dataset is made */
    response_refused(&observe(&l)->job, 507, "no room for it");
    assert_string_equal(decide(&l), "STATUS Pending; EVENT NoRoom!");
    assert_ready(&l, "False:NoRoom: job train: no room for it");
    assert_string_equal(text_of(entry_in(&l), "message"), "job train: no room for it");
    end(&l);
    begin(&l, SPEC, 3);
    response_refused(&observe(&l)->job, 400, "epochs: too many");
    assert_string_equal(decide(&l), "STATUS Pending; EVENT JobRefused!");
    assert_ready(&l, "False:JobRefused: job train: epochs: too many");
    end(&l);
}

static void test_job_not_asked(void **state)
{
    struct look l;

    (void)state;
    begin(&l, SPEC, 0);
    not_asked(&observe(&l)->job);
    decide(&l);
    assert_ready(&l, "Unknown:ManagerAway: the manager was not asked");
    assert_int_equal(world_count(&l.w, "Pod"), 1);
    end(&l);
}

/* ---- may pods start? ---- */

static json_t *first(json_t *all)
{
    return json_object_iter_value(json_object_iter(all));
}

static void queued(struct look *l, const char *reason)
{
    begin(l, SPEC, 100);
    json_object_set_new(first(l->w.datasets), "snapshot",
                        json_pack("{s:i, s:i}", "bytes", 777, "samples", 7));
    json_object_set_new(first(l->w.datasets), "state", json_string("ready"));
    if (reason != NULL)
        json_object_set_new(first(l->w.jobs), "reason", json_string(reason));
    observe(l);
    decide(l);
}

/* The manager says why, and what to do. */
static void test_queued(void **state)
{
    struct look l;

    (void)state;
    queued(&l, "it needs room for 1 B: add nodes");
    assert_ready(&l, "False:Queued: job train waits: it needs room for 1 B: add nodes");
    end(&l);
    queued(&l, NULL);
    assert_ready(&l, "False:Queued: job train waits: the manager has not judged it yet");
    end(&l);
}

static void test_ready(void **state)
{
    struct look l;

    (void)state;
    begin(&l, SPEC, 100);
    l.w.idle = true;
    world_nature(&l.w);
    world_nature(&l.w);
    json_object_set_new(json_object_get(first(l.w.datasets), "snapshot"), "samples",
                        json_integer(12345));
    observe(&l);
    decide(&l);
    assert_ready(&l, "True:Ready: dataset team.birds has 12345 samples");
    end(&l);
}

/* ---- orders ---- */

static void test_heartbeat(void **state)
{
    struct look l;

    (void)state;
    for (int more = -1; more <= 1; more++) {
        begin(&l, SPEC, 0);
        json_object_set_new(first(l.w.jobs), "silent_ms", json_integer(RECON_SILENT_MS + more));
        observe(&l);
        assert_string_equal(decide(&l), more < 0 ? "" : "HEARTBEAT");
        if (more >= 0) {
            assert_string_equal(l.a.v[0].name, text_of(first(l.w.jobs), "id"));
            assert_int_equal(l.a.v[0].job, 0);
        }
        end(&l);
    }
}

/* ---- a ConfigMap that goes ---- */

#define WITH_QOS                                                                                   \
    "{\"jobs\": [{\"name\": \"train\", \"image\": \"torch\", \"qosFrom\": {\"configMapRef\": "     \
    "{\"name\": \"q\"}}, \"dataSource\": {\"name\": \"birds\", \"bucket\": \"s3://b/\"}}]}"

/* What it said counts until it is there again: no pod is replaced. */
static void test_qos_goes(void **state)
{
    struct look l;
    char ask[200], template[200];

    (void)state;
    memset(&l, 0, sizeof(l));
    world_init(&l.w);
    world_put(&l.w, json_pack("{s:s, s:{s:s}, s:{s:s}}", "kind", "ConfigMap", "metadata", "name",
                              "q", "data", "useCache", "true"));
    world_dltpod(&l.w, "x", WITH_QOS);
    world_settle(&l.w);
    snprintf(ask, sizeof(ask), "%s", world_text(&l.w, "DLTPod", "x", "status.jobs.0.ask"));
    snprintf(template, sizeof(template), "%s",
             world_text(&l.w, "DLTPod", "x", "status.jobs.0.template"));
    assert_true(ask[0] != '\0' && template[0] != '\0');
    world_delete(&l.w, "ConfigMap", "q");
    observe(&l);
    decide(&l);
    assert_ready(&l, "False:ConfigMapMissing: job train: ConfigMap q does not exist; make it, or "
                     "correct qosFrom");
    for (size_t i = 0; i < l.a.n; i++)
        assert_true(l.a.v[i].kind != ACT_DELETE && l.a.v[i].kind != ACT_END_JOB);
    assert_string_equal(text_of(entry_in(&l), "ask"), ask);
    assert_string_equal(text_of(entry_in(&l), "template"), template);
    assert_true(json_is_true(json_object_get(entry_in(&l), "registered")));
    end(&l);
}

/* ---- status.jobs ---- */

static bool is_released(const struct look *l)
{
    const json_t *status = json_object_get(world_get(&l->w, "DLTPod", "x"), "status");

    return json_is_true(
        json_object_get(json_array_get(json_object_get(status, "jobs"), 0), "released"));
}

static void test_entry(void **state)
{
    const json_t *e;
    struct look l;

    (void)state;
    begin(&l, SPEC, 0);
    e = json_array_get(
        json_object_get(json_object_get(world_get(&l.w, "DLTPod", "x"), "status"), "jobs"), 0);
    assert_string_equal(text_of(e, "name"), "train");
    assert_string_equal(text_of(e, "dataset"), "team.birds");
    assert_string_equal(text_of(e, "state"), "Running");
    assert_string_equal(text_of(e, "id"), text_of(first(l.w.jobs), "id"));
    assert_true(json_is_true(json_object_get(e, "registered")));
    assert_true(text_of(e, "ask")[0] != '\0' && text_of(e, "template")[0] != '\0');
    assert_int_equal(json_array_size(json_object_get(e, "nodes")), 1);
    assert_null(json_object_get(e, "succeeded"));
    assert_null(json_object_get(e, "endTime"));
    assert_null(json_object_get(e, "warmTime"));
    assert_null(json_object_get(e, "released"));
    world_end_pods(&l.w, "Succeeded");
    world_settle(&l.w);
    e = json_array_get(
        json_object_get(json_object_get(world_get(&l.w, "DLTPod", "x"), "status"), "jobs"), 0);
    assert_string_equal(text_of(e, "state"), "Succeeded");
    assert_int_equal(json_array_size(json_object_get(e, "succeeded")), 1);
    assert_true(text_of(e, "endTime")[0] != '\0');
    observe(&l);
    assert_string_equal(decide(&l), ""); /* nothing more is to be done */
    end(&l);
}

/* Data that was given up is not the job's any more, whatever its retention becomes. */
static void test_released(void **state)
{
    struct look l;

    (void)state;
    begin(&l, WITH("\"retention\": \"0s\"", SPEC_JOB), 0);
    world_end_pods(&l.w, "Succeeded");
    world_settle(&l.w);
    assert_int_equal(json_object_size(l.w.datasets), 0);
    assert_true(is_released(&l));
    world_spec(&l.w, "DLTPod", "x", WITH("\"retention\": \"5h\"", SPEC_JOB));
    world_settle(&l.w);
    assert_true(is_released(&l));
    observe(&l);
    assert_string_equal(decide(&l), "");
    end(&l);
}

/* Two pods, of which one goes already: the former job ends when both are gone, not before. */
static void test_job_ends_after_its_pods(void **state)
{
    struct look l;

    (void)state;
    begin(&l, WITH("\"replicas\": 2", SPEC_JOB), 0);
    assert_int_equal(world_count(&l.w, "Pod"), 2);
    world_delete(&l.w, "Pod", "x-train-0");
    world_spec(&l.w, "DLTPod", "x", WITH("\"replicas\": 2, \"epochs\": 9", SPEC_JOB));
    observe(&l);
    assert_string_equal(decide(&l), "DELETE Pod x-train-1; STATUS Placed");
    assert_ready(&l, "True:Replacing: pods of the former spec are being replaced");
    end(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_refused), cmocka_unit_test(test_dataset_of_that_name),
        cmocka_unit_test(test_dataset_ref),     cmocka_unit_test(test_job_refused),
        cmocka_unit_test(test_job_not_asked),   cmocka_unit_test(test_queued),
        cmocka_unit_test(test_ready),           cmocka_unit_test(test_heartbeat),
        cmocka_unit_test(test_qos_goes),        cmocka_unit_test(test_entry),
        cmocka_unit_test(test_released),        cmocka_unit_test(test_job_ends_after_its_pods),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
