// SPDX-License-Identifier: Apache-2.0
/* What is remembered of the server, and what is asked again. */
#include "operator/kube/get_cache.h"

#include "base/json.h"
#include "base/mem.h"
#include "operator/play.h"
#include "unit.h"

#define SECRET "/api/v1/namespaces/ns/secrets/s"
#define MAP    "/api/v1/namespaces/ns/configmaps/s"

static struct dlc_err err;
static struct play server;
static struct kube_config config;
static struct kube *kube;
static struct fetched *f;

static int fresh(void **state)
{
    struct kube_options o = {.config = &config, .timeout = DLC_SEC(10)};

    (void)state;
    play_open(&server);
    config = (struct kube_config){.from = (char *)"test", .server = server.base};
    assert_int_equal(kube_open(&o, &kube, &err), 0);
    f = fetched_new();
    return 0;
}

static int end(void **state)
{
    (void)state;
    fetched_free(&f);
    assert_null(f);
    kube_close(&kube);
    play_close(&server);
    return 0;
}

static json_t *secret(const char *name, const char *value)
{
    return json_pack("{s:{s:s, s:s}, s:{s:s}}", "metadata", "namespace", "ns", "name", name, "data",
                     "region", value);
}

/* data.region of what fetched_get() gives; "none". */
static const char *get(enum kube_kind kind, const char *name)
{
    static char out[32];
    json_t *j = NULL;

    assert_int_equal(fetched_get(f, kube, kind, "ns", name, &j, &err), 0);
    snprintf(out, sizeof(out), "%s",
             j != NULL ? json_string_value(json_at(j, "data.region")) : "none");
    if (j != NULL) /* it is ours alone: nobody else sees this */
        json_object_set_new(json_object_get(j, "data"), "region", json_string("scribbled"));
    json_decref(j);
    return out;
}

static void test_asked_once(void **state)
{
    (void)state;
    play_put(&server, SECRET, secret("s", "1"));
    assert_string_equal(get(KUBE_SECRET, "s"), "1");
    play_put(&server, SECRET, secret("s", "2"));
    assert_string_equal(get(KUBE_SECRET, "s"), "1");
    play_expect(&server, "GET " SECRET);
    assert_string_equal(get(KUBE_CONFIGMAP, "s"), "none"); /* another kind, another object */
    assert_string_equal(get(KUBE_CONFIGMAP, "s"), "none"); /* that it is missing is known too */
    play_expect(&server, "GET " MAP);
}

static void test_our_own_writes(void **state)
{
    json_t *j = secret("s", "3");

    (void)state;
    assert_string_equal(get(KUBE_SECRET, "s"), "none");
    fetched_note(f, KUBE_SECRET, j);
    assert_string_equal(get(KUBE_SECRET, "s"), "3");
    json_object_set_new(json_object_get(j, "data"), "region",
                        json_string("4")); /* it has its own */
    assert_string_equal(get(KUBE_SECRET, "s"), "3");
    play_expect(&server, "GET " SECRET);
    fetched_forget(f, KUBE_SECRET, "ns", "other");
    assert_string_equal(get(KUBE_SECRET, "s"), "3");
    fetched_forget(f, KUBE_SECRET, "ns", "s");
    assert_string_equal(get(KUBE_SECRET, "s"), "none");
    play_expect(&server, "GET " SECRET);
    json_decref(j);
}

/* A server that fails is no Secret that is missing. */
static void test_failures_are_not_remembered(void **state)
{
    json_t *j = NULL;

    (void)state;
    play_put(&server, SECRET, secret("s", "1"));
    play_says(&server, "GET " SECRET, 500, "{}", 1);
    play_says(&server, "GET " SECRET, 403, "{}", 1);
    assert_int_equal(fetched_get(f, kube, KUBE_SECRET, "ns", "s", &j, &err), DLC_EBUCKET);
    assert_null(j);
    assert_int_equal(fetched_get(f, kube, KUBE_SECRET, "ns", "s", &j, &err), DLC_EDENIED);
    assert_null(j);
    assert_string_equal(get(KUBE_SECRET, "s"), "1");
    assert_int_equal(play_count(&server, "GET "), 3);
}

/* (GET-CACHE-3) */
static void test_only_what_is_read(void **state)
{
    char *large = mem_fmt("%0*d", FETCHED_VALUE + 1, 7);
    json_t *j = secret("s", "eu"), *data = json_object_get(j, "data");

    (void)state;
    json_object_set_new(data, "tls.key", json_string("somebody's"));
    json_object_set_new(data, "access_key", json_string(large));
    json_object_set_new(json_object_get(j, "metadata"), "managedFields", json_array());
    play_put(&server, SECRET, j);
    for (int i = 0; i < 2; i++) { /* as fetched, and as remembered */
        assert_int_equal(fetched_get(f, kube, KUBE_SECRET, "ns", "s", &j, &err), 0);
        assert_int_equal(json_object_size(json_object_get(j, "data")), 1);
        assert_string_equal(json_string_value(json_at(j, "data.region")), "eu");
        assert_null(json_at(j, "metadata.managedFields"));
        assert_string_equal(kube_name(j), "s");
        json_decref(j);
    }
    mem_free(&large);
}

static void test_not_too_many(void **state)
{
    char name[32];

    (void)state;
    for (int i = 0; i <= FETCHED_MOST; i++) { /* the last one makes it forget the others */
        json_t *j;

        snprintf(name, sizeof(name), "n%d", i);
        j = secret(name, "x");
        fetched_note(f, KUBE_SECRET, j);
        json_decref(j);
    }
    assert_string_equal(get(KUBE_SECRET, name), "x");
    assert_int_equal(play_count(&server, "GET "), 0);
    assert_string_equal(get(KUBE_SECRET, "n0"), "none");
    assert_int_equal(play_count(&server, "GET "), 1);
}

static void *use(void *arg)
{
    char name[8];

    (void)arg;
    for (int i = 0; i < 500; i++) {
        json_t *j = NULL;

        snprintf(name, sizeof(name), "n%d", i % 5);
        if (i % 3 == 0) {
            j = secret(name, "x");
            fetched_note(f, KUBE_SECRET, j);
        } else if (i % 50 == 1) {
            fetched_forget(f, KUBE_CONFIGMAP, "ns", name);
        } else {
            fetched_get(f, kube, KUBE_SECRET, "ns", name, &j, NULL);
            if (j != NULL)
                assert_string_equal(kube_name(j), name);
        }
        json_decref(j);
    }
    return NULL;
}

static void test_several_threads(void **state)
{
    pthread_t threads[3];

    (void)state;
    for (int i = 0; i < 5; i++) { /* so that nobody uses kube, which is one thread's */
        char name[8];
        json_t *j;

        snprintf(name, sizeof(name), "n%d", i);
        j = secret(name, "x");
        fetched_note(f, KUBE_SECRET, j);
        json_decref(j);
    }
    for (size_t i = 0; i < unit_count(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, NULL), 0);
    for (size_t i = 0; i < unit_count(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(play_count(&server, "GET "), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_asked_once, fresh, end),
        cmocka_unit_test_setup_teardown(test_our_own_writes, fresh, end),
        cmocka_unit_test_setup_teardown(test_failures_are_not_remembered, fresh, end),
        cmocka_unit_test_setup_teardown(test_only_what_is_read, fresh, end),
        cmocka_unit_test_setup_teardown(test_not_too_many, fresh, end),
        cmocka_unit_test_setup_teardown(test_several_threads, fresh, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
