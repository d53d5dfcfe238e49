// SPDX-License-Identifier: Apache-2.0
/* Fields of containers that pass through to pods: what is let through, what is refused and why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/json.h"
#include "operator/reconcile/container_fields.h"

static json_t *parse(const char *text)
{
    json_error_t e;
    json_t *j = json_loads(text, 0, &e);

    if (j == NULL)
        fail_msg("%s: %s", text, e.text);
    return j;
}

static void expect_json(json_t *got, const char *want)
{
    json_t *w = parse(want);

    if (!json_equal(got, w)) {
        char *text = json_dumps(got, JSON_SORT_KEYS);

        fail_msg("got %s, not %s", text, want);
    }
    json_decref(got);
    json_decref(w);
}

static void test_refused(void **state)
{
    static const struct {
        const char *job, *says;
    } rows[] = {
        {"{\"tty\": 1}", "spec.jobs[0].tty: must be true or false"},
        {"{\"livenessProbe\": 1}", "spec.jobs[0].livenessProbe: must be an object"},
        {"{\"readinessProbe\": {\"httpGet\": {\"port\": 1, \"host\": \"10.0.0.1\"}}}",
         "readinessProbe: httpGet.host is not allowed: the node itself would connect"},
        {"{\"lifecycle\": {\"preStop\": {\"tcpSocket\": {\"port\": 1, \"host\": \"h\"}}}}",
         "lifecycle: tcpSocket.host is not allowed"},
        {"{\"securityContext\": {\"privileged\": true}}",
         "privileged and allowPrivilegeEscalation"},
        {"{\"securityContext\": {\"allowPrivilegeEscalation\": true}}", "only false is allowed"},
        {"{\"securityContext\": {\"procMount\": \"Unmasked\"}}", "procMount is not allowed"},
        {"{\"securityContext\": {\"capabilities\": {\"add\": [\"SYS_ADMIN\"]}}}",
         "only NET_BIND_SERVICE may be added"},
        {"{\"securityContext\": {\"seccompProfile\": {\"type\": \"Unconfined\"}}}",
         "seccompProfile: must have a type, RuntimeDefault or Localhost"},
        {"{\"initContainers\": {}}", "initContainers: must be a list of at most 16"},
        {"{\"initContainers\": [{\"name\": \"a\"}]}",
         "[0].name: a container has a name and an image"},
        {"{\"initContainers\": [{\"name\": \"job\", \"image\": \"i\"}]}", "'job' is the job's"},
        {"{\"initContainers\": [{\"name\": \"dlcache-x\", \"image\": \"i\"}]}",
         "or the operator's"},
        {"{\"initContainers\": [{\"name\": \"a\", \"image\": \"i\", \"restartPolicy\": "
         "\"Never\"}]}",
         "initContainers[0].restartPolicy: must be Always"},
        {"{\"initContainers\": [{\"name\": \"a\", \"image\": \"i\", \"volumeDevices\": []}]}",
         "initContainers[0].volumeDevices: this field of a container is not allowed"},
        {"{\"initContainers\": [{\"name\": \"a\", \"image\": \"i\", \"ports\": [{\"hostPort\": "
         "1}]}]}",
         "ports: hostPort and hostIP take a port of the node"},
        {"{\"initContainers\": [{\"name\": \"a\", \"image\": \"i\", \"securityContext\": "
         "{\"privileged\": true}}]}",
         "initContainers[0].securityContext: privileged"},
    };

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(rows); i++) {
        struct dlc_err err = DLC_ERR_INIT;
        json_t *job = parse(rows[i].job);

        json_object_set_new(job, "name", json_string("job"));
        assert_int_equal(container_check_job(job, "spec.jobs[0]", &err), DLC_EINVAL);
        if (strstr(err.text, rows[i].says) == NULL)
            fail_msg("'%s' says nothing of '%s'", err.text, rows[i].says);
        json_decref(job);
    }
}

static void test_passed(void **state)
{
    json_t *job = parse(
        "{\"name\": \"job\", \"tty\": true, \"stdin\": true, \"command\": [\"x\"], \"lifecycle\": "
        "{\"preStop\": {\"exec\": {\"command\": [\"sync\"]}}}, \"livenessProbe\": {\"tcpSocket\": "
        "{\"port\": 1}}, \"securityContext\": {\"runAsUser\": 7, \"capabilities\": {\"add\": "
        "[\"NET_BIND_SERVICE\"]}}, \"initContainers\": [{\"name\": \"log\", \"image\": \"i\", "
        "\"restartPolicy\": \"Always\"}]}");
    struct dlc_err err = DLC_ERR_INIT;
    json_t *c = json_object();

    (void)state;
    if (container_check_job(job, "spec.jobs[0]", &err) < 0)
        fail_msg("%s", err.text);
    container_pass(c, job);
    expect_json(c,
                "{\"tty\": true, \"stdin\": true, \"lifecycle\": {\"preStop\": {\"exec\": "
                "{\"command\": [\"sync\"]}}}, \"livenessProbe\": {\"tcpSocket\": {\"port\": 1}}}");
    expect_json(
        container_security(job),
        "{\"runAsUser\": 7, \"allowPrivilegeEscalation\": false, \"capabilities\": {\"add\": "
        "[\"NET_BIND_SERVICE\"], \"drop\": [\"ALL\"]}}");
    expect_json(container_inits(job),
                "[{\"name\": \"log\", \"image\": \"i\", \"restartPolicy\": \"Always\", "
                "\"securityContext\": {\"allowPrivilegeEscalation\": false, \"capabilities\": "
                "{\"drop\": [\"ALL\"]}}}]");
    json_decref(job);
    expect_json(container_security(NULL), "{\"allowPrivilegeEscalation\": false, \"capabilities\": "
                                          "{\"drop\": [\"ALL\"]}}");
}

#define REQUIRED "\"requiredDuringSchedulingIgnoredDuringExecution\": "
#define OURS                                                                                       \
    "{\"nodeAffinity\": {" REQUIRED                                                                \
    "{\"nodeSelectorTerms\": [{\"matchExpressions\": [{\"key\": \"ours\"}]}, {\"matchFields\": "   \
    "[{\"key\": \"f\"}]}]}}}"

static void test_affinity(void **state)
{
    json_t *user =
        parse("{\"podAntiAffinity\": {\"x\": 1}, \"nodeAffinity\": {" REQUIRED
              "{\"nodeSelectorTerms\": [{\"matchExpressions\": [{\"key\": \"zone\"}]}]}, "
              "\"preferredDuringSchedulingIgnoredDuringExecution\": [{\"weight\": 1}]}}");

    (void)state;
    expect_json(container_affinity(NULL, parse(OURS)), OURS);
    /* where the user and dlcache both let a pod run */
    expect_json(container_affinity(user, parse(OURS)),
                "{\"podAntiAffinity\": {\"x\": 1}, \"nodeAffinity\": {" REQUIRED
                "{\"nodeSelectorTerms\": [{\"matchExpressions\": [{\"key\": \"zone\"}, {\"key\": "
                "\"ours\"}]}, {\"matchExpressions\": [{\"key\": \"zone\"}], \"matchFields\": "
                "[{\"key\": \"f\"}]}]}, \"preferredDuringSchedulingIgnoredDuringExecution\": "
                "[{\"weight\": 1}]}}");
    json_decref(user);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_passed),
        cmocka_unit_test(test_affinity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
