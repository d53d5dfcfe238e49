// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep.h"

/* All contenders on one trace at one capacity. */
static void run_row(struct study *s, const struct sim_trace *t, unsigned capacity, uint64_t row)
{
    struct sim_options o = s->options;

    o.capacity = s->capacities[capacity];
    o.policy.seed = s->seed + row;
    for (unsigned i = 0; i < s->n_contenders; i++) {
        struct sim_result r;

        sim_run(t, s->contenders[i], &o, &r);
        sim_result_add(&s->results[capacity][i], &r);
        if (s->each != NULL)
            buf_addf(s->each, ",%.13g", r.seconds);
    }
    if (s->each != NULL)
        buf_addc(s->each, '\n');
}

static void head(struct study *s, const char *columns)
{
    if (s->each == NULL)
        return;
    buf_adds(s->each, columns);
    for (unsigned i = 0; i < s->n_contenders; i++)
        buf_addf(s->each, ",%s", s->contenders[i]->name);
    buf_addc(s->each, '\n');
}

static void tell(const struct study *s, uint64_t done, uint64_t total)
{
    if (s->on_row != NULL)
        s->on_row(done, total, s->priv);
}

void study_trace(struct study *s, const struct sim_trace *t)
{
    head(s, "capacity");
    for (unsigned c = 0; c < s->n_capacities; c++) {
        if (s->each != NULL)
            buf_addf(s->each, "%llu", (unsigned long long)s->capacities[c]);
        run_row(s, t, c, c);
        tell(s, c + 1, s->n_capacities);
    }
    s->rows = 1;
}

void study_mix(struct study *s, struct mix *m, uint32_t shuffles)
{
    uint64_t total = (uint64_t)s->n_capacities * MIX_ROWS * shuffles, done = 0;

    head(s, "capacity,reuse,share,last,shuffle");
    for (unsigned c = 0; c < s->n_capacities; c++) {
        for (uint32_t i = 0; i < MIX_ROWS; i++) {
            struct mix_row row = mix_row(i);

            for (uint32_t k = 0; k < shuffles; k++) {
                mix_shuffle(m, row);
                if (s->each != NULL)
                    buf_addf(s->each, "%llu,%u,%u,%u,%u", (unsigned long long)s->capacities[c],
                             row.reuse, row.share, row.last, k);
                run_row(s, &m->trace, c, done);
                tell(s, ++done, total);
            }
        }
    }
    s->rows = (uint64_t)MIX_ROWS * shuffles;
}

struct sim_result study_total(const struct study *s, unsigned contender)
{
    struct sim_result sum = {0};

    for (unsigned c = 0; c < s->n_capacities; c++)
        sim_result_add(&sum, &s->results[c][contender]);
    return sum;
}
