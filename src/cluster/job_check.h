// SPDX-License-Identifier: Apache-2.0
/*
 * Is the job that a client names (DLCACHE_JOB) one that reads this dataset, and which snapshot do its
 * ranks read? The manager is asked when a session is opened; a good answer counts for a while. While
 * the manager does not answer, any name and snapshot is taken, and the log says so: reading is worth
 * more than the job's figures.
 */
#ifndef DLC_CLUSTER_JOB_CHECK_H
#define DLC_CLUSTER_JOB_CHECK_H

#include "daemon/cluster_ops.h"

/* A cluster_ops.check_job. */
void job_check(struct node *n, const char *job, const char *tenant, const char *dataset,
               uint64_t opened, job_check_f *done, void *arg);

#endif
