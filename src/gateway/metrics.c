// SPDX-License-Identifier: Apache-2.0
#include "gateway/metrics.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/counters.h"
#include "base/openmetrics.h"
#include "base/str.h"
#include "daemon/figures.h"
#include "dlcache.h"

#define P     "dlcache_"
#define OTHER "other"

/* What is written, for whom. */
struct page {
    struct openmetrics w;
    const struct node_figures *f;
    const char *tenant; /* NULL: all */
};

static bool sees(const struct page *p, const char *tenant)
{
    return p->tenant == NULL || strcmp(p->tenant, tenant) == 0;
}

static void gauge(struct page *p, const char *name, const char *unit, const char *help, double v)
{
    openmetrics_family(&p->w, name, OPENMETRICS_GAUGE, unit, help);
    openmetrics_double(&p->w, v, NULL);
}

static void counter(struct page *p, const char *name, const char *unit, const char *help, double v)
{
    openmetrics_family(&p->w, name, OPENMETRICS_COUNTER, unit, help);
    openmetrics_double(&p->w, v, NULL);
}

/* ---- the counter table ---- */

/* Names end with their unit, as Prometheus has them. */
static void add_counter(struct page *p, const struct counter_info *c, uint64_t v)
{
    char name[96];
    size_t n = strlen(c->name);

    if (strcmp(c->unit, "ns") == 0) {
        snprintf(name, sizeof(name), P "%.*s_seconds", (int)(n - strlen("_ns")), c->name);
        counter(p, name, "seconds", c->help, (double)v / 1e9);
    } else if (strcmp(c->unit, "1e-9 money") == 0) {
        snprintf(name, sizeof(name), P "%.*s_dollars", (int)(n - strlen("_nano")), c->name);
        counter(p, name, "dollars", c->help, (double)v / 1e9);
    } else {
        snprintf(name, sizeof(name), P "%s", c->name);
        openmetrics_family(&p->w, name, OPENMETRICS_COUNTER,
                           strcmp(c->unit, "bytes") == 0 ? "bytes" : NULL, c->help);
        openmetrics_u64(&p->w, v, NULL);
    }
}

/* ---- the node ---- */

static void add_daemon(struct page *p)
{
    const struct node_figures *f = p->f;
    const json_t *error = json_object_get(f->cluster, "trouble");

    openmetrics_family(&p->w, P "build_info", OPENMETRICS_GAUGE, NULL,
                       "1, with the version of this program.");
    openmetrics_u64(&p->w, 1, "version", dlc_version(), NULL);
    gauge(p, P "uptime_seconds", "seconds", "Since the daemon started.",
          dlc_dur_seconds(f->uptime));
    gauge(p, P "connections", NULL, "Connections of clients.", f->connections);
    gauge(p, P "sessions", NULL, "Sessions that read a dataset.", f->sessions);
    gauge(p, P "loop_longest_turn_seconds", "seconds",
          "Longest turn of the event loop, CPU time. Readers wait meanwhile.",
          dlc_dur_seconds(f->loop.longest));
    counter(p, P "loop_turns", NULL, "Turns of the event loop.", (double)f->loop.turns);
    gauge(p, P "peers", NULL, "Other live nodes of the cluster.", f->peers);
    gauge(p, P "manager_connected", NULL,
          "1 while the manager answers, or where there is no cluster.",
          error == NULL || json_is_null(error) ? 1 : 0);
}

static void add_tiers(struct page *p)
{
    const struct node_figures *f = p->f;
    const struct {
        const char *tier, *policy, *counter;
    } evictions[] = {{"memory", f->memory_policy, "mem_evictions"},
                     {"disk", f->disk_policy, "disk_evictions"}};

    gauge(p, P "memory_used_bytes", "bytes", "Memory tier: bytes in use.", (double)f->memory.used);
    gauge(p, P "memory_ceiling_bytes", "bytes", "Memory tier: bytes that it may use now.",
          (double)f->memory.ceiling);
    gauge(p, P "memory_limit_bytes", "bytes", "Memory tier: bytes that it may ever use.",
          (double)f->memory.max);
    gauge(p, P "memory_residents", NULL, "Memory tier: samples.", (double)f->memory.residents);
    gauge(p, P "memory_decoded_bytes", "bytes", "Memory tier: bytes of decoded samples.",
          (double)f->memory.decoded_bytes);
    if (f->has_disk) {
        gauge(p, P "disk_used_bytes", "bytes", "Disk tier: bytes of chunks.",
              (double)f->disk.bytes);
        gauge(p, P "disk_limit_bytes", "bytes", "Disk tier: bytes that it may use; 0: no limit.",
              (double)f->disk.limit);
        gauge(p, P "disk_free_bytes", "bytes", "Free bytes of the file system of the disk tier.",
              (double)f->disk.fs_free);
        gauge(p, P "disk_keep_free_bytes", "bytes", "Bytes that the disk tier leaves free there.",
              (double)f->disk.keep_free);
        gauge(p, P "disk_chunks", NULL, "Disk tier: chunks.", (double)f->disk.chunks);
        gauge(p, P "disk_bypassed", NULL, "1 while the disk tier is bypassed: it hung or failed.",
              strcmp(f->disk.breaker, "closed") != 0);
        gauge(p, P "disk_read_only", NULL, "1 when writing to the disk tier failed for good.",
              f->disk.read_only);
    }
    openmetrics_family(&p->w, P "evictions", OPENMETRICS_COUNTER, NULL,
                       "Evictions, by tier and eviction policy.");
    for (size_t i = 0; i < DLC_COUNT(evictions); i++)
        for (unsigned k = 0; k < counter_table_len; k++)
            if (strcmp(counter_table[k].name, evictions[i].counter) == 0)
                openmetrics_u64(&p->w, f->counters[k], "tier", evictions[i].tier, "policy",
                                evictions[i].policy, NULL);
}

static void add_work(struct page *p)
{
    const struct work_figures *q = p->f->work;

    openmetrics_family(&p->w, P "work_queued", OPENMETRICS_GAUGE, NULL,
                       "Work that waits for a thread, by work class.");
    for (unsigned i = 0; i < N_WORK; i++)
        openmetrics_u64(&p->w, q[i].pool.queued, "class", q[i].name, NULL);
    openmetrics_family(&p->w, P "work_running", OPENMETRICS_GAUGE, NULL,
                       "Work that runs, by work class.");
    for (unsigned i = 0; i < N_WORK; i++)
        openmetrics_u64(&p->w, q[i].pool.running, "class", q[i].name, NULL);
    openmetrics_family(&p->w, P "work_threads", OPENMETRICS_GAUGE, NULL,
                       "Threads of each work class.");
    for (unsigned i = 0; i < N_WORK; i++)
        openmetrics_u64(&p->w, q[i].threads, "class", q[i].name, NULL);
    openmetrics_family(&p->w, P "work_waiting_seconds", OPENMETRICS_GAUGE, "seconds",
                       "How long the first work of the queue has waited, by work class.");
    for (unsigned i = 0; i < N_WORK; i++)
        openmetrics_double(&p->w, dlc_dur_seconds(q[i].pool.waiting), "class", q[i].name, NULL);
    openmetrics_family(&p->w, P "work_refused", OPENMETRICS_COUNTER, NULL,
                       "Work that found its queue full, by work class.");
    for (unsigned i = 0; i < N_WORK; i++)
        openmetrics_u64(&p->w, q[i].pool.refused, "class", q[i].name, NULL);
}

static void add_fetches(struct page *p)
{
    const char *seconds[FETCH_SECONDS], *bytes[FETCH_BYTES];

    for (unsigned i = 0; i < FETCH_SECONDS; i++)
        seconds[i] = fetch_seconds[i].text;
    for (unsigned i = 0; i < FETCH_BYTES; i++)
        bytes[i] = fetch_bytes[i].text;
    openmetrics_family(&p->w, P "fetch_seconds", OPENMETRICS_HISTOGRAM, "seconds",
                       "How long fetches took, by the tier that had the bytes.");
    for (unsigned i = 1; i < FETCH_TIERS; i++) /* nothing is fetched from memory */
        openmetrics_histogram(&p->w, seconds, FETCH_SECONDS, p->f->fetched[i].seconds,
                              (double)p->f->fetched[i].ns_sum / 1e9, "tier", fetch_tier_names[i],
                              NULL);
    openmetrics_family(&p->w, P "fetch_bytes", OPENMETRICS_HISTOGRAM, "bytes",
                       "How large fetches were, by the tier that had the bytes.");
    for (unsigned i = 1; i < FETCH_TIERS; i++)
        openmetrics_histogram(&p->w, bytes, FETCH_BYTES, p->f->fetched[i].bytes,
                              (double)p->f->fetched[i].bytes_sum, "tier", fetch_tier_names[i],
                              NULL);
}

static void add_shared(struct page *p)
{
    const struct shared_figures *s = &p->f->shared;

    if (!p->f->has_shared)
        return;
    gauge(p, P "shared_skipped", NULL, "1 while the shared Redis is not asked: it failed.",
          s->skipping);
    counter(p, P "shared_failures", NULL, "Requests to the shared Redis that failed.",
            (double)s->failures);
    counter(p, P "shared_read_bytes", "bytes", "Bytes read from the shared Redis.",
            (double)s->bytes_read);
    counter(p, P "shared_written_bytes", "bytes", "Bytes written to the shared Redis.",
            (double)s->bytes_put);
}

/* ---- tenants ---- */

static void add_tenants(struct page *p)
{
    openmetrics_family(&p->w, P "tenant_memory_used_bytes", OPENMETRICS_GAUGE, "bytes",
                       "Memory in use, by tenant.");
    for (size_t i = 0; i < p->f->n_tenants; i++)
        if (sees(p, p->f->tenants[i].tenant))
            openmetrics_u64(&p->w, p->f->tenants[i].memory.used, "tenant", p->f->tenants[i].tenant,
                            NULL);
    openmetrics_family(&p->w, P "tenant_memory_ceiling_bytes", OPENMETRICS_GAUGE, "bytes",
                       "Memory that each tenant may use now.");
    for (size_t i = 0; i < p->f->n_tenants; i++)
        if (sees(p, p->f->tenants[i].tenant))
            openmetrics_u64(&p->w, p->f->tenants[i].memory.ceiling, "tenant",
                            p->f->tenants[i].tenant, NULL);
    if (!p->f->has_disk)
        return;
    openmetrics_family(
        &p->w, P "tenant_disk_used_bytes", OPENMETRICS_GAUGE, "bytes",
        "Bytes of chunks on disk, by tenant; of datasets with figures of their own.");
    for (size_t i = 0; i < p->f->n_tenants; i++) {
        uint64_t sum = 0;

        for (size_t k = 0; k < p->f->n_datasets; k++)
            if (strcmp(p->f->datasets[k].tenant, p->f->tenants[i].tenant) == 0)
                sum += p->f->datasets[k].disk.bytes;
        if (sees(p, p->f->tenants[i].tenant))
            openmetrics_u64(&p->w, sum, "tenant", p->f->tenants[i].tenant, NULL);
    }
}

/* ---- datasets ---- */

/* Two datasets may have one name: an old and a new snapshot. */
#define DATASET(d) "dataset", (d)->label, "tenant", (d)->tenant, "snapshot", (d)->snapshot
#define NO_DATASET "dataset", OTHER, "tenant", "", "snapshot", ""

static double count_at(const struct dataset_counts *c, size_t offset, double scale)
{
    uint64_t v;

    memcpy(&v, (const char *)c + offset, sizeof(v));
    return (double)v * scale;
}

#define USED(name) (offsetof(struct dataset_counts, usage) + USAGE_##name * sizeof(uint64_t))
#define AT(name)   offsetof(struct dataset_counts, name)

/* A family whose series differ in one more label; NULL: they do not. */
struct dataset_row {
    const char *family, *unit, *help, *label, *value;
    size_t at;
    double scale;
};

static const struct dataset_row dataset_rows[] = {
    {P "dataset_samples_read", NULL, "Samples that readers got.", NULL, NULL, USED(samples), 1},
    {P "dataset_hits", NULL, "Samples that readers got from a tier.", "tier", "memory",
     USED(memory_hits), 1},
    {NULL, NULL, NULL, "tier", "disk", USED(disk_hits), 1},
    {NULL, NULL, NULL, "tier", "peer", USED(peer_hits), 1},
    {NULL, NULL, NULL, "tier", "redis", USED(redis_hits), 1},
    {P "dataset_misses", NULL, "Samples that readers waited for while they came from the bucket.",
     NULL, NULL, USED(bucket_misses), 1},
    {P "dataset_read_bytes", "bytes", "Bytes of samples that readers got.", NULL, NULL,
     USED(read_bytes), 1},
    {P "dataset_stall_seconds", "seconds", "How long readers waited, by reason.", "reason",
     "latency", USED(stall_latency_ns), 1e-9},
    {NULL, NULL, NULL, "reason", "bandwidth", USED(stall_bandwidth_ns), 1e-9},
    {NULL, NULL, NULL, "reason", "disk", USED(stall_disk_ns), 1e-9},
    {NULL, NULL, NULL, "reason", "memory", USED(stall_memory_ns), 1e-9},
    {NULL, NULL, NULL, "reason", "order", USED(stall_client_ns), 1e-9},
    {P "dataset_reads", NULL, "Reads of announced orders, by what they found.", "outcome", "reused",
     AT(reused), 1},
    {NULL, NULL, NULL, "outcome", "prefetched", AT(prefetched), 1},
    {NULL, NULL, NULL, "outcome", "late", AT(late), 1},
    {P "dataset_bucket_requests", NULL, "Requests sent to the bucket, retries included.", NULL,
     NULL, USED(requests), 1},
    {P "dataset_bucket_bytes", "bytes", "Bytes received from the bucket.", NULL, NULL, USED(bytes),
     1},
    {P "dataset_bucket_retries", NULL, "Attempts after the first.", NULL, NULL, AT(retries), 1},
    {P "dataset_bucket_hedges", NULL, "Second requests because the first was late.", NULL, NULL,
     AT(hedges), 1},
    {P "dataset_bucket_errors", NULL, "Requests that failed after all retries.", NULL, NULL,
     AT(errors), 1},
    {P "dataset_cost_dollars", "dollars", "Estimated price of requests and transfer.", NULL, NULL,
     USED(money_nano), 1e-9},
    {P "dataset_direct_cost_dollars", "dollars",
     "Estimated price of the same reads without a cache: one request for each sample.", NULL, NULL,
     AT(direct_nano), 1e-9},
};

static void add_dataset_rows(struct page *p)
{
    const struct node_figures *f = p->f;

    for (size_t r = 0; r < DLC_COUNT(dataset_rows); r++) {
        const struct dataset_row *row = &dataset_rows[r];

        if (row->family != NULL)
            openmetrics_family(&p->w, row->family, OPENMETRICS_COUNTER, row->unit, row->help);
        for (size_t i = 0; i < f->n_datasets; i++)
            if (sees(p, f->datasets[i].tenant))
                openmetrics_double(&p->w, count_at(&f->datasets[i].counts, row->at, row->scale),
                                   DATASET(&f->datasets[i]), row->label, row->value, NULL);
        if (p->tenant == NULL)
            openmetrics_double(&p->w, count_at(&f->other, row->at, row->scale), NO_DATASET,
                               row->label, row->value, NULL);
    }
}

/* "s3://bucket" of "s3://bucket/prefix/". */
static void bucket_of(const char *url, char out[static 128])
{
    const char *host = strstr(url, "://"), *end = host != NULL ? strchr(host + 3, '/') : NULL;
    size_t n = end != NULL && end > host + 3 ? (size_t)(end - url) : strlen(url);

    snprintf(out, 128, "%.*s", (int)DLC_MIN(n, (size_t)127), url);
}

static void add_answers(struct page *p)
{
    openmetrics_family(&p->w, P "dataset_bucket_answers", OPENMETRICS_COUNTER, NULL,
                       "Answers of buckets to single attempts, by bucket and status.");
    for (size_t i = 0; i < p->f->n_datasets; i++) {
        const struct dataset_figures *d = &p->f->datasets[i];
        char bucket[128];

        bucket_of(d->url, bucket);
        for (unsigned k = 0; sees(p, d->tenant) && k < BUCKET_OUTCOMES; k++)
            if (k == BUCKET_OK || d->counts.outcomes[k] > 0)
                openmetrics_u64(&p->w, d->counts.outcomes[k], DATASET(d), "bucket", bucket,
                                "status", bucket_outcome_names[k], NULL);
    }
}

static double dataset_gauge(const struct dataset_figures *d, unsigned i)
{
    const double v[] = {
        (double)d->samples,
        (double)d->bytes,
        (double)d->resident_bytes,
        (double)d->disk.bytes,
        d->readers.sessions,
        (double)d->fetching,
        (double)d->backlog,
        d->bucket.in_flight,
        d->bucket.queued,
        d->bucket.limit,
        (double)d->bucket.p50.ns / 1e9,
        (double)d->bucket.p99.ns / 1e9,
    };

    dlc_check(i < DLC_COUNT(v));
    return v[i];
}

static void add_dataset_gauges(struct page *p)
{
    static const struct {
        const char *family, *unit, *help;
    } rows[] = {
        {P "dataset_samples", NULL, "Samples of the catalog."},
        {P "dataset_size_bytes", "bytes", "Bytes of all its samples."},
        {P "dataset_memory_bytes", "bytes", "Bytes of it in memory."},
        {P "dataset_disk_bytes", "bytes", "Bytes of it on disk."},
        {P "dataset_sessions", NULL, "Sessions that read it."},
        {P "dataset_fetches", NULL, "Samples that are being fetched."},
        {P "dataset_backlog", NULL, "Samples that wait to be fetched ahead."},
        {P "dataset_bucket_in_flight", NULL, "Requests to its bucket under way."},
        {P "dataset_bucket_queued", NULL, "Requests that wait for their turn."},
        {P "dataset_bucket_limit", NULL, "Requests that may be under way at once, as measured."},
        {P "dataset_bucket_p50_seconds", "seconds", "Median time of one attempt, lately."},
        {P "dataset_bucket_p99_seconds", "seconds", "99th percentile of one attempt, lately."},
    };

    for (unsigned r = 0; r < DLC_COUNT(rows); r++) {
        openmetrics_family(&p->w, rows[r].family, OPENMETRICS_GAUGE, rows[r].unit, rows[r].help);
        for (size_t i = 0; i < p->f->n_datasets; i++)
            if (sees(p, p->f->datasets[i].tenant))
                openmetrics_double(&p->w, dataset_gauge(&p->f->datasets[i], r),
                                   DATASET(&p->f->datasets[i]), NULL);
    }
    if (p->tenant == NULL)
        gauge(p, P "datasets", NULL, "Datasets that are open.",
              (double)(p->f->n_datasets + p->f->other_datasets));
}

/* ---- jobs ---- */

#define JOB(j) "job", (j)->job, "tenant", (j)->tenant
#define NO_JOB "job", OTHER, "tenant", ""

static const struct {
    const char *family, *unit, *help, *label, *value;
    enum usage_counter at;
    double scale;
} job_rows[] = {
    {P "job_samples_read", NULL, "Samples that the job got.", NULL, NULL, USAGE_samples, 1},
    {P "job_read_bytes", "bytes", "Bytes that the job got.", NULL, NULL, USAGE_read_bytes, 1},
    {P "job_hits", NULL, "Samples that the job got from a tier.", "tier", "memory",
     USAGE_memory_hits, 1},
    {NULL, NULL, NULL, "tier", "disk", USAGE_disk_hits, 1},
    {NULL, NULL, NULL, "tier", "peer", USAGE_peer_hits, 1},
    {NULL, NULL, NULL, "tier", "redis", USAGE_redis_hits, 1},
    {P "job_misses", NULL, "Samples that the job waited for while they came from the bucket.", NULL,
     NULL, USAGE_bucket_misses, 1},
    {P "job_stall_seconds", "seconds", "How long its readers waited, by reason.", "reason",
     "latency", USAGE_stall_latency_ns, 1e-9},
    {NULL, NULL, NULL, "reason", "bandwidth", USAGE_stall_bandwidth_ns, 1e-9},
    {NULL, NULL, NULL, "reason", "disk", USAGE_stall_disk_ns, 1e-9},
    {NULL, NULL, NULL, "reason", "memory", USAGE_stall_memory_ns, 1e-9},
    {NULL, NULL, NULL, "reason", "order", USAGE_stall_client_ns, 1e-9},
};

static void add_job_rows(struct page *p)
{
    for (size_t r = 0; r < DLC_COUNT(job_rows); r++) {
        if (job_rows[r].family != NULL)
            openmetrics_family(&p->w, job_rows[r].family, OPENMETRICS_COUNTER, job_rows[r].unit,
                               job_rows[r].help);
        for (size_t i = 0; i < p->f->n_jobs; i++) {
            const struct job_figures *j = &p->f->jobs[i];

            if (sees(p, j->tenant))
                openmetrics_double(&p->w, (double)j->usage.n[job_rows[r].at] * job_rows[r].scale,
                                   JOB(j), job_rows[r].label, job_rows[r].value, NULL);
        }
        if (p->tenant == NULL)
            openmetrics_double(&p->w,
                               (double)p->f->other_jobs.n[job_rows[r].at] * job_rows[r].scale,
                               NO_JOB, job_rows[r].label, job_rows[r].value, NULL);
    }
}

static void add_job_gauges(struct page *p)
{
    static const struct {
        const char *family, *help;
    } rows[] = {
        {P "job_sessions", "Sessions of the job on this node."},
        {P "job_window_samples", "How far ahead the daemon may fetch for it: sum of its readers."},
        {P "job_ahead_samples", "How far ahead the daemon has fetched for it."},
        {P "job_epoch", "Epoch that its slowest reader is in."},
        {P "job_epoch_position", "Position of its slowest reader in the epoch: the cursor."},
        {P "job_epoch_length", "Positions of that epoch."},
    };

    for (unsigned r = 0; r < DLC_COUNT(rows); r++) {
        openmetrics_family(&p->w, rows[r].family, OPENMETRICS_GAUGE, NULL, rows[r].help);
        for (size_t i = 0; i < p->f->n_jobs; i++) {
            const struct job_figures *j = &p->f->jobs[i];
            const uint64_t v[] = {j->readers.sessions,
                                  j->readers.window,
                                  j->readers.ahead,
                                  j->epoch,
                                  j->at,
                                  j->length};

            if (sees(p, j->tenant) && (r == 0 || j->has_order))
                openmetrics_u64(&p->w, v[r], JOB(j), NULL);
        }
    }
}

void gateway_metrics(const struct node_figures *f, const char *tenant, bool old, struct buf *out)
{
    struct page p = {.f = f, .tenant = tenant};

    openmetrics_begin(&p.w, out, old);
    if (tenant == NULL) {
        add_daemon(&p);
        for (unsigned i = 0; i < counter_table_len; i++)
            add_counter(&p, &counter_table[i], f->counters[i]);
        add_tiers(&p);
        add_work(&p);
        add_fetches(&p);
        add_shared(&p);
    }
    add_tenants(&p);
    add_dataset_rows(&p);
    add_answers(&p);
    add_dataset_gauges(&p);
    add_job_rows(&p);
    add_job_gauges(&p);
    openmetrics_end(&p.w);
}
