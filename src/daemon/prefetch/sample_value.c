// SPDX-License-Identifier: Apache-2.0
/*
 * Value of samples: the importance weight of a sample, and the runs that its dataset has still to
 * come. The memory tier asks for them when it ranks a sample (MEMORY-4), if its policy uses them
 * (docs/design/0021). Next uses are in next_use.c, costs are measured by the fetch.
 *
 * The weight is that of the job to which the sample matters most. A sample of which a job does not
 * know the weight yet has that job's mean, so that it is neither the first nor the last to go.
 */
#include "daemon/prefetch/sample_value.h"

#include <math.h>

#include "cache/memory/memory.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/job_weights.h"

static double sample_weight(void *arg, uint64_t sample)
{
    const struct dataset *ds = arg;
    double most = 0;

    dlc_list_each (l, &ds->job_weights) {
        const struct job_weights *w = dlc_container(l, struct job_weights, link);
        double weight = w->users > 0 ? (double)weights_get(&w->w, sample) : 0;

        if (w->users > 0 && !(weight > 0))
            weight = w->mean;
        most = fmax(most, weight);
    }
    return most;
}

static int32_t dataset_runs(void *arg)
{
    const struct dataset *ds = arg;

    return ds->runs;
}

static void value_begin(struct dataset *ds)
{
    static const struct mem_value_ops ops = {.weight = sample_weight, .runs = dataset_runs};

    mem_index_set_value(ds->index, &ops, ds);
}

const struct node_events sample_value_events = {.dataset_ready = value_begin};
