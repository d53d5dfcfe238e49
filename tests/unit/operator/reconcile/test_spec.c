// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "operator/reconcile/spec.h"

static json_t *parse(const char *s)
{
    json_error_t e;
    json_t *v = json_loads(s, JSON_DECODE_ANY, &e);

    if (v == NULL)
        fail_msg("%s: %s", e.text, s);
    return v;
}

static void test_quantity(void **state)
{
    static const struct {
        const char *json;
        int64_t bytes; /* < 0: refused */
    } rows[] = {
        {"1024", 1024},
        {"0", 0},
        {"-1", -1},
        {"1.5", -1},
        {"\"1Gi\"", 1 << 30},
        {"\"1.5Gi\"", 3LL << 29},
        {"\"500M\"", 500000000},
        {"\"1k\"", 1000},
        {"\"1e3\"", 1000},
        {"\"2E3\"", 2000},
        {"\"1500m\"", 2},
        {"\"+7\"", 7},
        {"\"8Pi\"", 1LL << 53},
        {"\"9Pi\"", -1},
        {"\"1E\"", -1},
        {"\"\"", -1},
        {"\"Gi\"", -1},
        {"\"1 Gi\"", -1},
        {"\"1gi\"", -1},
        {"\"1..5\"", -1},
        {"\"1.5.2\"", -1},
        {"\"-1\"", -1},
        {"\"0x10\"", -1},
        {"\"1e\"", -1},
        {"\"1e99\"", -1},
        {"\"inf\"", -1},
        {"true", -1},
        {"null", -1},
        {"\".5Ki\"", 512},
        {"\".\"", -1},
        {"\"1e 3\"", -1},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(rows); i++) {
        json_t *v = parse(rows[i].json);
        uint64_t bytes = 0;
        bool ok = spec_quantity(v, &bytes);

        if (ok != (rows[i].bytes >= 0) || (ok && bytes != (uint64_t)rows[i].bytes))
            fail_msg("%s: %d %llu", rows[i].json, ok, (unsigned long long)bytes);
        json_decref(v);
    }
}

static void test_duration(void **state)
{
    static const struct {
        const char *text;
        int64_t s; /* < 0: refused */
    } rows[] = {
        {"0", 0},
        {"0s", 0},
        {"90s", 90},
        {"1h30m", 5400},
        {"1.5h", 5400},
        {"500ms", 0},
        {"1500ms", 1},
        {"1m1s1ms", 61},
        {"", -1},
        {"1", -1},
        {"h", -1},
        {"1d", -1},
        {"-1s", -1},
        {"1 h", -1},
        {"1h ", -1},
        {"Forever", -1},
        {"forever", SPEC_FOREVER},
        {"99999999999999999999h", SPEC_FOREVER},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(rows); i++) {
        int64_t s = -7;
        bool ok = spec_duration(rows[i].text, &s);

        if (ok != (rows[i].s >= 0) || (ok && s != rows[i].s))
            fail_msg("\"%s\": %d %lld", rows[i].text, ok, (long long)s);
    }
}

static void test_time(void **state)
{
    static const struct {
        const char *text;
        int64_t t; /* < 0: refused */
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-11-15T17:24:16Z", 1794763456},
        {"2026-11-15T17:24:16.123456Z", 1794763456},
        {"2026-11-15T18:24:16+01:00", 1794763456},
        {"2026-11-15T12:54:16-04:30", 1794763456},
        {"2026-11-15", -1},
        {"2026-11-15T17:24:16", -1},
        {"2026-11-15T17:24:16Zulu", -1},
        {"", -1},
    };
    char out[SPEC_TIME_LEN];

    (void)state;
    for (size_t i = 0; i < unit_count(rows); i++) {
        int64_t t = -7;
        bool ok = spec_time_parse(rows[i].text, &t);

        if (ok != (rows[i].t >= 0) || (ok && t != rows[i].t))
            fail_msg("\"%s\": %d %lld", rows[i].text, ok, (long long)t);
    }
    assert_string_equal(spec_time(1794763456, out), "2026-11-15T17:24:16Z");
}

static void test_names(void **state)
{
    char a[SPEC_NAME_LEN], b[SPEC_NAME_LEN], at[SPEC_NAME_LEN], over[SPEC_NAME_LEN];
    char most[64], more[64];

    (void)state;
    assert_string_equal(spec_dataset("team", "birds", a), "team.birds");
    assert_string_equal(spec_pod("x", "train", 12, a), "x-train-12");
    assert_string_equal(spec_service("x", "train", a), "x-train");
    memset(most, 'n', 63);
    most[63] = '\0';
    memcpy(more, most, sizeof(more));
    more[62] = 'm';
    for (int len = 1; len <= 63; len++) { /* both at every length: valid, and apart */
        const char *name = most + 63 - len;

        spec_join(most, '-', name, a);
        assert_int_equal(strlen(a), 63);
        assert_true(a[62] != '-' && a[0] != '-');
        spec_join(more, '-', name, b);
        assert_string_not_equal(a, b);
    }
    spec_join(most + 32, '-', most + 32, at); /* 31 + 1 + 31: just fits */
    assert_int_equal(strlen(at), 63);
    assert_true(strspn(at, "n-") == 63);
    spec_join(most + 31, '-', most + 32, over);
    assert_int_equal(strlen(over), 63);
    assert_string_not_equal(at, over);
    assert_string_not_equal(spec_pod(most, most, 0, a), spec_pod(most, most, 1, b));
}

/* Datasets of two namespaces are never called the same, and what is short stays as it is. */
static void test_namespaces(void **state)
{
    char a[SPEC_NAME_LEN], b[SPEC_NAME_LEN], ns[64], other[64], name[64];

    (void)state;
    memset(ns, 's', 63);
    memset(name, 'd', 63);
    ns[63] = name[63] = '\0';
    for (int len = 1; len <= 63; len++) {
        const char *space = ns + 63 - len;

        snprintf(other, sizeof(other), "%s", space);
        other[len - 1] = 't';
        for (int n = 1; n <= 63; n++) {
            char *whole = mem_fmt("%s.%s", space, name + 63 - n);

            spec_dataset(space, name + 63 - n, a);
            spec_dataset(other, name + 63 - n, b);
            if (strlen(whole) <= 63)
                assert_string_equal(a, whole);
            assert_true(strlen(a) <= 63);
            /* not by the hash of the whole: what comes before the name differs */
            assert_non_null(strchr(a, '.'));
            assert_non_null(strchr(b, '.'));
            assert_false(strcspn(a, ".") == strcspn(b, ".") && strncmp(a, b, strcspn(a, ".")) == 0);
            mem_free(&whole);
        }
    }
    memset(ns, 's', 40);
    ns[40] = '\0'; /* just not cut */
    spec_dataset(ns, name, a);
    assert_int_equal(strncmp(a, ns, 40), 0);
    assert_string_equal(spec_dataset("team", name, a),
                        "team.ddddddddddddddddddddddddddddddddddddddddd-71233ae080c2b878");
}

#define JOB(more) "{\"name\": \"a\", \"image\": \"i\", " more "}"
#define DATA      "\"dataSource\": {\"bucket\": \"s3://b/\"}"

static void test_url(void **state)
{
    static const struct {
        const char *data, *url;
        unsigned splits;
    } rows[] = {
        {"{\"bucket\": \"s3://b/birds/\"}", "s3://b/birds/", 0},
        {"{\"bucket\": \"birds\"}", "s3://birds/", 0},
        {"{\"bucket\": \"birds\", \"keys\": {\"train\": {\"samples\": \"v1/train/\"}, "
         "\"validation\": {\"samples\": \"v1/val/\"}}}",
         "s3://birds/?samples-train=v1/train/&samples-validation=v1/val/", 3},
        {"{\"bucket\": \"birds\", \"keys\": {\"train\": {\"samples\": \"train/\"}, "
         "\"test\": {\"samples\": \"test/\"}}}",
         "s3://birds/?samples-train=train/&samples-test=test/", 5},
        {"{\"bucket\": \"birds\", \"keys\": {\"train\": {\"samples\": \"one/\"}, "
         "\"test\": {\"samples\": [\"other/\", \"x*\"]}}}",
         "s3://birds/?samples-train=one/&samples-test=other/&samples-test=x*", 5},
        {"{\"bucket\": \"birds\", \"keys\": {\"train\": {\"samples\": \"v1/images/\", "
         "\"manifests\": \"v1/all files.csv\"}}}",
         "s3://birds/?samples-train=v1/images/&manifest-train=v1/all files.csv", 1},
        {"{\"bucket\": \"http://h/birds\", \"keys\": {\"train\": {\"samples\": \"v/images/\", "
         "\"manifests\": \"v/m.csv\"}}}",
         "http://h/birds/?dlcache-samples-train=v/images/&dlcache-manifest-train=v/m.csv", 1},
        {"{\"bucket\": \"birds\", \"keys\": {\"train\": {\"samples\": \"v1/x\", \"targets\": "
         "\"v1/y\"}}}",
         "s3://birds/?samples-train=v1/x&targets-train=v1/y", 1},
        {"{\"bucket\": \"s3://b/x?group=no\", \"keys\": {\"train\": {\"manifests\": [\"a.csv\", "
         "\"b.csv\"]}, \"test\": {\"manifests\": \"c.csv\"}}}",
         "s3://b/x?group=no&manifest-train=a.csv&manifest-train=b.csv&manifest-test=c.csv", 5},
        {"{\"bucket\": \"s3://b/x/?layout=flat\"}", "s3://b/x/?layout=flat", 0},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(rows); i++) {
        char *text =
            mem_fmt("{\"metadata\": {\"name\": \"x\"}, \"spec\": {\"jobs\": [{\"name\": \"a\", "
                    "\"image\": \"i\", \"dataSource\": %s}]}}",
                    rows[i].data);
        struct dlc_err err = DLC_ERR_INIT;
        json_t *o = parse(text);
        struct spec s;
        char *url;

        if (spec_parse(&s, o, &err) < 0)
            fail_msg("%s: %s", rows[i].data, err.text);
        url = spec_url(&s.jobs[0].data);
        assert_string_equal(url, rows[i].url);
        assert_int_equal(spec_url_splits(&s.jobs[0].data), rows[i].splits);
        mem_free(&url);
        json_decref(o);
        mem_free(&text);
    }
}

static void test_defaults(void **state)
{
    json_t *o = parse("{\"metadata\": {\"name\": \"x\"}, \"spec\": {\"jobs\": [" JOB(DATA) "]}}");
    struct dlc_err err = DLC_ERR_INIT;
    char name[SPEC_NAME_LEN];
    struct spec s;

    (void)state;
    assert_int_equal(spec_parse(&s, o, &err), 0);
    assert_int_equal(s.replicas, 1);
    assert_int_equal(s.master_port, 29500);
    assert_int_equal(s.warm_up, WARM_UP_NONE);
    assert_int_equal(s.retention_s, 3600);
    assert_int_equal(s.epochs, 0);
    assert_null(s.secret);
    assert_int_equal(s.n_jobs, 1);
    assert_string_equal(s.jobs[0].restart_policy, "OnFailure");
    assert_true(s.jobs[0].qos.use_cache && s.jobs[0].qos.lazy);
    assert_int_equal(s.jobs[0].qos.partition_limit, 0);
    assert_string_equal(spec_data_name("x", &s.jobs[0], name), "x-a");
    json_decref(o);
}

/* (SPEC-1) */
static void test_refused(void **state)
{
    static const struct {
        const char *spec, *words;
    } rows[] = {
        {"{}", "spec.jobs: must have 1 to 16 jobs"},
        {"{\"jobs\": []}", "spec.jobs: must have"},
        {"{\"jobs\": 7}", "spec.jobs: must have"},
        {"{\"jobs\": [7]}", "spec.jobs[0]: must be an object"},
        {"{\"jobs\": [{}]}", "spec.jobs[0].name: must be made of"},
        {"{\"jobs\": [{\"name\": \"A\"}]}", "spec.jobs[0].name: must be made of"},
        {"{\"jobs\": [{\"name\": \"a\", " DATA "}]}", "spec.jobs[0].image: is missing"},
        {"{\"jobs\": [" JOB("\"gpus\": 0") "]}", "spec.jobs[0].dataSource: is missing"},
        {"{\"jobs\": [" JOB("\"dataSource\": {}") "]}", "spec.jobs[0].dataSource: say exactly one"},
        {"{\"jobs\": [" JOB(
             "\"dataSource\": {\"bucket\": \"b\", \"datasetRef\": {\"name\": \"r\"}}") "]}",
         "spec.jobs[0].dataSource: say exactly one"},
        {"{\"jobs\": [" JOB("\"dataSource\": {\"datasetRef\": {}}") "]}",
         "spec.jobs[0].dataSource.datasetRef.name: is missing"},
        {"{\"jobs\": [" JOB(DATA) ", " JOB(DATA) "]}", "spec.jobs[1].name: there are two"},
        {"{\"jobs\": [" JOB(DATA ", \"gpus\": -1") "]}",
         "spec.jobs[0].gpus: must be a number from 0"},
        {"{\"jobs\": [" JOB(DATA ", \"restartPolicy\": \"Always\"") "]}",
         "spec.jobs[0].restartPolicy: \"Always\" is not a valid choice"},
        {"{\"jobs\": [" JOB(
             DATA ", \"qos\": {}, \"qosFrom\": {\"configMapRef\": {\"name\": \"c\"}}") "]}",
         "spec.jobs[0]: qos and qosFrom exclude"},
        {"{\"jobs\": [" JOB(DATA ", \"qos\": {\"partitionLimit\": \"much\"}") "]}",
         "spec.jobs[0].qos.partitionLimit: must be a number of bytes"},
        {"{\"jobs\": [" JOB(DATA ", \"qos\": {\"useCache\": 1}") "]}",
         "spec.jobs[0].qos.useCache: must be true or false"},
        {"{\"jobs\": [" JOB(DATA) "], \"volumes\": [{\"name\": \"v\", \"hostPath\": {\"path\": "
                                  "\"/\"}}]}",
         "spec.volumes: a volume of kind hostPath is not allowed"},
        {"{\"jobs\": [" JOB(DATA) "], \"volumes\": [{\"name\": \"v\", \"emptyDir\": {}}, "
                                  "{\"name\": \"w\", \"emptyDir\": {}, \"nfs\": {}}]}",
         "spec.volumes: a volume of kind nfs is not allowed"},
        {"{\"jobs\": [" JOB(DATA) "], \"volumes\": {}}", "spec.volumes: must be a list"},
        {"{\"jobs\": [" JOB(DATA) "], \"volumes\": [7]}", "spec.volumes: must be a list of"},
        {"{\"jobs\": [" JOB("\"dataSource\": {\"bucket\": \"file:///etc/\"}") "]}",
         "spec.jobs[0].dataSource.bucket: file:// is a path"},
#define KEYS(text)                                                                                 \
    "{\"jobs\": [" JOB("\"dataSource\": {\"bucket\": \"birds\", \"keys\": {" text "}}") "]}"
        {KEYS("\"train\": {\"samples\": []}"),
         "spec.jobs[0].dataSource.keys.train.samples: must have 1 to 64 prefixes"},
        {KEYS("\"train\": {\"samples\": [\"a/\", 7]}"),
         "keys.train.samples: must be a prefix of 1 to 1024 characters, or a list"},
        {KEYS("\"test\": {\"samples\": [\"/a\"]}"), "'/a': a key does not begin with '/'"},
        {KEYS("\"test\": {\"manifests\": \"a&b\"}"), "'a&b' has '&' or '?' in it"},
        {KEYS("\"test\": {\"targets\": \"a\"}"), "keys.test: samples or manifests must be said"},
        {KEYS("\"train\": {\"samples\": \"a\", \"manifests\": \"m\"}, "
              "\"test\": {\"samples\": \"b\"}"),
         "keys.test: of several splits all have manifests, or none has"},
        {"{\"replicas\": 0, \"jobs\": [" JOB(DATA) "]}", "spec.replicas: must be a number from 1"},
        {"{\"replicas\": \"2\", \"jobs\": [" JOB(DATA) "]}", "spec.replicas: must be a number"},
        {"{\"retention\": \"soon\", \"jobs\": [" JOB(DATA) "]}",
         "spec.retention: must be a duration"},
        {"{\"warmUp\": \"much\", \"jobs\": [" JOB(DATA) "]}",
         "spec.warmUp: \"much\" is not a valid choice"},
        {"{\"nodeName\": \"n\", \"nodeSequence\": [\"m\"], \"jobs\": [" JOB(DATA) "]}",
         "nodeName and nodeSequence exclude"},
        {"{\"nodeSequence\": [1], \"jobs\": [" JOB(DATA) "]}",
         "spec.nodeSequence: must be a list of"},
        {"{\"secretRef\": \"s\", \"jobs\": [" JOB(DATA) "]}", "spec.secretRef: must be an object"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(rows); i++) {
        json_t *o =
            json_pack("{s:{s:s}, s:o}", "metadata", "name", "x", "spec", parse(rows[i].spec));
        struct dlc_err err = DLC_ERR_INIT;
        struct spec s;

        if (spec_parse(&s, o, &err) != DLC_EINVAL || strstr(err.text, rows[i].words) == NULL)
            fail_msg("%s: \"%s\"", rows[i].spec, err.text);
        json_decref(o);
    }
}

static void test_qos_from(void **state)
{
    static const struct {
        const char *data, *words; /* NULL: good */
    } rows[] = {
        {"{}", NULL},
        {"{\"useCache\": \"false\", \"lazyLoading\": \"true\", \"partitionLimit\": \"1Gi\", "
         "\"priority\": \"-3\"}",
         NULL},
        {"{\"useCache\": \"no\"}", "data.useCache: must be true or false, not \"no\""},
        {"{\"partitionLimit\": \"x\"}", "data.partitionLimit: must be a number"},
        {"{\"priority\": \"1001\"}", "data.priority: must be a number from -1000 to 1000"},
        {"{\"priority\": \"1x\"}", "data.priority"},
        {"{\"priority\": \"\"}", "data.priority"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(rows); i++) {
        json_t *o = json_pack("{s:o}", "data", parse(rows[i].data));
        struct dlc_err err = DLC_ERR_INIT;
        struct spec_qos q;
        int rc = spec_qos_from(&q, o, &err);

        if ((rc == 0) != (rows[i].words == NULL) ||
            (rc < 0 && strstr(err.text, rows[i].words) == NULL))
            fail_msg("%s: \"%s\"", rows[i].data, err.text);
        if (i == 1) {
            assert_false(q.use_cache);
            assert_int_equal(q.priority, -3);
            assert_int_equal(q.partition_limit, 1 << 30);
        }
        json_decref(o);
    }
}

static void test_dataset(void **state)
{
    static const struct {
        const char *spec, *words; /* NULL: good */
    } rows[] = {
        {"{\"bucket\": \"s3://b/\"}", NULL},
        {"{\"bucket\": \"https://h:8080/d.list?x=@\"}", NULL},
        {"{\"bucket\": \"birds.v2\"}", NULL},
        {"{\"bucket\": \"file:///etc/dlcache/\"}", "spec.bucket: file:// is a path on the nodes"},
        {"{\"bucket\": \"file:/etc/dlcache/\"}", "spec.bucket: file:// is a path on the nodes"},
        {"{\"bucket\": \"FILE:///etc/dlcache/\"}", "spec.bucket: must be"},
        {"{\"bucket\": \"/etc/dlcache/\"}", "spec.bucket: must be"},
        {"{\"bucket\": \"dlcache://other\"}", "spec.bucket: must be"},
        {"{\"bucket\": \"https://user:pass@h/\"}", "spec.bucket: must be"},
        {"{\"bucket\": \"s3://\"}", "spec.bucket: must be"},
        {"{\"bucket\": \"b\", \"endpoint\": \"file:///etc\"}", "spec.endpoint: must be"},
        {"{\"bucket\": \"b\", \"endpoint\": \"http://u@h\"}", "spec.endpoint: must be"},
        {"{\"bucket\": \"b\", \"endpoint\": \"http://minio:9000\"}", NULL},
        {"{}", "spec.bucket: is missing"},
        {"{\"bucket\": \"b\", \"nodeCount\": 1, \"nodeNames\": [\"n\"]}", "exclude each other"},
        {"{\"bucket\": \"b\", \"nodeCount\": 0}", "spec.nodeCount: must be a number from 1"},
        {"{\"bucket\": \"b\", \"tier\": \"tape\"}", "spec.tier: \"tape\" is not a valid choice"},
        {"{\"bucket\": \"b\", \"splits\": \"train\"}", "spec.splits: must be a list"},
        {"{\"bucket\": \"b\", \"warm\": \"yes\"}", "spec.warm: must be true or false"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(rows); i++) {
        json_t *o = json_pack("{s:o}", "spec", parse(rows[i].spec));
        struct dlc_err err = DLC_ERR_INIT;
        struct dataset_spec s;
        int rc = dataset_spec_parse(&s, o, &err);

        if ((rc == 0) != (rows[i].words == NULL) ||
            (rc < 0 && strstr(err.text, rows[i].words) == NULL))
            fail_msg("%s: \"%s\"", rows[i].spec, err.text);
        if (rc == 0) {
            assert_int_equal(s.retention_s, SPEC_FOREVER);
            assert_string_equal(s.tier, "memory");
            assert_false(s.warm);
        }
        json_decref(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantity),   cmocka_unit_test(test_duration),
        cmocka_unit_test(test_time),       cmocka_unit_test(test_names),
        cmocka_unit_test(test_namespaces), cmocka_unit_test(test_url),
        cmocka_unit_test(test_defaults),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_qos_from),   cmocka_unit_test(test_dataset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
