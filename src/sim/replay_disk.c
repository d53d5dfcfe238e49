// SPDX-License-Identifier: Apache-2.0
/*
 * Replays a trace against the disk tier: its lives, its groups and its policy, by the code that the
 * tier runs (cache/disk/disk_model.h). A job joins its dataset with its first read and leaves it
 * with its last; there is no cool-down.
 */
#include "base/mem.h"
#include "cache/disk/disk.h"
#include "cache/disk/disk_model.h"
#include "sim/replay_i.h"

const char *sim_disk_refusal(const struct sim_contender *c)
{
    return c->ops == NULL ? "it is a bound and not a policy; choose worth"
                          : disk_policy_refusal(c->ops);
}

struct disk_run {
    const struct sim_trace *t;
    const struct sim_contender *c;
    const struct sim_options *o;
    struct sim_result *r;
    struct disk_model *m;
    uint32_t *groups;  /* of each dataset */
    uint32_t *started; /* dataset -> runs that have begun */
    uint32_t *left;    /* of each job: reads still to come */
    double now;
};

static uint32_t reads_of(const struct sim_trace *t, uint32_t job)
{
    return t->job_reads.from[job + 1] - t->job_reads.from[job];
}

static void job_begins(struct disk_run *r, uint32_t job)
{
    uint32_t d = r->t->jobs[job];

    if (r->o->clock == SIM_CLOCK_JOB)
        r->now += 1;
    r->started[d]++;
    disk_model_join(r->m, r->groups[d], r->now);
    if (r->c->declares)
        disk_model_expect(r->m, r->groups[d], (int32_t)(r->t->runs[d] - r->started[d]));
}

static void replay_read(struct disk_run *r, const struct sim_read *read)
{
    const struct sim_chunk *k = &r->t->chunks[read->chunk];
    uint32_t group = r->groups[r->t->jobs[read->job]];
    enum disk_model_outcome got;

    if (r->left[read->job] == reads_of(r->t, read->job))
        job_begins(r, read->job);
    got = disk_model_read(r->m, group, read->chunk, k->size, k->cost, r->now, &r->r->evictions);
    sim_count(r->t, r->o, read->chunk, got == DISK_MODEL_HIT, r->r);
    r->r->refused += got == DISK_MODEL_REFUSED;
    if (got != DISK_MODEL_HIT && r->o->clock == SIM_CLOCK_COST)
        r->now += k->cost;
    if (--r->left[read->job] == 0)
        disk_model_leave(r->m, group, r->now);
}

void sim_run_disk(const struct sim_trace *t, const struct sim_contender *c,
                  const struct sim_options *o, struct sim_result *out)
{
    struct disk_run r = {.t = t, .c = c, .o = o, .r = out};

    *out = (struct sim_result){0};
    r.m = disk_model_new(o->capacity, 0, c->ops, &o->policy);
    r.groups = mem_zero(((size_t)t->n_datasets + 1) * sizeof(*r.groups));
    r.started = mem_zero(((size_t)t->n_datasets + 1) * sizeof(*r.started));
    r.left = mem_zero(((size_t)t->n_jobs + 1) * sizeof(*r.left));
    for (uint32_t d = 0; d < t->n_datasets; d++)
        r.groups[d] = disk_model_group(r.m, d, 0);
    for (uint32_t j = 0; j < t->n_jobs; j++)
        r.left[j] = reads_of(t, j);
    for (uint32_t i = 0; i < t->n_reads; i++) {
        if (i == t->warm)
            *out = (struct sim_result){0};
        replay_read(&r, &t->reads[i]);
    }
    disk_model_free(&r.m);
    mem_free(&r.groups);
    mem_free(&r.started);
    mem_free(&r.left);
}
