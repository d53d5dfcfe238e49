// SPDX-License-Identifier: Apache-2.0
/*
 * Arbitrary JSON as what users of a namespace write: a DLTPod, a CachedDataset, a ConfigMap with
 * qualities of service, the answer to a TokenReview, a pod. What is accepted keeps the limits that
 * the rest counts on, and no volume or bucket of it leads to files of a machine.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <jansson.h>

#include "base/check.h"
#include "base/str.h"
#include "base/usage.h"
#include "operator/kube/node_review.h"
#include "operator/reconcile/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_volumes(const json_t *volumes)
{
    for (size_t i = 0; i < json_array_size(volumes); i++)
        dlc_check(json_object_get(json_array_get(volumes, i), "hostPath") == NULL);
}

static void check_bucket(const char *bucket)
{
    dlc_check(bucket == NULL || (strlen(bucket) <= SPEC_URL_MAX && !str_starts(bucket, "file:")));
}

static void look_at_dltpod(const json_t *v)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct spec s;

    if (spec_parse(&s, v, &err) < 0) {
        dlc_check(err.code == DLC_EINVAL && err.text[0] != '\0');
        return;
    }
    dlc_check(s.n_jobs > 0 && s.n_jobs <= SPEC_JOBS_MAX && s.replicas > 0 &&
              s.replicas <= SPEC_REPLICAS && s.retention_s >= 0);
    check_volumes(json_object_get(s.json, "volumes"));
    for (size_t i = 0; i < s.n_jobs; i++) {
        dlc_check(s.jobs[i].name != NULL && strlen(s.jobs[i].name) <= SPEC_NAME_MAX &&
                  s.jobs[i].gpus >= 0);
        check_bucket(s.jobs[i].data.bucket);
    }
}

static void look_at_dataset(const json_t *v)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct dataset_spec s;

    if (dataset_spec_parse(&s, v, &err) < 0)
        return;
    dlc_check(s.bucket != NULL && s.retention_s >= 0 && s.node_count >= 0);
    check_bucket(s.bucket);
}

static void look_at_review(const json_t *v)
{
    struct dlc_err err = DLC_ERR_INIT;
    const char *pod, *uid, *node;

    if (node_review_pod(v, "ns", "node", &pod, &uid, &err) == 0)
        dlc_check(pod[0] != '\0' && uid[0] != '\0');
    if (node_review_node(v, "node", "u", &node, &err) == 0)
        dlc_check(node[0] != '\0');
}

static void look_at_usage(const json_t *v)
{
    struct usage u, again;
    json_t *o;

    memset(&u, 0, sizeof(u));
    memset(&again, 0, sizeof(again));
    usage_of_json(&u, v);
    o = usage_json(&u);
    usage_of_json(&again, o);
    dlc_check(memcmp(&u, &again, sizeof(u)) == 0);
    json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *v = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
    struct dlc_err err = DLC_ERR_INIT;
    struct spec_qos q = SPEC_QOS_INIT;
    uint64_t bytes;
    int64_t s;

    if (v == NULL)
        return 0;
    look_at_dltpod(v);
    look_at_dataset(v);
    look_at_review(v);
    look_at_usage(v);
    spec_qos_from(&q, v, &err);
    spec_quantity(v, &bytes);
    if (json_is_string(v) && spec_duration(json_string_value(v), &s))
        dlc_check(s >= 0);
    if (json_is_string(v))
        spec_time_parse(json_string_value(v), &s);
    json_decref(v);
    return 0;
}
