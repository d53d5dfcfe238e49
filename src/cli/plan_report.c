// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_report.h"

#include <stdio.h>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "ipc/frame.h"

/* ---- for people ---- */

static const char *duration(double s, char out[static 32])
{
    if (s >= 3600)
        snprintf(out, 32, "%.2f h", s / 3600);
    else if (s >= 60)
        snprintf(out, 32, "%.1f min", s / 60);
    else
        snprintf(out, 32, "%.1f s", s);
    return out;
}

static void add_bucket(struct table *t, const char *what, double requests, double bytes,
                       double money)
{
    char n[32], size[24];

    table_add(t, what);
    table_add(t, table_count((unsigned long long)(requests + 0.5), n));
    table_add(t, str_size((uint64_t)bytes, size));
    table_addf(t, "%.4f", money);
}

static void add_time(struct table *t, double seconds, double waiting)
{
    char text[32];

    table_add(t, duration(seconds, text));
    table_add(t, duration(waiting, text));
}

static void add_epoch(struct table *t, const char *what, const struct cost_epoch *e)
{
    add_bucket(t, what, e->requests, e->bytes, e->money);
    add_time(t, e->seconds, e->waiting_s);
    for (unsigned i = 0; i < 3; i++)
        table_add(t, "");
}

static void add_run(struct table *t, const char *what, const struct cost_run *r)
{
    add_bucket(t, what, r->requests, r->bytes, r->money);
    add_time(t, r->seconds, r->waiting_s);
    table_addf(t, "%.4f", r->waiting_money);
    table_addf(t, "%.4f", r->storage_money);
    table_addf(t, "%.4f", cost_money(r));
}

static void print_inputs(const struct plan *p)
{
    char n[32], size[24], rate[24];

    printf("%s: %s samples, %s\n", p->url, table_count(p->data.samples, n),
           str_size(p->data.bytes, size));
    printf("bucket: %.1f ms, %s/s", p->bucket.latency_s * 1000,
           str_size((uint64_t)p->bucket.bytes_per_s, rate));
    if (p->probe.reads > 0)
        printf(", measured with %u reads, %s", p->probe.reads, str_size(p->probe.bytes, size));
    printf("\nlater epochs: %.1f %% of the reads from memory, %.1f %% from disk, %.1f %% from the "
           "bucket\n\n",
           100 * p->forecast.later.reuse, 100 * p->forecast.later.disk,
           100 * p->forecast.later.bucket);
}

void plan_print_table(const struct plan *p)
{
    const struct cost_forecast *f = &p->forecast;
    char what[64];
    struct table t;

    print_inputs(p);
    table_init(&t, "what|>requests|>received|>bucket USD|>time|>waiting|>GPUs wait USD|"
                   ">disks USD|>sum USD");
    add_epoch(&t, "epoch 1", &f->first);
    if (p->setup.epochs > 1)
        add_epoch(&t, "each later epoch", &f->later);
    snprintf(what, sizeof(what), "dlcache, %u epoch%s", p->setup.epochs,
             p->setup.epochs > 1 ? "s" : "");
    add_run(&t, what, &f->cached);
    snprintf(what, sizeof(what), "direct, %u workers", p->setup.workers);
    add_run(&t, what, &f->direct);
    add_run(&t, "copied to local SSD first", &f->ssd);
    table_print(&t, stdout);
    table_release(&t);
    if (!(p->setup.price_gpu > 0))
        printf("\nGPUs that wait cost nothing here: give the price of an hour with --price-gpu\n");
    if (!(p->setup.samples_per_s > 0))
        printf(
            "\nno speed of training was given (--step-ms or --samples-per-s): times are those of "
            "the bucket\n");
}

/* ---- for programs ---- */

static json_t *json_epoch(const struct cost_epoch *e)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "requests", e->requests, "bytes",
                     e->bytes, "money", e->money, "seconds", e->seconds, "waiting_s", e->waiting_s,
                     "memory_share", e->reuse, "disk_share", e->disk, "bucket_share", e->bucket);
}

static json_t *json_run(const struct cost_run *r)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "requests", r->requests,
                     "bytes", r->bytes, "money", r->money, "seconds", r->seconds, "hours",
                     r->seconds / 3600, "waiting_s", r->waiting_s, "waiting_money",
                     r->waiting_money, "storage_money", r->storage_money, "sum_money",
                     cost_money(r));
}

void plan_print_json(const struct plan *p)
{
    const struct cost_forecast *f = &p->forecast;
    json_t *bucket = json_pack(
        "{s:f, s:f, s:f, s:I, s:I, s:f, s:f}", "latency_ms", p->bucket.latency_s * 1000, "p99_ms",
        p->bucket.p99_s * 1000, "bytes_per_s", p->bucket.bytes_per_s, "probe_reads",
        (json_int_t)p->probe.reads, "probe_bytes", (json_int_t)p->probe.bytes, "price_get",
        p->bucket.price_get, "price_byte", p->bucket.price_byte);

    print_json(json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:o, s:o, s:o, s:o, s:o}",
                         "url", msg_string(p->url), "samples", (json_int_t)p->data.samples, "bytes",
                         (json_int_t)p->data.bytes, "epochs", (json_int_t)p->setup.epochs, "nodes",
                         (json_int_t)p->setup.nodes, "memory", (json_int_t)p->setup.memory, "disk",
                         (json_int_t)p->setup.disk, "samples_per_s", p->setup.samples_per_s,
                         "bucket", bucket, "first_epoch", json_epoch(&f->first), "later_epoch",
                         json_epoch(&f->later), "dlcache", json_run(&f->cached), "direct",
                         json_run(&f->direct), "ssd", json_run(&f->ssd)),
               false);
}
