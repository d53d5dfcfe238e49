// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/dataset_doc.h"

#include <string.h>

#include "base/check.h"
#include "base/dataset_name.h"
#include "base/json.h"
#include "base/mem.h"
#include "manager/store/wall_time.h"

#define NUMBER_MAX (UINT64_C(1) << 53)

/* ---- snapshots ---- */

const json_t *dataset_snapshot(const json_t *body)
{
    return json_object_get(body, "snapshot");
}

const json_t *dataset_nodes(const json_t *body)
{
    return json_object_get(body, "nodes");
}

static bool snapshot_sum(const json_t *snapshot, const json_t *splits, const char *what,
                         uint64_t *sum)
{
    *sum = json_array_size(splits) == 0 ? json_u64_at(snapshot, what) : 0;
    for (size_t i = 0; i < json_array_size(splits); i++) {
        const json_t *s = json_find(json_object_get(snapshot, "splits"), "name",
                                    json_string_value(json_array_get(splits, i)));

        if (s == NULL)
            return false;
        *sum += json_u64_at(s, what);
    }
    return true;
}

bool snapshot_bytes(const json_t *snapshot, const json_t *splits, uint64_t *bytes)
{
    return snapshot_sum(snapshot, splits, "bytes", bytes);
}

bool snapshot_samples(const json_t *snapshot, const json_t *splits, uint64_t *samples)
{
    return snapshot_sum(snapshot, splits, "samples", samples);
}

static bool count_ok(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);

    return json_is_integer(v) && json_integer_value(v) >= 0 &&
           (uint64_t)json_integer_value(v) <= NUMBER_MAX;
}

/* A split as a node names it: its samples, or {"samples", "bytes"}. Where bytes are not said, its
 * part of the whole by the number of samples. NULL: it makes no sense. */
static json_t *split_copy(const char *name, const json_t *v, const json_t *whole)
{
    json_t *o = json_is_object(v) ? json_incref((json_t *)v) : json_pack("{s:O}", "samples", v);
    uint64_t samples = json_u64_at(o, "samples"), all = json_u64_at(whole, "samples");
    json_t *copy = NULL;
    uint64_t bytes;

    if (name[0] != '\0' && strlen(name) <= SPLIT_MAX_LEN && count_ok(o, "samples")) {
        bytes = count_ok(o, "bytes") ? json_u64_at(o, "bytes")
                : all == 0           ? 0
                                     : (uint64_t)((double)json_u64_at(whole, "bytes") *
                                        (double)DLC_MIN(samples, all) / (double)all);
        copy = json_pack("{s:s, s:I, s:I}", "name", name, "samples", (json_int_t)samples, "bytes",
                         (json_int_t)bytes);
    }
    json_decref(o);
    return copy;
}

json_t *snapshot_of_result(const json_t *result)
{
    const char *id = json_string_value(json_object_get(result, "snapshot")), *name;
    json_t *splits = json_array(), *v;
    bool ok = id != NULL && id[0] != '\0' && strlen(id) <= 64 &&
              strspn(id, "0123456789abcdefABCDEF-") == strlen(id) && count_ok(result, "samples") &&
              count_ok(result, "bytes") &&
              json_object_size(json_object_get(result, "splits")) <= SPLITS_MAX;

    json_object_foreach(json_object_get(result, "splits"), name, v)
    {
        ok = ok && json_array_append_new(splits, split_copy(name, v, result)) == 0;
    }
    if (!ok) {
        json_decref(splits);
        return NULL;
    }
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:o}", "id", id, "samples",
        (json_int_t)json_u64_at(result, "samples"), "objects",
        (json_int_t)json_u64_at(result, count_ok(result, "objects") ? "objects" : "samples"),
        "bytes", (json_int_t)json_u64_at(result, "bytes"), "time_ms", (json_int_t)wall_ms(),
        "splits", splits);
}

/* ---- as the API shows it ---- */

static void add_time(json_t *out, const char *name, const json_t *ms)
{
    char *text = wall_time_text((int64_t)json_integer_value(ms));

    json_object_set_new(out, name, json_string(text));
    mem_free(&text);
}

static json_t *snapshot_json(const json_t *s)
{
    json_t *out = json_object();

    json_object_set(out, "id", json_object_get(s, "id"));
    json_object_set(out, "samples", json_object_get(s, "samples"));
    json_object_set(out, "objects", json_object_get(s, "objects"));
    json_object_set(out, "bytes", json_object_get(s, "bytes"));
    json_object_set(out, "splits", json_object_get(s, "splits"));
    add_time(out, "time", json_object_get(s, "time_ms"));
    return out;
}

json_t *dataset_json(const struct store_doc *d)
{
    static const char *const copied[] = {"url",        "endpoint", "splits", "nodes",
                                         "node_count", "error",    "spread"};
    const json_t *snapshot = dataset_snapshot(d->body);
    json_t *out = json_pack("{s:s, s:s}", "name", d->id, "tenant", d->tenant);

    for (size_t i = 0; i < DLC_COUNT(copied); i++)
        if (json_object_get(d->body, copied[i]) != NULL)
            json_object_set(out, copied[i], json_object_get(d->body, copied[i]));
    if (snapshot != NULL)
        json_object_set_new(out, "snapshot", snapshot_json(snapshot));
    json_object_set_new(
        out, "state",
        json_string(snapshot != NULL
                        ? json_object_get(d->body, "moving") != NULL ? "moving" : "ready"
                    : json_object_get(d->body, "error") != NULL ? "failed"
                                                                : "new"));
    add_time(out, "created", json_object_get(d->body, "created_ms"));
    return out;
}

json_t *dataset_command(const struct store_doc *d, const char *op, const char *tier)
{
    bool evict = strcmp(op, "evict") == 0;

    return json_pack("{s:s, s:s, s:s, s:s*, s:s*}", "op", op, "dataset", d->id, "tenant", d->tenant,
                     "tier", tier, "url",
                     evict ? json_string_value(json_object_get(d->body, "url")) : NULL);
}

bool dataset_commanded(const struct store_doc *d, const json_t *command)
{
    const char *dataset = json_string_value(json_object_get(command, "dataset"));
    const char *tenant = json_string_value(json_object_get(command, "tenant"));

    return dataset != NULL && strcmp(dataset, d->id) == 0 && tenant != NULL &&
           strcmp(tenant, d->tenant) == 0;
}

const char *dataset_doc_name(const struct store_doc *d)
{
    const char *name = json_string_value(json_object_get(d->body, "name"));

    return name != NULL ? name : dataset_short_name(d->id, d->tenant);
}

bool dataset_is(const struct store_doc *now, const struct store_doc *was)
{
    return strcmp(now->tenant, was->tenant) == 0 &&
           json_equal(json_object_get(now->body, "created_ms"),
                      json_object_get(was->body, "created_ms")) == 1;
}
