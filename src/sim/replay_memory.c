// SPDX-License-Identifier: Apache-2.0
/*
 * The memory tier of a replay: the tier itself (cache/memory), with its arena, its batches of
 * victims and what it asks about them; nothing is written into its memory. What a trace calls a
 * chunk is a sample here. The tier keeps whatever comes, and forgets what it evicts.
 *
 * Sizes are divided by a power of two so that a cache of any size fits into a gigabyte of address
 * space; samples of it are rounded to 64 bytes.
 */
#include <math.h>

#include "base/check.h"
#include "base/mem.h"
#include "cache/memory/memory.h"
#include "cache/policy/policy.h"
#include "sim/replay_i.h"

#define SPACE_MAX ((uint64_t)1 << 30)
#define PAGE      ((uint64_t)4096)

struct memory_dataset {
    struct mem_index *index;
    const struct memory_tier *tier;
    int32_t runs;
};

struct memory_tier {
    struct memory *m;
    struct memory_dataset *datasets;
    uint32_t n;
    unsigned shift;
    double *next_use; /* of each chunk: number of the read; INFINITY: none */
    double *weight;   /* of each chunk */
};

static double next_use_of(void *arg, uint64_t sample, unsigned *steps)
{
    const struct memory_dataset *d = arg;

    *steps += 1;
    return d->tier->next_use[sample];
}

static double weight_of(void *arg, uint64_t sample)
{
    return ((const struct memory_dataset *)arg)->tier->weight[sample];
}

static int32_t runs_of(void *arg)
{
    return ((const struct memory_dataset *)arg)->runs;
}

static void open_datasets(struct memory_tier *m, const struct sim_trace *t)
{
    static const struct mem_value_ops value = {.weight = weight_of, .runs = runs_of};
    struct dlc_err err = DLC_ERR_INIT;

    m->n = t->n_datasets;
    m->datasets = mem_zero(((size_t)m->n + 1) * sizeof(*m->datasets));
    for (uint32_t i = 0; i < m->n; i++) {
        struct memory_dataset *d = &m->datasets[i];

        *d = (struct memory_dataset){.tier = m, .runs = POLICY_UNKNOWN};
        dlc_check(mem_index_new(m->m, t->n_chunks, i + 1, &d->index, &err) == 0);
        mem_index_set_next_use(d->index, next_use_of, d);
        mem_index_set_value(d->index, &value, d);
    }
}

static void *memory_open_tier(struct tier_run *r)
{
    struct memory_tier *m = mem_new(struct memory_tier);
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t bytes;

    while (r->o->capacity >> m->shift > SPACE_MAX)
        m->shift++;
    bytes = PAGE + DLC_ALIGN_UP(r->o->capacity >> m->shift, PAGE);
    dlc_check(memory_new(bytes, bytes, &m->m, &err) == 0);
    memory_set_policy(m->m, r->c->ops, &r->o->policy);
    memory_set_clock(m->m, &r->now);
    m->next_use = mem_alloc(((size_t)r->t->n_chunks + 1) * sizeof(*m->next_use));
    m->weight = mem_zero(((size_t)r->t->n_chunks + 1) * sizeof(*m->weight));
    for (uint32_t i = 0; i < r->t->n_chunks; i++)
        m->next_use[i] = INFINITY;
    open_datasets(m, r->t);
    return m;
}

static void memory_close_tier(struct tier_run *r)
{
    struct memory_tier *m = r->tier;

    for (uint32_t i = 0; i < m->n; i++)
        mem_index_free(&m->datasets[i].index);
    memory_free(&m->m);
    mem_free(&m->datasets);
    mem_free(&m->next_use);
    mem_free(&m->weight);
    mem_free(&m);
}

static void memory_job_begins(struct tier_run *r, uint32_t dataset, int32_t runs)
{
    struct memory_dataset *d = &((struct memory_tier *)r->tier)->datasets[dataset];

    d->runs = runs;
    mem_index_runs_changed(d->index);
}

static void memory_job_ends(struct tier_run *r, uint32_t dataset)
{
    (void)r;
    (void)dataset;
}

static enum sim_outcome fill(struct tier_run *r, struct mem_index *x, uint32_t chunk)
{
    struct memory_tier *m = r->tier;
    const struct sim_chunk *k = &r->t->chunks[chunk];
    struct mem_fill *f;

    if (memory_reserve(m->m, x, chunk, k->size >> m->shift, &f) < 0)
        return SIM_REFUSED;
    mem_fill_set_cost(f, k->cost);
    memory_publish(m->m, &f);
    return SIM_STORED;
}

static enum sim_outcome memory_read_chunk(struct tier_run *r, const struct sim_read *read,
                                          uint32_t dataset)
{
    struct memory_tier *m = r->tier;
    struct mem_index *x = m->datasets[dataset].index;
    enum sim_outcome got = SIM_HIT;

    m->next_use[read->chunk] = read->next == SIM_NONE ? INFINITY : read->next;
    if (mem_index_ready(x, read->chunk))
        memory_touch(m->m, x, read->chunk);
    else
        got = fill(r, x, read->chunk);
    if (read->weight >= 0)
        m->weight[read->chunk] = (double)read->weight;
    memory_forget_use(x, read->chunk);
    return got;
}

static uint64_t memory_resident(const struct tier_run *r)
{
    const struct memory_tier *m = r->tier;
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->n; i++)
        n += mem_index_resident(m->datasets[i].index);
    return n;
}

const struct tier_ops tier_memory = {.open = memory_open_tier,
                                     .close = memory_close_tier,
                                     .job_begins = memory_job_begins,
                                     .job_ends = memory_job_ends,
                                     .read = memory_read_chunk,
                                     .resident = memory_resident};
