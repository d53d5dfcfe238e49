// SPDX-License-Identifier: Apache-2.0
/*
 * Output of `dlcache sim`: tables and JSON. Charts are drawn from the JSON by Python
 * (dlcache.torch.sim_plot), which draws all charts of this project.
 */
#ifndef DLC_CLI_SIM_REPORT_H
#define DLC_CLI_SIM_REPORT_H

#include <jansson.h>

#include "sim/sweep.h"

struct sim_report {
    const struct study *study;
    const char *workload; /* "mix" */
    const char *title;    /* for people */
    char subtitle[120];
    uint64_t bytes;       /* of all chunks */
    const double *shares; /* capacities in percent of that; NULL: they were given as sizes */
    double coverage;      /* share of the samples seen in an epoch; 0: not a question here */
    const char *measure;  /* "seconds", "hits", "bytes" or "money": what is compared */
};

void sim_report_tables(const struct sim_report *r);
json_t *sim_report_json(const struct sim_report *r); /* gives a reference */

#endif
