// SPDX-License-Identifier: Apache-2.0
/*
 * Accounts: what each tenant, dataset and job has used, by day (UTC), for as long as --keep-accounting
 * says. Nodes send what has been used since their last batch (cluster/usage.h).
 *
 * Documents of kind STORE_USAGE:
 *   "node/NODE":     {"day", "senders": {ID: SEQ}, "rows": {"TENANT/DATASET": {JOB: counters}}}
 *   "day/DAY/NODE":  {"of": VERSION, "rows"}: the document above, as it was when its day had passed
 *   "day/DAY/~":     {"nodes": {NODE: true}, "rows"}: the sum of those of the day
 *   "before":        {"through": DAY, "rows"}: by dataset, of the days that are not kept any more
 *
 * (ACCOUNT-1) The rows of a node and the number of the last batch in them are one document, so that
 *             a batch is in the sums once, however often it is sent and to whichever manager.
 * (ACCOUNT-2) A day is archived before its rows are cleared. While both documents have rows of one day,
 *             only "node/NODE" counts. An archive is replaced by a later version only.
 * (ACCOUNT-3) What nodes asked of the bucket is divided evenly among the registered jobs that read
 *             the dataset at that time (jobs_readers()); the rest of the division, and all of it when no
 *             job reads, stays with job "".
 * (ACCOUNT-4) Rows of a deleted tenant are moved to "NAME~": who gets the name later does not see
 *             them.
 * (ACCOUNT-5) Documents "day/DAY/NODE" of a day that is over for every node become part of
 *             "day/DAY/~", and are deleted after that: while both are there, only the latter counts.
 * (ACCOUNT-6) A day that is not kept any more is added to "before", and deleted after that. Days
 *             up to "through" count no more.
 */
#ifndef DLC_MANAGER_TABLES_ACCOUNTING_H
#define DLC_MANAGER_TABLES_ACCOUNTING_H

#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/usage.h"
#include "manager/store/store.h"

struct tables;

#define DAY_LEN 10 /* "2026-11-16" */

struct accounting {
    struct dlc_mono swept; /* the thread's */
};

void accounting_day(int64_t ms, char out[static DAY_LEN + 1]);
/* A batch of a node, at the time now_ms. 0: it is in the sums, from now on or since before. */
int accounting_take(struct tables *t, const char *node, const json_t *batch, int64_t now_ms,
                    struct dlc_err *err);

enum account_by { BY_TENANT, BY_DATASET, BY_JOB };
struct account_query {
    const char *since;  /* a day; NULL: from the first */
    const char *tenant; /* NULL: of all */
    enum account_by by;
};
/* Any manager may answer. Gives {KEY: counters}; KEY: "TENANT", "TENANT/DATASET" or
 * "TENANT/DATASET/JOB". */
int accounting_sum(struct store *s, const struct account_query *q, json_t **out,
                   struct dlc_err *err);
/* Thread: the usage of the jobs that were just loaded. */
int accounting_load_jobs(struct tables *t, struct dlc_err *err);
/* Thread: dataset_cost.h. */
int accounting_load_costs(struct tables *t, struct dlc_err *err);
/* (ACCOUNT-4) */
int accounting_forget_tenant(struct tables *t, const char *tenant, struct dlc_err *err);
/* Thread: sum up days that are over, and those that are older than t->keep_accounting. */
void accounting_tick(struct tables *t, struct dlc_mono now, int64_t now_ms);

#endif
