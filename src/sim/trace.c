// SPDX-License-Identifier: Apache-2.0
#include "sim/trace.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

uint32_t sim_trace_chunk(struct sim_trace *t, uint64_t size, double cost)
{
    dlc_check(t->n_chunks < SIM_NONE);
    mem_reserve(t->chunks, t->n_chunks, t->cap_chunks);
    t->chunks[t->n_chunks] = (struct sim_chunk){size, cost};
    t->bytes += size;
    return t->n_chunks++;
}

uint32_t sim_trace_dataset(struct sim_trace *t)
{
    dlc_check(t->n_datasets < SIM_NONE);
    return t->n_datasets++;
}

uint32_t sim_trace_job(struct sim_trace *t, uint32_t dataset)
{
    dlc_check(dataset < t->n_datasets && t->n_jobs < SIM_NONE);
    mem_reserve(t->jobs, t->n_jobs, t->cap_jobs);
    t->jobs[t->n_jobs] = dataset;
    return t->n_jobs++;
}

void sim_trace_read(struct sim_trace *t, uint32_t job, uint32_t chunk)
{
    dlc_check(job < t->n_jobs && chunk < t->n_chunks && t->n_reads < SIM_NONE);
    mem_reserve(t->reads, t->n_reads, t->cap_reads);
    t->reads[t->n_reads++] =
        (struct sim_read){.job = job, .chunk = chunk, .weight = -1, .next = SIM_NONE};
}

static void lists_release(struct sim_lists *l)
{
    mem_free(&l->from);
    mem_free(&l->at);
}

static void unindex(struct sim_trace *t)
{
    lists_release(&t->job_reads);
    lists_release(&t->dataset_chunks);
    mem_free(&t->runs);
    mem_free(&t->passes);
}

/* from[] holds counts, moved up by one; turn them into places. */
static void lists_open(struct sim_lists *l, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        l->from[i + 1] += l->from[i];
    l->at = mem_alloc(((size_t)l->from[n] + 1) * sizeof(*l->at));
}

static void index_jobs(struct sim_trace *t)
{
    struct sim_lists *l = &t->job_reads;
    uint32_t *used = mem_zero(((size_t)t->n_jobs + 1) * sizeof(*used));

    l->from = mem_zero(((size_t)t->n_jobs + 1) * sizeof(*l->from));
    for (uint32_t i = 0; i < t->n_reads; i++)
        l->from[t->reads[i].job + 1]++;
    lists_open(l, t->n_jobs);
    for (uint32_t i = 0; i < t->n_reads; i++) {
        uint32_t job = t->reads[i].job;

        l->at[l->from[job] + used[job]++] = t->reads[i].chunk;
    }
    mem_free(&used);
}

/* The jobs of one dataset one after another, so that a mark per chunk finds repetitions. */
static void index_datasets(struct sim_trace *t)
{
    struct sim_lists *l = &t->dataset_chunks;
    uint32_t *mark = mem_zero(((size_t)t->n_chunks + 1) * sizeof(*mark));
    uint32_t n = 0, cap = 0;

    l->from = mem_zero(((size_t)t->n_datasets + 1) * sizeof(*l->from));
    for (uint32_t d = 0; d < t->n_datasets; d++) {
        for (uint32_t j = 0; j < t->n_jobs; j++) {
            if (t->jobs[j] != d)
                continue;
            for (uint32_t k = t->job_reads.from[j]; k < t->job_reads.from[j + 1]; k++) {
                uint32_t c = t->job_reads.at[k];

                if (mark[c] == d + 1)
                    continue;
                mark[c] = d + 1;
                mem_reserve(l->at, n, cap);
                l->at[n++] = c;
            }
        }
        l->from[d + 1] = n;
    }
    mem_free(&mark);
}

void sim_trace_index(struct sim_trace *t)
{
    uint32_t *last = mem_alloc(((size_t)t->n_chunks + 1) * sizeof(*last));

    unindex(t);
    for (uint32_t c = 0; c < t->n_chunks; c++)
        last[c] = SIM_NONE;
    for (uint32_t i = t->n_reads; i-- > 0;) {
        t->reads[i].next = last[t->reads[i].chunk];
        last[t->reads[i].chunk] = i;
    }
    mem_free(&last);
    t->runs = mem_zero(((size_t)t->n_datasets + 1) * sizeof(*t->runs));
    for (uint32_t j = 0; j < t->n_jobs; j++)
        t->runs[t->jobs[j]]++;
    index_jobs(t);
    index_datasets(t);
    t->passes = mem_zero(((size_t)t->n_datasets + 1) * sizeof(*t->passes));
    for (uint32_t j = 0; j < t->n_jobs; j++)
        t->passes[t->jobs[j]] += sim_job_passes(t, j);
}

uint64_t sim_job_passes(const struct sim_trace *t, uint32_t job)
{
    const struct sim_lists *l = &t->job_reads;
    uint64_t n = 0;

    for (uint32_t i = l->from[job]; i < l->from[job + 1]; i++)
        n += i == l->from[job] || l->at[i] != l->at[i - 1];
    return n;
}

int32_t sim_runs_to_come(const struct sim_trace *t, uint32_t dataset, uint64_t begun)
{
    uint64_t chunks = t->dataset_chunks.from[dataset + 1] - t->dataset_chunks.from[dataset];
    uint64_t left = t->passes[dataset] - begun;

    return chunks == 0 ? 0 : (int32_t)((left + chunks - 1) / chunks);
}

void sim_trace_clear_jobs(struct sim_trace *t)
{
    unindex(t);
    t->n_jobs = t->n_reads = t->warm = 0;
}

void sim_trace_release(struct sim_trace *t)
{
    unindex(t);
    mem_free(&t->chunks);
    mem_free(&t->jobs);
    mem_free(&t->reads);
    *t = (struct sim_trace)SIM_TRACE_INIT;
}
