// SPDX-License-Identifier: Apache-2.0
/*
 * Checks of a pod before it is patched. The API server has validated it; but a patch that does not
 * apply would cost the user the pod, so its structure is checked again.
 */
#include "operator/webhook/webhook_i.h"

#include <stddef.h>

#include "operator/webhook/webhook.h"

/* Absent, null, or what it should be. */
static bool is_or_absent(const json_t *o, const char *member, json_type type)
{
    const json_t *v = json_object_get(o, member);

    return v == NULL || json_is_null(v) || json_typeof(v) == type;
}

static bool list_ok(const json_t *o, const char *member)
{
    const json_t *list = json_object_get(o, member);
    json_t *v;
    size_t i;

    if (!is_or_absent(o, member, JSON_ARRAY) || json_array_size(list) > WEBHOOK_CONTAINERS)
        return false;
    json_array_foreach(list, i, v)
    {
        if (!json_is_object(v))
            return false;
    }
    return true;
}

static bool containers_ok(const json_t *spec, const char *member)
{
    const json_t *list = json_object_get(spec, member);
    json_t *c;
    size_t i;

    if (!list_ok(spec, member))
        return false;
    json_array_foreach(list, i, c)
    {
        if (!list_ok(c, "env") || !list_ok(c, "volumeMounts"))
            return false;
    }
    return true;
}

static bool affinity_ok(const json_t *spec)
{
    const json_t *affinity = json_object_get(spec, "affinity");
    const json_t *node = json_object_get(affinity, "nodeAffinity");
    const json_t *required = json_object_get(node, REQUIRED);
    const json_t *terms = json_object_get(required, "nodeSelectorTerms");
    json_t *t;
    size_t i;

    if (!is_or_absent(spec, "affinity", JSON_OBJECT) ||
        !is_or_absent(affinity, "nodeAffinity", JSON_OBJECT) ||
        !is_or_absent(node, REQUIRED, JSON_OBJECT) || !list_ok(required, "nodeSelectorTerms"))
        return false;
    json_array_foreach(terms, i, t)
    {
        if (!list_ok(t, "matchExpressions") || !list_ok(t, "matchFields"))
            return false;
    }
    return true;
}

bool webhook_pod_ok(const json_t *pod)
{
    const json_t *spec = json_object_get(pod, "spec");

    return json_is_object(spec) && list_ok(spec, "volumes") &&
           json_array_size(json_object_get(spec, "containers")) > 0 &&
           containers_ok(spec, "containers") && containers_ok(spec, "initContainers") &&
           affinity_ok(spec);
}
