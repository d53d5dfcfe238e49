// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs that have ended, for --keep-ended: what they asked for, what they used, why they ended.
 * Documents of kind STORE_ENDED, by the job's id: the job's document (job_doc.h) with "state":
 * "ended", and {"ended_ms", "why", "epochs_done", "figures"?, "usage"}.
 *
 * (ENDED-1) The document is written before the job's own is deleted: an end is not forgotten, at most
 *           seen twice, and then the later one counts.
 * (ENDED-2) At most ENDED_OF_TENANT of a tenant and ENDED_MAX in all are kept; the oldest go first.
 * (ENDED-3) Nodes report what a job used up to its end a few seconds later. So "usage" is taken from
 *           the accounts once more, SETTLE_MS after the end; until then it may be too little, and whoever
           is shown it is told.
 */
#ifndef DLC_MANAGER_TABLES_ENDED_JOBS_H
#define DLC_MANAGER_TABLES_ENDED_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"

struct tables;
struct job;
struct store;
struct store_doc;

#define ENDED_OF_TENANT 500
#define ENDED_MAX       20000

struct ended_job;
struct ended_jobs {
    struct ended_job *list; /* G: mtx; by the time of their end */
    size_t n, cap;
};

/* Write it. 0 too if the job has no document any more. */
int ended_job_add(struct tables *t, const struct job *j, const char *why, struct dlc_err *err);
/* Was it a job of the dataset "TENANT/NAME"? */
bool ended_job_is_of(struct tables *t, const char *id, const char *of);
/* As jobs_readers(): those that had read shortly before. */
size_t ended_jobs_readers(struct tables *t, const char *of, char (*ids)[20], size_t max);
/* What the accounts say of it now, or NULL. Any manager may ask. */
int ended_job_usage(struct store *s, const struct store_doc *job, json_t **out,
                    struct dlc_err *err);
/* Is "usage" of its document final? */
bool ended_job_is_settled(const struct store_doc *job);
/* Replace its usage. */
int ended_job_settle(struct tables *t, const char *id, const json_t *usage, struct dlc_err *err);
/* One whose usage is to be settled now. False: none. */
bool ended_job_due(struct tables *t, int64_t now_ms, char id[static 20]);
void ended_jobs_forget_tenant(struct tables *t, const char *tenant);
void ended_jobs_tick(struct tables *t, int64_t now_ms); /* thread: delete old ones */
int ended_jobs_load(struct tables *t, struct dlc_err *err);
void ended_jobs_close(struct tables *t);

#endif
