// SPDX-License-Identifier: Apache-2.0
#include "sim/workload_epochs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"

#define BATCH  256
#define OFFSET 10 /* of ranks, under the logarithm */

struct loss {
    uint32_t place; /* in the order */
    double loss;
};

/* One job's state: its order of the present epoch, and what it knows of the samples. */
struct learner {
    uint32_t *order;
    float *found;       /* weight that each read finds */
    double *weight;     /* of each sample */
    double *difficulty; /* of each sample */
    double *sums;       /* of weights, running */
};

static void learner_init(struct learner *l, const struct epochs *e, struct rng *r)
{
    size_t n = e->samples;

    l->order = mem_zero(n * sizeof(*l->order));
    l->found = mem_alloc(n * sizeof(*l->found));
    l->weight = mem_alloc(n * sizeof(*l->weight));
    l->difficulty = mem_alloc(n * sizeof(*l->difficulty));
    l->sums = mem_alloc(n * sizeof(*l->sums));
    for (size_t i = 0; i < n; i++) {
        l->found[i] = -1;
        l->weight[i] = 1;
        l->difficulty[i] = rng_unit(r);
    }
}

static void learner_release(struct learner *l)
{
    mem_free(&l->order);
    mem_free(&l->found);
    mem_free(&l->weight);
    mem_free(&l->difficulty);
    mem_free(&l->sums);
}

static void permute(struct learner *l, uint32_t n, struct rng *r)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = (uint32_t)rng_below(r, (uint64_t)i + 1);

        l->order[i] = l->order[j];
        l->order[j] = i;
    }
}

/* Draw with replacement, in proportion to the weights. */
static void draw(struct learner *l, uint32_t n, struct rng *r)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        l->sums[i] = sum += l->weight[i];
    for (uint32_t i = 0; i < n; i++) {
        double at = rng_unit(r) * sum;
        uint32_t lo = 0, hi = n - 1;

        while (lo < hi) {
            uint32_t mid = lo + (hi - lo) / 2;

            if (l->sums[mid] > at)
                hi = mid;
            else
                lo = mid + 1;
        }
        l->order[i] = lo;
    }
}

static int by_loss(const void *a, const void *b)
{
    const struct loss *x = a, *y = b;

    return (x->loss > y->loss) - (x->loss < y->loss);
}

/* Train on the order: each batch ranks its losses, and a rank becomes a weight. */
static void learn(struct learner *l, uint32_t n, struct rng *r)
{
    struct loss batch[BATCH];

    for (uint32_t from = 0; from < n; from += BATCH) {
        uint32_t len = DLC_MIN(n - from, BATCH);

        for (uint32_t i = 0; i < len; i++)
            batch[i] = (struct loss){from + i, l->difficulty[l->order[from + i]] + rng_unit(r)};
        qsort(batch, len, sizeof(*batch), by_loss);
        for (uint32_t rank = 0; rank < len; rank++) {
            uint32_t place = batch[rank].place;
            double w = log((double)rank + OFFSET);

            l->found[place] = (float)w;
            l->weight[l->order[place]] = w;
        }
    }
}

static double seen(const struct learner *l, uint32_t n)
{
    bool *mark = mem_zero(n);
    uint32_t distinct = 0;

    for (uint32_t i = 0; i < n; i++) {
        distinct += !mark[l->order[i]];
        mark[l->order[i]] = true;
    }
    mem_free(&mark);
    return (double)distinct / n;
}

/* One epoch of all jobs, in step. */
static void add_epoch(struct sim_trace *t, const struct epochs *e, const struct learner *learners)
{
    uint32_t first = t->n_jobs;

    for (uint32_t j = 0; j < e->jobs; j++)
        sim_trace_job(t, 0);
    for (uint32_t i = 0; i < e->samples; i++) {
        for (uint32_t j = 0; j < e->jobs; j++) {
            sim_trace_read(t, first + j, learners[j].order[i]);
            t->reads[t->n_reads - 1].weight = learners[j].found[i];
        }
    }
}

double epochs_make(struct sim_trace *t, const struct epochs *e)
{
    struct learner *learners = mem_zero(e->jobs * sizeof(*learners));
    struct rng r = {e->seed};
    double coverage = 0;

    sim_trace_dataset(t);
    for (uint32_t i = 0; i < e->samples; i++)
        sim_trace_chunk(t, e->size, e->cost);
    for (uint32_t j = 0; j < e->jobs; j++)
        learner_init(&learners[j], e, &r);
    for (uint32_t k = 0; k < e->epochs; k++) {
        for (uint32_t j = 0; j < e->jobs; j++) {
            if (k == 0 || !e->importance)
                permute(&learners[j], e->samples, &r);
            else
                draw(&learners[j], e->samples, &r);
            if (e->importance)
                learn(&learners[j], e->samples, &r);
            if (k > 0)
                coverage += seen(&learners[j], e->samples);
        }
        add_epoch(t, e, learners);
        if (k == 0 && e->epochs > 1)
            t->warm = t->n_reads;
    }
    for (uint32_t j = 0; j < e->jobs; j++)
        learner_release(&learners[j]);
    mem_free(&learners);
    sim_trace_index(t);
    return e->epochs > 1 ? coverage / ((e->epochs - 1) * e->jobs) : 1;
}
