// SPDX-License-Identifier: Apache-2.0
/* What `dlcache plan` prints. */
#ifndef DLC_CLI_PLAN_REPORT_H
#define DLC_CLI_PLAN_REPORT_H

#include <stdbool.h>

#include "bucket/probe.h"
#include "sim/training_cost.h"

struct plan {
    const char *url;
    struct cost_data data;
    struct cost_bucket bucket;
    struct cost_setup setup;
    struct probe_result probe; /* no reads: nothing was measured */
    struct cost_forecast forecast;
};

void plan_print_table(const struct plan *p);
void plan_print_json(const struct plan *p);

#endif
