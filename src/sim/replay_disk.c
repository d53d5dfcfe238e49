// SPDX-License-Identifier: Apache-2.0
/*
 * The disk tier of a replay: its lives, its groups and its policy, by the code that the tier runs
 * (cache/disk/disk_model.h). There is no cool-down. Memory lies before the disk: a chunk that a job
 * reads several times in a row is read from disk once.
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

struct disk_tier {
    struct disk_model *m;
    uint32_t *groups; /* of each dataset */
    uint32_t *last;   /* of each job: the chunk that it read last; SIM_NONE: none */
    uint64_t stored, evicted;
};

static void *disk_open_tier(struct tier_run *r)
{
    struct disk_tier *d = mem_new(struct disk_tier);

    d->m = disk_model_new(r->o->capacity, 0, r->c->ops, &r->o->policy);
    d->groups = mem_zero(((size_t)r->t->n_datasets + 1) * sizeof(*d->groups));
    d->last = mem_zero(((size_t)r->t->n_jobs + 1) * sizeof(*d->last));
    for (uint32_t i = 0; i < r->t->n_datasets; i++)
        d->groups[i] = disk_model_group(d->m, i, 0);
    for (uint32_t i = 0; i < r->t->n_jobs; i++)
        d->last[i] = SIM_NONE;
    return d;
}

static void disk_close_tier(struct tier_run *r)
{
    struct disk_tier *d = r->tier;

    disk_model_free(&d->m);
    mem_free(&d->groups);
    mem_free(&d->last);
    mem_free(&d);
}

static void disk_job_begins(struct tier_run *r, uint32_t dataset, int32_t runs)
{
    struct disk_tier *d = r->tier;

    disk_model_join(d->m, d->groups[dataset], r->now);
    if (runs != POLICY_UNKNOWN)
        disk_model_expect(d->m, d->groups[dataset], runs);
}

static void disk_job_ends(struct tier_run *r, uint32_t dataset)
{
    struct disk_tier *d = r->tier;

    disk_model_leave(d->m, d->groups[dataset], r->now);
}

static enum sim_outcome disk_read_chunk(struct tier_run *r, const struct sim_read *read,
                                        uint32_t dataset)
{
    struct disk_tier *d = r->tier;
    const struct sim_chunk *k = &r->t->chunks[read->chunk];

    if (d->last[read->job] == read->chunk)
        return SIM_HIT;
    d->last[read->job] = read->chunk;
    switch (disk_model_read(d->m, d->groups[dataset], read->chunk, k->size, k->cost, r->now,
                            &d->evicted)) {
    case DISK_MODEL_HIT: return SIM_HIT;
    case DISK_MODEL_STORED: d->stored++; return SIM_STORED;
    case DISK_MODEL_REFUSED: break;
    }
    return SIM_REFUSED;
}

static uint64_t disk_resident(const struct tier_run *r)
{
    const struct disk_tier *d = r->tier;

    return d->stored - d->evicted;
}

const struct tier_ops tier_disk = {.open = disk_open_tier,
                                   .close = disk_close_tier,
                                   .job_begins = disk_job_begins,
                                   .job_ends = disk_job_ends,
                                   .read = disk_read_chunk,
                                   .resident = disk_resident};
