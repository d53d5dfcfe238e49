// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/dataset_cost.h"

#include "base/check.h"
#include "base/mem.h"

#define MOST (UINT64_C(1) << 53) /* every JSON parser can represent it */

static uint64_t plus(uint64_t sum, const json_t *said, const char *name)
{
    json_int_t v = json_integer_value(json_object_get(said, name));

    return v > 0 ? DLC_MIN(sum + DLC_MIN((uint64_t)v, MOST), MOST) : sum;
}

json_t *dataset_cost(const struct node_info *nodes, size_t n, const struct store_doc *d)
{
    char *of = mem_fmt("%s/%s", d->tenant, d->id);
    uint64_t money_nano = 0, requests = 0, bytes = 0;
    bool said = false;

    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_object_get(json_object_get(nodes[i].figures, "spent"), of);

        said = said || s != NULL;
        money_nano = plus(money_nano, s, "money_nano");
        requests = plus(requests, s, "requests");
        bytes = plus(bytes, s, "bytes");
    }
    mem_free(&of);
    if (!said)
        return NULL;
    return json_pack("{s:f, s:I, s:I}", "money", (double)money_nano / 1e9, "requests",
                     (json_int_t)requests, "bytes", (json_int_t)bytes);
}
