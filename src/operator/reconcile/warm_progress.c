// SPDX-License-Identifier: Apache-2.0
/*
 * Warm-up progress: how much of a dataset the nodes hold, from the manager's document. It is less
 * than the sum over nodes because of copies and of bytes that a node has yet to fetch.
 */
#include "operator/reconcile/reconcile_i.h"

#include <string.h>

#include "base/check.h"
#include "base/json.h"

/* Samples that nodes have yet to fetch, each of its own share. *nodes: how many are at it. */
static int64_t missing_samples(const json_t *preparation, size_t *nodes)
{
    int64_t missing = 0;
    const json_t *one;
    size_t i;

    *nodes = 0;
    json_array_foreach(preparation, i, one)
    {
        if (strcmp(json_text_at(one, "phase"), "warming") != 0)
            continue;
        ++*nodes;
        missing += DLC_MAX(json_int_at(one, "total") - json_int_at(one, "done"), 0);
    }
    return missing;
}

int64_t prepared_bytes(const json_t *data)
{
    const json_t *snapshot = json_object_get(data, "snapshot");
    int64_t bytes = json_int_at(snapshot, "bytes"), samples = json_int_at(snapshot, "samples");
    size_t fetching;
    int64_t missing = missing_samples(json_object_get(data, "preparation"), &fetching);

    if (samples > 0)
        bytes = (int64_t)((double)bytes * (double)(samples - DLC_MIN(missing, samples)) /
                          (double)samples);
    return DLC_MIN(json_int_at(data, "cached.bytes"), bytes);
}

bool prepared_is_over(const json_t *data, int64_t ordered_s)
{
    const json_t *cached = json_object_get(data, "cached"), *one;
    int64_t all = json_int_at(data, "snapshot.bytes");
    bool whole = json_int_at(cached, "bytes") == all;
    size_t i, fetching;

    missing_samples(json_object_get(data, "preparation"), &fetching);
    if (fetching > 0)
        return false;
    json_array_foreach(json_object_get(cached, "nodes"), i, one)
    {
        whole |= json_int_at(one, "bytes") >= all;
    }
    return whole || ordered_s >= RECON_WARM_S;
}
