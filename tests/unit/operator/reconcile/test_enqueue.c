// SPDX-License-Identifier: Apache-2.0
/* Which keys become due for which change, and what the cache keeps: real cache, index and queue. */
#include "operator/reconcile/enqueue.h"

#include "base/mem.h"
#include "operator/play.h"
#include "unit.h"

static struct enqueuer w;
static int version;

static int fresh(void **state)
{
    struct objects_config c = {enqueue_changed, enqueue_trim, &w};

    (void)state;
    w.objects = objects_new(&c);
    w.users = users_new(w.objects);
    w.queue = queue_new(NULL);
    version = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    queue_close(w.queue);
    queue_free(&w.queue);
    users_free(&w.users);
    objects_free(&w.objects);
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* These keys are due and no others: "CachedDataset/ns/d DLTPod/ns/a". */
static void due(const char *want)
{
    char *keys[32], got[512] = "";
    size_t n = 0;

    while (n < unit_count(keys) && (keys[n] = queue_take(w.queue, DLC_SEC(0))) != NULL)
        n++;
    qsort(keys, n, sizeof(*keys), by_text);
    for (size_t i = 0; i < n; i++) {
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s", i > 0 ? " " : "", keys[i]);
        queue_done(w.queue, &keys[i]);
    }
    assert_string_equal(got, want);
}

/* Let an object of this kind be so: a JSON text with metadata. */
static void seen(enum kube_kind kind, const char *json)
{
    json_t *j = play_parse(json), *meta = json_object_get(j, "metadata");
    char text[16];

    snprintf(text, sizeof(text), "%d", ++version);
    json_object_set_new(j, "kind", json_string(kube_kinds[kind].kind));
    json_object_set_new(meta, "resourceVersion", json_string(text));
    if (kube_kinds[kind].namespaced)
        json_object_set_new(meta, "namespace", json_string("ns"));
    objects_seen(w.objects, kind, &j);
}

static void gone(enum kube_kind kind, const char *name)
{
    json_t *j = json_pack("{s:{s:s, s:s, s:s}}", "metadata", "namespace",
                          kube_kinds[kind].namespaced ? "ns" : "", "name", name, "resourceVersion",
                          "1000000");

    objects_gone(w.objects, kind, &j);
}

/* A DLTPod of this generation that reads this, and is in this phase. */
static void dltpod(const char *name, int generation, const char *source, const char *phase)
{
    char *json = mem_fmt("{\"metadata\": {\"name\": \"%s\", \"uid\": \"u-%s\", \"generation\": %d},"
                         " \"spec\": {\"jobs\": [{\"name\": \"t\", \"image\": \"i\","
                         " \"dataSource\": {%s}}]}, \"status\": {\"phase\": \"%s\"}}",
                         name, name, generation, source, phase);

    seen(KUBE_DLTPOD, json);
    mem_free(&json);
}

static void dataset(const char *name, int generation, const char *phase)
{
    char *json = mem_fmt("{\"metadata\": {\"name\": \"%s\", \"generation\": %d},"
                         " \"spec\": {\"bucket\": \"s3://b/\"}, \"status\": {\"phase\": \"%s\"}}",
                         name, generation, phase);

    seen(KUBE_DATASET, json);
    mem_free(&json);
}

#define REF(name)    "\"datasetRef\": {\"name\": \"" name "\"}"
#define BUCKET(name) "\"name\": \"" name "\", \"bucket\": \"s3://b/\""

static void test_the_object_itself(void **state)
{
    static const char *const changes[] = {
        "\"generation\": 2",
        "\"generation\": 2, \"annotations\": {\"x\": \"y\"}",
        "\"generation\": 2, \"annotations\": {\"x\": \"z\"}",
        "\"generation\": 2, \"finalizers\": [\"f\"]",
        "\"generation\": 2, \"labels\": {\"a\": \"b\"}",
        "\"generation\": 2, \"deletionTimestamp\": \"t\"",
        "\"generation\": 2, \"uid\": \"another\"",
    };

    (void)state;
    dltpod("a", 1, BUCKET("d"), "");
    due("DLTPod/ns/a");
    dltpod("a", 1, BUCKET("d"), "Running"); /* that was us */
    due("");
    for (size_t i = 0; i < unit_count(changes); i++) {
        char *json = mem_fmt("{\"metadata\": {\"name\": \"a\", %s}}", changes[i]);

        seen(KUBE_DLTPOD, json);
        due("DLTPod/ns/a");
        seen(KUBE_DLTPOD, json); /* another version of the same */
        due("");
        mem_free(&json);
    }
    gone(KUBE_DLTPOD, "a");
    due("DLTPod/ns/a");
}

static void test_a_dataset_wakes_its_readers(void **state)
{
    (void)state;
    dltpod("a", 1, REF("d"), "Running");
    dltpod("b", 1, BUCKET("d"), "Succeeded");
    dltpod("c", 1, REF("other"), "Running");
    due("DLTPod/ns/a DLTPod/ns/b DLTPod/ns/c");
    dataset("d", 1, ""); /* it comes */
    due("CachedDataset/ns/d DLTPod/ns/a DLTPod/ns/b");
    dataset("d", 1, "Preparing");
    due("DLTPod/ns/a DLTPod/ns/b");
    dataset("d", 1, "Preparing"); /* figures */
    due("");
    dataset("d", 2, "Preparing"); /* its spec is its own business */
    due("CachedDataset/ns/d");
    gone(KUBE_DATASET, "d");
    due("CachedDataset/ns/d DLTPod/ns/a DLTPod/ns/b");
}

static void test_a_reader_wakes_its_dataset(void **state)
{
    (void)state;
    dataset("d", 1, "Ready");
    dataset("e", 1, "Ready");
    due("CachedDataset/ns/d CachedDataset/ns/e");
    dltpod("a", 1, REF("d"), "");
    due("CachedDataset/ns/d DLTPod/ns/a");
    dltpod("b", 1, BUCKET("d"), ""); /* the same data, by name */
    due("CachedDataset/ns/d DLTPod/ns/b");
    dltpod("c", 1, REF("none"), "");
    due("DLTPod/ns/c");
    dltpod("a", 1, REF("d"), "Running");
    due("CachedDataset/ns/d");
    dltpod("a", 1, REF("d"), "Running");
    due("");
    dltpod("a", 1, REF("d"), "Succeeded");
    due("CachedDataset/ns/d");
    dltpod("a", 2, REF("e"), "Succeeded"); /* it reads something else: both are told */
    due("CachedDataset/ns/d CachedDataset/ns/e DLTPod/ns/a");
    gone(KUBE_DLTPOD, "a");
    due("CachedDataset/ns/e DLTPod/ns/a");
}

/* After its spec has another source its status still names the former one for a while. */
static void test_a_reader_lets_go(void **state)
{
#define READS(generation, spec, status)                                                            \
    "{\"metadata\": {\"name\": \"a\", \"generation\": " generation                                 \
    "}, \"spec\": {\"jobs\": [{\"name\":"                                                          \
    " \"t\", \"image\": \"i\", \"dataSource\": {" spec                                             \
    "}}]}, \"status\": {\"phase\": \"Running\","                                                   \
    " \"jobs\": [{\"name\": \"t\", \"dataset\": \"ns." status "\"}]}}"
    (void)state;
    dataset("d", 1, "Ready");
    dataset("e", 1, "Ready");
    seen(KUBE_DLTPOD, READS("1", REF("d"), "d"));
    due("CachedDataset/ns/d CachedDataset/ns/e DLTPod/ns/a");
    seen(KUBE_DLTPOD, READS("2", REF("e"), "d"));
    due("CachedDataset/ns/d CachedDataset/ns/e DLTPod/ns/a");
    seen(KUBE_DLTPOD, READS("2", REF("e"), "d"));
    due("");
    seen(KUBE_DLTPOD, READS("2", REF("e"), "e"));
    due("CachedDataset/ns/d CachedDataset/ns/e");
}

/* One of its jobs begins and ends; the phase is that of all. */
static void test_a_job_begins_and_ends(void **state)
{
    static const char *const jobs[] = {
        "{\"name\": \"s\", \"dataset\": \"ns.e\", \"registered\": true}",
        "{\"name\": \"s\", \"dataset\": \"ns.e\", \"registered\": true},"
        " {\"name\": \"t\", \"dataset\": \"ns.d\", \"registered\": false}",
        "{\"name\": \"s\", \"dataset\": \"ns.e\", \"registered\": true},"
        " {\"name\": \"t\", \"dataset\": \"ns.d\", \"registered\": true}",
        "{\"name\": \"s\", \"dataset\": \"ns.e\", \"registered\": true},"
        " {\"name\": \"t\", \"dataset\": \"ns.d\", \"registered\": false}",
        "{\"name\": \"s\", \"dataset\": \"ns.e\", \"registered\": true}, {\"name\": \"t\","
        " \"dataset\": \"ns.d\", \"registered\": false, \"released\": true}",
    };

    (void)state;
    dataset("d", 1, "Ready");
    dltpod("a", 1, REF("d"), "Running");
    due("CachedDataset/ns/d DLTPod/ns/a");
    for (size_t i = 0; i < unit_count(jobs); i++) {
        char *json = mem_fmt(
            "{\"metadata\": {\"name\": \"a\", \"uid\": \"u-a\", \"generation\": 1},"
            " \"spec\": {\"jobs\": [{\"name\": \"t\", \"image\": \"i\","
            " \"dataSource\": {" REF("d") "}}]},"
                                          " \"status\": {\"phase\": \"Running\", \"jobs\": [%s]}}",
            jobs[i]);

        seen(KUBE_DLTPOD, json);
        due("CachedDataset/ns/d");
        seen(KUBE_DLTPOD, json);
        due("");
        mem_free(&json);
    }
}

static void test_owners(void **state)
{
    static const enum kube_kind kinds[] = {KUBE_POD, KUBE_CONFIGMAP, KUBE_SERVICE};
    static const char owned[] = "{\"metadata\": {\"name\": \"x\", \"ownerReferences\": ["
                                "{\"apiVersion\": \"dlcache.io/v1alpha1\", \"kind\": \"DLTPod\","
                                " \"name\": \"a\", \"uid\": \"u-a\", \"controller\": true}]}}";

    (void)state;
    for (size_t i = 0; i < unit_count(kinds); i++) {
        seen(kinds[i], "{\"metadata\": {\"name\": \"foreign\"}}");
        due("");
        seen(kinds[i], owned);
        due("DLTPod/ns/a");
        gone(kinds[i], "x"); /* its last state */
        due("DLTPod/ns/a");
    }
}

static void node(const char *spec, const char *ready, const char *time, const char *labels)
{
    char *json = mem_fmt("{\"metadata\": {\"name\": \"n\", \"labels\": {%s}}, \"spec\": {%s},"
                         " \"status\": {\"images\": [\"%s\"], \"conditions\": ["
                         "{\"type\": \"Ready\", \"status\": \"%s\", \"lastHeartbeatTime\": \"%s\"}"
                         "]}}",
                         labels, spec, time, ready, time);

    seen(KUBE_NODE, json);
    mem_free(&json);
}

static void test_nodes(void **state)
{
    (void)state;
    dltpod("a", 1, BUCKET("a"), "Running");
    dltpod("b", 1, BUCKET("b"), "");
    dltpod("c", 1, BUCKET("c"), "Succeeded");
    dltpod("d", 1, BUCKET("d"), "Failed");
    due("DLTPod/ns/a DLTPod/ns/b DLTPod/ns/c DLTPod/ns/d");
    node("", "True", "1", "");
    due("DLTPod/ns/a DLTPod/ns/b");
    node("", "True", "2", ""); /* its heart beats */
    due("");
    node("\"podCIDR\": \"x\"", "True", "3", ""); /* nobody reads that */
    due("");
    node("", "Unknown", "4", "");
    due("DLTPod/ns/a DLTPod/ns/b");
    node("\"unschedulable\": true", "Unknown", "5", "");
    due("DLTPod/ns/a DLTPod/ns/b");
    node("\"unschedulable\": true", "Unknown", "6", "\"dlcache.io/node\": \"ready\"");
    due("DLTPod/ns/a DLTPod/ns/b");
    gone(KUBE_NODE, "n");
    due("DLTPod/ns/a DLTPod/ns/b");
}

static void test_all(void **state)
{
    (void)state;
    dataset("d", 1, "Failed");
    dltpod("a", 1, BUCKET("x"), "Running");
    dltpod("b", 1, BUCKET("y"), "Succeeded");
    due("CachedDataset/ns/d DLTPod/ns/a DLTPod/ns/b");
    enqueue_all(&w);
    due("CachedDataset/ns/d DLTPod/ns/a DLTPod/ns/b");
}

/* The object as the cache has it, without metadata, as one line. */
static void kept(enum kube_kind kind, const char *ns, const char *json, const char *want)
{
    json_t *j, *copy;
    char *text;

    seen(kind, json);
    j = objects_get(w.objects, kind, ns, "x");
    copy = json_copy(j);
    assert_non_null(json_object_get(copy, "metadata"));
    json_object_del(copy, "metadata");
    json_object_del(copy, "kind");
    text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, want);
    free(text);
    json_decref(copy);
    objects_put(w.objects, &j);
}

static void test_what_is_kept(void **state)
{
    (void)state;
    kept(KUBE_POD, "ns",
         "{\"metadata\": {\"name\": \"x\"}, \"spec\": {\"nodeName\": \"n\", \"containers\": [1]},"
         " \"status\": {\"phase\": \"Failed\", \"reason\": \"r\", \"message\": \"m\","
         " \"conditions\": [{\"type\": \"PodScheduled\"}, {\"type\": \"Ready\"}], "
         "\"containerStatuses\": [3], \"startTime\": \"t\","
         " \"podIP\": \"1.2.3.4\", \"hostIP\": \"5\"}}",
         "{\"spec\":{\"nodeName\":\"n\"},\"status\":{\"conditions\":[{\"type\":\"PodScheduled\"}],"
         "\"containerStatuses\":[3],"
         "\"message\":\"m\",\"phase\":\"Failed\",\"reason\":\"r\",\"startTime\":\"t\"}}");
    kept(KUBE_POD, "ns", "{\"metadata\": {\"name\": \"x\"}}", "{}");
    kept(KUBE_NODE, NULL,
         "{\"metadata\": {\"name\": \"x\"}, \"spec\": {\"taints\": [1], \"unschedulable\": true,"
         " \"podCIDR\": \"c\"}, \"status\": {\"images\": [1], \"conditions\": [{\"type\": "
         "\"Ready\"}, {\"type\": \"DiskPressure\"}]}}",
         "{\"spec\":{\"taints\":[1],\"unschedulable\":true},\"status\":{\"conditions\":[{\"type\":"
         "\"Ready\"}]}}");
    kept(KUBE_SERVICE, "ns",
         "{\"metadata\": {\"name\": \"x\"}, \"spec\": {\"clusterIP\": \"1\"}, \"status\": {}}",
         "{\"spec\":{},\"status\":{}}");
    kept(KUBE_CONFIGMAP, "ns", "{\"metadata\": {\"name\": \"x\"}, \"data\": {\"a\": \"b\"}}",
         "{\"data\":{\"a\":\"b\"}}");
    kept(KUBE_DLTPOD, "ns",
         "{\"metadata\": {\"name\": \"x\"}, \"spec\": {\"a\": 1}, \"status\": {\"b\": 2}}",
         "{\"spec\":{\"a\":1},\"status\":{\"b\":2}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_object_itself, fresh, end),
        cmocka_unit_test_setup_teardown(test_a_dataset_wakes_its_readers, fresh, end),
        cmocka_unit_test_setup_teardown(test_a_reader_wakes_its_dataset, fresh, end),
        cmocka_unit_test_setup_teardown(test_a_reader_lets_go, fresh, end),
        cmocka_unit_test_setup_teardown(test_a_job_begins_and_ends, fresh, end),
        cmocka_unit_test_setup_teardown(test_owners, fresh, end),
        cmocka_unit_test_setup_teardown(test_nodes, fresh, end),
        cmocka_unit_test_setup_teardown(test_all, fresh, end),
        cmocka_unit_test_setup_teardown(test_what_is_kept, fresh, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
