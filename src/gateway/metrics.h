// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics of a daemon: a snapshot of its figures as OpenMetrics or Prometheus text. Pure.
 *
 * (GATEWAY-1) The number of series has a bound whatever clients, datasets and jobs are called and
 *             however many there are: FIGURES-3. Label values are escaped: OPENMETRICS-1.
 * (GATEWAY-2) Every counter of tbl/counters.def is here, with its help; units are seconds, bytes
 *             and dollars.
 * (GATEWAY-3) With a tenant: its datasets, jobs and memory, and nothing that others have a part in.
 */
#ifndef DLC_GATEWAY_METRICS_H
#define DLC_GATEWAY_METRICS_H

#include <stdbool.h>

#include "base/buf.h"

struct node_figures;

/* tenant NULL: all. Appends. old: format 0.0.4. */
void gateway_metrics(const struct node_figures *f, const char *tenant, bool old, struct buf *out);

#endif
