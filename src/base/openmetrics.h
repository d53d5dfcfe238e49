// SPDX-License-Identifier: Apache-2.0
/*
 * Writes metrics as text: OpenMetrics 1.0, or Prometheus' older format 0.0.4. The caller names
 * families as OpenMetrics does, without the suffix _total; the writer makes the difference between
 * the formats.
 *
 *     openmetrics_family(&w, "dlcache_bucket_bytes", OPENMETRICS_COUNTER, "bytes", "Bytes ...");
 *     openmetrics_u64(&w, n, "dataset", name, NULL);
 *     ...
 *     openmetrics_end(&w);
 *
 * (OPENMETRICS-1) Label values are any bytes: quotes, backslashes and line ends are escaped, and
 *                 bytes that are not UTF-8 become U+FFFD. So no value can add a line or a series.
 * (OPENMETRICS-2) A value of more than OPENMETRICS_VALUE_MAX bytes is cut, and ends with a hash of
 *                 the whole: two that differ still differ.
 *
 * Not here: which metrics there are.
 */
#ifndef DLC_BASE_OPENMETRICS_H
#define DLC_BASE_OPENMETRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define OPENMETRICS_TYPE      "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define OPENMETRICS_TYPE_TEXT "text/plain; version=0.0.4; charset=utf-8"
#define OPENMETRICS_VALUE_MAX 200u

enum openmetrics_kind { OPENMETRICS_COUNTER, OPENMETRICS_GAUGE, OPENMETRICS_HISTOGRAM };

struct openmetrics {
    struct buf *out; /* borrowed */
    bool old;        /* format 0.0.4 */
    char family[128];
    enum openmetrics_kind kind;
};

/* Does a client with this Accept header (NULL: none) get OpenMetrics? */
bool openmetrics_accepted(const char *accept);

void openmetrics_begin(struct openmetrics *w, struct buf *out, bool old);
void openmetrics_end(struct openmetrics *w);

/* unit: as the name ends; NULL: none. */
void openmetrics_family(struct openmetrics *w, const char *name, enum openmetrics_kind kind,
                        const char *unit, const char *help);
/* One sample of the family. Pairs of a label and its value, then NULL. */
void openmetrics_u64(struct openmetrics *w, uint64_t value, ...) __attribute__((sentinel));
void openmetrics_double(struct openmetrics *w, double value, ...) __attribute__((sentinel));
/* A histogram: n + 1 counts, not cumulative; the last one is of what lies above all n bounds. */
void openmetrics_histogram(struct openmetrics *w, const char *const *bounds, size_t n,
                           const uint64_t *counts, double sum, ...) __attribute__((sentinel));

#endif
