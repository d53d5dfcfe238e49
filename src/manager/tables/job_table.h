// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs as the leader knows them. The store has what must outlive the manager: what was asked for, and
 * the state. When a job was last heard of, and its figures, are in memory only: with a new leader
 * every job has a full job_ttl.
 *
 * (JOB-1) Whoever decides (a registration, the tick) holds `admit` from the look at the numbers until
 *         the job is in the table: no byte is promised twice.
 * (JOB-2) A queued job starts before every other that came later with the same priority and needs
 *         room, unless it could not run even in an empty cluster (capacity.c).
 * (JOB-3) What leaves the table is a copy, JSON values too.
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

/* A copy of all, so that nothing is computed or written with the mutex held. Gives; none when we do
 * not lead. */
struct job *jobs_copy(struct tables *t, size_t *n);
void jobs_copy_release(struct job **jobs, size_t n);
bool jobs_find(struct tables *t, const char *id, struct job *out); /* gives a copy */
void jobs_add(struct tables *t, struct job *j);                    /* takes what is in it */
bool jobs_remove(struct tables *t, const char *id);
bool jobs_heard(struct tables *t, const char *id, const uint64_t *epochs_done,
                const json_t *figures, enum job_state *state);
void jobs_set_state(struct tables *t, const char *id, enum job_state s);
/* Its dataset was listed, or lies elsewhere now. */
void jobs_dataset_changed(struct tables *t, const char *dataset, const json_t *body);
/* Nodes say who reads from them: those jobs live. figures: of a heart-beat. */
void jobs_seen(struct tables *t, const json_t *figures);
size_t jobs_running(struct tables *t, const char *dataset); /* none when we do not lead */
size_t jobs_count(struct tables *t, const char *dataset);   /* running or waiting */

/* Of a dataset: jobs that run, those of them that keep what they read, and the runs over it that
 * such jobs declared and that are still to come. A run of a job with priority p counts 2^(p/100)
 * times: when space is short the data of those that matter less goes first. */
struct job_use {
    unsigned running, keepers;
    uint64_t runs;
};
struct job_use jobs_of_dataset(const struct job *jobs, size_t n, const char *dataset);

/* Thread: we lead from now on. Jobs that were heard of by another manager get a full job_ttl. */
int jobs_load(struct tables *t, struct dlc_err *err);
void jobs_close(struct tables *t);

#endif
