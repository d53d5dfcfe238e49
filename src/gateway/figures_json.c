// SPDX-License-Identifier: Apache-2.0
#include "gateway/figures_json.h"

#include <stdio.h>
#include <string.h>

#include "base/counters.h"
#include "base/stall.h"
#include "cache/policy/lifecycle.h"
#include "daemon/figures.h"
#include "dlcache.h"
#include "ipc/frame.h"

#define LONG_TURN DLC_MS(20)

static bool sees(const char *tenant, const char *whose)
{
    return tenant == NULL || strcmp(tenant, whose) == 0;
}

static void set_u64(json_t *o, const char *name, uint64_t v)
{
    json_object_set_new(o, name, json_integer((json_int_t)v));
}

static json_t *readers_json(const struct reader_figures *r)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:f}", "sessions", (json_int_t)r->sessions, "reading",
                     (json_int_t)r->reading, "window", (json_int_t)r->window, "ahead",
                     (json_int_t)r->ahead, "per_s", r->per_s);
}

static json_t *dataset_json(const struct dataset_figures *d)
{
    json_t *o =
        json_pack("{s:o, s:o, s:o, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:I}", "name",
                  msg_string(d->label), "url", msg_string(d->url), "tenant", msg_string(d->tenant),
                  "snapshot", d->snapshot, "usage", usage_json(&d->counts.usage), "readers",
                  readers_json(&d->readers), "samples", (json_int_t)d->samples, "bytes",
                  (json_int_t)d->bytes, "memory_bytes", (json_int_t)d->resident_bytes, "fetching",
                  (json_int_t)d->fetching, "backlog", (json_int_t)d->backlog);

    set_u64(o, "errors", d->counts.errors);
    set_u64(o, "retries", d->counts.retries);
    set_u64(o, "reused", d->counts.reused);
    set_u64(o, "prefetched", d->counts.prefetched);
    set_u64(o, "late", d->counts.late);
    set_u64(o, "direct_nano", d->counts.direct_nano);
    set_u64(o, "direct_requests", d->counts.usage.n[USAGE_samples]);
    json_object_set_new(
        o, "bucket",
        json_pack("{s:i, s:i, s:i, s:f, s:f, s:f}", "in_flight", (int)d->bucket.in_flight, "queued",
                  (int)d->bucket.queued, "limit", (int)d->bucket.limit, "p50_ms",
                  (double)d->bucket.p50.ns / 1e6, "p99_ms", (double)d->bucket.p99.ns / 1e6,
                  "bytes_per_s", d->bucket.bytes_per_s));
    if (d->has_disk) {
        set_u64(o, "disk_bytes", d->disk.bytes);
        json_object_set_new(o, "state", json_string(life_name(d->disk.state)));
    }
    return o;
}

/* ---- why a job waits ---- */

static struct stall_facts facts_of(const struct node_figures *f, const struct job_figures *j)
{
    struct stall_facts facts = {.reader_s = j->recent_s, .cache_bytes = f->memory.ceiling};

    if (f->has_disk)
        facts.cache_bytes += f->disk.limit > 0 ? f->disk.limit : f->disk.bytes + f->disk.fs_free;
    for (size_t i = 0; i < f->n_datasets; i++) {
        const struct dataset_figures *d = &f->datasets[i];

        if (strcmp(d->label, j->dataset) != 0 || !sees(j->tenant, d->tenant))
            continue;
        facts.bytes_per_s = d->bucket.bytes_per_s;
        facts.most_bytes_per_s = d->most_bytes_per_s;
        facts.latency_s = dlc_dur_seconds(d->bucket.p50);
        facts.dataset_bytes = d->bytes;
    }
    return facts;
}

/* {"seconds", "waiting", "latency", ...}: shares of the readers' time, and "advice" if there is any. */
static void add_recent(json_t *o, const struct node_figures *f, const struct job_figures *j)
{
    struct stall_facts facts = facts_of(f, j);
    struct buf advice = BUF_INIT;
    json_t *recent = json_pack("{s:f, s:f}", "seconds", j->recent_s, "waiting",
                               stall_share_all(&j->recent, j->recent_s));

    for (enum stall_reason r = 0; r < STALL_REASONS; r++)
        json_object_set_new(recent, stall_name(r),
                            json_real(stall_share(&j->recent, r, j->recent_s)));
    json_object_set_new(recent, "usage", usage_json(&j->recent));
    json_object_set_new(o, "recent", recent);
    if (stall_advice(&j->recent, &facts, &advice))
        json_object_set_new(o, "advice", msg_string(buf_str(&advice)));
    buf_release(&advice);
}

static json_t *job_json(const struct node_figures *f, const struct job_figures *j)
{
    json_t *epochs = json_array();
    json_t *o =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "job", msg_string(j->job), "tenant",
                  msg_string(j->tenant), "dataset", msg_string(j->dataset), "usage",
                  usage_json(&j->usage), "readers", readers_json(&j->readers), "epochs", epochs);

    for (unsigned i = 0; i < j->n_epochs; i++)
        json_array_append_new(epochs, json_pack("{s:I, s:I, s:I, s:I}", "epoch",
                                                (json_int_t)j->epochs[i].epoch, "reused",
                                                (json_int_t)j->epochs[i].sum.reuse, "prefetched",
                                                (json_int_t)j->epochs[i].sum.ahead, "late",
                                                (json_int_t)j->epochs[i].sum.waited));
    if (j->has_order)
        json_object_set_new(o, "order",
                            json_pack("{s:I, s:I, s:I, s:I}", "epoch", (json_int_t)j->epoch, "at",
                                      (json_int_t)j->at, "length", (json_int_t)j->length, "ahead",
                                      (json_int_t)j->ahead));
    add_recent(o, f, j);
    return o;
}

static json_t *memory_json(const struct memory_figures *m)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "used", (json_int_t)m->used, "ceiling",
                     (json_int_t)m->ceiling, "max", (json_int_t)m->max, "residents",
                     (json_int_t)m->residents, "decoded_bytes", (json_int_t)m->decoded_bytes);
}

static json_t *disk_json(const struct node_figures *f)
{
    const struct disk_figures *d = &f->disk;

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:s, s:o}", "used", (json_int_t)d->bytes,
                     "limit", (json_int_t)d->limit, "free", (json_int_t)d->fs_free, "keep_free",
                     (json_int_t)d->keep_free, "chunks", (json_int_t)d->chunks, "read_only",
                     d->read_only, "scanning", d->scanning, "breaker", d->breaker, "breaker_why",
                     msg_string(d->breaker_why));
}

static json_t *work_list(const struct node_figures *f)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < N_WORK; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:f}", "class", f->work[i].name,
                                              "threads", (json_int_t)f->work[i].threads, "running",
                                              (json_int_t)f->work[i].pool.running, "queued",
                                              (json_int_t)f->work[i].pool.queued, "waiting_s",
                                              dlc_dur_seconds(f->work[i].pool.waiting)));
    return list;
}

/* ---- what is wrong ---- */

static void problem(json_t *list, const char *what, const char *remedy)
{
    json_array_append_new(list,
                          json_pack("{s:o, s:s}", "what", msg_string(what), "remedy", remedy));
}

static json_t *problems(const struct node_figures *f)
{
    const char *manager = json_string_value(json_object_get(f->cluster, "trouble"));
    json_t *list = json_array();
    char text[400];

    if (f->has_disk && strcmp(f->disk.breaker, "closed") != 0) {
        snprintf(text, sizeof(text), "The disk tier is bypassed: %s", f->disk.breaker_why);
        problem(list, text,
                "Check the disk of --dir; samples come from memory and bucket until "
                "it answers.");
    }
    if (f->has_disk && f->disk.read_only)
        problem(list, "The disk tier is read-only: writing to it failed.",
                "Check the file system of --dir, then restart the daemon.");
    if (manager != NULL) {
        snprintf(text, sizeof(text), "The manager does not answer: %s", manager);
        problem(list, text,
                "Check the manager and the network; reading goes on with what is known.");
    }
    if (f->loop.longest.ns > LONG_TURN.ns) {
        snprintf(text, sizeof(text), "One turn of the event loop took %.0f ms of CPU time in %s",
                 dlc_dur_seconds(f->loop.longest) * 1e3, f->loop.longest_in);
        problem(list, text, "Readers waited meanwhile: please report it.");
    }
    if (f->has_shared && f->shared.skipping) {
        snprintf(text, sizeof(text), "The shared Redis is not asked: %s", f->shared.why);
        problem(list, text, "Check it; samples come from elsewhere meanwhile.");
    }
    return list;
}

static json_t *counters_json(const struct node_figures *f)
{
    json_t *o = json_object();

    for (unsigned i = 0; i < counter_table_len; i++)
        set_u64(o, counter_table[i].name, f->counters[i]);
    return o;
}

static void add_node(json_t *o, const struct node_figures *f)
{
    json_t *tenants = json_array();

    json_object_set_new(o, "problems", problems(f));
    json_object_set_new(o, "memory", memory_json(&f->memory));
    json_object_set_new(o, "memory_policy", json_string(f->memory_policy));
    json_object_set_new(o, "disk_policy", json_string(f->disk_policy));
    json_object_set_new(o, "disk", f->has_disk ? disk_json(f) : json_null());
    json_object_set_new(o, "counters", counters_json(f));
    json_object_set_new(o, "work", work_list(f));
    json_object_set_new(o, "loop_longest_ms", json_real(dlc_dur_seconds(f->loop.longest) * 1e3));
    set_u64(o, "peers", f->peers);
    set_u64(o, "sessions", f->sessions);
    set_u64(o, "other_datasets", f->other_datasets);
    set_u64(o, "other_sessions", f->other_sessions);
    json_object_set_new(o, "other", usage_json(&f->other.usage));
    for (size_t i = 0; i < f->n_tenants; i++)
        json_array_append_new(tenants,
                              json_pack("{s:o, s:o}", "tenant", msg_string(f->tenants[i].tenant),
                                        "memory", memory_json(&f->tenants[i].memory)));
    json_object_set_new(o, "tenants", tenants);
}

json_t *gateway_figures_json(const struct node_figures *f, const char *tenant)
{
    json_t *datasets = json_array(), *jobs = json_array();
    json_t *o =
        json_pack("{s:s, s:o, s:s, s:I, s:f, s:o, s:o}", "kind", "node", "name",
                  msg_string(f->name), "version", dlc_version(), "time", (json_int_t)f->wall,
                  "uptime_s", dlc_dur_seconds(f->uptime), "datasets", datasets, "jobs", jobs);

    if (tenant == NULL)
        add_node(o, f);
    else
        json_object_set_new(o, "tenant", msg_string(tenant));
    for (size_t i = 0; i < f->n_datasets; i++)
        if (sees(tenant, f->datasets[i].tenant))
            json_array_append_new(datasets, dataset_json(&f->datasets[i]));
    for (size_t i = 0; i < f->n_jobs; i++)
        if (sees(tenant, f->jobs[i].tenant))
            json_array_append_new(jobs, job_json(f, &f->jobs[i]));
    return o;
}
