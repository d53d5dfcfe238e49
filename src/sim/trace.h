// SPDX-License-Identifier: Apache-2.0
/*
 * A trace: chunks, jobs, and the sequence of reads. Input of the simulator.
 *
 * Build it (chunks and datasets first, then jobs and reads), index it once, replay it often.
 * Chunks, datasets and jobs have the numbers that the add functions return, from 0.
 *
 * A job begins with its first read and ends with its last; jobs may overlap. All jobs of a dataset
 * are its runs.
 */
#ifndef DLC_SIM_TRACE_H
#define DLC_SIM_TRACE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define SIM_NONE UINT32_MAX

struct sim_chunk {
    uint64_t size;
    double cost; /* seconds to bring it */
};

struct sim_read {
    uint32_t job, chunk;
    float weight; /* importance that the job finds when it has read it; negative: it does not say */
    uint32_t next; /* index: the next read of the same chunk by anybody, or SIM_NONE */
};

/* A list of lists: those of i are at[from[i]] to at[from[i + 1] - 1]. */
struct sim_lists {
    uint32_t *from, *at;
};

struct sim_trace {
    struct sim_chunk *chunks;
    uint32_t n_chunks, cap_chunks;
    uint32_t *jobs; /* dataset of each */
    uint32_t n_jobs, cap_jobs;
    uint32_t n_datasets;
    struct sim_read *reads;
    uint32_t n_reads, cap_reads;
    uint64_t bytes; /* of all chunks */
    uint32_t warm;  /* so many reads at the start warm the cache and are not counted */

    /* Made by sim_trace_index. */
    struct sim_lists job_reads;      /* job -> chunks, in order of reading, with repetitions */
    struct sim_lists dataset_chunks; /* dataset -> chunks, each once */
    uint32_t *runs;                  /* dataset -> jobs */
    uint64_t *passes;                /* dataset -> reads by all its jobs: sim_job_passes() */
};

#define SIM_TRACE_INIT                                                                             \
    {                                                                                              \
        NULL, 0, 0, NULL, 0, 0, 0, NULL, 0, 0, 0, 0, {NULL, NULL}, {NULL, NULL}, NULL, NULL        \
    }

uint32_t sim_trace_chunk(struct sim_trace *t, uint64_t size, double cost);
uint32_t sim_trace_dataset(struct sim_trace *t);
uint32_t sim_trace_job(struct sim_trace *t, uint32_t dataset);
void sim_trace_read(struct sim_trace *t, uint32_t job, uint32_t chunk);

void sim_trace_index(struct sim_trace *t);
/* Reads of a job, those of one chunk in a row as one. */
uint64_t sim_job_passes(const struct sim_trace *t, uint32_t job);
/* Runs that are still to come, as a user would declare them: the dataset read once is one run, also
 * if several jobs read a part of it each. begun: passes of the jobs that have begun. */
int32_t sim_runs_to_come(const struct sim_trace *t, uint32_t dataset, uint64_t begun);
void sim_trace_clear_jobs(struct sim_trace *t); /* chunks and datasets stay */
void sim_trace_release(struct sim_trace *t);

/* The text format of docs/format/trace.md. `name` is for messages, which give the line. */
int sim_trace_parse(struct sim_trace *t, const char *name, const char *text, size_t len,
                    struct dlc_err *err);

#endif
