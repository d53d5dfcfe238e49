// SPDX-License-Identifier: Apache-2.0
/*
 * Replays a trace against a tier, by the code that the daemon runs: replay_disk.c, replay_memory.c.
 * A job begins with its first read and ends with its last.
 */
#include "base/mem.h"
#include "sim/replay_i.h"

static uint32_t reads_of(const struct sim_trace *t, uint32_t job)
{
    return t->job_reads.from[job + 1] - t->job_reads.from[job];
}

static void job_begins(const struct tier_ops *ops, struct tier_run *r, uint32_t job, uint32_t d)
{
    if (r->o->clock == SIM_CLOCK_JOB)
        r->now += 1;
    r->begun[d] += sim_job_passes(r->t, job);
    ops->job_begins(r, d, r->c->declares ? sim_runs_to_come(r->t, d, r->begun[d]) : POLICY_UNKNOWN);
}

static void replay_read(const struct tier_ops *ops, struct tier_run *r, const struct sim_read *read)
{
    uint32_t d = r->t->jobs[read->job];
    enum sim_outcome got;

    if (r->left[read->job] == reads_of(r->t, read->job))
        job_begins(ops, r, read->job, d);
    got = ops->read(r, read, d);
    sim_count(r->t, r->o, read->chunk, got == SIM_HIT, r->r);
    r->r->refused += got == SIM_REFUSED;
    r->r->evictions += got == SIM_STORED; /* those that stay are taken off at the end */
    if (got != SIM_HIT && r->o->clock == SIM_CLOCK_COST)
        r->now += r->t->chunks[read->chunk].cost;
    if (--r->left[read->job] == 0)
        ops->job_ends(r, d);
}

void sim_run_tier(const struct tier_ops *ops, const struct sim_trace *t,
                  const struct sim_contender *c, const struct sim_options *o,
                  struct sim_result *out)
{
    struct tier_run r = {.t = t, .c = c, .o = o, .r = out};

    *out = (struct sim_result){0};
    r.begun = mem_zero(((size_t)t->n_datasets + 1) * sizeof(*r.begun));
    r.left = mem_zero(((size_t)t->n_jobs + 1) * sizeof(*r.left));
    for (uint32_t j = 0; j < t->n_jobs; j++)
        r.left[j] = reads_of(t, j);
    r.tier = ops->open(&r);
    for (uint32_t i = 0; i < t->n_reads; i++) {
        if (i == t->warm)
            *out = (struct sim_result){.evictions = ops->resident(&r)};
        replay_read(ops, &r, &t->reads[i]);
    }
    out->evictions -= ops->resident(&r);
    ops->close(&r);
    mem_free(&r.begun);
    mem_free(&r.left);
}
