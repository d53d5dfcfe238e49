// SPDX-License-Identifier: Apache-2.0
/* Periodic decisions about jobs: which waiting jobs may run, which jobs have ended. */
#ifndef DLC_MANAGER_TABLES_JOB_SCHEDULER_H
#define DLC_MANAGER_TABLES_JOB_SCHEDULER_H

#include "base/clock.h"

struct tables;

/* Thread, only while leading, about once a second: ends silent jobs, starts waiting ones. */
void jobs_tick(struct tables *t, struct dlc_mono now);
/* End the jobs of a dataset that is being deleted. */
void jobs_end_of_dataset(struct tables *t, const char *dataset);

#endif
