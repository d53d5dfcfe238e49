// SPDX-License-Identifier: Apache-2.0
/*
 * Prometheus metrics of the operator (text format 0.0.4). Counters are kept here and raised by any
 * thread; gauges are passed in by the caller of a scrape.
 *
 * (OPERATOR-METRICS-1) Counters only increase, and one scrape shows each at some time during it:
 *                      they are relaxed atomics that pair with nothing.
 */
#ifndef DLC_OPERATOR_METRICS_H
#define DLC_OPERATOR_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "operator/webhook/webhook.h"

enum metrics_result { METRICS_DONE, METRICS_AGAIN, METRICS_FAILED, METRICS_RESULTS };

#define METRICS_KINDS   2  /* DLTPod, CachedDataset */
#define METRICS_BUCKETS 13 /* of durations: 1 ms to 10 s */

/* VERB(name): what is asked of the API server, in Kubernetes' words. */
#define METRICS_VERBS_TABLE(VERB)                                                                  \
    VERB(get)                                                                                      \
    VERB(list)                                                                                     \
    VERB(watch)                                                                                    \
    VERB(create)                                                                                   \
    VERB(update)                                                                                   \
    VERB(patch)                                                                                    \
    VERB(delete)
enum metrics_verb {
#define VERB(name) METRICS_##name,
    METRICS_VERBS_TABLE(VERB)
#undef VERB
        METRICS_VERBS
};
#define METRICS_CODES 600 /* HTTP statuses; 0: no answer */

struct metrics {
    _Atomic uint64_t rounds[METRICS_KINDS][METRICS_RESULTS];
    _Atomic uint64_t buckets[METRICS_KINDS][METRICS_BUCKETS + 1]; /* the last: longer */
    _Atomic uint64_t ns[METRICS_KINDS];
    _Atomic uint64_t calls[METRICS_VERBS][METRICS_CODES];
    _Atomic uint64_t reviews[WEBHOOK_OUTCOMES];
};

/* Any thread. `dataset`: of a CachedDataset, else of a DLTPod. */
void metrics_round(struct metrics *m, bool dataset, enum metrics_result r, struct dlc_dur d);
void metrics_call(struct metrics *m, enum metrics_verb v, int code); /* code 0: no answer */
void metrics_review(struct metrics *m, enum webhook_outcome o);

/* One watch, at present. */
struct metrics_watch {
    const char *kind; /* "Pod" */
    bool synced;
    uint64_t lists, watches, failures, objects;
};
#define METRICS_WATCHES_MAX 16

/* All that is not counted here. */
struct metrics_now {
    bool leader;
    uint64_t transitions; /* of the lease */
    size_t due, waiting, working;
    struct dlc_dur oldest; /* how late the first key that is due is */
    struct metrics_watch watches[METRICS_WATCHES_MAX];
    size_t n_watches;
    int64_t certificate_end; /* Unix time; 0: none */
};

/* Appends. */
void metrics_text(const struct metrics *m, const struct metrics_now *now, struct buf *out);

#endif
