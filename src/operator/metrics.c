// SPDX-License-Identifier: Apache-2.0
#include "operator/metrics.h"

#include <inttypes.h>

#include "base/check.h"

static const struct {
    int64_t ns;
    const char *text;
} bounds[METRICS_BUCKETS] = {
    {1000000, "0.001"},  {2500000, "0.0025"}, {5000000, "0.005"},  {10000000, "0.01"},
    {25000000, "0.025"}, {50000000, "0.05"},  {100000000, "0.1"},  {250000000, "0.25"},
    {500000000, "0.5"},  {1000000000, "1"},   {2500000000, "2.5"}, {5000000000, "5"},
    {10000000000, "10"},
};
static const char *const kinds[METRICS_KINDS] = {"DLTPod", "CachedDataset"};
static const char *const results[METRICS_RESULTS] = {"done", "again", "error"};
static const char *const verbs[METRICS_VERBS] = {
#define VERB(name) #name,
    METRICS_VERBS_TABLE(VERB)
#undef VERB
};

static void bump(_Atomic uint64_t *v, uint64_t by)
{
    atomic_fetch_add_explicit(v, by, memory_order_relaxed);
}

static uint64_t read_of(const _Atomic uint64_t *v)
{
    return atomic_load_explicit(v, memory_order_relaxed);
}

void metrics_round(struct metrics *m, bool dataset, enum metrics_result r, struct dlc_dur d)
{
    size_t kind = dataset ? 1 : 0, b = 0;

    dlc_check(r < METRICS_RESULTS);
    while (b < METRICS_BUCKETS && d.ns > bounds[b].ns)
        b++;
    bump(&m->rounds[kind][r], 1);
    bump(&m->buckets[kind][b], 1);
    bump(&m->ns[kind], d.ns > 0 ? (uint64_t)d.ns : 0);
}

void metrics_call(struct metrics *m, enum metrics_verb v, int code)
{
    dlc_check(v < METRICS_VERBS);
    bump(&m->calls[v][code > 0 && code < METRICS_CODES ? code : 0], 1);
}

void metrics_review(struct metrics *m, enum webhook_outcome o)
{
    dlc_check(o < WEBHOOK_OUTCOMES);
    bump(&m->reviews[o], 1);
}

/* -------- text -------- */

#define PREFIX "dlcache_operator_"

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", name, help, name, type);
}

static void gauge(struct buf *out, const char *name, const char *help, double v)
{
    head(out, name, "gauge", help);
    buf_addf(out, PREFIX "%s %.15g\n", name, v);
}

static void add_rounds(const struct metrics *m, struct buf *out)
{
    head(out, "reconciliations_total", "counter", "Reconciliations, by what came of them.");
    for (size_t k = 0; k < METRICS_KINDS; k++) {
        for (size_t r = 0; r < METRICS_RESULTS; r++)
            buf_addf(out, PREFIX "reconciliations_total{kind=\"%s\",result=\"%s\"} %" PRIu64 "\n",
                     kinds[k], results[r], read_of(&m->rounds[k][r]));
    }
}

/* Buckets are cumulative; the count is that of the last, so that one scrape fits together. */
static void add_durations(const struct metrics *m, struct buf *out)
{
    head(out, "reconciliation_seconds", "histogram", "How long a reconciliation took.");
    for (size_t k = 0; k < METRICS_KINDS; k++) {
        uint64_t n = 0;

        for (size_t b = 0; b <= METRICS_BUCKETS; b++) {
            n += read_of(&m->buckets[k][b]);
            buf_addf(out,
                     PREFIX "reconciliation_seconds_bucket{kind=\"%s\",le=\"%s\"} %" PRIu64 "\n",
                     kinds[k], b < METRICS_BUCKETS ? bounds[b].text : "+Inf", n);
        }
        buf_addf(out, PREFIX "reconciliation_seconds_sum{kind=\"%s\"} %.15g\n", kinds[k],
                 (double)read_of(&m->ns[k]) / 1e9);
        buf_addf(out, PREFIX "reconciliation_seconds_count{kind=\"%s\"} %" PRIu64 "\n", kinds[k],
                 n);
    }
}

/* Only what has happened: a series for each status would be thousands. */
static void add_calls(const struct metrics *m, struct buf *out)
{
    head(out, "api_requests_total", "counter",
         "Requests to the API server, by verb and HTTP status; code 0: no answer.");
    for (size_t v = 0; v < METRICS_VERBS; v++) {
        for (size_t c = 0; c < METRICS_CODES; c++) {
            uint64_t n = read_of(&m->calls[v][c]);

            if (n > 0)
                buf_addf(out, PREFIX "api_requests_total{verb=\"%s\",code=\"%zu\"} %" PRIu64 "\n",
                         verbs[v], c, n);
        }
    }
}

static void add_watches(const struct metrics_now *now, struct buf *out)
{
    size_t n = DLC_MIN(now->n_watches, (size_t)METRICS_WATCHES_MAX);
    static const struct {
        const char *name, *type, *help;
    } table[] = {
        {"watch_lists_total", "counter", "Whole lists read, by kind."},
        {"watch_restarts_total", "counter", "Watches opened after the first, by kind."},
        {"watch_failures_total", "counter", "Lists and watches that failed, by kind."},
        {"watch_synced", "gauge", "1 when the kind was listed whole at least once."},
        {"cached_objects", "gauge", "Objects in the cache, by kind."},
    };

    for (size_t t = 0; t < DLC_COUNT(table); t++) {
        head(out, table[t].name, table[t].type, table[t].help);
        for (size_t i = 0; i < n; i++) {
            const struct metrics_watch *w = &now->watches[i];
            const uint64_t v[] = {w->lists, w->watches > 0 ? w->watches - 1 : 0, w->failures,
                                  w->synced ? 1 : 0, w->objects};

            buf_addf(out, PREFIX "%s{kind=\"%s\"} %" PRIu64 "\n", table[t].name, w->kind, v[t]);
        }
    }
}

static void add_queue(const struct metrics_now *now, struct buf *out)
{
    head(out, "queue_length", "gauge", "Keys in the work queue, by state.");
    buf_addf(out,
             PREFIX "queue_length{state=\"due\"} %zu\n" PREFIX
                    "queue_length{state=\"waiting\"} %zu\n" PREFIX
                    "queue_length{state=\"working\"} %zu\n",
             now->due, now->waiting, now->working);
    gauge(out, "queue_late_seconds", "How late the first key that is due is.",
          dlc_dur_seconds(now->oldest));
}

static void add_reviews(const struct metrics *m, struct buf *out)
{
    head(out, "webhook_reviews_total", "counter", "Pods that the webhook saw, by what came of it.");
    for (size_t o = 0; o < WEBHOOK_OUTCOMES; o++)
        buf_addf(out, PREFIX "webhook_reviews_total{outcome=\"%s\"} %" PRIu64 "\n",
                 webhook_outcomes[o], read_of(&m->reviews[o]));
}

void metrics_text(const struct metrics *m, const struct metrics_now *now, struct buf *out)
{
    add_rounds(m, out);
    add_durations(m, out);
    add_calls(m, out);
    add_queue(now, out);
    add_watches(now, out);
    add_reviews(m, out);
    gauge(out, "leader", "1 while this replica leads.", now->leader ? 1 : 0);
    head(out, "lease_transitions_total", "counter", "How often the lease changed hands.");
    buf_addf(out, PREFIX "lease_transitions_total %" PRIu64 "\n", now->transitions);
    gauge(out, "certificate_end_seconds", "When the webhook's certificate ends, as Unix time.",
          (double)now->certificate_end);
}
