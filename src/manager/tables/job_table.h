// SPDX-License-Identifier: Apache-2.0
/*
 * The leader's table of jobs. The store has what must outlive the manager: the request and the
 * state. The time of the last heartbeat, and the figures, are in memory only: under a new leader
 * every job gets a full job_ttl.
 *
 * (JOB-1) Code that decides (a registration, the tick) holds `admit` from reading the numbers until
 *         the job is in the table: no byte is promised twice.
 * (JOB-2) A queued job starts before every other that came later with the same priority and needs
 *         room, unless it could not run even in an empty cluster (capacity.c).
 * (JOB-3) The table gives out copies only, also of JSON values.
 * (JOB-4) All ranks of a job read one snapshot: the first that a node has opened for one of them. It
 *         is in the job's document, by compare-and-set, and never changes.
 */
#ifndef DLC_MANAGER_TABLES_JOB_TABLE_H
#define DLC_MANAGER_TABLES_JOB_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mutex.h"
#include "manager/tables/job_doc.h"

struct tables;

struct job_table {
    struct job *jobs; /* G: mtx; sorted by id */
    size_t n, cap;
    bool loaded;               /* G: mtx; this manager has led once */
    struct dlc_mtx admit;      /* rank LCK_jobs */
    bool runs_changed;         /* G: mtx; the next tick makes a view of it */
    struct dlc_mono listed_at; /* the thread's: when unlisted datasets were last asked for */
};

/* Hold `admit`. False: this manager has never led. */
bool jobs_lock(struct tables *t);
void jobs_unlock(struct tables *t);

/* A copy of all, so that no computation or write holds the mutex. Gives; none if this manager does
 * not lead. */
struct job *jobs_copy(struct tables *t, size_t *n);
struct job *jobs_copy_loaded(struct tables *t, size_t *n); /* the same before it leads. Thread */
void jobs_copy_release(struct job **jobs, size_t n);
bool jobs_find(struct tables *t, const char *id, struct job *out); /* gives a copy */
void jobs_add(struct tables *t, struct job *j);                    /* takes its contents */
bool jobs_remove(struct tables *t, const char *id);
bool jobs_heard(struct tables *t, const char *id, const uint64_t *epochs_done,
                const json_t *figures, enum job_state *state);
void jobs_set_state(struct tables *t, const char *id, enum job_state s);
void jobs_set_admission(struct tables *t, const char *id, const struct admission *a);
/* (JOB-4) A rank is about to read *snapshot. Gives the one that it has to read instead, or the same.
 * DLC_ENOTFOUND: the job has ended. */
int jobs_agree_snapshot(struct tables *t, const char *id, uint64_t *snapshot, struct dlc_err *err);
/* Its dataset was listed or moved. */
void jobs_dataset_changed(struct tables *t, const char *dataset, const json_t *body);
/* Nodes report which jobs read from them: those are alive. figures: of a heartbeat. */
void jobs_seen(struct tables *t, const json_t *figures);
/* Is it a job of the dataset "TENANT/NAME"? */
bool jobs_is_of(struct tables *t, const char *id, const char *of);
/* A node has just reported that it read. */
void jobs_reading(struct tables *t, const char *id);
/* Ids of the jobs that have read the dataset in the last JOB_READ_TIME. */
#define JOB_READ_TIME DLC_SEC(30)
size_t jobs_readers(struct tables *t, const char *of, char (*ids)[20], size_t max);
/* What it has used more. */
void jobs_used(struct tables *t, const char *id, const struct usage *more);
size_t jobs_running(struct tables *t, const char *dataset); /* none when we do not lead */
size_t jobs_count(struct tables *t, const char *dataset);   /* running or waiting */

/* Use of a dataset: running jobs, those of them that use the cache for all they read, and the runs
 * over it that such jobs declared and have not done yet. A run of a job with priority p counts
 * 2^(p/100) times: when space is short, data of less important jobs is evicted first. */
struct job_use {
    unsigned running, keepers;
    uint64_t runs;
};
struct job_use jobs_of_dataset(const struct job *jobs, size_t n, const char *dataset);

/* Thread: this manager starts to lead. Jobs that another manager heard from get a full job_ttl. */
int jobs_load(struct tables *t, struct dlc_err *err);
void jobs_close(struct tables *t);

#endif
