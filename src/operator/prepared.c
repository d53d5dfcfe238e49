// SPDX-License-Identifier: Apache-2.0
/*
 * How much of a dataset the nodes have, from what the control plane says of it. Two things make
 * that less than the sum of what lies on them: copies, and bytes that a node has yet to fetch.
 */
#include "operator/reconcile_i.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

static bool is_warming(const json_t *node)
{
    return strcmp(text_at(node, "phase"), "warming") == 0;
}

/* Of nodes that fetch, how much of their shares they still miss: 1 is one whole share. */
static double missing_shares(const json_t *preparation, size_t *nodes)
{
    double missing = 0;
    const json_t *one;
    size_t i;

    *nodes = 0;
    json_array_foreach(preparation, i, one)
    {
        double total = (double)int_at(one, "total"), done = (double)int_at(one, "done");

        if (!is_warming(one))
            continue;
        ++*nodes;
        missing += total > 0 ? fmax(0, 1 - done / total) : 1;
    }
    return missing;
}

int64_t prepared_bytes(const json_t *data)
{
    const json_t *cached = json_object_get(data, "cached");
    int64_t all = int_at(json_object_get(data, "snapshot"), "bytes");
    size_t fetching, nodes = json_array_size(json_object_get(cached, "nodes"));
    double missing = missing_shares(json_object_get(data, "preparation"), &fetching);

    nodes = DLC_MAX(nodes, fetching);
    if (fetching > 0)
        all = (int64_t)((double)all * (1 - missing / (double)nodes));
    return DLC_MIN(int_at(cached, "bytes"), all);
}

bool prepared_is_over(const json_t *data, int64_t ordered_s)
{
    const json_t *cached = json_object_get(data, "cached"), *one;
    int64_t all = int_at(json_object_get(data, "snapshot"), "bytes");
    bool whole = int_at(cached, "bytes") == all;
    size_t i, fetching;

    missing_shares(json_object_get(data, "preparation"), &fetching);
    if (fetching > 0)
        return false;
    json_array_foreach(json_object_get(cached, "nodes"), i, one) whole |=
        int_at(one, "bytes") >= all;
    return whole || ordered_s >= RECON_WARM_S;
}
