// SPDX-License-Identifier: Apache-2.0
/* Statuses of pods as kubelets write them -> what is wrong with the pod, for people. */
#include "operator/reconcile/pod_trouble.h"

#include <string.h>

#include "unit.h"

#define HOUR 3600

static json_t *parse(const char *text)
{
    json_t *o = json_loads(text, 0, NULL);

    assert_non_null(o);
    return o;
}

static const struct {
    const char *status, *reason, *text; /* reason NULL: no trouble */
} cases[] = {
    {"{\"phase\": \"Running\", \"containerStatuses\": [{\"name\": \"train\", \"restartCount\": 4, "
     "\"state\": {\"waiting\": {\"reason\": \"CrashLoopBackOff\"}}, \"lastState\": "
     "{\"terminated\": {\"exitCode\": 1, \"reason\": \"Error\"}}}]}",
     "CrashLoopBackOff", "container train ended with status 1 (Error), was restarted 4 times"},
    {"{\"phase\": \"Running\", \"containerStatuses\": [{\"name\": \"train\", \"state\": "
     "{\"waiting\": {\"reason\": \"RunContainerError\", \"message\": \"no such file\"}}}]}",
     "RunContainerError", "container train does not start: RunContainerError: no such file"},
    {"{\"phase\": \"Pending\", \"containerStatuses\": [{\"name\": \"train\", \"state\": "
     "{\"waiting\": {\"reason\": \"ErrImagePull\", \"message\": \"not found\"}}}]}",
     "ErrImagePull", "container train does not start: ErrImagePull: not found"},
    {"{\"phase\": \"Pending\", \"initContainerStatuses\": [{\"name\": \"fetch\", \"state\": "
     "{\"waiting\": {\"reason\": \"ImagePullBackOff\"}}}], \"containerStatuses\": [{\"name\": "
     "\"train\", \"state\": {\"waiting\": {\"reason\": \"PodInitializing\"}}}]}",
     "ImagePullBackOff", "container fetch does not start"},
    {"{\"phase\": \"Pending\", \"containerStatuses\": [{\"name\": \"train\", \"state\": "
     "{\"waiting\": {\"reason\": \"ContainerCreating\"}}}]}",
     NULL, NULL},
    {"{\"phase\": \"Running\", \"containerStatuses\": [{\"name\": \"train\", \"state\": "
     "{\"running\": {}}}, {\"name\": \"log\", \"state\": {\"waiting\": {\"reason\": "
     "\"CreateContainerConfigError\"}}}]}",
     "CreateContainerConfigError", "container log does not start"},
    {"{\"phase\": \"Running\"}", NULL, NULL},
    {"{}", NULL, NULL},
};

static void trouble_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        json_t *pod = json_pack("{s:o}", "status", parse(cases[i].status));
        char reason[64] = "", text[300] = "";

        assert_int_equal(pod_trouble(pod, reason, text), cases[i].reason != NULL);
        if (cases[i].reason != NULL) {
            assert_string_equal(reason, cases[i].reason);
            assert_non_null(strstr(text, cases[i].text));
        }
        json_decref(pod);
    }
}

static json_t *evicted_pod(const char *created)
{
    return json_pack("{s:{s:s}, s:{s:s, s:s, s:s}}", "metadata", "creationTimestamp", created,
                     "status", "phase", "Failed", "reason", "Evicted", "message",
                     "usage exceeds the total limit of containers 1Gi");
}

static void add(struct evictions *e, const char *created, int64_t now)
{
    json_t *pod = evicted_pod(created);

    assert_true(pod_is_evicted(pod));
    evictions_add(e, pod, now);
    json_decref(pod);
}

/* 1970-01-01T01:00:00Z is HOUR. */
static void delay_doubles_while_pods_are_evicted(void **state)
{
    struct evictions e = {0};

    (void)state;
    assert_int_equal(evictions_until(&e), 0);
    add(&e, "1970-01-01T01:00:00Z", HOUR + 30);
    assert_int_equal(e.count, 1);
    assert_int_equal(evictions_until(&e), 0); /* the first is replaced at once */
    assert_non_null(strstr(e.why, "exceeds the total limit"));
    add(&e, "1970-01-01T01:00:30Z", HOUR + 60);
    assert_int_equal(evictions_until(&e), HOUR + 70);
    add(&e, "1970-01-01T01:01:10Z", HOUR + 90);
    assert_int_equal(evictions_until(&e), HOUR + 110);
    e.count = 1000;
    assert_int_equal(evictions_until(&e), HOUR + 90 + 300);
}

static void pods_of_one_eviction_count_once(void **state)
{
    struct evictions e = {0};

    (void)state;
    add(&e, "1970-01-01T01:00:00Z", HOUR + 30);
    add(&e, "1970-01-01T01:00:00Z", HOUR + 31); /* another rank, or the same pod, still there */
    assert_int_equal(e.count, 1);
    assert_int_equal(e.time, HOUR + 30);
}

static void a_pod_that_lasted_ends_the_row(void **state)
{
    struct evictions e = {.count = 5, .time = HOUR};

    (void)state;
    add(&e, "1970-01-01T01:00:00Z", HOUR + EVICTIONS_FORGET_S);
    assert_int_equal(e.count, 1);
}

static void evictions_survive_in_the_status(void **state)
{
    struct evictions e = {.count = 3, .time = HOUR, .why = "Evicted of \"1Gi\""}, f = {0};
    json_t *entry = json_pack("{s:o}", "evictions", evictions_json(&e));

    (void)state;
    evictions_read(&f, entry);
    assert_int_equal(f.count, 3);
    assert_int_equal(f.time, HOUR);
    assert_string_equal(f.why, e.why);
    json_decref(entry);
    evictions_read(&f, NULL);
    assert_int_equal(f.count, 0);
    assert_null(evictions_json(&f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trouble_is_named),
        cmocka_unit_test(delay_doubles_while_pods_are_evicted),
        cmocka_unit_test(pods_of_one_eviction_count_once),
        cmocka_unit_test(a_pod_that_lasted_ends_the_row),
        cmocka_unit_test(evictions_survive_in_the_status),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
