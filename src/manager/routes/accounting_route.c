// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/accounting_route.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/stall.h"
#include "base/str.h"
#include "manager/routes/api.h"
#include "manager/routes/dataset_names.h"
#include "manager/routes/auth.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/store/wall_time.h"
#include "manager/tables/accounting.h"
#include "manager/tables/tables.h"

#define SINCE_DEFAULT_MS (INT64_C(30) * 86400 * 1000)

static json_t *seconds(const struct usage *u, enum usage_counter c)
{
    return json_real((double)u->n[c] / 1e9);
}

static json_t *count_of(const struct usage *u, enum usage_counter c)
{
    return json_integer((json_int_t)u->n[c]);
}

json_t *usage_shown(const struct usage *u)
{
    json_t *hits = json_pack("{s:o, s:o, s:o, s:o}", "memory", count_of(u, USAGE_memory_hits),
                             "disk", count_of(u, USAGE_disk_hits), "peer",
                             count_of(u, USAGE_peer_hits), "redis", count_of(u, USAGE_redis_hits));
    json_t *stalled = json_pack(
        "{s:o, s:o, s:o, s:o, s:o}", "latency", seconds(u, USAGE_stall_latency_ns), "bandwidth",
        seconds(u, USAGE_stall_bandwidth_ns), "disk", seconds(u, USAGE_stall_disk_ns), "memory",
        seconds(u, USAGE_stall_memory_ns), "order", seconds(u, USAGE_stall_client_ns));

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f}", "samples",
                     count_of(u, USAGE_samples), "hits", hits, "misses",
                     count_of(u, USAGE_bucket_misses), "read_bytes", count_of(u, USAGE_read_bytes),
                     "stalled_s", seconds(u, USAGE_stall_ns), "stalled", stalled, "requests",
                     count_of(u, USAGE_requests), "bytes", count_of(u, USAGE_bytes), "money",
                     (double)u->n[USAGE_money_nano] / 1e9);
}

bool usage_advice(const struct usage *u, double ran_s, struct buf *out)
{
    const struct stall_facts facts = {0}; /* how many readers it had is not known */

    return stall_share_all(u, ran_s) >= STALL_SMOOTH && stall_advice(u, &facts, out);
}

/* ---- GET /v1/accounting ---- */

/* "7d" before now, or a day "2026-11-16". */
static bool read_since(const struct http_request *r, char out[static DAY_LEN + 1],
                       struct http_reply *reply)
{
    const char *s = http_query(r, "since");
    int64_t now = wall_ms();
    struct dlc_dur back;

    if (s == NULL) {
        accounting_day(now - SINCE_DEFAULT_MS, out);
        return true;
    }
    if (strlen(s) == DAY_LEN && s[4] == '-' && s[7] == '-' && strspn(s, "0123456789-") == DAY_LEN) {
        memcpy(out, s, DAY_LEN + 1);
        return true;
    }
    if (str_parse_dur(s, &back) && back.ns >= 0 && back.ns / 1000000 < now) {
        accounting_day(now - back.ns / 1000000, out);
        return true;
    }
    refuse_field(reply, "", "since", "must be a day, such as 2026-11-16, or a time, such as 7d");
    return false;
}

static bool read_by(const struct http_request *r, enum account_by *out, struct http_reply *reply)
{
    static const char *const names[] = {
        [BY_TENANT] = "tenant", [BY_DATASET] = "dataset", [BY_JOB] = "job"};
    const char *s = http_query(r, "by");

    *out = BY_DATASET;
    if (s == NULL)
        return true;
    for (size_t i = 0; i < DLC_COUNT(names); i++)
        if (strcmp(s, names[i]) == 0) {
            *out = (enum account_by)i;
            return true;
        }
    refuse_field(reply, "", "by", "must be tenant, dataset or job");
    return false;
}

/* KEY: "TENANT", "TENANT/DATASET" or "TENANT/DATASET/JOB". */
static json_t *row_shown(struct api *api, const struct caller *who, const char *key,
                         const json_t *counters, enum account_by by)
{
    const char *dataset = strchr(key, '/'), *job = by == BY_JOB ? strrchr(key, '/') : NULL;
    struct usage u;
    json_t *o;

    usage_of_json(&u, counters);
    o = usage_shown(&u);
    json_object_set_new(o, "tenant",
                        json_stringn(key, dataset != NULL ? (size_t)(dataset - key) : strlen(key)));
    if (dataset != NULL)
        json_object_set_new(o, "dataset",
                            json_stringn(dataset + 1, job != NULL ? (size_t)(job - dataset - 1)
                                                                  : strlen(dataset + 1)));
    if (dataset != NULL)
        names_show(api, who, o, "dataset");
    if (job != NULL)
        json_object_set_new(o, "job", json_string(job + 1));
    return o;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void reply_sums(struct api *api, const struct caller *who, const json_t *sums,
                       const struct page *p, enum account_by by, const char *since,
                       struct http_reply *reply)
{
    const char **keys = mem_zero((json_object_size(sums) + 1) * sizeof(*keys)), *key;
    json_t *items = json_array(), *row;
    size_t n = 0, i = 0;

    json_object_foreach((json_t *)(uintptr_t)sums, key, row) keys[n++] = key;
    qsort(keys, n, sizeof(*keys), by_text);
    while (p->after != NULL && i < n && strcmp(keys[i], p->after) <= 0)
        i++;
    for (; i < n && json_array_size(items) < p->limit; i++)
        json_array_append_new(items,
                              row_shown(api, who, keys[i], json_object_get(sums, keys[i]), by));
    reply_list(reply, items, i < n ? keys[i - 1] : NULL);
    json_object_set_new(reply->body, "since", json_string(since));
    mem_free(&keys);
}

void route_accounting(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const struct caller *who = caller_of(r);
    char since[DAY_LEN + 1];
    struct account_query q = {
        .since = since, .tenant = who->role == ROLE_ADMIN ? http_query(r, "tenant") : who->tenant};
    struct dlc_err err = DLC_ERR_INIT;
    struct page p;
    json_t *sums = NULL;

    if (!read_page(r, &p, reply) || !read_since(r, since, reply) || !read_by(r, &q.by, reply))
        return;
    if (accounting_sum(api->tables->store, &q, &sums, &err) < 0)
        reply_store_error(api, r, reply, &err);
    else
        reply_sums(api, who, sums, &p, q.by, since, reply);
    json_decref(sums);
}
