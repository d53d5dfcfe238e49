// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "operator/reconcile/manifest.h"

static const char object_text[] =
    "{\"kind\": \"DLTPod\", \"metadata\": {\"name\": \"x\", \"namespace\": \"team\", \"uid\": "
    "\"u1\"}, "
    "\"spec\": {\"replicas\": 2, \"epochs\": 3, \"secretRef\": {\"name\": \"keys\"}, \"labels\": "
    "{\"a\": \"b\", "
    "\"dlcache.io/rank\": \"mine\"}, \"nodeSelector\": {\"gpu\": \"yes\"}, \"hostNetwork\": true, "
    "\"priorityClassName\": \"high\", \"tolerations\": [{\"operator\": \"Exists\"}], "
    "\"volumes\": [{\"name\": \"scratch\", \"emptyDir\": {}}], "
    "\"securityContext\": {\"runAsUser\": 1000}, "
    "\"jobs\": [{\"name\": \"train\", \"image\": \"torch\", \"command\": [\"run\"], \"gpus\": 2, "
    "\"env\": [{\"name\": \"DLCACHE_JOB\", \"value\": \"mine\"}, {\"name\": \"MASTER_PORT\", "
    "\"value\": \"7\"}], "
    "\"volumeMounts\": [{\"name\": \"scratch\", \"mountPath\": \"/s\"}], "
    "\"resources\": {\"limits\": {\"cpu\": \"2\"}}, "
    "\"dataSource\": {\"name\": \"birds\", \"bucket\": \"s3://b/birds/\"}}]}}";

struct made {
    json_t *object, *nodes;
    struct spec spec;
    struct spec_qos qos;
    struct build_input in;
};

static void setup(struct made *m, const char *text)
{
    struct dlc_err err = DLC_ERR_INIT;

    m->object = json_loads(text, 0, NULL);
    assert_non_null(m->object);
    if (spec_parse(&m->spec, m->object, &err) < 0)
        fail_msg("%s", err.text);
    m->nodes = json_pack("[s, s]", "n1", "n2");
    m->qos = m->spec.jobs[0].qos;
    m->in = (struct build_input){m->object,      &m->spec,           0, "j-1", "team.birds",
                                 .qos = &m->qos, .place = {m->nodes}};
}

static void teardown(struct made *m)
{
    json_decref(m->object);
    json_decref(m->nodes);
}

/* The value at a path as compact JSON; "" when absent. Static. */
static const char *at(const json_t *o, const char *path)
{
    static char out[2000];
    char *copy = mem_str(path), *save = NULL, *text;
    const json_t *v = o;

    for (char *p = strtok_r(copy, " ", &save); p != NULL; p = strtok_r(NULL, " ", &save))
        v = json_is_array(v) ? json_array_get(v, (size_t)atoi(p)) : json_object_get(v, p);
    mem_free(&copy);
    text = v != NULL ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    snprintf(out, sizeof(out), "%s", text != NULL ? text : "");
    free(text);
    return out;
}

static const char *env(const json_t *pod, const char *name)
{
    const json_t *all = json_object_get(
        json_array_get(json_object_get(json_object_get(pod, "spec"), "containers"), 0), "env");
    const char *found = "";
    json_t *one;
    size_t i;

    json_array_foreach(all, i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "name")), name) == 0) {
            assert_string_equal(found, ""); /* once */
            found = json_string_value(json_object_get(one, "value"));
        }
    }
    return found;
}

static void test_pod(void **state)
{
    struct made m;
    json_t *p;

    (void)state;
    setup(&m, object_text);
    p = build_pod(&m.in, 1);
    assert_string_equal(at(p, "metadata name"), "\"x-train-1\"");
    assert_string_equal(at(p, "metadata namespace"), "\"team\"");
    assert_string_equal(at(p, "metadata labels"),
                        "{\"a\":\"b\",\"app.kubernetes.io/managed-by\":\"dlcache\",\"dlcache.io/"
                        "dltpod\":\"x\",\"dlcache.io/job\":\"train\",\"dlcache.io/rank\":\"1\"}");
    assert_string_equal(at(p, "metadata ownerReferences 0 uid"), "\"u1\"");
    assert_string_equal(at(p, "metadata ownerReferences 0 controller"), "true");
    assert_string_equal(at(p, "spec containers 0 command"), "[\"run\"]");
    assert_string_equal(at(p, "spec containers 0 resources"),
                        "{\"limits\":{\"cpu\":\"2\",\"nvidia.com/gpu\":2}}");
    assert_string_equal(at(p, "spec nodeSelector"), "{\"gpu\":\"yes\"}");
    assert_string_equal(at(p, "spec priorityClassName"), "\"high\"");
    assert_string_equal(at(p, "spec tolerations"), "[{\"operator\":\"Exists\"}]");
    assert_string_equal(at(p, "spec hostNetwork"), "true");
    assert_string_equal(at(p, "spec dnsPolicy"), "\"ClusterFirstWithHostNet\"");
    assert_string_equal(at(p, "spec restartPolicy"), "\"OnFailure\"");
    assert_string_equal(at(p, "spec hostname"), "\"x-train-1\"");
    assert_string_equal(at(p, "spec subdomain"), "\"x-train\"");
    assert_string_equal(at(p, "spec nodeName"), "");
    json_decref(p);
    teardown(&m);
}

/* (MANIFEST-2) */
static void test_environment(void **state)
{
    struct made m;
    json_t *p;

    (void)state;
    setup(&m, object_text);
    p = build_pod(&m.in, 1);
    assert_string_equal(env(p, "DLCACHE_JOB"), "j-1");
    assert_string_equal(env(p, "DLCACHE_DATASET"), "dlcache://team.birds");
    assert_string_equal(env(p, "DLCACHE_SOCKET"), "/run/dlcache/node/socket");
    assert_string_equal(env(p, "DLCACHE_ALLOW_UID"), "43117");
    assert_string_equal(env(p, "DLCACHE_TOKEN_FILE"), "/var/run/secrets/dlcache.io/token");
    assert_string_equal(env(p, "RANK"), "1");
    assert_string_equal(env(p, "WORLD_SIZE"), "2");
    assert_string_equal(env(p, "MASTER_ADDR"), "x-train-0.x-train.team.svc");
    assert_string_equal(env(p, "MASTER_PORT"), "7"); /* the user's */
    assert_string_equal(env(p, "PET_MASTER_PORT"), "29500");
    assert_string_equal(env(p, "PET_NODE_RANK"), "1");
    assert_string_equal(env(p, "PET_NPROC_PER_NODE"), "2");
    json_decref(p);
    m.spec.replicas = 1;
    p = build_pod(&m.in, 0);
    assert_string_equal(env(p, "RANK"), "");
    assert_string_equal(at(p, "spec subdomain"), "");
    json_decref(p);
    teardown(&m);
}

/* (MANIFEST-3) */
static void test_privileges(void **state)
{
    struct made m;
    json_t *p;

    (void)state;
    setup(&m, object_text);
    p = build_pod(&m.in, 0);
    assert_string_equal(at(p, "spec automountServiceAccountToken"), "false");
    assert_string_equal(
        at(p, "spec containers 0 securityContext"),
        "{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"]}}");
    assert_string_equal(at(p, "spec securityContext"),
                        "{\"runAsUser\":1000,\"seccompProfile\":{\"type\":\"RuntimeDefault\"}}");
    assert_string_equal(at(p, "spec volumes 0"), "{\"name\":\"scratch\",\"emptyDir\":{}}");
    assert_string_equal(at(p, "spec volumes 1 csi"),
                        "{\"driver\":\"csi.dlcache.io\",\"readOnly\":true}");
    assert_string_equal(at(p, "spec volumes 2 projected sources"),
                        "[{\"secret\":{\"name\":\"dlcache-tenant\",\"items\":[{\"key\":\"token\","
                        "\"path\":\"token\"}]}}]");
    assert_string_equal(
        at(p, "spec containers 0 volumeMounts 1"),
        "{\"name\":\"dlcache-socket\",\"mountPath\":\"/run/dlcache\",\"readOnly\":true}");
    assert_string_equal(at(p, "spec containers 0 volumeMounts 2 readOnly"), "true");
    json_decref(p);
    teardown(&m);
}

#define REQUIRED  "spec affinity nodeAffinity requiredDuringSchedulingIgnoredDuringExecution "
#define PREFERRED "spec affinity nodeAffinity preferredDuringSchedulingIgnoredDuringExecution "

static void test_affinity(void **state)
{
    struct made m;
    json_t *p;

    (void)state;
    setup(&m, object_text);
    p = build_pod(&m.in, 1); /* the second rank begins at the second node */
    assert_string_equal(at(p, PREFERRED "0 weight"), "100");
    assert_string_equal(at(p, PREFERRED "0 preference matchFields 0 values"), "[\"n2\"]");
    assert_string_equal(at(p, PREFERRED "1 weight"), "90");
    assert_string_equal(at(p, PREFERRED "1 preference matchFields 0 values"), "[\"n1\"]");
    assert_string_equal(at(p, REQUIRED "nodeSelectorTerms"),
                        "[{\"matchExpressions\":[{\"key\":\"dlcache.io/node\",\"operator\":\"In\","
                        "\"values\":[\"ready\"]}]}]");
    json_decref(p);
    m.in.place.nodes = NULL;
    p = build_pod(&m.in, 0);
    assert_string_equal(at(p, PREFERRED), "");
    json_decref(p);
    m.spec.node_sequence = m.nodes;
    p = build_pod(&m.in, 0);
    assert_string_equal(at(p, REQUIRED "nodeSelectorTerms 1 matchFields 0 values"), "[\"n2\"]");
    assert_string_equal(at(p, REQUIRED "nodeSelectorTerms 2"), "");
    json_decref(p);
    m.spec.node_sequence = NULL;
    m.spec.node_name = "n9";
    p = build_pod(&m.in, 0);
    assert_string_equal(at(p, "spec nodeName"), "\"n9\"");
    assert_string_equal(at(p, "spec affinity"), "");
    json_decref(p);
    teardown(&m);
}

static void test_same_bytes(void **state)
{
    struct made a, b;
    json_t *p, *q;
    char *s, *t;

    (void)state;
    setup(&a, object_text);
    setup(&b, object_text);
    p = build_pod(&a.in, 0);
    q = build_pod(&b.in, 0);
    s = json_dumps(p, 0);
    t = json_dumps(q, 0);
    assert_string_equal(s, t);
    free(s);
    free(t);
    json_decref(p);
    json_decref(q);
    teardown(&a);
    teardown(&b);
}

/* What makes a pod another one, what a job, and what neither. */
static void test_template(void **state)
{
    static const struct {
        const char *what, *path, *field, *value;
        bool pod, job;
    } rows[] = {
        {"image", "jobs 0", "image", "\"torch:2\"", true, false},
        {"env", "jobs 0", "env", "[]", true, false},
        {"replicas", "", "replicas", "3", true, false},
        {"epochs", "", "epochs", "4", true, true},
        {"priority", "jobs 0", "qos", "{\"priority\": 1}", true, true},
        {"GPUs", "jobs 0", "gpus", "4", true, true},
        {"nodes", "", "nodeSequence", "[\"n2\"]", true, true},
        {"data", "jobs 0", "dataSource", "{\"name\": \"cats\", \"bucket\": \"s3://b/c/\"}", true,
         true},
        {"volumes", "", "volumes", "[]", true, false},
        {"labels", "", "labels", "{}", true, false},
        {"retention", "", "retention", "\"2h\"", false, false},
        {"warm-up", "", "warmUp", "\"start\"", false, false},
        {"secret", "", "secretRef", "{\"name\": \"others\"}", false, false},
    };
    char pod[HASH_LEN], job[HASH_LEN], hash[HASH_LEN], parts[HASH_LEN];
    struct made m;

    (void)state;
    setup(&m, object_text);
    build_template_hash(&m.in, pod);
    build_ask_hash(&m.in, job);
    m.in.job_id = "j-2";
    m.in.place.nodes = NULL;
    m.in.dataset = "team.b-0123"; /* as another version of the operator may call it */
    assert_string_equal(build_template_hash(&m.in, hash), pod);
    assert_string_equal(build_ask_hash(&m.in, hash), job);
    m.qos.lazy = false; /* from a ConfigMap */
    assert_string_not_equal(build_template_hash(&m.in, hash), pod);
    assert_string_not_equal(build_ask_hash(&m.in, parts), job);
    m.spec.replicas = 7; /* each has a part of its own */
    assert_string_not_equal(build_ask_hash(&m.in, hash), parts);
    teardown(&m);
    for (size_t i = 0; i < unit_count(rows); i++) {
        json_t *o = json_loads(object_text, 0, NULL), *to = json_object_get(o, "spec");
        char *text;

        if (rows[i].path[0] != '\0')
            to = json_array_get(json_object_get(to, "jobs"), 0);
        json_object_set_new(to, rows[i].field, json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
        text = json_dumps(o, 0);
        setup(&m, text);
        build_template_hash(&m.in, hash);
        if ((strcmp(hash, pod) != 0) != rows[i].pod)
            fail_msg("%s: another pod? %s", rows[i].what, hash);
        build_ask_hash(&m.in, hash);
        if ((strcmp(hash, job) != 0) != rows[i].job)
            fail_msg("%s: another job? %s", rows[i].what, hash);
        teardown(&m);
        free(text);
        json_decref(o);
    }
}

/* What is left behind can be made: its retention is one that the CRD takes, and as long. */
static void test_retained(void **state)
{
    static const struct {
        int64_t seconds;
        const char *text;
    } rows[] = {
        {0, "0s"},
        {90, "90s"},
        {999999999, "999999999s"},
        {1000000000, "277778h"}, /* rounded up */
        {1080000000, "300000h"},
        {INT64_C(999999999) * 3600, "999999999h"},
        {INT64_C(999999999) * 3600 + 1, "forever"},
        {SPEC_FOREVER, "forever"},
    };
    struct made m;

    (void)state;
    setup(&m, object_text);
    for (size_t i = 0; i < unit_count(rows); i++) {
        json_t *o;
        int64_t s;

        m.spec.retention_s = rows[i].seconds;
        o = build_retained(&m.in);
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(o, "spec"), "retention")),
            rows[i].text);
        assert_true(spec_duration(rows[i].text, &s));
        assert_true(s >= rows[i].seconds);
        json_decref(o);
    }
    teardown(&m);
}

/* The longest that a DLTPod says and the control plane takes. */
static void test_retained_long(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    char bucket[2049], key[1024];
    struct dataset_spec s;
    struct made m;
    json_t *o, *samples;

    (void)state;
    setup(&m, object_text);
    memset(bucket, 'b', sizeof(bucket));
    memcpy(bucket, "s3://b/", 7);
    bucket[2048] = '\0';
    memset(key, 'k', sizeof(key));
    memcpy(key, "my data/#1/", 11);
    key[1022] = '/';
    key[1023] = '\0';
    m.spec.jobs[0].data.bucket = bucket;
    samples = json_string(key);
    m.spec.jobs[0].data.keys[0].samples = samples;
    o = build_retained(&m.in);
    if (dataset_spec_parse(&s, o, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(samples);
    json_decref(o);
    teardown(&m);
}

static void test_others(void **state)
{
    struct made m;
    json_t *o;

    (void)state;
    setup(&m, object_text);
    o = build_configmap(&m.in);
    assert_string_equal(at(o, "metadata name"), "\"x-train\"");
    assert_non_null(strstr(at(o, "data"), "team.birds"));
    json_decref(o);
    o = build_service(&m.in);
    assert_string_equal(at(o, "spec clusterIP"), "\"None\"");
    assert_string_equal(at(o, "metadata annotations"), "{\"dlcache.io/port\":\"29500\"}");
    assert_string_equal(at(o, "spec selector"),
                        "{\"dlcache.io/dltpod\":\"x\",\"dlcache.io/job\":\"train\"}");
    json_decref(o);
    o = build_tenant_secret("team");
    assert_string_equal(at(o, "metadata ownerReferences"), "");
    assert_string_equal(at(o, "metadata labels"), "{\"app.kubernetes.io/managed-by\":\"dlcache\"}");
    json_decref(o);
    o = build_retained(&m.in);
    assert_string_equal(at(o, "metadata name"), "\"birds\"");
    assert_string_equal(at(o, "spec"), "{\"bucket\":\"s3://b/birds/\",\"retention\":\"3600s\","
                                       "\"secretRef\":{\"name\":\"keys\"}}");
    json_decref(o);
    o = build_job_body(&m.in);
    assert_string_equal(at(o, ""),
                        "{\"dataset\":\"team.birds\",\"qos\":{\"cache\":true,\"mode\":"
                        "\"lazy\",\"memory_limit\":0,\"priority\":0,\"epochs\":3},\"gpus\":2,"
                        "\"queue\":true}");
    json_decref(o);
    o = build_dataset_body("team", "team.birds", &m.spec.jobs[0].data);
    assert_string_equal(at(o, ""),
                        "{\"name\":\"team.birds\",\"url\":\"s3://b/birds/\",\"tenant\":\"team\"}");
    json_decref(o);
    teardown(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pod),           cmocka_unit_test(test_environment),
        cmocka_unit_test(test_privileges),    cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_same_bytes),    cmocka_unit_test(test_template),
        cmocka_unit_test(test_others),        cmocka_unit_test(test_retained),
        cmocka_unit_test(test_retained_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
