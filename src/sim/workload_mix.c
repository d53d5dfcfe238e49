// SPDX-License-Identifier: Apache-2.0
#include "sim/workload_mix.h"

#include <math.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/workload_mix_i.h"

#define GB 1e9

struct mix_row mix_row(uint32_t i)
{
    dlc_check(i < MIX_ROWS);
    return (struct mix_row){1 + 2 * (i / 16), 1 + 2 * (i / 4 % 4), 1 + 2 * (i % 4)};
}

void mix_add(struct mix *m, enum mix_habit habit, uint64_t size, double cost)
{
    while (m->trace.n_datasets < MIX_HABITS)
        sim_trace_dataset(&m->trace);
    mem_reserve(m->chunks[habit], m->n[habit], m->cap[habit]);
    m->chunks[habit][m->n[habit]++] = sim_trace_chunk(&m->trace, size, cost);
}

/* Between lo and hi, evenly in the logarithm. */
static double draw(struct rng *r, double lo, double hi)
{
    return lo * pow(hi / lo, rng_unit(r));
}

static void make(struct mix *m, struct rng *r, enum mix_habit habit, unsigned n,
                 const double gigabytes[2], const double seconds_per_gb[2])
{
    for (unsigned i = 0; i < n; i++) {
        double gb = draw(r, gigabytes[0], gigabytes[1]);

        mix_add(m, habit, (uint64_t)(gb * GB), gb * draw(r, seconds_per_gb[0], seconds_per_gb[1]));
    }
}

void mix_make(struct mix *m, uint64_t seed)
{
    struct rng r = {seed};

    make(m, &r, MIX_REUSED, 15, (const double[]){9.5, 10.3}, (const double[]){9.5, 10.5});
    make(m, &r, MIX_SHARED, 12, (const double[]){7.5, 8.5}, (const double[]){7, 19});
    make(m, &r, MIX_WINDOWS, 10, (const double[]){0.1, 4}, (const double[]){9.5, 10.5});
    make(m, &r, MIX_ONCE, 37, (const double[]){0.3, 16}, (const double[]){8, 23});
}

void mix_seed(struct mix *m, uint64_t seed, bool numpy)
{
    m->numpy = numpy;
    m->rng.state = seed;
    mt_seed(&m->mt, (uint32_t)seed);
}

static uint32_t upto(struct mix *m, uint32_t max)
{
    return m->numpy ? mt_upto(&m->mt, max) : (uint32_t)rng_below(&m->rng, (uint64_t)max + 1);
}

static void add_job(struct mix *m, enum mix_habit habit, uint32_t from, uint32_t n, uint32_t times)
{
    uint32_t job = sim_trace_job(&m->trace, habit);

    for (uint32_t i = from; i < from + n; i++)
        for (uint32_t k = 0; k < times; k++)
            sim_trace_read(&m->trace, job, m->chunks[habit][i]);
}

void mix_shuffle(struct mix *m, struct mix_row row)
{
    uint32_t windows = m->n[MIX_WINDOWS] > row.last ? m->n[MIX_WINDOWS] - row.last : 0;
    uint32_t counts[MIX_HABITS] = {row.reuse, row.share, windows, 1};
    uint32_t total = row.reuse + row.share + windows + 1, n = 0, window = 0;
    enum mix_habit *order = mem_alloc(total * sizeof(*order));

    for (unsigned h = 0; h < MIX_HABITS; h++)
        for (uint32_t i = 0; i < counts[h]; i++)
            order[n++] = h;
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = upto(m, i);
        enum mix_habit h = order[i];

        order[i] = order[j];
        order[j] = h;
    }
    sim_trace_clear_jobs(&m->trace);
    for (uint32_t i = 0; i < n; i++) {
        enum mix_habit h = order[i];

        if (h == MIX_WINDOWS)
            add_job(m, h, window++, row.last + 1, 1);
        else
            add_job(m, h, 0, m->n[h], h == MIX_SHARED ? row.share : 1);
    }
    sim_trace_index(&m->trace);
    mem_free(&order);
}

void mix_release(struct mix *m)
{
    for (unsigned h = 0; h < MIX_HABITS; h++) {
        mem_free(&m->chunks[h]);
        m->n[h] = m->cap[h] = 0;
    }
    sim_trace_release(&m->trace);
}
