// SPDX-License-Identifier: Apache-2.0
#include "operator/kube/object_cache.h"

#include <pthread.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "unit.h"

static struct buf told; /* "+a ~a -a " */

static void on_change(enum kube_kind kind, const json_t *before, const json_t *after, void *arg)
{
    (void)arg;
    assert_int_equal(kind, KUBE_POD);
    buf_addf(&told, "%c%s ",
             before == NULL  ? '+'
             : after == NULL ? '-'
                             : '~',
             kube_name(after != NULL ? after : before));
}

static void expect(const char *want)
{
    assert_string_equal(buf_str(&told), want);
    buf_clear(&told);
}

static struct objects *fresh(void)
{
    struct objects_config c = {.changed = on_change};

    buf_release(&told);
    return objects_new(&c);
}

static json_t *pod(const char *name, const char *version)
{
    return json_pack("{s:{s:s, s:s, s:s, s:s, s:[{}], s:{s:s, s:s}}}", "metadata", "namespace",
                     "ns", "name", name, "resourceVersion", version, "uid", name, "managedFields",
                     "annotations", "kubectl.kubernetes.io/last-applied-configuration", "x", "mine",
                     "y");
}

static void seen(struct objects *o, const char *name, const char *version)
{
    json_t *j = pod(name, version);

    objects_seen(o, KUBE_POD, &j);
    assert_null(j);
}

static void note(struct objects *o, const char *name, const char *version)
{
    json_t *j = pod(name, version);

    objects_note(o, KUBE_POD, &j);
}

static void gone(struct objects *o, const char *name, const char *version)
{
    json_t *j = pod(name, version);

    objects_gone(o, KUBE_POD, &j);
}

/* "" when it is not there. */
static const char *version_of(struct objects *o, const char *name)
{
    static char out[32];
    json_t *j = objects_get(o, KUBE_POD, "ns", name);

    snprintf(out, sizeof(out), "%s", kube_version(j));
    objects_put(o, &j);
    return out;
}

static void test_lists_and_events(void **state)
{
    struct objects *o = fresh();
    json_t *j;

    (void)state;
    assert_false(objects_synced(o, KUBE_POD));
    objects_list_begin(o, KUBE_POD);
    seen(o, "a", "5");
    seen(o, "b", "3");
    assert_false(objects_synced(o, KUBE_POD));
    assert_true(objects_list_end(o, KUBE_POD, "10"));
    assert_true(objects_synced(o, KUBE_POD));
    expect("+a +b ");
    seen(o, "a", "11");
    seen(o, "c", "12");
    gone(o, "b", "13");
    gone(o, "x", "14"); /* never seen */
    expect("~a +c -b ");
    assert_int_equal(objects_count(o, KUBE_POD), 2);
    assert_string_equal(version_of(o, "a"), "11");
    j = objects_get(o, KUBE_POD, "ns", "a");
    assert_null(json_at(j, "metadata.managedFields"));
    assert_int_equal(json_object_size(json_at(j, "metadata.annotations")), 1);
    objects_put(o, &j);
    assert_null(objects_get(o, KUBE_POD, "other", "a"));
    assert_null(objects_get(o, KUBE_NODE, "ns", "a"));
    objects_free(&o);
}

static void test_what_a_list_does_not_show_is_gone(void **state)
{
    struct objects *o = fresh();

    (void)state;
    objects_list_begin(o, KUBE_POD);
    seen(o, "a", "1");
    seen(o, "b", "2");
    seen(o, "c", "3");
    objects_list_end(o, KUBE_POD, "3");
    buf_clear(&told);
    objects_list_begin(o, KUBE_POD); /* given up in the middle: nothing is gone */
    seen(o, "a", "1");
    assert_int_equal(objects_count(o, KUBE_POD), 3);
    objects_list_begin(o, KUBE_POD);
    seen(o, "a", "1");
    seen(o, "b", "8");
    note(o, "new", "12"); /* ours, after the list was made */
    assert_true(objects_list_end(o, KUBE_POD, "9"));
    expect("~b +new -c ");
    assert_int_equal(objects_count(o, KUBE_POD), 3);
    objects_free(&o);
}

static void test_versions_only_go_up(void **state)
{
    struct objects *o = fresh();

    (void)state;
    note(o, "early", "1"); /* nobody has listed them: it might stay for ever */
    assert_int_equal(objects_count(o, KUBE_POD), 0);
    objects_list_begin(o, KUBE_POD);
    objects_list_end(o, KUBE_POD, "10");
    note(o, "a", "12");
    seen(o, "a", "11"); /* the watch is behind */
    assert_string_equal(version_of(o, "a"), "12");
    seen(o, "a", "12");
    expect("+a ");
    gone(o, "a", "13");
    note(o, "a", "12"); /* an answer that was slow */
    assert_string_equal(version_of(o, "a"), "");
    expect("-a ");
    note(o, "a", "15"); /* made anew */
    gone(o, "a", "14"); /* the end of the one before */
    assert_string_equal(version_of(o, "a"), "15");
    objects_upto(o, KUBE_POD, "100");
    note(o, "b", "99");
    assert_string_equal(version_of(o, "b"), "");
    objects_free(&o);
}

static void test_a_store_that_was_restored(void **state)
{
    struct objects *o = fresh();

    (void)state;
    objects_list_begin(o, KUBE_POD);
    seen(o, "a", "100");
    seen(o, "b", "101");
    objects_list_end(o, KUBE_POD, "200");
    buf_clear(&told);
    objects_list_begin(o, KUBE_POD);
    seen(o, "a", "50");
    assert_false(objects_list_end(o, KUBE_POD, "60"));
    assert_int_equal(objects_count(o, KUBE_POD), 2); /* not decided yet */
    objects_list_begin(o, KUBE_POD);
    seen(o, "a", "50");
    assert_true(objects_list_end(o, KUBE_POD, "61"));
    assert_string_equal(version_of(o, "a"), "50");
    assert_string_equal(version_of(o, "b"), "");
    expect("~a -b ");
    seen(o, "a", "62");
    assert_string_equal(version_of(o, "a"), "62");
    objects_free(&o);
}

static void test_owners_and_labels(void **state)
{
    struct objects *o = fresh();
    json_t *j, *found;

    (void)state;
    objects_list_begin(o, KUBE_POD);
    for (int i = 0; i < 10; i++) {
        char name[8];

        snprintf(name, sizeof(name), "p%d", i);
        j = pod(name, "1");
        json_object_set_new(json_object_get(j, "metadata"), "ownerReferences",
                            json_pack("[{s:s}, {}, i]", "uid", i % 2 ? "odd" : "even", 3));
        json_object_set_new(json_object_get(j, "metadata"), "labels",
                            json_pack("{s:s}", "third", i % 3 ? "no" : "yes"));
        objects_seen(o, KUBE_POD, &j);
    }
    objects_list_end(o, KUBE_POD, "1");
    found = objects_owned(o, KUBE_POD, "odd");
    assert_int_equal(json_array_size(found), 5);
    objects_put(o, &found);
    assert_null(found);
    seen(o, "p1", "2"); /* owned by nobody now */
    gone(o, "p3", "3");
    found = objects_owned(o, KUBE_POD, "odd");
    assert_int_equal(json_array_size(found), 3);
    objects_put(o, &found);
    found = objects_all(o, KUBE_POD, NULL);
    assert_int_equal(json_array_size(found), 9);
    objects_put(o, &found);
    found = objects_owned(o, KUBE_POD, "nobody");
    assert_int_equal(json_array_size(found), 0);
    objects_put(o, &found);
    objects_free(&o);
}

static void test_keys(void **state)
{
    static const char *const bad[] = {
        "",         "/",         "DLTPod",    "DLTPod/ns",     "DLTPod/ns/",
        "Nix/ns/a", "DLTPod//a", "Node/ns/a", "DLTPod/ns/a/b", "DLTPo/ns/a"};
    json_t *j = json_pack("{s:{s:s, s:[{s:s, s:s, s:s}, {s:s, s:s, s:s, s:b}, {s:s, s:s, s:s}]}}",
                          "metadata", "namespace", "ns", "ownerReferences", "apiVersion",
                          "dlcache.io/v1", "kind", "DLTPod", "name", "first", "apiVersion",
                          "dlcache.io/v1alpha1", "kind", "DLTPod", "name", "second", "controller",
                          1, "apiVersion", "v1", "kind", "ConfigMap", "name", "map");
    char *key = object_key(KUBE_DLTPOD, "ns", "a");
    struct object_key k;

    (void)state;
    assert_string_equal(key, "DLTPod/ns/a");
    assert_true(object_key_parse(key, &k));
    assert_int_equal(k.kind, KUBE_DLTPOD);
    assert_string_equal(k.ns, "ns");
    assert_string_equal(k.name, "a");
    mem_free(&key);
    key = object_key(KUBE_NODE, "ignored", "n");
    assert_string_equal(key, "Node//n");
    assert_true(object_key_parse(key, &k));
    assert_int_equal(k.kind, KUBE_NODE);
    mem_free(&key);
    for (size_t i = 0; i < unit_count(bad); i++)
        assert_false(object_key_parse(bad[i], &k));
    key = object_key_of_owner(KUBE_DLTPOD, j);
    assert_string_equal(key, "DLTPod/ns/second");
    mem_free(&key);
    key = object_key_of_owner(KUBE_CONFIGMAP, j);
    assert_string_equal(key, "ConfigMap/ns/map");
    mem_free(&key);
    assert_null(object_key_of_owner(KUBE_SECRET, j));
    json_decref(j);
}

/* Readers hold what a writer replaces. */
static void *read_on(void *arg)
{
    struct objects *o = arg;

    for (int i = 0; i < 2000; i++) {
        json_t *one = objects_get(o, KUBE_POD, "ns", "a"), *all = objects_all(o, KUBE_POD, NULL);

        if (one != NULL)
            assert_string_equal(kube_name(one), "a");
        objects_put(o, &one);
        objects_put(o, &all);
    }
    return NULL;
}

static void test_readers_and_a_writer(void **state)
{
    struct objects *o = objects_new(NULL);
    pthread_t threads[3];

    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, o), 0);
    for (int i = 1; i < 2000; i++) {
        char version[16];

        snprintf(version, sizeof(version), "%d", i);
        if (i % 7 == 0)
            gone(o, "a", version);
        else
            seen(o, "a", version);
    }
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    objects_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_and_events),
        cmocka_unit_test(test_what_a_list_does_not_show_is_gone),
        cmocka_unit_test(test_versions_only_go_up),
        cmocka_unit_test(test_a_store_that_was_restored),
        cmocka_unit_test(test_owners_and_labels),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_readers_and_a_writer),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    buf_release(&told);
    return rc;
}
