// SPDX-License-Identifier: Apache-2.0
#include "operator/metrics.h"

#include <stdio.h>

#include "base/check.h"
#include "base/openmetrics.h"

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

static void gauge(struct openmetrics *w, const char *name, const char *help, double v)
{
    openmetrics_family(w, name, OPENMETRICS_GAUGE, NULL, help);
    openmetrics_double(w, v, NULL);
}

static void add_rounds(const struct metrics *m, struct openmetrics *w)
{
    openmetrics_family(w, PREFIX "reconciliations", OPENMETRICS_COUNTER, NULL,
                       "Reconciliations, by what came of them.");
    for (size_t k = 0; k < METRICS_KINDS; k++) {
        for (size_t r = 0; r < METRICS_RESULTS; r++)
            openmetrics_u64(w, read_of(&m->rounds[k][r]), "kind", kinds[k], "result", results[r],
                            NULL);
    }
}

static void add_durations(const struct metrics *m, struct openmetrics *w)
{
    const char *texts[METRICS_BUCKETS];

    for (size_t b = 0; b < METRICS_BUCKETS; b++)
        texts[b] = bounds[b].text;
    openmetrics_family(w, PREFIX "reconciliation_seconds", OPENMETRICS_HISTOGRAM, "seconds",
                       "How long a reconciliation took.");
    for (size_t k = 0; k < METRICS_KINDS; k++) {
        uint64_t counts[METRICS_BUCKETS + 1];

        for (size_t b = 0; b <= METRICS_BUCKETS; b++)
            counts[b] = read_of(&m->buckets[k][b]);
        openmetrics_histogram(w, texts, METRICS_BUCKETS, counts, (double)read_of(&m->ns[k]) / 1e9,
                              "kind", kinds[k], NULL);
    }
}

/* Only what has happened: a series for each status would be thousands. */
static void add_calls(const struct metrics *m, struct openmetrics *w)
{
    char code[8];

    openmetrics_family(w, PREFIX "api_requests", OPENMETRICS_COUNTER, NULL,
                       "Requests to the API server, by verb and HTTP status; code 0: no answer.");
    for (size_t v = 0; v < METRICS_VERBS; v++) {
        for (size_t c = 0; c < METRICS_CODES; c++) {
            uint64_t n = read_of(&m->calls[v][c]);

            snprintf(code, sizeof(code), "%zu", c);
            if (n > 0)
                openmetrics_u64(w, n, "verb", verbs[v], "code", code, NULL);
        }
    }
}

static void add_watches(const struct metrics_now *now, struct openmetrics *w)
{
    size_t n = DLC_MIN(now->n_watches, (size_t)METRICS_WATCHES_MAX);
    static const struct {
        const char *name;
        enum openmetrics_kind kind;
        const char *help;
    } table[] = {
        {PREFIX "watch_lists", OPENMETRICS_COUNTER, "Whole lists read, by kind."},
        {PREFIX "watch_restarts", OPENMETRICS_COUNTER, "Watches opened after the first, by kind."},
        {PREFIX "watch_failures", OPENMETRICS_COUNTER, "Lists and watches that failed, by kind."},
        {PREFIX "watch_synced", OPENMETRICS_GAUGE,
         "1 when the kind was listed whole at least once."},
        {PREFIX "cached_objects", OPENMETRICS_GAUGE, "Objects in the cache, by kind."},
    };

    for (size_t t = 0; t < DLC_COUNT(table); t++) {
        openmetrics_family(w, table[t].name, table[t].kind, NULL, table[t].help);
        for (size_t i = 0; i < n; i++) {
            const struct metrics_watch *x = &now->watches[i];
            const uint64_t v[] = {x->lists, x->watches > 0 ? x->watches - 1 : 0, x->failures,
                                  x->synced ? 1 : 0, x->objects};

            openmetrics_u64(w, v[t], "kind", x->kind, NULL);
        }
    }
}

static void add_queue(const struct metrics_now *now, struct openmetrics *w)
{
    openmetrics_family(w, PREFIX "queue_length", OPENMETRICS_GAUGE, NULL,
                       "Keys in the work queue, by state.");
    openmetrics_u64(w, now->due, "state", "due", NULL);
    openmetrics_u64(w, now->waiting, "state", "waiting", NULL);
    openmetrics_u64(w, now->working, "state", "working", NULL);
    gauge(w, PREFIX "queue_late_seconds", "How late the first key that is due is.",
          dlc_dur_seconds(now->oldest));
}

static void add_reviews(const struct metrics *m, struct openmetrics *w)
{
    openmetrics_family(w, PREFIX "webhook_reviews", OPENMETRICS_COUNTER, NULL,
                       "Pods that the webhook saw, by what came of it.");
    for (size_t o = 0; o < WEBHOOK_OUTCOMES; o++)
        openmetrics_u64(w, read_of(&m->reviews[o]), "outcome", webhook_outcomes[o], NULL);
}

void metrics_text(const struct metrics *m, const struct metrics_now *now, struct buf *out)
{
    struct openmetrics w;

    openmetrics_begin(&w, out, true);
    add_rounds(m, &w);
    add_durations(m, &w);
    add_calls(m, &w);
    add_queue(now, &w);
    add_watches(now, &w);
    add_reviews(m, &w);
    gauge(&w, PREFIX "leader", "1 while this replica leads.", now->leader ? 1 : 0);
    openmetrics_family(&w, PREFIX "lease_transitions", OPENMETRICS_COUNTER, NULL,
                       "How often the lease changed hands.");
    openmetrics_u64(&w, now->transitions, NULL);
    gauge(&w, PREFIX "certificate_end_seconds",
          "When the webhook's certificate ends, as Unix time.", (double)now->certificate_end);
    openmetrics_end(&w);
}
