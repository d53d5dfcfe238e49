// SPDX-License-Identifier: Apache-2.0
/*
 * Decisions about jobs in the course of time: which of those that wait may run, which have ended.
 */
#ifndef DLC_MANAGER_TABLES_JOB_SCHEDULER_H
#define DLC_MANAGER_TABLES_JOB_SCHEDULER_H

#include "base/clock.h"

struct tables;

/* Thread, only while leading, about once a second: jobs that fell silent, the queue. */
void jobs_tick(struct tables *t, struct dlc_mono now);
/* End those of a dataset that goes away. */
void jobs_end_of_dataset(struct tables *t, const char *dataset);

#endif
