// SPDX-License-Identifier: Apache-2.0
/* Who names what, over a real cache. */
#include "operator/reconcile/references.h"

#include <pthread.h>

#include "base/mem.h"
#include "operator/play.h"
#include "unit.h"

static struct objects *objects;
static struct users *users;
static int version;

static int fresh(void **state)
{
    (void)state;
    objects = objects_new(NULL);
    users = users_new(objects);
    version = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    users_free(&users);
    assert_null(users);
    objects_free(&objects);
    return 0;
}

/* The object of this name is now so. Takes object. */
static void is(enum kube_kind kind, const char *name, json_t *object)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", ++version);
    json_object_set_new(object, "kind", json_string(kube_kinds[kind].kind));
    if (json_object_get(object, "metadata") == NULL)
        json_object_set_new(object, "metadata", json_object());
    json_object_update_new(
        json_object_get(object, "metadata"),
        json_pack("{s:s, s:s, s:s}", "namespace", "ns", "name", name, "resourceVersion", text));
    objects_seen(objects, kind, &object);
    users_changed(users, kind, "ns", name);
}

static void gone(enum kube_kind kind, const char *name)
{
    json_t *j = json_pack("{s:{s:s, s:s, s:s}}", "metadata", "namespace", "ns", "name", name,
                          "resourceVersion", "1000000");

    objects_gone(objects, kind, &j);
    users_changed(users, kind, "ns", name);
}

static json_t *with(json_t *object, const char *member, json_t *value)
{
    json_object_set_new(object, member, value);
    return object;
}

static json_t *status(const char *phase, const char *name, bool registered)
{
    return json_pack("{s:s, s:[{s:s, s:o, s:b}]}", "phase", phase, "jobs", "name", "train",
                     "dataset", json_sprintf("ns.%s", name), "registered", (int)registered);
}

static json_t *waits_for_bucket(const char *name)
{
    return json_pack("{s:{s:[{s:s, s:s, s:{s:s, s:s}}]}}", "spec", "jobs", "name", "train", "image",
                     "i", "dataSource", "name", name, "bucket", "s3://b/");
}

static json_t *reads_bucket(const char *name)
{
    return with(waits_for_bucket(name), "status", status("Running", name, true));
}

static json_t *reads_ref(const char *name)
{
    json_t *o = json_pack("{s:{s:[{s:s, s:s, s:{s:{s:s}}}]}}", "spec", "jobs", "name", "train",
                          "image", "i", "dataSource", "datasetRef", "name", name);

    return with(o, "status", status("Running", name, true));
}

static json_t *dataset(void)
{
    return json_pack("{s:{s:s}}", "spec", "bucket", "s3://b/");
}

/* Names or keys, with commas. */
static void expect(json_t *list, const char *want)
{
    char got[256] = "";
    json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        size_t n = strlen(got);

        snprintf(got + n, sizeof(got) - n, "%s%s", n > 0 ? "," : "", json_string_value(one));
    }
    json_decref(list);
    assert_string_equal(got, want);
}

static void test_by_reference_and_by_name(void **state)
{
    (void)state;
    assert_false(users_others(users, "ns.data", "DLTPod/ns/b"));
    expect(users_of(users, "ns.data"), "");
    is(KUBE_DLTPOD, "b", reads_bucket("data"));
    assert_false(users_others(users, "ns.data", "DLTPod/ns/b"));
    assert_true(users_others(users, "ns.data", "DLTPod/ns/a"));
    is(KUBE_DLTPOD, "a", reads_ref("data"));
    is(KUBE_DATASET, "data", dataset());
    assert_true(users_others(users, "ns.data", "DLTPod/ns/b"));
    assert_true(users_others(users, "ns.data", "CachedDataset/ns/data"));
    assert_false(users_others(users, "other.data", "DLTPod/ns/b"));
    expect(users_of(users, "ns.data"), "a,b"); /* sorted, and not the CachedDataset */
    expect(users_keys(users, "ns.data"), "DLTPod/ns/a,DLTPod/ns/b");
}

static void test_another_spec(void **state)
{
    (void)state;
    is(KUBE_DLTPOD, "a", reads_bucket("one"));
    is(KUBE_DLTPOD, "a", reads_bucket("two"));
    expect(users_of(users, "ns.one"), "");
    expect(users_of(users, "ns.two"), "a");
    /* ... but what its status still names is not given up yet */
    is(KUBE_DLTPOD, "a",
       with(reads_bucket("two"), "status",
            play_parse("{\"jobs\": [{\"name\": \"train\", \"dataset\": \"ns.one\"}]}")));
    assert_true(users_others(users, "ns.one", "DLTPod/ns/b"));
    assert_true(users_others(users, "ns.two", "DLTPod/ns/b"));
}

static void test_ends_and_deletions(void **state)
{
    static const char *const ends[] = {"Succeeded", "Failed"};

    (void)state;
    for (size_t i = 0; i < unit_count(ends); i++) {
        is(KUBE_DLTPOD, "a", waits_for_bucket("data"));
        expect(users_of(users, "ns.data"), ""); /* it has no job on it yet */
        is(KUBE_DLTPOD, "a", reads_bucket("data"));
        expect(users_of(users, "ns.data"), "a");
        is(KUBE_DLTPOD, "a", with(reads_bucket("data"), "status", status(ends[i], "data", false)));
        expect(users_of(users, "ns.data"), ""); /* it does not read any more, but names it */
        expect(users_keys(users, "ns.data"), "DLTPod/ns/a");
        assert_true(users_others(users, "ns.data", "DLTPod/ns/b"));
    }
    is(KUBE_DLTPOD, "a",
       with(reads_bucket("data"), "metadata", json_pack("{s:s}", "deletionTimestamp", "t")));
    assert_false(users_others(users, "ns.data", "DLTPod/ns/b"));
    expect(users_keys(users, "ns.data"), "");
    is(KUBE_DLTPOD, "c", reads_bucket("data"));
    gone(KUBE_DLTPOD, "c");
    assert_false(users_others(users, "ns.data", "DLTPod/ns/b"));
}

static void test_secrets(void **state)
{
    json_t *a = reads_bucket("data"), *d = dataset();

    (void)state;
    json_object_set_new(json_object_get(a, "spec"), "secretRef", json_pack("{s:s}", "name", "s"));
    json_object_set_new(json_object_get(d, "spec"), "secretRef", json_pack("{s:s}", "name", "s"));
    is(KUBE_DLTPOD, "a", a);
    assert_true(users_of_secret(users, "ns", "s", "DLTPod/ns/b"));
    assert_false(users_of_secret(users, "ns", "s", "DLTPod/ns/a"));
    assert_false(users_of_secret(users, "other", "s", "DLTPod/ns/b"));
    assert_false(users_of_secret(users, "ns", "data", "DLTPod/ns/b"));
    is(KUBE_DATASET, "data", d);
    assert_true(users_of_secret(users, "ns", "s", "DLTPod/ns/a"));
    is(KUBE_DATASET, "data", dataset());
    assert_false(users_of_secret(users, "ns", "s", "DLTPod/ns/a"));
    a = with(reads_bucket("data"), "status", status("Failed", "data", true)); /* another job runs */
    json_object_set_new(json_object_get(a, "spec"), "secretRef", json_pack("{s:s}", "name", "s"));
    is(KUBE_DLTPOD, "a", json_deep_copy(a));
    assert_true(users_of_secret(users, "ns", "s", "DLTPod/ns/b"));
    is(KUBE_DLTPOD, "a", with(a, "status", status("Failed", "data", false)));
    assert_false(users_of_secret(users, "ns", "s", "DLTPod/ns/b"));
}

/* Two that have ended: the first gives the data up, and the second has it alone. */
static void test_given_up(void **state)
{
    json_t *over = status("Succeeded", "data", false);

    (void)state;
    is(KUBE_DLTPOD, "a", reads_bucket("data"));
    is(KUBE_DLTPOD, "b", with(reads_bucket("data"), "status", json_deep_copy(over)));
    assert_true(users_others(users, "ns.data", "DLTPod/ns/a"));
    json_object_set_new(json_array_get(json_object_get(over, "jobs"), 0), "released", json_true());
    is(KUBE_DLTPOD, "b", with(reads_bucket("data"), "status", over));
    assert_false(users_others(users, "ns.data", "DLTPod/ns/a"));
}

/* A spec that makes no sense names nothing, and harms nobody. */
static void test_specs_that_are_none(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"spec\": 7}",
        "{\"spec\": {\"jobs\": [{}]}}",
        "{\"spec\": {\"jobs\": [{\"name\": \"x\", \"dataSource\": []}]}}",
        "{\"spec\": {\"secretRef\": []}, \"status\": {\"jobs\": [7, {}]}}",
    };

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        is(KUBE_DLTPOD, "a", reads_bucket("data"));
        is(KUBE_DLTPOD, "a", play_parse(bad[i]));
        assert_false(users_others(users, "ns.data", "DLTPod/ns/b"));
        is(KUBE_DATASET, "d", play_parse(bad[i]));
        expect(users_of(users, "ns.d"), "");
    }
}

static void *change(void *arg)
{
    for (int i = 0; i < 300; i++)
        users_changed(users, KUBE_DLTPOD, "ns", arg);
    return NULL;
}

/* (REFERENCES-2) Whatever order the calls come in, the last state counts. */
static void test_several_threads(void **state)
{
    pthread_t threads[3];

    (void)state;
    for (size_t i = 0; i < unit_count(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, change, (void *)"a"), 0);
    for (int i = 0; i < 100; i++) {
        is(KUBE_DLTPOD, "a", reads_bucket(i % 2 ? "two" : "one"));
        json_decref(users_of(users, "ns.one"));
        users_others(users, "ns.two", "x");
    }
    for (size_t i = 0; i < unit_count(threads); i++)
        pthread_join(threads[i], NULL);
    expect(users_of(users, "ns.one"), "");
    expect(users_of(users, "ns.two"), "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_by_reference_and_by_name, fresh, end),
        cmocka_unit_test_setup_teardown(test_another_spec, fresh, end),
        cmocka_unit_test_setup_teardown(test_ends_and_deletions, fresh, end),
        cmocka_unit_test_setup_teardown(test_secrets, fresh, end),
        cmocka_unit_test_setup_teardown(test_given_up, fresh, end),
        cmocka_unit_test_setup_teardown(test_specs_that_are_none, fresh, end),
        cmocka_unit_test_setup_teardown(test_several_threads, fresh, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
