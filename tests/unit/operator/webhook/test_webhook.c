// SPDX-License-Identifier: Apache-2.0
/* Pods go in, patches come out; the patches are carried out here, and what they make is looked at.
 */
#include "unit.h"

#include <jansson.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "operator/webhook/webhook.h"
#include "operator/webhook/webhook_i.h"

/* Single quotes for double ones: JSON in C is hard to read. Gives. */
static json_t *json_of(const char *text)
{
    char *s = mem_str(text);
    json_error_t e;
    json_t *j;

    for (char *p = s; *p != '\0'; p++)
        *p = *p == '\'' ? '"' : *p;
    j = json_loads(s, JSON_DECODE_ANY, &e);
    if (j == NULL)
        print_error("%s: %s\n", s, e.text);
    assert_non_null(j);
    mem_free(&s);
    return j;
}

/* Takes pod. */
static json_t *review_of(json_t *pod)
{
    return json_pack("{s:s, s:s, s:{s:s, s:{s:s, s:s, s:s}, s:s, s:s, s:o}}", "apiVersion",
                     "admission.k8s.io/v1", "kind", "AdmissionReview", "request", "uid", "u-1",
                     "kind", "group", "", "version", "v1", "kind", "Pod", "namespace", "team",
                     "operation", "CREATE", "object", pod);
}

/* -------- carrying out a patch: "add" is all that we send -------- */

static void patch_add(json_t *doc, const char *path, json_t *value)
{
    char *copy = mem_str(path + 1), *rest = copy, *last = strrchr(copy, '/');
    const json_t *there;
    json_t *at = doc;

    assert_non_null(last);
    *last++ = '\0';
    for (const char *word = strsep(&rest, "/"); word != NULL; word = strsep(&rest, "/")) {
        at = json_is_array(at) ? json_array_get(at, strtoul(word, NULL, 10))
                               : json_object_get(at, word);
        assert_non_null(at);
    }
    if (json_is_array(at)) {
        assert_string_equal(last, "-");
        json_array_append(at, value);
    } else {
        there = json_object_get(at, last);
        assert_true(there == NULL || json_is_null(there)); /* never over something */
        json_object_set(at, last, value);
    }
    mem_free(&copy);
}

/* The pod with the patch of the response carried out. Gives. */
static json_t *patched(const json_t *pod, const json_t *response)
{
    json_t *doc = json_deep_copy(pod), *ops, *op;
    struct buf b = BUF_INIT;
    size_t i;

    assert_string_equal(json_string_value(json_object_get(response, "patchType")), "JSONPatch");
    assert_true(str_unbase64(json_string_value(json_object_get(response, "patch")), &b));
    ops = json_loadb(b.data, b.len, 0, NULL);
    assert_true(json_array_size(ops) > 0);
    json_array_foreach(ops, i, op)
    {
        assert_string_equal(json_string_value(json_object_get(op, "op")), "add");
        patch_add(doc, json_string_value(json_object_get(op, "path")),
                  json_object_get(op, "value"));
    }
    json_decref(ops);
    buf_release(&b);
    return doc;
}

/* What comes of a review (taken): the pod, patched or as it was (NULL), and warnings. */
struct came {
    json_t *answer, *response, *pod;
    enum webhook_outcome outcome;
    size_t warnings;
};

static struct came ask(json_t *review)
{
    struct came c = {0};
    const json_t *pod = json_object_get(json_object_get(review, "request"), "object");

    c.answer = webhook_review(review, &c.outcome);
    assert_string_equal(json_string_value(json_object_get(c.answer, "apiVersion")),
                        "admission.k8s.io/v1");
    assert_string_equal(json_string_value(json_object_get(c.answer, "kind")), "AdmissionReview");
    c.response = json_object_get(c.answer, "response");
    assert_true(json_is_true(json_object_get(c.response, "allowed")));
    assert_true(json_is_string(json_object_get(c.response, "uid")));
    c.warnings = json_array_size(json_object_get(c.response, "warnings"));
    assert_true((c.outcome == WEBHOOK_PATCHED) == (json_object_get(c.response, "patch") != NULL));
    if (c.outcome == WEBHOOK_PATCHED)
        c.pod = patched(pod, c.response);
    json_decref(review);
    return c;
}

static void done(struct came *c)
{
    json_decref(c->answer);
    json_decref(c->pod);
}

#define META "'metadata': {'name': 'p', 'annotations': {'dlcache.io/dataset': 'birds'}}"

static const json_t *within(const json_t *j, const char *a, const char *b, const char *c)
{
    j = json_object_get(j, a);
    j = b != NULL ? json_object_get(j, b) : j;
    return c != NULL ? json_object_get(j, c) : j;
}

static const json_t *named(const json_t *list, const char *member, const char *value)
{
    json_t *v;
    size_t i;

    json_array_foreach(list, i, v)
    {
        const char *its = json_string_value(json_object_get(v, member));

        if (its != NULL && strcmp(its, value) == 0)
            return v;
    }
    return NULL;
}

static void expect_env(const json_t *container, const char *name, const char *value)
{
    const json_t *v = named(json_object_get(container, "env"), "name", name);

    assert_non_null(v);
    assert_string_equal(json_string_value(json_object_get(v, "value")), value);
}

static void expect_container(const json_t *c, const char *socket, const char *token)
{
    const json_t *m = named(json_object_get(c, "volumeMounts"), "mountPath", "/run/dlcache");

    assert_non_null(m);
    assert_string_equal(json_string_value(json_object_get(m, "name")), socket);
    assert_true(json_is_true(json_object_get(m, "readOnly")));
    m = named(json_object_get(c, "volumeMounts"), "mountPath", "/var/run/secrets/dlcache.io");
    assert_non_null(m);
    assert_string_equal(json_string_value(json_object_get(m, "name")), token);
    assert_true(json_is_true(json_object_get(m, "readOnly")));
    expect_env(c, "DLCACHE_SOCKET", "/run/dlcache/node/socket");
    expect_env(c, "DLCACHE_ALLOW_UID", "43117");
    expect_env(c, "DLCACHE_DATASET", "dlcache://team.birds");
    expect_env(c, "DLCACHE_TOKEN_FILE", "/var/run/secrets/dlcache.io/token");
}

static void test_a_plain_pod(void **state)
{
    struct came c = ask(review_of(json_of("{" META ", 'spec': {'containers': [{'name': 'a'}]}}")));
    const json_t *spec = within(c.pod, "spec", NULL, NULL), *v, *term;

    (void)state;
    assert_int_equal(c.outcome, WEBHOOK_PATCHED);
    assert_int_equal(c.warnings, 0);
    assert_string_equal(json_string_value(json_object_get(c.response, "uid")), "u-1");
    v = named(json_object_get(spec, "volumes"), "name", "dlcache-socket");
    assert_string_equal(json_string_value(within(v, "csi", "driver", NULL)), "csi.dlcache.io");
    v = named(json_object_get(spec, "volumes"), "name", "dlcache-token");
    v = json_array_get(within(v, "projected", "sources", NULL), 0);
    assert_string_equal(json_string_value(within(v, "secret", "name", NULL)), "dlcache-tenant");
    assert_true(json_is_true(within(v, "secret", "optional", NULL)));
    expect_container(json_array_get(json_object_get(spec, "containers"), 0), "dlcache-socket",
                     "dlcache-token");
    term = json_array_get(
        json_object_get(within(spec, "affinity", "nodeAffinity", REQUIRED), "nodeSelectorTerms"),
        0);
    v = json_array_get(json_object_get(term, "matchExpressions"), 0);
    assert_string_equal(json_string_value(json_object_get(v, "key")), "dlcache.io/node");
    assert_string_equal(json_string_value(json_array_get(json_object_get(v, "values"), 0)),
                        "ready");
    done(&c);
}

static void test_every_container_gets_its_part(void **state)
{
    struct came c = ask(review_of(
        json_of("{" META ", 'spec': {'initContainers': [{'name': 'i', 'env': []}, {'name': 'j'}],"
                " 'containers': [{'name': 'a', 'env': [{'name': 'X', 'value': '1'}],"
                " 'volumeMounts': [{'name': 'd', 'mountPath': '/d'}]}, {'name': 'b', 'env': null}],"
                " 'volumes': [{'name': 'd', 'emptyDir': {}}]}}")));
    const json_t *spec = within(c.pod, "spec", NULL, NULL), *a;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        expect_container(json_array_get(json_object_get(spec, "initContainers"), i),
                         "dlcache-socket", "dlcache-token");
        expect_container(json_array_get(json_object_get(spec, "containers"), i), "dlcache-socket",
                         "dlcache-token");
    }
    a = json_array_get(json_object_get(spec, "containers"), 0);
    expect_env(a, "X", "1");
    assert_non_null(named(json_object_get(a, "volumeMounts"), "mountPath", "/d"));
    assert_non_null(named(json_object_get(spec, "volumes"), "name", "d"));
    done(&c);
}

static void test_a_label_does_too_and_the_annotation_goes_first(void **state)
{
    struct came c =
        ask(review_of(json_of("{'metadata': {'labels': {'dlcache.io/dataset': 'birds'}}, 'spec': "
                              "{'containers': [{'name': 'a'}]}}")));

    (void)state;
    expect_env(json_array_get(within(c.pod, "spec", "containers", NULL), 0), "DLCACHE_DATASET",
               "dlcache://team.birds");
    done(&c);
    c = ask(review_of(
        json_of("{'metadata': {'labels': {'dlcache.io/dataset': 'cats'}, 'annotations': "
                "{'dlcache.io/dataset': 'birds'}}, 'spec': {'containers': [{'name': 'a'}]}}")));
    expect_env(json_array_get(within(c.pod, "spec", "containers", NULL), 0), "DLCACHE_DATASET",
               "dlcache://team.birds");
    done(&c);
}

static const char *const pods[] = {
    "{" META ", 'spec': {'containers': [{'name': 'a'}]}}",
    "{" META ", 'spec': {'containers': [{'name': 'a'}, {'name': 'b'}], 'initContainers': "
    "[{'name': 'c'}], 'volumes': [{'name': 'dlcache-socket', 'emptyDir': {}}]}}",
    "{" META ", 'spec': {'containers': [{'name': 'a'}], 'nodeName': 'n'}}",
    "{" META ", 'spec': {'containers': [{'name': 'a'}], 'affinity': {'nodeAffinity': {'" REQUIRED
    "': {'nodeSelectorTerms': [{'matchExpressions': [{'key': 'z', 'operator': 'Exists'}]}, "
    "{'matchFields': [{'key': 'metadata.name', 'operator': 'In', 'values': ['n']}]}]}}}}}",
};

static void test_a_patched_pod_is_left_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(pods); i++) {
        struct came first = ask(review_of(json_of(pods[i]))), second;

        assert_int_equal(first.outcome, WEBHOOK_PATCHED);
        second = ask(review_of(json_deep_copy(first.pod)));
        assert_int_equal(second.outcome, WEBHOOK_ALONE);
        assert_int_equal(second.warnings, 0);
        done(&first);
        done(&second);
    }
}

/* The API server adds defaults to what we wrote, and others add containers. */
static void test_a_container_that_came_later_gets_its_part(void **state)
{
    struct came first = ask(review_of(json_of(pods[0]))), second;
    json_t *spec = json_object_get(first.pod, "spec"), *v;

    (void)state;
    v = (json_t *)named(json_object_get(spec, "volumes"), "name", "dlcache-token");
    json_object_set_new(json_object_get(v, "projected"), "someDefault", json_true());
    json_array_append_new(json_object_get(spec, "containers"), json_of("{'name': 'sidecar'}"));
    second = ask(review_of(json_deep_copy(first.pod)));
    assert_int_equal(second.outcome, WEBHOOK_PATCHED);
    spec = json_object_get(second.pod, "spec");
    assert_int_equal(json_array_size(json_object_get(spec, "volumes")), 2);
    expect_container(json_array_get(json_object_get(spec, "containers"), 1), "dlcache-socket",
                     "dlcache-token");
    assert_int_equal(json_array_size(json_object_get(
                         within(spec, "affinity", "nodeAffinity", REQUIRED), "nodeSelectorTerms")),
                     1);
    done(&first);
    done(&second);
}

static void test_names_that_are_taken(void **state)
{
    struct came c = ask(review_of(json_of(
        "{" META ", 'spec': {'containers': [{'name': 'a'}], 'volumes': ["
        "{'name': 'dlcache-socket', 'emptyDir': {}}, {'name': 'dlcache-socket-2', 'emptyDir': {}},"
        "{'name': 'dlcache-token', 'secret': {'secretName': 'x'}}]}}")));
    const json_t *spec = within(c.pod, "spec", NULL, NULL);

    (void)state;
    assert_int_equal(json_array_size(json_object_get(spec, "volumes")), 5);
    expect_container(json_array_get(json_object_get(spec, "containers"), 0), "dlcache-socket-3",
                     "dlcache-token-2");
    done(&c);
}

static void test_what_the_user_set_stays(void **state)
{
    struct came c = ask(review_of(json_of(
        "{" META ", 'spec': {'containers': [{'name': 'a', 'env': [{'name': 'DLCACHE_DATASET', "
        "'value': 'dlcache://mine'}], 'volumeMounts': [{'name': 's', 'mountPath': "
        "'/run/dlcache'}]}], 'volumes': [{'name': 's', 'emptyDir': {}}]}}")));
    const json_t *a = json_array_get(within(c.pod, "spec", "containers", NULL), 0);

    (void)state;
    expect_env(a, "DLCACHE_DATASET", "dlcache://mine");
    expect_env(a, "DLCACHE_SOCKET", "/run/dlcache/node/socket");
    assert_int_equal(json_array_size(json_object_get(a, "env")), 4);
    assert_int_equal(json_array_size(json_object_get(a, "volumeMounts")), 2);
    assert_int_equal(c.warnings, 1);
    done(&c);
}

static size_t expressions(const json_t *pod, size_t term)
{
    const json_t *terms =
        json_object_get(within(json_object_get(pod, "spec"), "affinity", "nodeAffinity", REQUIRED),
                        "nodeSelectorTerms");

    return json_array_size(json_object_get(json_array_get(terms, term), "matchExpressions"));
}

static void test_each_alternative_of_an_affinity(void **state)
{
    struct came c = ask(review_of(json_of(
        "{" META ", 'spec': {'containers': [{'name': 'a'}], 'affinity': {'podAffinity': {}, "
        "'nodeAffinity': {'preferredDuringSchedulingIgnoredDuringExecution': [], '" REQUIRED
        "': {'nodeSelectorTerms': [{'matchExpressions': [{'key': 'z', 'operator': 'Exists'}]},"
        " {'matchFields': [{'key': 'metadata.name', 'operator': 'In', 'values': ['n']}]}, "
        "{}]}}}}}")));

    (void)state;
    assert_int_equal(expressions(c.pod, 0), 2);
    assert_int_equal(expressions(c.pod, 1), 1);
    assert_int_equal(expressions(c.pod, 2), 0); /* it matches no node, and goes on to */
    done(&c);
    c = ask(review_of(json_of("{" META ", 'spec': {'containers': [{'name': 'a'}], 'affinity': "
                              "{'podAffinity': {}}}}")));
    assert_int_equal(expressions(c.pod, 0), 1);
    assert_non_null(within(c.pod, "spec", "affinity", "podAffinity"));
    done(&c);
    c = ask(review_of(json_of("{" META ", 'spec': {'containers': [{'name': 'a'}], 'affinity': "
                              "{'nodeAffinity': {}}}}")));
    assert_int_equal(expressions(c.pod, 0), 1);
    done(&c);
    c = ask(review_of(json_of(pods[2]))); /* it names its node */
    assert_null(within(c.pod, "spec", "affinity", NULL));
    done(&c);
}

static void test_pods_that_ask_for_nothing(void **state)
{
    static const char *const texts[] = {
        "{'metadata': {}, 'spec': {'containers': [{'name': 'a'}]}}",
        ("{'metadata': {'annotations': {'x': 'y'}, 'labels': {'dlcache.io/inject': 'true'}},"
         " 'spec': {'containers': [{'name': 'a'}]}}"),
        "{'metadata': null, 'spec': null}",
        "null",
        "[]",
        "'pod'",
    };

    (void)state;
    for (size_t i = 0; i < unit_count(texts); i++) {
        struct came c = ask(review_of(json_of(texts[i])));

        assert_int_equal(c.outcome, WEBHOOK_ALONE);
        assert_int_equal(c.warnings, 0);
        done(&c);
    }
}

static void test_what_is_odd_is_allowed_with_a_warning(void **state)
{
    static const char *const texts[] = {
        "{" META "}",
        "{" META ", 'spec': []}",
        "{" META ", 'spec': {}}",
        "{" META ", 'spec': {'containers': []}}",
        "{" META ", 'spec': {'containers': {'0': {}}}}",
        "{" META ", 'spec': {'containers': [7]}}",
        "{" META ", 'spec': {'containers': [{'name': 'a', 'env': {}}]}}",
        "{" META ", 'spec': {'containers': [{'name': 'a', 'env': ['x']}]}}",
        "{" META ", 'spec': {'containers': [{'name': 'a', 'volumeMounts': 'x'}]}}",
        "{" META ", 'spec': {'containers': [{'name': 'a'}], 'initContainers': 'x'}}",
        "{" META ", 'spec': {'containers': [{'name': 'a'}], 'volumes': {}}}",
        "{" META ", 'spec': {'containers': [{'name': 'a'}], 'affinity': []}}",
        "{" META ", 'spec': {'containers': [{'name': 'a'}], 'affinity': {'nodeAffinity': 1}}}",
        "{" META
        ", 'spec': {'containers': [{'name': 'a'}], 'affinity': {'nodeAffinity': {'" REQUIRED
        "': {'nodeSelectorTerms': [1]}}}}}",
        "{" META ", 'spec': {'containers': [{'name': 'a'}], 'os': {'name': 'windows'}}}",
        "{'metadata': {'annotations': {'dlcache.io/dataset': ''}}, 'spec': {'containers': [{}]}}",
        "{'metadata': {'annotations': {'dlcache.io/dataset': 7}}, 'spec': {'containers': [{}]}}",
        "{'metadata': {'annotations': {'dlcache.io/dataset': 'A b'}}, 'spec': {'containers': "
        "[{}]}}",
        "{'metadata': {'annotations': {'dlcache.io/dataset': '-a'}}, 'spec': {'containers': [{}]}}",
        "{'metadata': {'annotations': {'dlcache.io/dataset': 'a/../b'}}, 'spec': {'containers': "
        "[{}]}}",
        "{'metadata': {'annotations': {'dlcache.io/dataset': 'a', 'kubernetes.io/config.mirror': "
        "'x'}}, 'spec': {'containers': [{'name': 'a'}]}}",
    };

    (void)state;
    for (size_t i = 0; i < unit_count(texts); i++) {
        struct came c = ask(review_of(json_of(texts[i])));

        assert_int_equal(c.outcome, WEBHOOK_ODD);
        assert_int_equal(c.warnings, 1);
        done(&c);
    }
}

static void test_reviews_that_are_none(void **state)
{
    static const char *const texts[] = {
        "null", "[]", "{}", "{'request': null}", "{'request': {'uid': 7}}", "{'request': []}",
    };
    struct came c;

    (void)state;
    for (size_t i = 0; i < unit_count(texts); i++) {
        c = ask(json_of(texts[i]));
        assert_int_equal(c.outcome, WEBHOOK_ALONE);
        done(&c);
    }
    c.answer = webhook_review(NULL, NULL);
    assert_non_null(c.answer);
    json_decref(c.answer);
}

/* Takes value. */
static void expect_alone(const char *member, json_t *value)
{
    json_t *review = review_of(json_of(pods[0]));
    struct came c;

    json_object_set_new(json_object_get(review, "request"), member, value);
    c = ask(review);
    assert_int_equal(c.outcome, WEBHOOK_ALONE);
    done(&c);
}

static void test_only_pods_that_are_made(void **state)
{
    (void)state;
    expect_alone("operation", json_string("UPDATE"));
    expect_alone("operation", json_null());
    expect_alone("subResource", json_string("ephemeralcontainers"));
    expect_alone("kind", json_of("{'group': 'apps', 'version': 'v1', 'kind': 'Pod'}"));
    expect_alone("kind", json_of("{'group': '', 'version': 'v1', 'kind': 'Service'}"));
}

static void test_names_at_their_limits(void **state)
{
    char name[256];
    json_t *pod = json_of(pods[0]), *notes = (json_t *)within(pod, "metadata", "annotations", NULL);
    struct came c;
    const char *url;

    (void)state;
    memset(name, 'a', sizeof(name));
    name[253] = '\0';
    json_object_set_new(notes, "dlcache.io/dataset", json_string(name));
    c = ask(review_of(json_deep_copy(pod)));
    assert_int_equal(c.outcome, WEBHOOK_PATCHED);
    url = json_string_value(json_object_get(
        named(json_object_get(json_array_get(within(c.pod, "spec", "containers", NULL), 0), "env"),
              "name", "DLCACHE_DATASET"),
        "value"));
    assert_int_equal(strlen(url), strlen("dlcache://") + 63);
    done(&c);
    name[253] = 'a';
    name[254] = '\0';
    json_object_set_new(notes, "dlcache.io/dataset", json_string(name));
    c = ask(review_of(pod));
    assert_int_equal(c.outcome, WEBHOOK_ODD);
    done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plain_pod),
        cmocka_unit_test(test_every_container_gets_its_part),
        cmocka_unit_test(test_a_label_does_too_and_the_annotation_goes_first),
        cmocka_unit_test(test_a_patched_pod_is_left_alone),
        cmocka_unit_test(test_a_container_that_came_later_gets_its_part),
        cmocka_unit_test(test_names_that_are_taken),
        cmocka_unit_test(test_what_the_user_set_stays),
        cmocka_unit_test(test_each_alternative_of_an_affinity),
        cmocka_unit_test(test_pods_that_ask_for_nothing),
        cmocka_unit_test(test_what_is_odd_is_allowed_with_a_warning),
        cmocka_unit_test(test_reviews_that_are_none),
        cmocka_unit_test(test_only_pods_that_are_made),
        cmocka_unit_test(test_names_at_their_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
